//! Energy Efficient Ethernet under random events, against an oracle that knows only times.

use std::collections::VecDeque;

use proptest::prelude::*;
use tickless_core::time::Span;
use tickless_protocols::eee::{Duplex, Link, Port, Settings, Speed, VirtualMac, WAKE_TIME};
use tickless_protocols::host::Simulated;
use tickless_rig::{Deferred, Rig};

const QUEUES: usize = 3;
const DEFERRAL: i64 = 1_000_000_000;
const WAKE: i64 = 50_000;

#[derive(Clone, Debug)]
enum Step {
    Send(usize),
    /// The transmission of so many packets of a queue, as far as it holds them.
    Drain(usize, u64),
    /// Time passes, in nanoseconds.
    Pass(u64),
    /// Time passes until the oracle expects something, and so many nanoseconds more or less.
    PassToDeadline(i64),
    Link(Speed, Duplex),
    LinkDown,
    Set(bool, u64),
}

fn step() -> impl Strategy<Value = Step> {
    let speed = prop_oneof![
        1 => Just(Speed::Mbit10),
        3 => Just(Speed::Mbit100),
        6 => Just(Speed::Mbit1000),
        1 => Just(Speed::Mbit2500)
    ];
    let duplex = prop_oneof![1 => Just(Duplex::Half), 5 => Just(Duplex::Full)];
    prop_oneof![
        6 => (0..QUEUES).prop_map(Step::Send),
        8 => (0..QUEUES, 0..4_u64).prop_map(|(queue, packets)| Step::Drain(queue, packets)),
        4 => (0..400_000_000_u64).prop_map(Step::Pass),
        2 => (0..100_000_u64).prop_map(Step::Pass),
        6 => (-1..=1_i64).prop_map(Step::PassToDeadline),
        2 => (speed, duplex).prop_map(|(speed, duplex)| Step::Link(speed, duplex)),
        1 => Just(Step::LinkDown),
        2 => (any::<bool>(), 0..600_000_000_u64).prop_map(|(enabled, idle)| Step::Set(enabled, idle)),
    ]
}

/// The expected state, computed from the times of the events.
#[derive(Default)]
struct Oracle {
    link: Option<(Speed, Duplex)>,
    enabled: bool,
    idle_time: i64,
    /// The time from which on EEE is active.
    active_since: Option<i64>,
    /// The time at which the port falls asleep if no event happens before.
    deadline: Option<i64>,
    queued: [u64; QUEUES],
    asleep: bool,
    /// The time until which a woken transmitter cannot be used.
    ready_at: i64,
    history: VecDeque<(i64, bool)>,
}

impl Oracle {
    fn offered(&self) -> bool {
        matches!(
            self.link,
            None | Some((Speed::Mbit100 | Speed::Mbit1000, Duplex::Full))
        )
    }

    fn wake(&mut self, now: i64) {
        if self.asleep {
            self.asleep = false;
            self.ready_at = now + WAKE;
            self.history.push_back((now, false));
        }
    }

    fn end(&mut self, now: i64) {
        self.wake(now);
        self.active_since = None;
        self.deadline = None;
    }

    fn apply(&mut self, now: i64) {
        let wants = self.enabled && self.link.is_some() && self.offered();
        if !wants {
            self.end(now);
        } else if self.active_since.is_none() {
            self.active_since = Some(now);
            self.deadline = Some(now + DEFERRAL);
        }
    }

    fn pass_to(&mut self, now: i64) {
        if let Some(deadline) = self.deadline.filter(|deadline| *deadline <= now) {
            self.deadline = None;
            if self.queued == [0; QUEUES] && !self.asleep {
                self.asleep = true;
                self.history.push_back((deadline, true));
            }
        }
    }
}

struct Run {
    rig: Rig<Deferred>,
    port: Port<Simulated<Deferred>, VirtualMac>,
    oracle: Oracle,
}

impl Run {
    fn new() -> Self {
        let rig = Rig::new(1);
        let mac = VirtualMac::new(WAKE_TIME);
        let port = Port::new(Simulated::new(&rig), mac, QUEUES);
        let settings = Settings::default();
        let oracle = Oracle {
            enabled: settings.enabled,
            idle_time: settings.idle_time.as_nanos().cast_signed(),
            ..Oracle::default()
        };
        Self { rig, port, oracle }
    }

    fn pass_to(&mut self, at: i64) {
        if at > self.rig.now() {
            self.rig.run_until(at);
            self.oracle.pass_to(at);
        }
    }

    fn take(&mut self, step: &Step) {
        let now = self.rig.now();
        let (rig, port, oracle) = (&self.rig, &self.port, &mut self.oracle);
        match *step {
            Step::Send(queue) => {
                oracle.queued[queue] += 1;
                if oracle.asleep {
                    oracle.deadline = None;
                }
                oracle.wake(now);
                rig.on(0, || port.send(queue));
                let waited_until = now.max(oracle.ready_at);
                assert_eq!(rig.now(), waited_until, "what a sender waits");
                // What became due while it waited is delivered now.
                rig.run_until(waited_until);
                oracle.pass_to(waited_until);
            }
            Step::Drain(queue, packets) => {
                let packets = packets.min(oracle.queued[queue]);
                oracle.queued[queue] -= packets;
                if let Some(since) = oracle.active_since.filter(|_| packets > 0) {
                    oracle.deadline = Some((now + oracle.idle_time).max(since + DEFERRAL));
                }
                rig.on(0, || port.drained(queue, packets));
            }
            Step::Pass(nanos) => self.pass_to(now + nanos.cast_signed()),
            Step::PassToDeadline(more) => {
                if let Some(deadline) = oracle.deadline {
                    self.pass_to(deadline + more);
                }
            }
            Step::Link(speed, duplex) => {
                oracle.end(now);
                oracle.link = Some((speed, duplex));
                oracle.apply(now);
                let link = Link {
                    duplex,
                    ..Link::full(speed)
                };
                rig.on(0, || port.link_up(link));
            }
            Step::LinkDown => {
                oracle.link = None;
                oracle.end(now);
                rig.on(0, || port.link_down());
            }
            Step::Set(enabled, idle) => {
                let settings = Settings {
                    enabled,
                    idle_time: Span::from_nanos(idle),
                };
                let answer = rig.on(0, || port.set(settings));
                assert_eq!(answer.is_ok(), oracle.offered());
                if oracle.offered() {
                    (oracle.enabled, oracle.idle_time) = (enabled, idle.cast_signed());
                    oracle.apply(now);
                }
            }
        }
        // A restart for a time that is over fires at once.
        let now = self.rig.now();
        self.rig.run_until(now + 20);
        self.oracle.pass_to(now + 20);
    }

    fn check(&self) {
        let (mac, oracle) = (self.port.mac(), &self.oracle);
        assert_eq!(mac.violations(), 0, "nothing is sent in low power");
        assert_eq!(mac.is_asleep(), oracle.asleep);
        assert!(
            oracle.queued == [0; QUEUES] || !mac.is_asleep(),
            "never asleep with packets queued"
        );
        let found = mac.transitions();
        let found = found.iter().map(|one| (one.at.as_nanos(), one.lpi));
        assert!(
            found.eq(oracle.history.iter().copied()),
            "{:?} is not {:?}",
            mac.transitions(),
            oracle.history
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(150) })]

    #[test]
    fn a_port_sleeps_exactly_when_the_oracle_says(steps in prop::collection::vec(step(), 1..120)) {
        let mut run = Run::new();
        for step in &steps {
            run.take(step);
            run.check();
        }
    }
}
