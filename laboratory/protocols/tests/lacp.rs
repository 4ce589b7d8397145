//! Tests of LACP in virtual time: the expiry of its timers, their restarts, and the reaction of four ports to a failure
//! of one port.

use tickless_conformance::{Deferred, Rig};
use tickless_core::platform::CpuId;
use tickless_core::time::{Instant, Span};
use tickless_protocols::host::Simulated;
use tickless_protocols::lacp::{
    Bond, BondConfig, ChurnState, End, Lacpdu, MuxState, Network, Party, PeriodicState, Port, Rate,
    ReceiveState, Selected, Station, TimerKind,
};

const SECOND: Span = Span::from_secs(1);
const A: End = End::new(0, 0, 0);
const B: End = End::new(1, 0, 0);

/// Returns the instant `count` seconds after the beginning.
fn at(count: u64) -> Instant {
    Instant::ZERO.saturating_add(Span::from_secs(count))
}

/// Returns the instant one nanosecond before `instant`.
fn before(instant: Instant) -> Instant {
    Instant::from_nanos(instant.as_nanos() - 1)
}

fn config(number: u8, ports: u16, rate: Rate) -> BondConfig {
    let system = [2, 0, 0, 0, 0, number];
    BondConfig {
        system,
        ports,
        rate,
    }
}

/// Makes two systems of `ports` ports each; the links come up 50 ms apart. The periodic timers of the first system have
/// `slack`.
fn pair(one: Rate, other: Rate, ports: u16, slack: Span) -> Network {
    let mut net = Network::new(&[slack, Span::ZERO]);
    net.add(0, &config(1, ports, one));
    net.add(1, &config(2, ports, other));
    for port in 0..usize::from(ports) {
        net.connect(End::new(0, 0, port), End::new(1, 0, port));
        net.set_link(End::new(0, 0, port), true);
        net.run_for(Span::from_millis(50));
    }
    net
}

/// Checks that the host runs exactly the timers of the machines.
fn assert_mirrored(net: &Network, stations: u32) {
    for station in 0..stations {
        let ports = net.bond(station, 0).ports().iter();
        let deadlines = ports.flat_map(|port| TimerKind::ALL.map(|timer| port.deadline(timer)));
        let pending = net.rig().timers().pending(CpuId(station));
        assert_eq!(pending, deadlines.flatten().count());
    }
}

#[test]
fn each_end_sends_as_often_as_the_other_one_wants() {
    for (one, other) in [(Rate::Fast, Rate::Slow), (Rate::Slow, Rate::Fast)] {
        let mut net = pair(one, other, 1, Span::ZERO);
        net.run_until(at(100));
        let before = net.rig().stats(0).expired;
        net.run_until(at(3_100));
        let (state, periods) = match other {
            Rate::Fast => (PeriodicState::FastPeriodic, 3_000),
            Rate::Slow => (PeriodicState::SlowPeriodic, 100),
        };
        assert_eq!(net.port(A).periodic, state);
        assert_eq!(net.rig().stats(0).expired - before, periods);
    }
}

#[test]
fn a_silent_partner_is_expired_and_defaulted_at_the_right_instants() {
    // Slack is for periodic timers alone.
    for (rate, timeout) in [(Rate::Fast, 3), (Rate::Slow, 90)] {
        let mut net = pair(rate, rate, 1, Span::from_millis(250));
        net.run_until(at(100));
        net.set_silent(B, true);
        let expires = net.port(A).deadline(TimerKind::CurrentWhile);
        let expires = expires.expect("the port is current");
        let latest = net.now().saturating_add(Span::from_secs(timeout));
        assert!(expires > net.now() && expires <= latest);
        net.run_until(before(expires));
        assert_eq!(net.port(A).receive, ReceiveState::Current);
        net.run_until(expires);
        assert_eq!(net.port(A).receive, ReceiveState::Expired);
        assert_eq!(net.port(A).mux, MuxState::Attached, "not in sync");
        let defaulted = expires.saturating_add(Span::from_secs(3));
        net.run_until(before(defaulted));
        assert_eq!(net.port(A).receive, ReceiveState::Expired);
        net.run_until(defaulted);
        assert_eq!(net.port(A).receive, ReceiveState::Defaulted);
        // It works as an individual link, and comes back when the partner does.
        net.run_for(Span::from_secs(2));
        assert!(net.port(A).is_distributing() && !net.port(A).partner.aggregation);
        net.set_silent(B, false);
        net.run_for(Span::from_secs(35));
        assert_eq!(net.port(A).receive, ReceiveState::Current);
        assert!(net.port(A).is_distributing());
        assert_mirrored(&net, 2);
    }
}

