//! The machines of an LACP port in virtual time.

mod support;

use support::{A, B, ByHand, Net, SECOND, at, before, config, pair, seconds};
use tickless_core::time::{Instant, Span};
use tickless_protocols::host::Simulated;
use tickless_protocols::lacp::{
    Action, Activity, BondConfig, ChurnState, DecodeError, End, Lacpdu, MuxState, PeriodicState,
    PortState, Rate, ReceiveState, Selected, Station, TimerKind,
};
use tickless_rig::{Deferred, Rig};

const MILLI: u64 = 1_000_000;

/// Two systems of one port with these rates, up since the beginning.
fn linked(one: Rate, other: Rate) -> Net {
    let rated = |number, rate| BondConfig {
        rate,
        ..config(number, 1)
    };
    let mut net = pair(&rated(1, one), &rated(2, other));
    net.set_link(A, true);
    net
}

#[test]
fn two_systems_aggregate_their_links_after_the_wait_time() {
    let mut net = pair(&config(1, 3), &config(2, 3));
    for port in 0..3 {
        net.set_link(End::new(0, 0, port), true);
    }
    // The first LACPDU is sent after the first period.
    net.run_until(before(at(3)));
    for station in 0..2 {
        let ports = net.bond(station, 0).ports();
        assert!(ports.iter().all(|port| port.mux() == MuxState::Waiting));
    }
    net.run_until(at(3));
    for station in 0..2 {
        for port in net.bond(station, 0).ports() {
            assert!(port.is_distributing(), "{port}");
            assert_eq!(port.aggregator(), Some(0));
            assert_eq!(port.selected(), Selected::Selected);
            assert_eq!(port.receive(), ReceiveState::Current);
            assert_eq!(port.actor_churn().state(), ChurnState::NoChurn);
            assert_eq!(port.partner_churn().state(), ChurnState::NoChurn);
        }
    }
}

#[test]
fn ports_wait_for_each_other_before_they_attach() {
    let mut net = pair(&config(1, 2), &config(2, 2));
    net.set_link(A, true);
    net.run_until(at(1));
    net.set_link(End::new(0, 0, 1), true);
    net.run_until(before(at(4)));
    assert_eq!(net.port(A).mux(), MuxState::Waiting);
    net.run_until(at(4));
    assert!(
        net.bond(0, 0)
            .ports()
            .iter()
            .all(|port| port.is_distributing())
    );
}

#[test]
fn each_end_sends_as_often_as_the_other_one_wants() {
    let cases = [
        (Rate::Fast, Rate::Fast),
        (Rate::Fast, Rate::Slow),
        (Rate::Slow, Rate::Fast),
        (Rate::Slow, Rate::Slow),
    ];
    for (one, other) in cases {
        let mut net = linked(one, other);
        net.run_until(at(100));
        let before = (net.port(A).counters().sent, net.port(B).counters().sent);
        net.run_until(at(3_100));
        let sent = (
            net.port(A).counters().sent - before.0,
            net.port(B).counters().sent - before.1,
        );
        let expected = |wanted| if wanted == Rate::Fast { 3_000 } else { 100 };
        assert_eq!(sent, (expected(other), expected(one)), "{one:?} {other:?}");
        let periodic = |wanted| match wanted {
            Rate::Fast => PeriodicState::FastPeriodic,
            Rate::Slow => PeriodicState::SlowPeriodic,
        };
        assert_eq!(net.port(A).periodic(), periodic(other));
    }
}

#[test]
fn a_partner_that_wants_more_hears_something_at_once() {
    let mut one = ByHand::new(&config(1, 1));
    one.set_link(0, true);
    let mut slow = one.in_sync(0, 2);
    slow.actor.state.set(PortState::TIMEOUT, false);
    one.receive(0, &slow);
    one.run_until(at(10));
    slow.partner = *one.port(0).actor();
    one.receive(0, &slow);
    assert_eq!(one.port(0).periodic(), PeriodicState::SlowPeriodic);
    let sent = one.sent.len();
    one.hear(0, 2);
    assert_eq!(one.port(0).periodic(), PeriodicState::FastPeriodic);
    assert_eq!(one.sent.len(), sent + 1);
    let next = one.port(0).deadline(TimerKind::Periodic);
    assert_eq!(next, Some(one.now.saturating_add(SECOND)));
}

