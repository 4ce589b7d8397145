//! Energy Efficient Ethernet by software (IEEE 802.3az, since 2012 clauses 22, 24, 35, 36, 40 and 78 of IEEE 802.3).
//!
//! A MAC can put its transmit side into *Low Power Idle* (LPI), but has no timer that does so when nothing was sent for
//! a while. It has one bit: while that is set nothing can be transmitted. [`Port`] is the idle timer, and sees to it
//! that the bit is never in the way.
//!
//! # The machine
//!
//! | event | action |
//! |---|---|
//! | EEE becomes active ([`Port::link_up`], [`Port::set`]) | the timer is armed [`FIRST_ENTRY_DEFERRAL`] ahead |
//! | packets left a queue ([`Port::drained`]) | the timer is pushed out to the idle time from now |
//! | the timer fires | if all queues are empty the bit is set; if not, the next drain arms the timer again |
//! | a packet is to be sent ([`Port::send`]) | the queue's head is advanced, *then* the bit is cleared; only if it was set the timer is taken back, and [`WAKE_TIME`] has to pass before transmission |
//! | EEE ends ([`Port::link_down`], [`Port::set`], drop) | the bit is cleared, the timer cancelled; a callback that runs is waited for |
//!
//! A drain during the deferral arms the timer for its end and not before: clause 22.7a of the standard wants a second
//! without LPI, whatever is sent in it.
//!
//! The timer is an exact one: LPI is entered the idle time after the last drain, never earlier. It is restarted at each
//! burst and hardly ever fires under load, so it is *lazy*: a restart writes the timer and leaves the clock event
//! device as it is. The price is one wake-up for nothing each idle time. It has no slack, since a port that sleeps late
//! saves less.
//!
//! # Ground rules
//!
//! - The bit, what is known of it, and whether EEE is active are under one lock (*line*). The bit is written only when
//!   it changes.
//! - The head of a queue is advanced before the line is locked to look at the bit. Its tail is advanced, and the timer
//!   started, with the line locked. The callback reads both with the line locked.
//! - The timer is cancelled without the line, because the callback locks it.
//! - The configuration is under a lock of its own (*control*), held until a cancel has waited. Lock order: control,
//!   line. The callback takes only the line.
//! - Callbacks of the MAC ([`Mac::set_lpi`]) run with the line locked, and must not call the port.
//!
//! # Races
//!
//! Each is a test of the same name in `tests`, the first three with a callback that is held up at its beginning.
//!
//! - *A callback between head and bit.* The sender advanced the head, and the callback gets the line first. It sees a
//!   queue that is not empty, and leaves the bit alone. If it got the line before the head was advanced it sets the
//!   bit, and the sender clears it.
//! - *A drain while EEE ends.* A drain that found EEE active has started the timer before the line is given to the
//!   thread that ends it, which cancels afterwards. A drain that comes later finds EEE inactive.
//! - *A firing older than the drain.* The timer fires, and before its callback has the line a drain empties the queue
//!   and pushes the timer out. The line remembers until when; the callback was told an earlier time, and does nothing.
//! - *Two senders wake one port.* One of them clears the bit; the other finds it clear, but has to wait for the wake
//!   time all the same. So the line remembers until when the port wakes.
//!
//! # Cost
//!
//! A drain: a counter, the lock of the line, a reading of the clock, and a restart of the timer that keeps its place. A
//! packet while the port is awake: a counter and the lock of the line.
//!
//! # Limits
//!
//! Whether both ends of a link agree to EEE, and the counters of the hardware, belong to the code that negotiates.

mod mac;
mod port;

pub use mac::{Mac, Transition, VirtualMac};
pub use port::{FIRST_ENTRY_DEFERRAL, IDLE_TIME_DEFAULT, Port, Settings, WAKE_TIME};