#[test]
fn a_link_that_goes_down_stops_all_timers_and_comes_back_without_waiting() {
    let mut net = pair(Rate::Fast, Rate::Fast, 1, Span::ZERO);
    net.run_until(at(100));
    net.set_link(A, false);
    for end in [A, B] {
        assert_eq!(net.port(end).receive, ReceiveState::PortDisabled);
        assert_eq!(net.port(end).selected, Selected::Selected);
    }
    assert_eq!(net.rig().timers().pending(CpuId(0)), 0);
    net.run_until(at(500));
    net.set_link(A, true);
    // A disabled port counts its 60 s from when it is enabled.
    let churns = net.port(A).deadline(TimerKind::PartnerChurn);
    assert_eq!(churns, Some(at(560)));
    net.run_for(SECOND);
    assert!(net.port(A).is_distributing() && net.port(B).is_distributing());
    assert_mirrored(&net, 2);
}

#[test]
fn lacpdus_push_current_while_out_without_touching_the_tree_or_the_device() {
    let mut net = pair(Rate::Fast, Rate::Fast, 1, Span::ZERO);
    net.run_until(at(100));
    let before = net.rig().stats(0);
    net.run_until(at(200));
    let after = net.rig().stats(0);
    // Each second one periodic timer fires and is started again, and current_while is pushed out.
    assert_eq!(after.expired - before.expired, 100);
    assert_eq!(after.starts - before.starts, 200);
    assert_eq!(after.kept() - before.kept(), 100);
    assert!(after.device_writes - before.device_writes <= 200);
    assert_eq!(after.cancelled - before.cancelled, 0);
}

#[test]
fn slack_lets_periodic_timers_share_wakeups_and_keeps_their_rate() {
    for (slack_ms, wakeups) in [(0, 400), (250, 100)] {
        let mut net = pair(Rate::Fast, Rate::Fast, 4, Span::from_millis(slack_ms));
        net.run_until(at(100));
        let before = net.rig().stats(0);
        net.run_for(Span::from_secs(100));
        let after = net.rig().stats(0);
        assert_eq!(after.interrupts - before.interrupts, wakeups);
        assert_eq!(after.expired - before.expired, 400);
        assert_eq!(net.port(A).periods_missed, 0);
    }
}

#[test]
fn a_late_host_moves_no_deadline_and_loses_no_period() {
    let mut actions = Vec::new();
    let mut bond = Bond::new(&config(1, 1, Rate::Fast));
    let hear = |bond: &mut Bond, now, actions: &mut Vec<_>| {
        let partner = bond.ports()[0].actor;
        let actor = Party {
            system: [3; 6],
            port: 9,
            in_sync: true,
            ..partner
        };
        bond.receive(0, &Lacpdu { actor, partner }, now, actions);
    };
    bond.set_link(0, true, at(0), &mut actions);
    hear(&mut bond, at(0), &mut actions);
    hear(&mut bond, at(1), &mut actions);
    // The host's timer fired for the old deadline, and the note arrives now.
    actions.clear();
    bond.fired(0, TimerKind::CurrentWhile, at(3), &mut actions);
    assert_eq!(bond.ports()[0].receive, ReceiveState::Current);
    assert_eq!(actions, []);
    // The period that ended at 1 s is told of at 3.5 s.
    let late = at(3).saturating_add(Span::from_millis(500));
    bond.fired(0, TimerKind::Periodic, late, &mut actions);
    let port = &bond.ports()[0];
    let next = port.deadline(TimerKind::Periodic);
    assert_eq!(next, Some(late.saturating_add(SECOND)));
    assert_eq!(port.periods_missed, 2);
}

#[test]
fn what_fired_before_an_event_is_worked_off_before_it() {
    let machine = Rig::<Deferred>::new(1);
    let mut station = Station::new(Simulated(machine.clone()), Span::ZERO);
    station.add(&config(1, 2, Rate::Fast));
    machine.on(0, || station.set_link(0, 0, true));
    machine.run_until(3_000_000_000);
    machine.on(0, || station.set_link(0, 1, true));
    let port = &station.bond(0).ports()[0];
    assert_eq!(port.receive, ReceiveState::Defaulted);
    assert_eq!(machine.on(0, || station.run_due()), 0);
}

const fn us(port: usize) -> End {
    End::new(0, 0, port)
}

const fn partner(port: usize) -> End {
    End::new(if port < 2 { 1 } else { 2 }, 0, port % 2)
}

/// Makes a system of four ports; ports 0 and 1 lead to one partner, ports 2 and 3 to another partner. All links come up
/// at once, and 100 s pass.
fn four_ports() -> Network {
    let mut net = Network::new(&[Span::ZERO; 3]);
    for (station, ports) in [(0, 4), (1, 2), (2, 2)] {
        net.add(u32::from(station), &config(station, ports, Rate::Fast));
    }
    for port in 0..4 {
        net.connect(us(port), partner(port));
    }
    for port in 0..4 {
        net.set_link(us(port), true);
    }
    net.run_until(before(at(60)));
    assert_eq!(churn(&net, 2), ChurnState::Monitor);
    net.run_until(at(60));
    assert_roles(&net, [0, 1], [2, 3]);
    net.run_until(at(100));
    net
}