/// Silences port B, and returns the time at which port A gives it up.
fn silence(rate: Rate) -> (Net, Instant) {
    let mut net = linked(rate, rate);
    net.run_until(at(100));
    // The timer was restarted by what came last.
    let timeout = match rate {
        Rate::Fast => seconds(3),
        Rate::Slow => seconds(90),
    };
    net.set_silent(B, true);
    let expires = net.port(A).deadline(TimerKind::CurrentWhile);
    let expires = expires.expect("the port is current");
    assert!(expires > net.now() && expires <= net.now().saturating_add(timeout));
    (net, expires)
}

#[test]
fn a_silent_partner_is_expired_and_defaulted_at_the_right_instants() {
    for rate in [Rate::Fast, Rate::Slow] {
        let (mut net, expires) = silence(rate);
        net.run_until(before(expires));
        assert_eq!(net.port(A).receive(), ReceiveState::Current);
        assert!(net.port(A).is_distributing());
        net.run_until(expires);
        assert_eq!(net.port(A).receive(), ReceiveState::Expired);
        assert_eq!(net.port(A).mux(), MuxState::Attached, "not in sync");
        assert!(net.port(A).actor().state.has(PortState::EXPIRED));
        assert_eq!(net.port(A).periodic(), PeriodicState::FastPeriodic);
        let defaulted = expires.saturating_add(seconds(3));
        net.run_until(before(defaulted));
        assert_eq!(net.port(A).receive(), ReceiveState::Expired);
        net.run_until(defaulted);
        assert_eq!(net.port(A).receive(), ReceiveState::Defaulted);
        assert!(net.port(A).actor().state.has(PortState::DEFAULTED));
        assert!(!net.port(A).actor().state.has(PortState::EXPIRED));
        // It works as an individual link, after the wait time of another aggregator.
        net.run_until(defaulted.saturating_add(seconds(2)));
        assert!(net.port(A).is_distributing());
        assert!(!net.port(A).partner().state.has(PortState::AGGREGATION));
        // And comes back when the partner does.
        net.set_silent(B, false);
        net.run_for(seconds(35));
        assert_eq!(net.port(A).receive(), ReceiveState::Current);
        assert!(net.port(A).is_distributing());
    }
}

#[test]
fn the_timeout_counts_from_the_last_lacpdu() {
    for (rate, timeout) in [(Rate::Fast, 3), (Rate::Slow, 90)] {
        let mut one = ByHand::new(&BondConfig {
            rate,
            ..config(1, 1)
        });
        one.set_link(0, true);
        for half in 1..=9 {
            one.run_until(Instant::ZERO.saturating_add(Span::from_millis(half * 500)));
            one.hear(0, 2);
            let deadline = one.port(0).deadline(TimerKind::CurrentWhile);
            assert_eq!(deadline, Some(one.now.saturating_add(seconds(timeout))));
        }
    }
}

#[test]
fn an_aggregator_that_hears_of_its_partner_is_preferred() {
    let mut net = pair(&config(1, 2), &config(2, 2));
    net.set_silent(B, true);
    net.set_link(A, true);
    net.run_until(at(10));
    // No partner is there: an individual link is better than none.
    assert_eq!(net.port(A).receive(), ReceiveState::Defaulted);
    assert!(net.port(A).is_distributing());
    let other = End::new(0, 0, 1);
    net.set_link(other, true);
    net.run_until(at(20));
    assert!(net.port(other).is_distributing());
    assert!(!net.port(A).is_distributing());
}

