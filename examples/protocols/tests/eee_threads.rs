//! Energy Efficient Ethernet on the timers of the process: callbacks on one thread, senders on others.

use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tickless_core::hrtimer::Setup;
use tickless_core::time::{Instant, Span};
use tickless_protocols::eee::{
    Link, Mac, Port, RawCounters, Settings, Speed, VirtualMac, WAKE_TIME,
};
use tickless_protocols::host::{Host, UserSpace, UserTimer};

const GIGABIT: Link = Link::full(Speed::Mbit1000);

/// [`UserSpace`], with callbacks that take until the test lets them go on.
#[derive(Clone)]
struct Slow {
    entered: mpsc::Sender<()>,
    go_on: Arc<Mutex<mpsc::Receiver<()>>>,
    is_done: Arc<AtomicBool>,
}

impl Host for Slow {
    type Timer = UserTimer;

    fn now(&self) -> Instant {
        UserSpace.now()
    }

    fn timer(&self, setup: Setup, mut expired: impl FnMut(Instant) + Send + 'static) -> UserTimer {
        let slow = self.clone();
        UserSpace.timer(setup, move |now| {
            slow.entered.send(()).expect("the test listens");
            let go_on = slow.go_on.lock().unwrap();
            go_on.recv().expect("the test lets it go on");
            expired(now);
            slow.is_done.store(true, Ordering::SeqCst);
        })
    }

    fn wait_until(&self, until: Instant) {
        UserSpace.wait_until(until);
    }
}

/// EEE-6.
#[test]
fn disabling_returns_when_no_callback_runs() {
    let (entered, has_entered) = mpsc::channel();
    let (let_go, go_on) = mpsc::channel();
    let host = Slow {
        entered,
        go_on: Arc::new(Mutex::new(go_on)),
        is_done: Arc::default(),
    };
    let is_done = Arc::clone(&host.is_done);
    let port = Port::new(host, VirtualMac::new(WAKE_TIME), 1);
    port.link_up(GIGABIT);
    has_entered.recv().expect("the timer fires");
    std::thread::scope(|scope| {
        let disabling = scope.spawn(|| {
            port.link_down();
            assert!(is_done.load(Ordering::SeqCst), "the callback still runs");
        });
        // Time to be wrong in; nothing depends on its length.
        std::thread::sleep(Duration::from_millis(20));
        let_go.send(()).expect("the callback waits");
        disabling.join().unwrap();
    });
    assert_eq!(port.mac().writes(), 0, "it found EEE inactive");
}

#[test]
fn the_first_entry_is_not_early() {
    let port = Port::new(UserSpace, VirtualMac::new(WAKE_TIME), 1);
    let start = UserSpace.now();
    port.link_up(GIGABIT);
    while !port.mac().is_asleep() {
        std::thread::sleep(Duration::from_millis(5));
    }
    let entered = port.mac().transitions()[0].at;
    assert!(entered >= start.saturating_add(Span::from_secs(1)));
}

#[test]
fn senders_and_the_timer_never_meet_in_low_power() {
    let port = Port::new(UserSpace, VirtualMac::new(WAKE_TIME), 2);
    let idle_time = Span::from_micros(40);
    let enabled = Settings {
        enabled: true,
        idle_time,
    };
    port.set(enabled).unwrap();
    port.link_up(GIGABIT);
    let end = UserSpace.now().saturating_add(Span::from_millis(1_500));
    std::thread::scope(|scope| {
        for queue in 0..2 {
            let port = &port;
            scope.spawn(move || {
                let mut pause = 7 * (queue as u64 + 1);
                while UserSpace.now() < end {
                    port.send(queue);
                    port.drained(queue, 1);
                    pause = pause * 31 % 97;
                    let until = UserSpace.now().saturating_add(Span::from_micros(pause));
                    UserSpace.wait_until(until);
                }
            });
        }
    });
    assert_eq!(port.mac().violations(), 0);
    let transitions = port.mac().transitions();
    assert!(
        transitions.windows(2).all(|two| two[0].lpi != two[1].lpi),
        "each write changes the bit"
    );
}

/// Hardware with five transitions for the thread that reads first, which is held up on its way back.
struct Counting {
    transitions: AtomicU16,
    taken: mpsc::Sender<()>,
    go_on: Mutex<mpsc::Receiver<()>>,
}

impl Mac for Counting {
    fn set_lpi(&self, _: bool, _: Instant) {}
    fn start_transmission(&self, _: usize, _: Instant) {}
    fn take_counters(&self, _: Instant) -> RawCounters {
        let tx_transitions = self.transitions.swap(0, Ordering::SeqCst);
        if tx_transitions > 0 {
            self.taken.send(()).expect("the test listens");
            let go_on = self.go_on.lock().unwrap();
            go_on.recv().expect("the test lets it go on");
        }
        RawCounters {
            tx_transitions,
            ..RawCounters::default()
        }
    }
}

#[test]
fn two_readers_of_the_counters_lose_nothing() {
    let (taken, is_taken) = mpsc::channel();
    let (let_go, go_on) = mpsc::channel();
    let mac = Counting {
        transitions: AtomicU16::new(5),
        taken,
        go_on: Mutex::new(go_on),
    };
    let port = Port::new(UserSpace, mac, 1);
    let read = || port.poll_counters().transmit.transitions;
    std::thread::scope(|scope| {
        let first = scope.spawn(read);
        is_taken.recv().expect("the first one reads");
        // The hardware is empty, and the first one has not added up what it took.
        let second = scope.spawn(read);
        // Time to be wrong in; nothing depends on its length.
        std::thread::sleep(Duration::from_millis(20));
        let_go.send(()).expect("the first one waits");
        assert_eq!(first.join().unwrap(), 5);
        assert_eq!(second.join().unwrap(), 5);
    });
    port.mac().transitions.store(7, Ordering::SeqCst);
    let_go.send(()).expect("the hardware is there");
    assert_eq!(read(), 12);
}