fn churn(net: &Network, port: usize) -> ChurnState {
    net.port(us(port)).churn[0]
}

/// Checks the states of ports that have belonged to the active aggregator for long enough, and of ports that have not.
fn assert_roles(net: &Network, active: [usize; 2], backup: [usize; 2]) {
    use ChurnState::{Churn, NoChurn};
    for port in active.map(|port| net.port(us(port))) {
        assert!(port.is_distributing(), "{port}");
        assert_eq!(port.selected, Selected::Selected, "{port}");
        assert_eq!(port.receive, ReceiveState::Current, "{port}");
        assert_eq!(port.churn, [NoChurn, NoChurn], "{port}");
    }
    for port in backup.map(|port| net.port(us(port))) {
        assert_eq!(port.mux, MuxState::Waiting, "{port}");
        assert_eq!(port.selected, Selected::Standby, "{port}");
        assert_eq!(port.receive, ReceiveState::Current, "{port}");
        // This end is not in sync; the partner, which has one aggregator only, is.
        assert_eq!(port.churn, [Churn, NoChurn], "{port}");
    }
    assert_mirrored(net, 3);
}

/// LACP-5, LACP-6: a former aggregator whose failed port returns does not stay in use together with the active
/// aggregator.
#[test]
fn a_failure_and_return_of_any_port_leaves_one_whole_aggregator() {
    for failing in 0..4 {
        for away in [SECOND, Span::from_secs(4), Span::from_secs(70)] {
            let mut net = four_ports();
            net.set_link(us(failing), false);
            let active = if failing < 2 { [2, 3] } else { [0, 1] };
            let carries = |net: &Network| active.map(|port| net.port(us(port)).is_distributing());
            assert_eq!(carries(&net), [true; 2], "a failover takes no time");
            net.run_for(away);
            net.set_link(us(failing), true);
            // Each event looks, too (`Bond::check`).
            for _ in 0..61 {
                net.run_for(SECOND);
                let ports = net.bond(0, 0).ports().iter();
                assert_eq!(ports.filter(|port| port.is_distributing()).count(), 2);
                assert_eq!(carries(&net), [true; 2]);
            }
            let backup = if failing < 2 { [0, 1] } else { [2, 3] };
            assert_roles(&net, active, backup);
        }
    }
}

/// LACP-3, LACP-4: a switch puts the Receive machines of the former ports through PORT_DISABLED. The loss of sync
/// restarts Churn Detection; a port that is current again does not.
#[test]
fn regression_c_a_port_that_returns_to_current_restarts_churn_detection_by_its_transitions() {
    let mut net = four_ports();
    net.set_silent(partner(1), true);
    net.set_link(us(0), false);
    // Out of PORT_DISABLED at once, because its link is up: it believes nothing until it is told again.
    assert_eq!(net.port(us(1)).receive, ReceiveState::Expired);
    assert!(!net.port(us(1)).partner.in_sync);
    assert_eq!(churn(&net, 1), ChurnState::Monitor);
    net.set_silent(partner(1), false);
    net.run_until(before(at(160)));
    assert_eq!(net.port(us(1)).receive, ReceiveState::Current);
    assert_eq!(churn(&net, 1), ChurnState::Monitor);
    net.run_until(at(160));
    assert_eq!(churn(&net, 1), ChurnState::Churn);
    net.set_silent(partner(1), true);
    net.run_until(at(164));
    assert_eq!(net.port(us(1)).receive, ReceiveState::Expired);
    net.set_silent(partner(1), false);
    net.run_until(at(166));
    assert_eq!(net.port(us(1)).receive, ReceiveState::Current);
    assert_eq!(churn(&net, 1), ChurnState::Churn);
}

/// LACP-1, LACP-2: ports that become active leave CHURN at once, and detection continues after any number of failovers
/// around the end of a detection time.
#[test]
fn regressions_a_and_b_churn_ends_at_once_and_is_detected_again() {
    let mut net = four_ports();
    let (mut active, mut backup) = ([0, 1], [2, 3]);
    for _ in 0..6 {
        net.set_link(us(active[0]), false);
        assert_eq!(
            backup.map(|port| churn(&net, port)),
            [ChurnState::NoChurn; 2]
        );
        net.run_for(Span::from_millis(59_900));
        net.set_link(us(active[0]), true);
        net.run_for(Span::from_secs(61));
        (active, backup) = (backup, active);
        assert_roles(&net, active, backup);
    }
    assert!(net.bond(1, 0).ports().iter().all(Port::is_distributing));
}
