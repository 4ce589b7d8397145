//! The transmit side of a port.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use tickless_core::hrtimer::Setup;
use tickless_core::time::{Instant, Span};

use super::Mac;
use crate::host::{Host, Timer};
use crate::lock;

/// The time after EEE becomes active in which no transmitter sleeps (clause 22.7a).
pub const FIRST_ENTRY_DEFERRAL: Span = Span::from_secs(1);

/// The time that a port waits after it has woken its transmitter, before it uses the transmitter. The standard needs
/// 16.5 µs for 1000BASE-T and 30 µs for 100BASE-TX (clause 78.5).
pub const WAKE_TIME: Span = Span::from_micros(50);

/// The default time without a transmission after which a port sleeps.
pub const IDLE_TIME_DEFAULT: Span = Span::from_millis(250);

/// A port with a transmitter that sleeps when nothing is sent.
///
/// All methods take `&self` and may be called by any thread, [`send`](Self::send) by one thread for each queue. The
/// methods that end EEE must not be called by the port's own timer callback, that is, by the MAC.
pub struct Port<H: Host, M: Mac> {
    host: H,
    control: Mutex<Control>,
    shared: Arc<Shared<M>>,
    timer: H::Timer,
}

/// The settings of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// True if the port's transmitter may sleep.
    pub enabled: bool,
    /// The time without a transmission after which the transmitter sleeps.
    pub idle_time: Span,
}

impl Default for Settings {
    /// Returns the default settings: the transmitter may sleep, after 250 ms without a transmission.
    fn default() -> Self {
        Self {
            enabled: true,
            idle_time: IDLE_TIME_DEFAULT,
        }
    }
}

#[derive(Default)]
struct Control {
    settings: Settings,
    is_linked: bool,
}

/// The state that the timer's callback shares with the port.
struct Shared<M> {
    mac: M,
    queues: Box<[Queue]>,
    line: Mutex<Line>,
}

/// The counts of the packets that entered and left a transmit queue.
struct Queue {
    head: AtomicU64,
    tail: AtomicU64,
}

impl Queue {
    /// Returns true if no frame waits. The line is locked. The loads are relaxed: a sender advances a head before it
    /// locks the line, so a thread that locks the line afterwards sees the new head; a tail is advanced with the line
    /// locked.
    fn is_empty(&self) -> bool {
        self.head.load(Ordering::Relaxed) == self.tail.load(Ordering::Relaxed)
    }
}

/// The state of the bit, and of EEE.
struct Line {
    /// The idle timer's state while EEE is active.
    active: Option<Active>,
    transmitter: Transmitter,
}

struct Active {
    idle_time: Span,
    /// The end of the deferral.
    not_before: Instant,
    /// The deadline of the timer. A firing for an earlier deadline is ignored.
    idle_at: Instant,
}

enum Transmitter {
    Ready,
    /// The bit is set.
    Asleep,
    /// The bit is clear; the transmitter can be used from the stored time on.
    Waking {
        until: Instant,
    },
}

impl<M: Mac> Shared<M> {
    /// Handles the timer that fired: sets the bit if everything was sent.
    fn expired(&self, now: Instant) {
        let mut line = lock(&self.line);
        let is_awake = !matches!(line.transmitter, Transmitter::Asleep);
        let is_idle = line
            .active
            .as_ref()
            .is_some_and(|active| now >= active.idle_at);
        if is_idle && is_awake && self.queues.iter().all(Queue::is_empty) {
            line.transmitter = Transmitter::Asleep;
            self.mac.set_lpi(true, now);
        }
    }

    /// Clears the bit if it is set; returns true if it was set.
    fn wake(&self, line: &mut Line, now: impl FnOnce() -> Instant) -> bool {
        if !matches!(line.transmitter, Transmitter::Asleep) {
            return false;
        }
        let now = now();
        self.mac.set_lpi(false, now);
        line.transmitter = Transmitter::Waking {
            until: now.saturating_add(WAKE_TIME),
        };
        true
    }
}

