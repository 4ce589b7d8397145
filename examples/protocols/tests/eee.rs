//! Tests of Energy Efficient Ethernet in virtual time: each row of its table, and the states that must never occur.

use tickless_core::platform::CpuId;
use tickless_core::time::{Instant, Span};
use tickless_protocols::eee::{
    Direction, Duplex, Link, Mac, Port, RawCounters, Settings, Speed, Transition, VirtualMac,
};
use tickless_protocols::host::Simulated;
use tickless_rig::{Deferred, Rig};

const CPU: CpuId = CpuId(0);
const MICRO: i64 = 1_000;
const MILLI: i64 = 1_000_000;
const SECOND: i64 = 1_000_000_000;
// The figures of the standard and of the table, not those of the code.
const DEFERRAL: i64 = SECOND;
const IDLE: i64 = 250 * MILLI;
const WAKE: i64 = 50 * MICRO;
const GIGABIT: Link = Link::full(Speed::Mbit1000);

/// A port with two queues on a machine with one CPU.
struct Bench {
    rig: Rig<Deferred>,
    port: Port<Simulated<Deferred>, VirtualMac>,
}

impl Bench {
    fn new() -> Self {
        let rig = Rig::new(1);
        let port = Port::new(
            Simulated::new(&rig),
            VirtualMac::new(Span::from_nanos(16_500)),
            2,
        );
        Self { rig, port }
    }

    /// Makes a bench with a link that came up at time zero.
    fn with_link() -> Self {
        let bench = Self::new();
        bench.on(|port| port.link_up(GIGABIT));
        bench
    }

    /// Makes a bench with a link, and asleep.
    fn asleep() -> Self {
        let bench = Self::with_link();
        bench.rig.run_until(DEFERRAL);
        assert!(bench.is_asleep());
        bench
    }

    fn on<R>(&self, body: impl FnOnce(&Port<Simulated<Deferred>, VirtualMac>) -> R) -> R {
        self.rig.on(0, || body(&self.port))
    }

    fn is_asleep(&self) -> bool {
        self.port.mac().is_asleep()
    }

    fn transitions(&self) -> Vec<(i64, bool)> {
        let pair = |Transition { at, lpi }: Transition| (at.as_nanos(), lpi);
        self.port
            .mac()
            .transitions()
            .into_iter()
            .map(pair)
            .collect()
    }

    fn expired(&self) -> u64 {
        self.rig.stats(0).expired
    }

    fn is_armed(&self) -> bool {
        !self.rig.timers().next_event(CPU).is_forever()
    }
}

/// EEE-3.
#[test]
fn the_first_entry_comes_a_second_after_enabling() {
    let bench = Bench::with_link();
    bench.rig.run_until(DEFERRAL - 1);
    assert!(!bench.is_asleep());
    bench.rig.run_until(DEFERRAL);
    assert_eq!(bench.transitions(), [(DEFERRAL, true)]);
}

#[test]
fn a_drain_within_the_first_second_does_not_bring_the_first_entry_forward() {
    let bench = Bench::with_link();
    bench.on(|port| {
        port.send(0);
        port.drained(0, 1);
    });
    bench.rig.run_until(DEFERRAL - 1);
    assert!(!bench.is_asleep());
    bench.rig.run_until(DEFERRAL);
    assert_eq!(bench.transitions(), [(DEFERRAL, true)]);
}

#[test]
fn a_drain_at_the_end_of_the_first_second_counts_from_itself() {
    let bench = Bench::with_link();
    let last = DEFERRAL - MILLI;
    bench.rig.run_until(last);
    bench.on(|port| {
        port.send(0);
        port.drained(0, 1);
    });
    bench.rig.run_until(2 * SECOND);
    assert_eq!(bench.transitions(), [(last + IDLE, true)]);
}

/// EEE-5.
#[test]
fn low_power_begins_exactly_the_idle_time_after_the_last_drain() {
    let bench = Bench::asleep();
    let mut last = 0;
    for burst in 0..20 {
        bench.rig.run_until(2 * SECOND + burst * 7 * MILLI);
        bench.on(|port| {
            port.send(0);
            port.drained(0, 1);
        });
        last = bench.rig.now();
    }
    bench.rig.run_until(last + IDLE - 1);
    assert!(!bench.is_asleep());
    bench.rig.run_until(last + IDLE);
    assert_eq!(bench.transitions().last(), Some(&(last + IDLE, true)));
}

#[test]
fn a_drain_of_nothing_does_not_arm_the_timer() {
    let bench = Bench::asleep();
    bench.on(|port| port.send(0));
    let transitions = bench.transitions();
    bench.on(|port| port.drained(0, 0));
    assert!(!bench.is_armed());
    bench.rig.run_until(10 * SECOND);
    assert_eq!(bench.transitions(), transitions);
    assert!(!bench.is_armed());
}

