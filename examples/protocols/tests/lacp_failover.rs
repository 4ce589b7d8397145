//! Tests of four ports and two aggregators: the port that carries frames, and the churn, when one fails and comes back.

mod support;

use support::{ByHand, Net, SECOND, at, before, config, seconds};
use tickless_core::time::{Instant, Span};
use tickless_protocols::lacp::{
    ChurnState, End, MuxState, Port, PortState, ReceiveState, Selected, TimerKind,
};

/// The one with four ports.
const US: u32 = 0;

const fn us(port: usize) -> End {
    End::new(US, 0, port)
}

/// One system of four ports; ports 0 and 1 lead to one partner, 2 and 3 to another. All links come up at once.
fn four_ports() -> Net {
    let mut net = Net::new(&[Span::ZERO; 3]);
    net.add(US, &config(1, 4));
    net.add(1, &config(2, 2));
    net.add(2, &config(3, 2));
    for port in 0..4 {
        let partner = if port < 2 { 1 } else { 2 };
        net.connect(us(port), End::new(partner, 0, port % 2));
    }
    for port in 0..4 {
        net.set_link(us(port), true);
    }
    net
}

/// Returns the ports that carry frames.
fn distributing(net: &Net) -> [bool; 4] {
    std::array::from_fn(|port| net.port(us(port)).is_distributing())
}

fn churn(net: &Net) -> [ChurnState; 4] {
    std::array::from_fn(|port| net.port(us(port)).actor_churn().state())
}

/// The states that ports have which belong to the active aggregator, or do not, for long enough.
fn assert_roles(net: &Net, active: [usize; 2], backup: [usize; 2]) {
    for port in active.map(us) {
        let (port, shown) = (net.port(port), net.port(port).to_string());
        assert!(port.is_distributing(), "{shown}");
        assert_eq!(port.selected(), Selected::Selected, "{shown}");
        assert_eq!(port.receive(), ReceiveState::Current, "{shown}");
        assert_eq!(port.actor_churn().state(), ChurnState::NoChurn, "{shown}");
        assert_eq!(port.partner_churn().state(), ChurnState::NoChurn, "{shown}");
    }
    for port in backup.map(us) {
        let (port, shown) = (net.port(port), net.port(port).to_string());
        assert!(!port.is_distributing(), "{shown}");
        assert_eq!(port.selected(), Selected::Standby, "{shown}");
        assert_eq!(port.mux(), MuxState::Waiting, "{shown}");
        assert_eq!(port.receive(), ReceiveState::Current, "{shown}");
        // This end is not in sync; the partner, which has one aggregator only, is.
        assert_eq!(port.actor_churn().state(), ChurnState::Churn, "{shown}");
        assert_eq!(port.partner_churn().state(), ChurnState::NoChurn, "{shown}");
    }
}

/// LACP-5.
#[test]
fn active_ports_distribute_and_backup_ports_churn_sixty_seconds_later() {
    let mut net = four_ports();
    net.run_until(before(at(60)));
    assert_eq!(distributing(&net), [true, true, false, false]);
    assert_eq!(churn(&net)[2..], [ChurnState::Monitor, ChurnState::Monitor]);
    net.run_until(at(60));
    assert_roles(&net, [0, 1], [2, 3]);
    // The partner sees the same from its side.
    for port in net.bond(2, 0).ports() {
        assert_eq!(port.mux(), MuxState::Attached);
        assert_eq!(port.actor_churn().state(), ChurnState::NoChurn);
        assert_eq!(port.partner_churn().state(), ChurnState::Churn);
    }
}

/// Ports 0 and 1 carried frames for 100 s; then port 0 failed, and came back 10 s later.
fn failed_over() -> Net {
    let mut net = four_ports();
    net.run_until(at(100));
    assert_roles(&net, [0, 1], [2, 3]);
    net.set_link(us(0), false);
    net.run_until(at(110));
    net.set_link(us(0), true);
    net
}

/// LACP-5.
#[test]
fn after_a_failover_the_roles_are_swapped_within_sixty_seconds_and_a_period() {
    let mut net = failed_over();
    net.run_until(at(110).saturating_add(seconds(60)).saturating_add(SECOND));
    assert_roles(&net, [2, 3], [0, 1]);
    // It stays so.
    net.run_until(at(1_000));
    assert_roles(&net, [2, 3], [0, 1]);
    assert_eq!(net.bond(US, 0).switches(), 2, "the first choice, and one");
    for port in 0..4 {
        assert_eq!(net.port(us(port)).actor_churn().count(), 1, "port {port}");
    }
}

#[test]
fn the_failover_itself_takes_no_time() {
    let mut net = four_ports();
    // In the middle of a period: nothing is due.
    net.run_until(at(100).saturating_add(Span::from_millis(400)));
    net.set_link(us(0), false);
    assert_eq!(distributing(&net), [false, false, true, true]);
    // The partners were told at once.
    assert!(net.bond(2, 0).ports().iter().all(Port::is_distributing));
    assert!(!net.bond(1, 0).ports().iter().any(Port::is_distributing));
}

/// LACP-6, the open question: a former aggregator whose failed port returns must not go on with one port.
#[test]
fn a_former_aggregator_never_carries_frames_beside_the_active_one() {
    let mut net = failed_over();
    // Each event looks, too (`Bond::check`).
    net.run_until_by(at(300), |net| {
        let [zero, one, two, three] = distributing(net);
        assert!(!zero && !one, "the former one at {:?}", net.now());
        assert!(two && three);
    });
    assert_eq!(net.bond(US, 0).active(), Some(2));
}

