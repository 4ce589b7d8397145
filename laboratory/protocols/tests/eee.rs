//! Tests of Energy Efficient Ethernet in virtual time: each row of the table of its machine, and the states that must
//! never occur.

use tickless_conformance::{Deferred, Rig};
use tickless_core::platform::CpuId;
use tickless_core::time::Span;
use tickless_protocols::eee::{Port, Settings, Transition, VirtualMac};
use tickless_protocols::host::Simulated;

const CPU: CpuId = CpuId(0);
const MICRO: i64 = 1_000;
const MILLI: i64 = 1_000_000;
const SECOND: i64 = 1_000_000_000;
// The figures of the standard and of the table, not those of the code.
const DEFERRAL: i64 = SECOND;
const IDLE: i64 = 250 * MILLI;
const WAKE: i64 = 50 * MICRO;

/// A port with two queues on a machine with one CPU.
struct Bench {
    rig: Rig<Deferred>,
    port: Port<Simulated, VirtualMac>,
}

impl Bench {
    fn new() -> Self {
        let rig = Rig::new(1);
        let port = Port::new(
            Simulated(rig.clone()),
            VirtualMac::new(Span::from_nanos(16_500)),
            2,
        );
        Self { rig, port }
    }

    /// Makes a bench with a link that came up at time zero.
    fn with_link() -> Self {
        let bench = Self::new();
        bench.on(Port::link_up);
        bench
    }

    /// Makes a bench with a link and a transmitter that sleeps.
    fn asleep() -> Self {
        let bench = Self::with_link();
        bench.rig.run_until(DEFERRAL);
        assert!(bench.is_asleep());
        bench
    }

    fn on<R>(&self, body: impl FnOnce(&Port<Simulated, VirtualMac>) -> R) -> R {
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
fn two_senders_wake_one_port() {
    let bench = Bench::asleep();
    bench.rig.run_until(2 * SECOND);
    // The port is disabled, which wakes it; a thread that sends then did not clear the bit, but has to wait.
    bench.on(Port::link_down);
    bench.rig.spend(20 * MICRO);
    bench.on(|port| port.send(1));
    assert_eq!(bench.rig.now(), 2 * SECOND + WAKE);
    assert_eq!(bench.port.mac().violations(), 0);
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
fn disabling_and_enabling_defers_the_first_entry_again() {
    let bench = Bench::asleep();
    let idle_time = Span::from_millis(3);
    let settings = |enabled| Settings { enabled, idle_time };
    bench.rig.run_until(2 * SECOND);
    bench.on(|port| port.set(settings(false)));
    assert!(!bench.is_asleep() && !bench.is_armed());
    bench.rig.run_until(3 * SECOND);
    bench.on(|port| port.set(settings(true)));
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
fn dropping_the_port_cancels_the_timer() {
    let Bench { rig, port } = Bench::with_link();
    assert!(!rig.timers().next_event(CPU).is_forever());
    rig.on(0, || drop(port));
    assert!(rig.timers().next_event(CPU).is_forever());
}
