//! Tests of the protocols EEE and LACP on the timers of the process, in real time.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tickless::Worker;
use tickless_core::hrtimer::Setup;
use tickless_core::time::{Instant, Span};
use tickless_protocols::eee::{IDLE_TIME_DEFAULT, Port, Settings, VirtualMac, WAKE_TIME};
use tickless_protocols::host::{Host, UserSpace, UserTimer};
use tickless_protocols::lacp::{self, BondConfig, Rate, Station};

/// A host like [`UserSpace`] with callbacks that block until the test lets them continue.
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
            // The test receives the first of these only, so later ones may fail.
            let _ = slow.entered.send(());
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

/// Returns a port with a timer that fired and a callback that has not begun its work. A message on the channel lets the
/// callback continue; the flag is true once the callback is over.
fn held() -> (Port<Slow, VirtualMac>, mpsc::Sender<()>, Arc<AtomicBool>) {
    let (entered, has_entered) = mpsc::channel();
    let (let_go, go_on) = mpsc::channel();
    let is_done = Arc::<AtomicBool>::default();
    let host = Slow {
        entered,
        go_on: Arc::new(Mutex::new(go_on)),
        is_done: Arc::clone(&is_done),
    };
    let port = Port::new(host, VirtualMac::new(WAKE_TIME), 1);
    port.link_up();
    has_entered.recv().expect("the timer fires");
    (port, let_go, is_done)
}

fn wait_for(is_so: impl Fn() -> bool) {
    while !is_so() {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// EEE-6.
#[test]
fn a_drain_while_eee_ends() {
    let (port, let_go, is_done) = held();
    port.send(0);
    std::thread::scope(|scope| {
        let disabling = scope.spawn(|| {
            port.link_down();
            assert!(is_done.load(Ordering::SeqCst), "the callback still runs");
        });
        // Leaves time for a wrong order to show; nothing depends on its length.
        std::thread::sleep(Duration::from_millis(20));
        port.drained(0, 1);
        let_go.send(()).expect("the callback waits");
        disabling.join().unwrap();
    });
    assert_eq!(port.mac().transitions(), [], "it found EEE inactive");
}

/// EEE-2.
#[test]
fn a_callback_between_head_and_bit() {
    let (port, let_go, is_done) = held();
    port.send(0);
    let_go.send(()).expect("the callback waits");
    wait_for(|| is_done.load(Ordering::SeqCst));
    assert_eq!(port.mac().transitions(), [], "asleep with a packet queued");
}

#[test]
fn a_firing_older_than_the_drain() {
    let (port, let_go, is_done) = held();
    port.send(0);
    let drained = UserSpace.now();
    port.drained(0, 1);
    let_go.send(()).expect("the callback waits");
    wait_for(|| is_done.load(Ordering::SeqCst));
    // The restart beside the running callback counts: the timer fires once more.
    let_go.send(()).expect("the host is there");
    wait_for(|| port.mac().is_asleep());
    let entered = port.mac().transitions()[0].at;
    assert!(
        entered >= drained.saturating_add(IDLE_TIME_DEFAULT),
        "asleep too early"
    );
}

#[test]
fn senders_and_the_timer_never_meet_in_low_power() {
    let port = Port::new(UserSpace, VirtualMac::new(WAKE_TIME), 2);
    let idle_time = Span::from_micros(40);
    port.set(Settings {
        enabled: true,
        idle_time,
    });
    port.link_up();
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

fn station(number: u8) -> Station<UserSpace> {
    let mut station = Station::new(UserSpace, Span::from_millis(50));
    station.add(&BondConfig {
        system: [2, 0, 0, 0, 0, number],
        ports: 2,
        rate: Rate::Fast,
    });
    station
}

/// Delivers all frames that `from` sends to `to`; returns true if any frame was delivered.
fn deliver(from: &mut Station<UserSpace>, to: &mut Station<UserSpace>) -> bool {
    let mut moved = from.run_due() > 0;
    while let Some(frame) = from.take_frame() {
        moved = true;
        to.deliver(frame.bond, frame.port, &frame.pdu);
    }
    moved
}

#[test]
fn two_systems_on_one_worker_aggregate_their_links() {
    let worker = Worker::new().unwrap();
    let mut stations = [station(1), station(2)];
    let start = UserSpace.now();
    for one in &mut stations {
        one.set_link(0, 0, true);
        one.set_link(0, 1, true);
    }
    let is_done = |stations: &[Station<UserSpace>; 2]| {
        let mut ports = stations.iter().flat_map(|one| one.bond(0).ports());
        ports.all(lacp::Port::is_distributing)
    };
    while !is_done(&stations) {
        let [one, other] = &mut stations;
        while deliver(one, other) | deliver(other, one) {}
        if !is_done(&stations) {
            let _ = worker.park();
        }
    }
    // The first period and the wait time, never less.
    assert!(UserSpace.now() >= start.saturating_add(Span::from_secs(3)));
}
