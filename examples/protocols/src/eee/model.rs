//! The races of the module's documentation, in every interleaving, with a timer made of threads.

use loom::thread;
use tickless_core::hrtimer::Setup;
use tickless_core::time::{Instant, Span};
use tickless_link::sync::{AtomicBool, AtomicU64, Ordering};

use super::{FIRST_ENTRY_DEFERRAL, Link, Mac, Port, RawCounters, Speed};
use crate::host::{Host, Timer};
use crate::sync::{Arc, Mutex, lock};

type Callback = Box<dyn FnMut(Instant) + Send>;

/// A timer that fires when a thread says so.
struct Bell {
    state: Mutex<Ringing>,
    callback: Mutex<Callback>,
}

#[derive(Clone, Copy, Default)]
struct Ringing {
    is_queued: bool,
    is_running: bool,
}

impl Bell {
    /// Fires the timer if it waits to.
    fn ring(&self, now: Instant) {
        {
            let mut state = lock(&self.state);
            if !state.is_queued {
                return;
            }
            *state = Ringing {
                is_queued: false,
                is_running: true,
            };
        }
        (lock(&self.callback))(now);
        lock(&self.state).is_running = false;
    }

    fn is_queued(&self) -> bool {
        lock(&self.state).is_queued
    }

    fn is_running(&self) -> bool {
        lock(&self.state).is_running
    }
}

/// A host with one timer, whose time passes when the test waits.
#[derive(Clone)]
struct Model {
    now: Arc<Mutex<Instant>>,
    bell: Arc<Mutex<Option<Arc<Bell>>>>,
}

impl Model {
    fn new() -> Self {
        Self {
            now: Arc::new(Mutex::new(Instant::ZERO)),
            bell: Arc::new(Mutex::new(None)),
        }
    }

    fn bell(&self) -> Arc<Bell> {
        let bell = lock(&self.bell);
        Arc::clone(bell.as_ref().expect("the port made its timer"))
    }
}

impl Host for Model {
    type Timer = Arc<Bell>;

    fn now(&self) -> Instant {
        *lock(&self.now)
    }

    fn timer(&self, _: Setup, expired: impl FnMut(Instant) + Send + 'static) -> Arc<Bell> {
        let bell = Arc::new(Bell {
            state: Mutex::new(Ringing::default()),
            callback: Mutex::new(Box::new(expired)),
        });
        *lock(&self.bell) = Some(Arc::clone(&bell));
        bell
    }

    fn wait_until(&self, until: Instant) {
        let mut now = lock(&self.now);
        *now = until.max(*now);
    }
}

impl Timer for Arc<Bell> {
    fn start(&self, _: Instant, _: Span) {
        lock(&self.state).is_queued = true;
    }

    fn stop(&self) {
        lock(&self.state).is_queued = false;
    }

    fn cancel(&self) {
        self.stop();
        while self.is_running() {
            thread::yield_now();
        }
    }
}

/// A MAC that knows its bit and when it can send.
struct Bit {
    lpi: AtomicBool,
    ready_at: Mutex<Instant>,
    transitions: AtomicU64,
}

const MAC_WAKES_IN: Span = Span::from_micros(30);

impl Mac for Bit {
    // Relaxed: the port orders what has to be ordered, and that is what is tested.
    fn set_lpi(&self, lpi: bool, now: Instant) {
        assert_ne!(self.lpi.swap(lpi, Ordering::Relaxed), lpi);
        if !lpi {
            *lock(&self.ready_at) = now.saturating_add(MAC_WAKES_IN);
        }
    }

    fn start_transmission(&self, _: usize, now: Instant) {
        assert!(!self.lpi.load(Ordering::Relaxed), "a transmission in LPI");
        assert!(
            now >= *lock(&self.ready_at),
            "a transmission within the wake time"
        );
    }

    fn take_counters(&self, _: Instant) -> RawCounters {
        let tx_transitions = self.transitions.swap(0, Ordering::Relaxed);
        RawCounters {
            tx_transitions: tx_transitions.try_into().expect("few"),
            ..RawCounters::default()
        }
    }
}

/// A port with two queues whose timer is armed.
fn active() -> (Model, Arc<Port<Model, Bit>>) {
    let host = Model::new();
    let mac = Bit {
        lpi: AtomicBool::new(false),
        ready_at: Mutex::new(Instant::ZERO),
        transitions: AtomicU64::new(0),
    };
    let port = Arc::new(Port::new(host.clone(), mac, 2));
    port.link_up(Link::full(Speed::Mbit1000));
    (host, port)
}

/// Returns the time at which the timer of such a port fires first.
fn first_entry() -> Instant {
    Instant::ZERO.saturating_add(FIRST_ENTRY_DEFERRAL)
}

fn is_asleep(port: &Port<Model, Bit>) -> bool {
    port.mac().lpi.load(Ordering::Relaxed)
}

#[test]
fn a_callback_between_head_and_bit() {
    loom::model(|| {
        let (host, port) = active();
        let (bell, fires) = (host.bell(), first_entry());
        let timer = thread::spawn(move || bell.ring(fires));
        port.send(0);
        timer.join().unwrap();
        assert!(!is_asleep(&port), "asleep with a packet queued");
    });
}

#[test]
fn a_drain_while_eee_ends() {
    loom::model(|| {
        let (host, port) = active();
        let bell = host.bell();
        port.send(0);
        let drain = {
            let port = Arc::clone(&port);
            thread::spawn(move || port.drained(0, 1))
        };
        let timer = {
            let bell = Arc::clone(&bell);
            thread::spawn(move || bell.ring(first_entry()))
        };
        port.link_down();
        assert!(!bell.is_running(), "a callback runs");
        assert!(!is_asleep(&port));
        drain.join().unwrap();
        assert!(!bell.is_queued(), "the timer is armed");
        timer.join().unwrap();
        assert!(!is_asleep(&port));
    });
}

#[test]
fn a_firing_older_than_the_drain() {
    loom::model(|| {
        let (host, port) = active();
        let bell = host.bell();
        let fires = first_entry();
        host.wait_until(fires);
        port.send(0);
        let timer = thread::spawn(move || bell.ring(fires));
        host.wait_until(fires.saturating_add(Span::from_millis(1)));
        port.drained(0, 1);
        timer.join().unwrap();
        assert!(!is_asleep(&port), "asleep earlier than the idle time");
    });
}

#[test]
fn two_senders_wake_one_port() {
    loom::model(|| {
        let (host, port) = active();
        host.wait_until(first_entry());
        host.bell().ring(first_entry());
        assert!(is_asleep(&port));
        let other = {
            let port = Arc::clone(&port);
            thread::spawn(move || port.send(1))
        };
        port.send(0);
        other.join().unwrap();
    });
}

#[test]
fn two_readers_of_the_counters() {
    loom::model(|| {
        let (_, port) = active();
        port.mac().transitions.store(3, Ordering::Relaxed);
        let read = |port: &Port<Model, Bit>| port.poll_counters().transmit.transitions;
        let other = {
            let port = Arc::clone(&port);
            thread::spawn(move || read(&port))
        };
        assert_eq!(read(&port), 3);
        assert_eq!(other.join().unwrap(), 3);
    });
}
