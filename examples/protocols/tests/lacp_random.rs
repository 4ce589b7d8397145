//! Tests of random link failures and losses of LACPDUs: the invariants at any moment, and the state when all is well
//! again.

mod support;

use proptest::prelude::*;
use support::{Net, config, seconds};
use tickless_core::platform::CpuId;
use tickless_core::time::Span;
use tickless_protocols::lacp::{Bond, ChurnState, End, MuxState, ReceiveState, TimerKind};

const PORTS: usize = 4;

#[derive(Clone, Debug)]
enum Step {
    Link(usize, bool),
    /// The LACPDUs of our port get lost, or arrive again.
    Silent(usize, bool),
    /// The LACPDUs of its partner get lost, or arrive again.
    Deaf(usize, bool),
    Pass(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let port = || 0..PORTS;
    prop_oneof![
        3 => (port(), any::<bool>()).prop_map(|(port, up)| Step::Link(port, up)),
        1 => (port(), any::<bool>()).prop_map(|(port, silent)| Step::Silent(port, silent)),
        1 => (port(), any::<bool>()).prop_map(|(port, deaf)| Step::Deaf(port, deaf)),
        3 => (0..4_000_u64).prop_map(Step::Pass),
        1 => (0..70_000_u64).prop_map(Step::Pass),
    ]
}

fn ours(port: usize) -> End {
    End::new(0, 0, port)
}

fn theirs(port: usize) -> End {
    End::new(if port < 2 { 1 } else { 2 }, 0, port % 2)
}

/// Ports 0 and 1 lead to one partner, 2 and 3 to another.
fn network(slack: Span) -> Net {
    let mut net = Net::new(&[slack; 3]);
    net.add(0, &config(1, 4));
    net.add(1, &config(2, 2));
    net.add(2, &config(3, 2));
    for port in 0..PORTS {
        net.connect(ours(port), theirs(port));
    }
    net
}

fn check(net: &Net) {
    for station in 0..3 {
        let bond = net.bond(station, 0);
        bond.check();
        let running = |bond: &Bond| {
            let of_port = |port: &tickless_protocols::lacp::Port| {
                let runs = |timer: &TimerKind| port.deadline(*timer).is_some();
                TimerKind::ALL.iter().copied().filter(runs).count()
            };
            bond.ports().iter().map(of_port).sum::<usize>()
        };
        assert_eq!(
            net.rig().timers().pending(CpuId(station)),
            running(bond),
            "the timers of the host are those of the machines"
        );
    }
}

fn heal(net: &mut Net) {
    for port in 0..PORTS {
        net.set_silent(ours(port), false);
        net.set_silent(theirs(port), false);
        if !net.port(ours(port)).is_enabled() {
            net.set_link(ours(port), true);
        }
    }
    // A slow period until ports that gave each other up speak again, some seconds to be selected anew, and the time
    // after which they are found churning.
    net.run_for(seconds(30 + 10 + 60));
}

fn assert_well(net: &Net) {
    let active = net.bond(0, 0).active().expect("one is active");
    let mut carrying = 0;
    for port in 0..PORTS {
        let (one, other) = (net.port(ours(port)), net.port(theirs(port)));
        assert_eq!(one.receive(), ReceiveState::Current, "{one}");
        assert_eq!(other.receive(), ReceiveState::Current, "{other}");
        assert_eq!(one.is_distributing(), other.is_distributing());
        let is_active = one.aggregator() == Some(active);
        assert_eq!(one.is_distributing(), is_active, "{one}");
        carrying += u32::from(is_active);
        let (churn, mux) = if is_active {
            (ChurnState::NoChurn, MuxState::CollectingDistributing)
        } else {
            (ChurnState::Churn, MuxState::Waiting)
        };
        assert_eq!((one.actor_churn().state(), one.mux()), (churn, mux));
        assert_eq!(other.partner_churn().state(), churn, "{other}");
        assert_eq!(one.partner_churn().state(), ChurnState::NoChurn, "{one}");
    }
    assert_eq!(carrying, 2, "a whole aggregator");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(60) })]

    #[test]
    fn whatever_fails_and_returns_one_whole_aggregator_is_left(
        steps in prop::collection::vec(step(), 1..40),
        slack_ms in prop_oneof![Just(0), 0..=250_u64],
    ) {
        let mut net = network(Span::from_millis(slack_ms));
        for step in steps {
            match step {
                Step::Link(port, up) => net.set_link(ours(port), up),
                Step::Silent(port, silent) => net.set_silent(ours(port), silent),
                Step::Deaf(port, deaf) => net.set_silent(theirs(port), deaf),
                Step::Pass(millis) => {
                    let until = net.now().saturating_add(Span::from_millis(millis));
                    net.run_until_by(until, check);
                }
            }
            check(&net);
        }
        heal(&mut net);
        check(&net);
        assert_well(&net);
    }
}