#[test]
fn a_port_that_is_defaulted_leaves_its_aggregator() {
    let mut net = pair(&config(1, 2), &config(2, 2));
    let other = End::new(0, 0, 1);
    net.set_link(A, true);
    net.set_link(other, true);
    net.run_until(at(10));
    assert_eq!(net.port(A).aggregator(), net.port(other).aggregator());
    net.set_silent(B, true);
    net.run_until(at(30));
    assert_eq!(net.port(A).receive(), ReceiveState::Defaulted);
    assert_ne!(net.port(A).aggregator(), net.port(other).aggregator());
    assert!(!net.port(A).is_distributing(), "its partner may be another");
    assert!(net.port(other).is_distributing());
}

#[test]
fn a_link_that_goes_down_keeps_its_selection_and_comes_back_without_waiting() {
    let mut net = linked(Rate::Fast, Rate::Fast);
    net.run_until(at(10));
    net.set_link(A, false);
    for end in [A, B] {
        let port = net.port(end);
        assert_eq!(port.receive(), ReceiveState::PortDisabled);
        assert_eq!(port.periodic(), PeriodicState::NoPeriodic);
        assert_eq!(port.mux(), MuxState::Attached);
        assert_eq!(port.selected(), Selected::Selected);
        assert_eq!(port.actor_churn().state(), ChurnState::Monitor);
        for timer in TimerKind::ALL {
            assert_eq!(port.deadline(timer), None, "{timer:?}");
        }
    }
    net.run_until(at(20));
    net.set_link(A, true);
    net.run_for(SECOND);
    assert!(net.port(A).is_distributing() && net.port(B).is_distributing());
}

#[test]
fn a_disabled_port_counts_its_sixty_seconds_from_when_it_is_enabled() {
    let mut net = linked(Rate::Fast, Rate::Fast);
    net.run_until(at(100));
    net.set_link(A, false);
    net.run_until(at(500));
    assert_eq!(net.port(A).actor_churn().count(), 0);
    net.set_silent(B, true);
    net.set_link(A, true);
    let detected = at(560);
    assert_eq!(
        net.port(A).deadline(TimerKind::PartnerChurn),
        Some(detected)
    );
}

#[test]
fn a_partner_that_never_comes_into_sync_is_churning_after_sixty_seconds() {
    let mut one = ByHand::new(&config(1, 1));
    one.set_link(0, true);
    let hear_for = |one: &mut ByHand, until: Instant| {
        while one.now < until {
            let mut pdu = one.in_sync(0, 2);
            pdu.actor.state.set(PortState::SYNCHRONIZATION, false);
            one.receive(0, &pdu);
            let next = one.now.saturating_add(SECOND).min(until);
            one.run_until(next);
        }
    };
    hear_for(&mut one, before(at(60)));
    assert_eq!(one.port(0).partner_churn().state(), ChurnState::Monitor);
    hear_for(&mut one, at(60));
    assert!(one.port(0).partner_churn().is_churning());
    assert_eq!(one.port(0).partner_churn().count(), 1);
    assert_eq!(
        one.port(0).actor_churn().state(),
        ChurnState::NoChurn,
        "this end is attached"
    );
    one.hear(0, 2);
    assert_eq!(one.port(0).partner_churn().state(), ChurnState::NoChurn);
}

#[test]
fn sync_is_believed_of_who_knows_this_end_and_goes_on_speaking() {
    let believed = |change: fn(&mut Lacpdu)| {
        let mut one = ByHand::new(&config(1, 1));
        one.set_link(0, true);
        let mut pdu = one.in_sync(0, 2);
        change(&mut pdu);
        one.receive(0, &pdu);
        one.port(0).partner().state.has(PortState::SYNCHRONIZATION)
    };
    assert!(believed(|_| {}));
    assert!(!believed(|pdu| pdu
        .actor
        .state
        .set(PortState::SYNCHRONIZATION, false)));
    assert!(!believed(|pdu| pdu.partner.key = 99));
    assert!(!believed(|pdu| pdu.partner.port.number = 99));
    assert!(!believed(|pdu| pdu.partner.system.priority = 99));
    assert!(!believed(|pdu| pdu
        .partner
        .state
        .set(PortState::AGGREGATION, false)));
    // An individual link needs no partner.
    assert!(believed(|pdu| {
        pdu.actor.state.set(PortState::AGGREGATION, false);
        pdu.partner.key = 99;
    }));
    // A passive partner goes on as long as it knows that we are active.
    assert!(believed(|pdu| pdu
        .actor
        .state
        .set(PortState::ACTIVITY, false)));
    assert!(!believed(|pdu| {
        pdu.actor.state.set(PortState::ACTIVITY, false);
        pdu.partner.state.set(PortState::ACTIVITY, false);
    }));
}