#[test]
fn a_drain_while_inactive_does_not_arm_the_timer() {
    let bench = Bench::new();
    bench.on(|port| {
        port.send(0);
        port.drained(0, 1);
    });
    assert!(!bench.is_armed());
    bench.rig.run_until(10 * SECOND);
    assert_eq!(bench.transitions(), []);
}

/// EEE-2.
#[test]
fn the_timer_does_nothing_while_a_queue_holds_something() {
    let bench = Bench::with_link();
    bench.on(|port| {
        port.send(0);
        port.send(1);
        port.drained(0, 1);
    });
    bench.rig.run_until(5 * SECOND);
    assert_eq!((bench.expired(), bench.transitions()), (1, vec![]));
    // Its drain arms the timer again.
    bench.on(|port| port.drained(1, 1));
    bench.rig.run_until(5 * SECOND + IDLE);
    assert_eq!(bench.transitions(), [(5 * SECOND + IDLE, true)]);
}

/// EEE-1.
#[test]
fn a_packet_wakes_the_transmitter_and_waits_for_it_once() {
    let bench = Bench::asleep();
    bench.rig.run_until(2 * SECOND);
    bench.on(|port| port.send(0));
    assert_eq!(bench.rig.now(), 2 * SECOND + WAKE);
    bench.on(|port| port.send(0));
    assert_eq!(bench.rig.now(), 2 * SECOND + WAKE);
    assert_eq!(
        bench.transitions(),
        [(DEFERRAL, true), (2 * SECOND, false)],
        "the bit is cleared before the wait"
    );
    let mac = bench.port.mac();
    assert_eq!((mac.transmissions(), mac.violations()), (2, 0));
}

#[test]
fn a_second_sender_waits_for_the_rest_of_the_wake_time() {
    let bench = Bench::asleep();
    bench.rig.run_until(2 * SECOND);
    // The port is disabled, which wakes it; a thread that sends then did not clear the bit, but has to wait.
    bench.on(Port::link_down);
    bench.rig.spend(20 * MICRO);
    bench.on(|port| port.send(1));
    assert_eq!(bench.rig.now(), 2 * SECOND + WAKE);
    assert_eq!(bench.port.mac().violations(), 0);
}

#[test]
fn a_packet_that_wakes_no_thread_leaves_the_device_alone() {
    let bench = Bench::with_link();
    for _ in 0..1_000 {
        bench.on(|port| {
            port.send(0);
            port.drained(0, 1);
        });
    }
    assert_eq!(bench.port.mac().writes(), 0);
}

/// EEE-4.
#[test]
fn the_timer_never_fires_under_continuous_load_and_is_only_pushed_out() {
    const DRAINS: u64 = 4_000;
    let bench = Bench::with_link();
    let before = bench.rig.stats(0);
    for drain in 1..=DRAINS {
        bench
            .rig
            .run_until(i64::try_from(drain).unwrap() * 1_250 * MICRO);
        bench.on(|port| {
            port.send(0);
            port.drained(0, 1);
        });
    }
    let after = bench.rig.stats(0);
    assert_eq!(after.expired - before.expired, 0);
    assert_eq!(after.starts - before.starts, DRAINS);
    assert_eq!(
        after.kept() - before.kept(),
        DRAINS,
        "each restart keeps its place in the tree"
    );
    // Five seconds: the end of the deferral, then one wake-up for nothing each idle time.
    let interrupts = after.interrupts - before.interrupts;
    assert!((16..=18).contains(&interrupts), "{interrupts} interrupts");
    assert_eq!(after.spurious - before.spurious, interrupts);
    assert_eq!(
        after.device_writes - before.device_writes,
        interrupts,
        "a restart does not write the device"
    );
    assert!(after.evaluations - before.evaluations <= interrupts);
    assert_eq!(bench.transitions(), []);
}

#[test]
fn a_link_that_goes_down_ends_low_power_and_the_timer() {
    let bench = Bench::asleep();
    bench.rig.run_until(2 * SECOND);
    bench.on(Port::link_down);
    assert_eq!(bench.transitions(), [(DEFERRAL, true), (2 * SECOND, false)]);
    bench.on(|port| port.link_up(GIGABIT));
    bench.rig.run_until(2 * SECOND + DEFERRAL - 1);
    assert!(bench.is_armed());
    bench.on(Port::link_down);
    assert!(!bench.is_armed());
    bench.rig.run_until(9 * SECOND);
    assert_eq!(bench.transitions().len(), 2);
}

#[test]
fn disabling_and_enabling_defers_the_first_entry_again() {
    let bench = Bench::asleep();
    let idle_time = Span::from_millis(3);
    let settings = |enabled| Settings { enabled, idle_time };
    bench.rig.run_until(2 * SECOND);
    bench.on(|port| port.set(settings(false)).unwrap());
    assert!(!bench.is_asleep() && !bench.is_armed());
    assert!(!bench.port.status().unwrap().active);
    bench.rig.run_until(3 * SECOND);
    bench.on(|port| port.set(settings(true)).unwrap());
    bench.rig.run_until(9 * SECOND);
    let all = [
        (DEFERRAL, true),
        (2 * SECOND, false),
        (3 * SECOND + DEFERRAL, true),
    ];
    assert_eq!(bench.transitions(), all);
    bench.on(|port| {
        port.send(0);
        port.drained(0, 1);
    });
    let last = bench.rig.now();
    bench.rig.run_until(last + SECOND);
    assert_eq!(
        bench.transitions().last(),
        Some(&(last + 3 * MILLI, true)),
        "the new idle time counts"
    );
}