impl<H: Host, M: Mac> Port<H, M> {
    /// Makes a port with `queues` transmit queues, without a link, with the [default settings](Settings::default).
    #[must_use]
    pub fn new(host: H, mac: M, queues: usize) -> Self {
        let queue = || Queue {
            head: AtomicU64::new(0),
            tail: AtomicU64::new(0),
        };
        let shared = Arc::new(Shared {
            mac,
            queues: (0..queues).map(|_| queue()).collect(),
            line: Mutex::new(Line {
                active: None,
                transmitter: Transmitter::Ready,
            }),
        });
        let callback = Arc::clone(&shared);
        // Lazy: nearly every start is for later.
        let timer = host.timer(Setup::new().lazy(), move |now| callback.expired(now));
        Self {
            host,
            control: Mutex::new(Control::default()),
            shared,
            timer,
        }
    }

    /// Returns the MAC of the port.
    pub fn mac(&self) -> &M {
        &self.shared.mac
    }

    /// Notes that the link came up, also if it was up before, and that its other end agrees to EEE. The port does not
    /// sleep for a second.
    pub fn link_up(&self) {
        let mut control = lock(&self.control);
        // Another link is another negotiation: the deferral begins again.
        self.end();
        control.is_linked = true;
        self.apply(&control);
    }

    /// Notes that the link went down. When the call returns, EEE is not active, and no callback runs.
    pub fn link_down(&self) {
        let mut control = lock(&self.control);
        control.is_linked = false;
        self.end();
    }

    /// Configures EEE. Without a link the settings hold for the next link.
    ///
    /// Enabling EEE while a link is up defers the first entry, as a link that comes up does. A change of the idle time
    /// counts from the next drain on. After EEE was disabled, no callback runs.
    pub fn set(&self, settings: Settings) {
        let mut control = lock(&self.control);
        control.settings = settings;
        self.apply(&control);
    }

    /// Sends a packet that was put into `queue`; wakes the transmitter, and waits for it, if it sleeps.
    ///
    /// # Panics
    ///
    /// If the port has no queue of this number.
    pub fn send(&self, queue: usize) {
        // First of all: see "a callback between head and bit".
        self.shared.queues[queue]
            .head
            .fetch_add(1, Ordering::Relaxed);
        if let Some(until) = self.wake() {
            self.host.wait_until(until);
        }
        let now = self.host.now();
        self.shared.mac.start_transmission(queue, now);
    }

    /// Counts `packets` packets of `queue` as transmitted. The port stays awake for the idle time from now.
    ///
    /// # Panics
    ///
    /// If the port has no queue of this number.
    pub fn drained(&self, queue: usize, packets: u64) {
        if packets == 0 {
            return;
        }
        let queue = &self.shared.queues[queue];
        let mut line = lock(&self.shared.line);
        queue.tail.fetch_add(packets, Ordering::Relaxed);
        if let Some(active) = &mut line.active {
            let idle_at = self.host.now().saturating_add(active.idle_time);
            active.idle_at = idle_at.max(active.not_before);
            self.timer.start(active.idle_at, Span::ZERO);
        }
    }

    /// Clears the bit; returns the time before which the transmitter cannot be used, if it has to wait.
    fn wake(&self) -> Option<Instant> {
        let mut line = lock(&self.shared.line);
        if self.shared.wake(&mut line, || self.host.now()) {
            // Were it armed, it would find a queue that is not empty.
            self.timer.stop();
        }
        let Transmitter::Waking { until } = line.transmitter else {
            return None;
        };
        if self.host.now() >= until {
            line.transmitter = Transmitter::Ready;
            return None;
        }
        Some(until)
    }

    /// Makes EEE active or inactive, as `control` says.
    fn apply(&self, control: &Control) {
        if !(control.settings.enabled && control.is_linked) {
            return self.end();
        }
        let idle_time = control.settings.idle_time;
        let mut line = lock(&self.shared.line);
        if let Some(active) = &mut line.active {
            active.idle_time = idle_time;
            return;
        }
        let not_before = self.host.now().saturating_add(FIRST_ENTRY_DEFERRAL);
        line.active = Some(Active {
            idle_time,
            not_before,
            idle_at: not_before,
        });
        self.timer.start(not_before, Span::ZERO);
    }

    /// Makes EEE inactive, and waits for a running callback.
    fn end(&self) {
        {
            let mut line = lock(&self.shared.line);
            line.active = None;
            self.shared.wake(&mut line, || self.host.now());
        }
        self.timer.cancel();
    }
}

impl<H: Host, M: Mac> Drop for Port<H, M> {
    fn drop(&mut self) {
        self.end();
    }
}

impl<H: Host, M: Mac + fmt::Debug> fmt::Debug for Port<H, M> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Port")
            .field("mac", &self.shared.mac)
            .finish_non_exhaustive()
    }
}