#[test]
fn never_more_than_three_lacpdus_in_a_second() {
    let mut one = ByHand::new(&config(1, 1));
    one.set_link(0, true);
    let mut times = Vec::new();
    let mut seen = 0;
    for milli in 0..5_000 {
        one.run_until(Instant::ZERO.saturating_add(Span::from_millis(milli)));
        // It knows nothing of this end, so it has to be told.
        let mut pdu = one.in_sync(0, 2);
        pdu.partner.key = 99;
        one.receive(0, &pdu);
        for _ in seen..one.sent.len() {
            times.push(one.now);
        }
        seen = one.sent.len();
    }
    assert!(times.len() >= 15, "it is told as often as possible");
    for four in times.windows(4) {
        assert!(four[3].saturating_since(four[0]) >= SECOND, "{four:?}");
    }
}

#[test]
fn what_had_to_wait_is_sent_when_the_second_is_over() {
    let mut one = ByHand::new(&config(1, 1));
    one.set_link(0, true);
    let mut pdu = one.in_sync(0, 2);
    pdu.partner.key = 99;
    for _ in 0..10 {
        one.receive(0, &pdu);
    }
    assert_eq!(one.sent.len(), 3);
    let opens = one.port(0).deadline(TimerKind::Transmit);
    assert_eq!(opens, Some(at(1)));
    one.run_until(at(1));
    assert_eq!(one.sent.len(), 4);
}

#[test]
fn passive_systems_do_not_speak_first() {
    let passive = |number| BondConfig {
        activity: Activity::Passive,
        ..config(number, 1)
    };
    let mut net = pair(&passive(1), &passive(2));
    net.set_link(A, true);
    net.run_until(at(2));
    assert_eq!(net.port(A).periodic(), PeriodicState::NoPeriodic);
    assert_eq!(net.port(A).counters().sent, 0);
    let mut net = pair(&passive(1), &config(2, 1));
    net.set_link(A, true);
    net.run_until(at(5));
    assert!(net.port(A).is_distributing() && net.port(B).is_distributing());
    assert_eq!(net.port(A).periodic(), PeriodicState::FastPeriodic);
}

#[test]
fn a_system_without_lacp_has_individual_links() {
    let disabled = BondConfig {
        activity: Activity::Disabled,
        ..config(1, 2)
    };
    let mut net = pair(&disabled, &config(2, 2));
    for port in 0..2 {
        net.set_link(End::new(0, 0, port), true);
    }
    net.run_until(at(10));
    let ports = net.bond(0, 0).ports();
    assert_eq!(ports[0].receive(), ReceiveState::LacpDisabled);
    assert!(ports[0].is_distributing());
    assert!(!ports[1].is_distributing(), "one aggregator at a time");
    assert_eq!(ports[0].counters().sent, 0);
    assert_eq!(net.port(B).receive(), ReceiveState::Defaulted);
}

#[test]
fn an_expiry_for_a_deadline_that_was_moved_counts_for_nothing() {
    let mut one = ByHand::new(&config(1, 1));
    one.set_link(0, true);
    one.hear(0, 2);
    one.run_until(at(1));
    one.hear(0, 2);
    // The host's timer fired for the old deadline, and the note arrives now.
    one.now = at(3);
    one.fired(0, TimerKind::CurrentWhile);
    assert_eq!(one.port(0).receive(), ReceiveState::Current);
    assert_eq!(one.actions, []);
    assert_eq!(one.port(0).counters().stale_expiries, 1);
}

