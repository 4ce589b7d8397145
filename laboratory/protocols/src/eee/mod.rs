//! Energy Efficient Ethernet by software (IEEE 802.3az, since 2012 clauses 22, 24, 35, 36, 40 and 78 of IEEE 802.3).
//!
//! A MAC can put its transmit side into *Low Power Idle* (LPI), but has no timer that does so when nothing was sent for
//! a while. The MAC has one bit: while the bit is set, nothing can be transmitted. [`Port`] is the idle timer, and
//! clears the bit before each transmission.
//!
//! # The machine
//!
//! | event | action |
//! |---|---|
//! | EEE becomes active ([`Port::link_up`], [`Port::set`]) | the timer is armed [`FIRST_ENTRY_DEFERRAL`] ahead |
//! | packets left a queue ([`Port::drained`]) | the timer is pushed out to the end of the idle time, counted from now |
//! | the timer fires | if all queues are empty the bit is set; if not, the next drain arms the timer again |
//! | a packet is to be sent ([`Port::send`]) | the queue's head is advanced, *then* the bit is cleared; only if the bit was set, the timer is cancelled, and [`WAKE_TIME`] has to pass before transmission |
//! | EEE ends ([`Port::link_down`], [`Port::set`], drop) | the bit is cleared and the timer cancelled; the call waits for a running callback |
//!
//! A drain during the deferral arms the timer for the end of the deferral and not earlier: clause 22.7a of the standard
//! requires a second without LPI, whatever is sent in this second.
//!
//! The timer is an exact timer: the port enters LPI when the idle time has passed since the last drain, never earlier.
//! The timer is restarted at each burst and hardly ever fires under load, so it is *lazy*: a restart writes the timer
//! and does not program the clock event device. The price is one needless wake-up in each idle time. The timer has no
//! slack, because a port that sleeps late saves less.
//!
//! # Ground rules
//!
//! - One lock (*line*) protects the bit, the port's record of the bit, and the state of EEE. The bit is written only
//!   when it changes.
//! - A sender advances the head of a queue before it locks the line to check the bit. A drain advances the tail, and
//!   starts the timer, with the line locked. The callback reads both with the line locked.
//! - The timer is cancelled without the line, because the callback locks it.
//! - The configuration has a lock of its own (*control*), which is held until a cancel has waited for the callback.
//!   Lock order: control, line. The callback takes only the line.
//! - Callbacks of the MAC ([`Mac::set_lpi`]) run with the line locked, and must not call the port.
//!
//! # Races
//!
//! Each race has a test of the same name in `tests`; the first three tests delay the callback at its beginning.
//!
//! - *A callback between head and bit.* The sender advanced the head, and the callback locks the line first. The
//!   callback sees a queue that is not empty, and does not set the bit. If the callback locks the line before the head
//!   is advanced, it sets the bit, and the sender clears the bit.
//! - *A drain while EEE ends.* A drain that found EEE active has started the timer before it unlocks the line. The
//!   thread that ends EEE locks the line after that, and then cancels the timer. A later drain finds EEE inactive.
//! - *A firing older than the drain.* The timer fires, and before its callback locks the line, a drain empties the
//!   queue and pushes the timer out. The line stores the new deadline; the callback got an earlier time, and does
//!   nothing.
//! - *Two senders wake one port.* One sender clears the bit. The other sender finds the bit clear, but has to wait for
//!   the wake time all the same. So the line stores the end of the wake time.
//!
//! # Cost
//!
//! A drain takes a counter, the lock of the line, a reading of the clock, and a restart of the timer that keeps its
//! place. A packet that is sent while the port is awake takes a counter and the lock of the line.
//!
//! # Limits
//!
//! The agreement of both ends of a link to EEE, and the counters of the hardware, belong to the code that negotiates
//! the link.

mod mac;
mod port;

pub use mac::{Mac, Transition, VirtualMac};
pub use port::{FIRST_ENTRY_DEFERRAL, IDLE_TIME_DEFAULT, Port, Settings, WAKE_TIME};