#[test]
fn a_failure_and_return_of_any_port_leaves_one_whole_aggregator() {
    for failing in 0..4 {
        for away in [SECOND, seconds(4), seconds(70)] {
            let mut net = four_ports();
            net.run_until(at(100));
            net.set_link(us(failing), false);
            net.run_for(away);
            net.set_link(us(failing), true);
            net.run_for(seconds(61));
            if failing < 2 {
                assert_roles(&net, [2, 3], [0, 1]);
            } else {
                assert_roles(&net, [0, 1], [2, 3]);
            }
        }
    }
}

#[test]
fn when_all_of_the_active_ones_fail_and_return_the_roles_are_swapped() {
    let mut net = four_ports();
    net.run_until(at(100));
    net.set_link(us(0), false);
    net.set_link(us(1), false);
    net.run_until(at(130));
    assert_eq!(distributing(&net), [false, false, true, true]);
    net.set_link(us(1), true);
    net.set_link(us(0), true);
    net.run_until(at(191));
    assert_roles(&net, [2, 3], [0, 1]);
}

/// Four ports in sync with their partners, driven by hand; ports 0 and 1 carry frames.
fn by_hand() -> ByHand {
    let mut one = ByHand::new(&config(1, 4));
    for port in 0..4 {
        one.set_link(port, true);
    }
    hear_all_until(&mut one, at(70));
    assert!(one.port(0).is_distributing() && one.port(1).is_distributing());
    one
}

fn hear_all_until(one: &mut ByHand, until: Instant) {
    hear_until(one, &[0, 1, 2, 3], until);
}

/// Lets the partners of `ports`, as far as those have a link, say each second that they are in sync.
fn hear_until(one: &mut ByHand, ports: &[usize], until: Instant) {
    while one.now < until {
        for &port in ports {
            if one.port(port).is_enabled() {
                one.hear(port, if port < 2 { 2 } else { 3 });
            }
        }
        let next = one.now.saturating_add(SECOND).min(until);
        one.run_until(next);
    }
}

/// LACP-4.
#[test]
fn a_switch_puts_the_receive_machines_of_the_former_ones_through_port_disabled() {
    let mut one = by_hand();
    assert_eq!(one.port(1).receive(), ReceiveState::Current);
    one.set_link(0, false);
    // Out of PORT_DISABLED at once, because its link is up: it believes nothing until it is told again.
    assert_eq!(one.port(1).receive(), ReceiveState::Expired);
    assert!(!one.port(1).partner().state.has(PortState::SYNCHRONIZATION));
    assert!(one.port(1).actor().state.has(PortState::EXPIRED));
    assert_eq!(
        one.port(1).deadline(TimerKind::CurrentWhile),
        Some(one.now.saturating_add(seconds(3)))
    );
    // The new ones are not disturbed.
    assert_eq!(one.port(2).receive(), ReceiveState::Current);
    one.hear(1, 2);
    assert_eq!(one.port(1).receive(), ReceiveState::Current);
}

/// LACP-3: the loss of sync restarts the machine, not that the port is current again.
#[test]
fn regression_c_a_port_that_returns_to_current_restarts_churn_detection_by_its_transitions() {
    let mut one = by_hand();
    assert_eq!(one.port(1).actor_churn().state(), ChurnState::NoChurn);
    one.run_until(at(71));
    one.set_link(0, false);
    // NO_CHURN to MONITOR, because sync was lost, with its timer from now.
    let detected = at(71).saturating_add(seconds(60));
    assert_eq!(one.port(1).actor_churn().state(), ChurnState::Monitor);
    let deadline = |one: &ByHand| one.port(1).deadline(TimerKind::ActorChurn);
    assert_eq!(deadline(&one), Some(detected));
    // CURRENT again, and again: that changes nothing.
    hear_all_until(&mut one, at(100));
    assert_eq!(one.port(1).receive(), ReceiveState::Current);
    assert_eq!(deadline(&one), Some(detected));
    hear_all_until(&mut one, before(detected));
    assert_eq!(one.port(1).actor_churn().state(), ChurnState::Monitor);
    hear_all_until(&mut one, detected);
    assert_eq!(one.port(1).actor_churn().state(), ChurnState::Churn);
    // CHURN stays CHURN when the port returns to CURRENT from EXPIRED.
    hear_until(&mut one, &[2, 3], detected.saturating_add(seconds(4)));
    assert_eq!(one.port(1).receive(), ReceiveState::Expired);
    one.hear(1, 2);
    assert_eq!(one.port(1).receive(), ReceiveState::Current);
    assert_eq!(one.port(1).actor_churn().state(), ChurnState::Churn);
    assert_eq!(one.port(1).actor_churn().count(), 1);
}

/// LACP-1, in the whole: backup ports that churn leave it when they come into sync, at once.
#[test]
fn regression_a_ports_that_become_active_leave_churn_at_once() {
    let mut net = four_ports();
    net.run_until(at(100));
    assert_eq!(churn(&net)[2..], [ChurnState::Churn; 2]);
    net.set_link(us(0), false);
    assert_eq!(churn(&net)[2..], [ChurnState::NoChurn; 2]);
}

/// LACP-2, in the whole: sync is lost and reached again many times around the end of a detection time.
#[test]
fn regression_b_detection_goes_on_after_any_number_of_failovers() {
    let mut net = four_ports();
    net.run_until(at(100));
    for round in 0..6 {
        // Ports 0 and 1 are the active ones in even rounds.
        let failing = if round % 2 == 0 { 0 } else { 2 };
        net.set_link(us(failing), false);
        net.run_for(Span::from_millis(59_900));
        net.set_link(us(failing), true);
        net.run_for(seconds(61));
        let (active, backup) = if round % 2 == 0 {
            ([2, 3], [0, 1])
        } else {
            ([0, 1], [2, 3])
        };
        assert_roles(&net, active, backup);
    }
}