#[test]
fn periods_count_from_deadlines_and_missed_ones_are_told() {
    let mut one = ByHand::new(&config(1, 1));
    one.set_link(0, true);
    one.hear(0, 2);
    let due = one.port(0).deadline(TimerKind::Periodic).expect("it runs");
    // A little late, as with slack.
    one.now = due.saturating_add(Span::from_nanos(200 * MILLI));
    one.fired(0, TimerKind::Periodic);
    let next = due.saturating_add(SECOND);
    assert_eq!(one.port(0).deadline(TimerKind::Periodic), Some(next));
    assert_eq!(one.port(0).counters().periods_missed, 0);
    // Two periods and a half late.
    one.now = next.saturating_add(Span::from_nanos(2_500 * MILLI));
    one.fired(0, TimerKind::Periodic);
    let again = one.now.saturating_add(SECOND);
    assert_eq!(one.port(0).deadline(TimerKind::Periodic), Some(again));
    assert_eq!(one.port(0).counters().periods_missed, 2);
}

#[test]
fn a_restart_by_an_lacpdu_starts_one_timer_and_nothing_else() {
    let mut one = ByHand::new(&config(1, 1));
    one.set_link(0, true);
    one.run_until(at(5));
    one.hear(0, 2);
    one.run_until(at(8));
    one.now = one.now.saturating_add(Span::from_millis(100));
    one.hear(0, 2);
    one.now = one.now.saturating_add(Span::from_millis(100));
    one.hear(0, 2);
    let expected = Action::Start {
        port: 0,
        timer: TimerKind::CurrentWhile,
        deadline: one.now.saturating_add(seconds(3)),
    };
    assert_eq!(one.actions, [expected]);
}

#[test]
fn lacpdus_push_current_while_out_without_touching_the_tree_or_the_device() {
    let mut net = linked(Rate::Fast, Rate::Fast);
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

/// Two systems of four ports; the first one's periodic timers have so much slack. The links come up 50 ms apart.
fn with_slack(slack: Span) -> Net {
    let mut net = Net::new(&[slack, Span::ZERO]);
    net.add(0, &config(1, 4));
    net.add(1, &config(2, 4));
    for port in 0..4 {
        net.connect(End::new(0, 0, port), End::new(1, 0, port));
        net.set_link(End::new(0, 0, port), true);
        net.run_for(Span::from_millis(50));
    }
    net.run_until(at(100));
    net
}

#[test]
fn slack_lets_periodic_timers_share_wakeups_and_keeps_their_rate() {
    for (slack_ms, wakeups) in [(0, 400), (250, 100)] {
        let mut net = with_slack(Span::from_millis(slack_ms));
        let before = (net.rig().stats(0), net.port(A).counters());
        net.run_for(seconds(100));
        let after = (net.rig().stats(0), net.port(A).counters());
        assert_eq!(after.0.interrupts - before.0.interrupts, wakeups);
        assert_eq!(after.1.sent - before.1.sent, 100);
        assert_eq!(after.1.periods_missed, 0);
    }
}

#[test]
fn slack_is_for_periodic_timers_alone() {
    let mut net = with_slack(Span::from_millis(250));
    net.set_silent(B, true);
    let expires = net.port(A).deadline(TimerKind::CurrentWhile);
    let expires = expires.expect("the port is current");
    net.run_until(before(expires));
    assert_eq!(net.port(A).receive(), ReceiveState::Current);
    net.run_until(expires);
    assert_eq!(net.port(A).receive(), ReceiveState::Expired);
}

#[test]
fn what_fired_before_an_event_is_worked_off_before_it() {
    let machine = Rig::<Deferred>::new(1);
    let mut station = Station::new(Simulated::new(&machine), Span::ZERO);
    let bond = machine.on(0, || station.add(&config(1, 2)));
    machine.on(0, || station.set_link(bond, 0, true));
    machine.run_until(3_000_000_000);
    machine.on(0, || station.set_link(bond, 1, true));
    assert_eq!(
        station.bond(bond).ports()[0].receive(),
        ReceiveState::Defaulted
    );
    assert_eq!(machine.on(0, || station.run_due()), 0);
    let no_pdu = machine.on(0, || station.deliver(bond, 0, &[0; 60]));
    assert_eq!(no_pdu, Err(DecodeError::Length { found: 60 }));
}
