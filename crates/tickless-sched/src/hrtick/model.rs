//! Loom cases for starts of the tick from other CPUs, and the kick that carries them out.

use core::cell::Cell;

use loom::sync::atomic::{AtomicBool, Ordering};
use loom::sync::{Arc, Mutex};
use loom::thread::{self, JoinHandle};

use tickless_core::time::{Instant, Span};

use super::{HrTick, SliceTimer, Switches};

/// State that the lock of the run queue guards.
struct Queue {
    tick: HrTick,
    /// The time for which the timer is queued. Only the timer's own CPU changes it.
    queued: Option<Instant>,
}

/// A run queue, and the interrupt that is sent to its CPU.
struct Shared {
    queue: Mutex<Queue>,
    /// True if a kick was sent and not handled yet.
    kick: AtomicBool,
}

/// The timer as the CPU sees it that has locked the queue.
struct Seen<'a> {
    queued: Cell<Option<Instant>>,
    kick: &'a AtomicBool,
    is_local: bool,
}

impl SliceTimer for Seen<'_> {
    fn now(&self) -> Instant {
        Instant::ZERO
    }
    fn queued(&self) -> Option<Instant> {
        self.queued.get()
    }
    fn is_active(&self) -> bool {
        self.queued.get().is_some()
    }
    fn start(&self, at: Instant) {
        assert!(self.is_local, "the CPU of the timer alone starts it (B61)");
        self.queued.set(Some(at));
    }
    fn cancel(&self) {
        self.queued.set(None);
    }
    fn is_local(&self) -> bool {
        self.is_local
    }
    /// Kicks the CPU; dropped while a kick is under way (TICK-18). Sent under the lock, which the handler takes too:
    /// relaxed.
    fn kick(&self) {
        self.kick.store(true, Ordering::Relaxed);
    }
}

impl Shared {
    fn new() -> Arc<Self> {
        let queue = Queue {
            tick: HrTick::new(Switches::ON),
            queued: None,
        };
        Arc::new(Self {
            queue: Mutex::new(queue),
            kick: AtomicBool::new(false),
        })
    }

    /// Executes `body` with the queue locked.
    fn locked(&self, is_local: bool, body: impl FnOnce(&mut HrTick, &Seen<'_>)) {
        let mut queue = self.queue.lock().unwrap();
        let seen = Seen {
            queued: Cell::new(queue.queued),
            kick: &self.kick,
            is_local,
        };
        body(&mut queue.tick, &seen);
        queue.queued = seen.queued.get();
    }

    /// Starts the tick from another CPU, `millis` milliseconds ahead.
    fn starting_from_afar(shared: &Arc<Self>, millis: u64) -> JoinHandle<()> {
        let shared = Arc::clone(shared);
        thread::spawn(move || {
            shared.locked(false, |tick, timer| {
                tick.start(Span::from_millis(millis), timer);
            });
        })
    }

    /// The CPU of the timer takes its interrupt, if there is one: taken first, so that one that is sent meanwhile is
    /// another one. Where there is none nothing is written: loom would let that hide a kick that is sent.
    fn takes_kick(&self) {
        let order = Ordering::Relaxed;
        let taken = self.kick.compare_exchange(true, false, order, order);
        if taken.is_ok() {
            self.locked(true, |tick, timer| tick.kicked(false, timer));
        }
    }

    fn queued(&self) -> Option<Instant> {
        self.queue.lock().unwrap().queued
    }

    /// Returns the time at which the tick was to fire by the start that had the lock last.
    fn wanted(&self) -> Instant {
        self.queue.lock().unwrap().tick.time
    }
}

/// Two CPUs start the tick of a third, which takes one kick or two: it is queued for the last start.
#[test]
fn of_starts_from_afar_the_last_one_counts_however_many_kicks_are_dropped() {
    loom::model(|| {
        let shared = Shared::new();
        let starting = [1, 2].map(|millis| Shared::starting_from_afar(&shared, millis));
        shared.takes_kick();
        for one in starting {
            one.join().unwrap();
        }
        shared.takes_kick();
        assert_eq!(shared.queued(), Some(shared.wanted()));
    });
}

/// A CPU decides while another one starts its tick: the queued deadline in the end is that of the last of them.
#[test]
fn a_start_from_afar_and_a_decision_leave_the_time_of_the_last_one() {
    loom::model(|| {
        let shared = Shared::new();
        let starting = Shared::starting_from_afar(&shared, 1);
        shared.locked(true, |tick, timer| tick.start(Span::from_millis(3), timer));
        starting.join().unwrap();
        shared.takes_kick();
        assert_eq!(shared.queued(), Some(shared.wanted()));
    });
}

/// A CPU becomes idle while it is kicked: it needs no tick, and has none (TICK-17).
#[test]
fn a_kick_that_finds_its_cpu_idle_starts_nothing() {
    loom::model(|| {
        let shared = Shared::new();
        let starting = Shared::starting_from_afar(&shared, 1);
        shared.locked(true, |tick, timer| tick.kicked(true, timer));
        starting.join().unwrap();
        shared.kick.store(false, Ordering::Relaxed);
        shared.locked(true, |tick, timer| tick.kicked(true, timer));
        assert_eq!(shared.queued(), None);
    });
}