#[test]
fn dropping_the_port_ends_low_power_and_cancels_the_timer() {
    let rig = Rig::<Deferred>::new(1);
    let mac: &'static VirtualMac = Box::leak(Box::new(VirtualMac::new(Span::from_micros(50))));
    let port = Port::new(Simulated::new(&rig), ByReference(mac), 1);
    rig.on(0, || port.link_up(GIGABIT));
    rig.run_until(DEFERRAL);
    assert!(mac.is_asleep());
    rig.on(0, || {
        port.send(0);
        port.drained(0, 1);
    });
    rig.run_until(2 * SECOND);
    assert!(mac.is_asleep());
    rig.on(0, || drop(port));
    assert!(!mac.is_asleep());
    let port = Port::new(Simulated::new(&rig), ByReference(mac), 1);
    rig.on(0, || port.link_up(GIGABIT));
    drop(port);
    assert!(rig.timers().next_event(CPU).is_forever());
}

struct ByReference(&'static VirtualMac);

impl Mac for ByReference {
    fn set_lpi(&self, lpi: bool, now: Instant) {
        self.0.set_lpi(lpi, now);
    }
    fn start_transmission(&self, queue: usize, now: Instant) {
        self.0.start_transmission(queue, now);
    }
    fn take_counters(&self, now: Instant) -> RawCounters {
        self.0.take_counters(now)
    }
}

#[test]
fn only_full_duplex_at_100_and_1000_has_it() {
    let bench = Bench::new();
    let speeds = [
        Speed::Mbit10,
        Speed::Mbit100,
        Speed::Mbit1000,
        Speed::Mbit2500,
    ];
    for speed in speeds {
        for duplex in [Duplex::Half, Duplex::Full] {
            let link = Link {
                duplex,
                ..Link::full(speed)
            };
            bench.on(|port| port.link_up(link));
            let offered =
                duplex == Duplex::Full && matches!(speed, Speed::Mbit100 | Speed::Mbit1000);
            assert_eq!(bench.port.status().is_ok(), offered, "{link:?}");
            let set = bench.on(|port| port.set(Settings::default()));
            assert_eq!(set.is_ok(), offered, "{link:?}");
            assert_eq!(bench.is_armed(), offered, "{link:?}");
            if let Err(error) = set {
                assert_eq!((error.speed, error.duplex), (speed, duplex));
            }
        }
    }
}

#[test]
fn what_was_set_without_a_link_counts_for_the_next_one() {
    let bench = Bench::new();
    let settings = Settings {
        enabled: false,
        idle_time: Span::from_millis(1),
    };
    assert_eq!(bench.on(|port| port.set(settings)), Ok(()));
    bench.on(|port| port.link_up(GIGABIT));
    assert!(!bench.is_armed());
    assert_eq!(bench.port.status().unwrap().settings, settings);
}

#[test]
fn a_partner_that_does_not_agree_keeps_it_inactive() {
    let bench = Bench::new();
    let link = Link {
        partner_agrees: false,
        ..GIGABIT
    };
    bench.on(|port| port.link_up(link));
    assert!(!bench.port.status().unwrap().active);
    assert!(!bench.is_armed());
}

#[test]
fn counters_that_clear_on_read_add_up() {
    let bench = Bench::asleep();
    let mac = bench.port.mac();
    mac.set_partner_lpi(true, Instant::from_nanos(DEFERRAL));
    // 300 s asleep: 18 times what 24 bits of microseconds hold.
    for second in 1..=300 {
        bench.rig.run_until(DEFERRAL + second * SECOND);
        bench.port.poll_counters();
    }
    bench.rig.spend(1_500);
    assert_eq!(
        bench.port.poll_counters().transmit,
        Direction {
            transitions: 1,
            time: Span::from_micros(300_000_001)
        },
        "half a microsecond stays in the hardware"
    );
    mac.set_partner_lpi(false, Instant::from_nanos(bench.rig.now()));
    bench.rig.spend(500);
    let end = bench.port.poll_counters();
    assert_eq!(end.transmit.time, Span::from_micros(300_000_002));
    assert_eq!(end.receive.transitions, 1);
    assert_eq!(end.receive.time, Span::from_micros(300_000_001));
    for wake in 2..=5 {
        bench.on(|port| {
            port.send(0);
            port.drained(0, 1);
        });
        bench.rig.run_until(bench.rig.now() + IDLE);
        assert_eq!(bench.port.poll_counters().transmit.transitions, wake);
    }
}
