//! Tests of the trace (spec, ORACLE-6).

use tickless_core::event::Flush;
use tickless_core::hrtimer::{Restart, Setup};
use tickless_core::platform::CpuId;
use tickless_core::time::{Clock, Instant, Realtime, Span};
use tickless_core::trace::{Event, Placement, StartMode, TimerId};

use crate::grammar::Grammar;
use crate::prelude::*;
use crate::suite::{at_on, panic_of};
use crate::{Host, Interrupted, Rig, Schedule, TestTimer};

fn rearm(cpu: u32, next: i64, deferred: bool) -> Event {
    Event::Rearm {
        cpu: CpuId(cpu),
        next: Instant::from_nanos(next),
        deferred,
    }
}

/// the trace has the whole life of one timer, event by event, with all fields that do not depend on addresses.
pub fn the_life_of_a_timer_is_told_event_by_event<H: Host>() {
    let rig = Rig::<H>::new(2);
    rig.set_wall(0, 1_000_000);
    let timer = TestTimer::<H, Realtime>::with_setup(&rig, Setup::new(), {
        let mut runs = 0;
        move |expired| {
            runs += 1;
            if runs == 2 {
                return Restart::No;
            }
            expired.forward_now(Span::from_nanos(3_000));
            Restart::Yes
        }
    });
    rig.take_trace();
    rig.on(1, || {
        timer.start(at_on(1_000_500).slack(Span::from_nanos(500)).pinned())
    });
    let code = is_started(&rig.take_trace(), timer.id());

    rig.spend(1_000);
    rig.interrupt(1, Interrupted::Kernel, &Schedule::SWITCH);
    let fired = firing::<H>(timer.id(), code);
    assert_eq!(rig.take_trace(), fired);

    rig.on(0, || timer.start(at_on(1_009_000)));
    is_moved(&rig.take_trace());

    rig.on(0, || assert!(timer.cancel()));
    let cancel = Event::Cancel {
        cpu: CpuId(0),
        timer: timer.id(),
    };
    assert_eq!(rig.take_trace(), [cancel, rearm(0, i64::MAX, false)]);
}

/// Checks the first part of the life, and returns the address of the code.
fn is_started(trace: &[Event], timer: TimerId) -> usize {
    let Event::Start { code, .. } = trace[0] else {
        panic!("a start comes first: {trace:?}")
    };
    let start = Event::Start {
        cpu: CpuId(1),
        timer,
        code,
        clock: Clock::Realtime,
        hard: 1_001_000,
        soft: 1_000_500,
        mode: StartMode {
            relative: false,
            pinned: true,
            checked: false,
        },
        was_armed: false,
        stood: Placement::Moved,
    };
    assert_eq!(trace, [start, rearm(1, 1_000, false)]);
    code
}

/// Returns the events that the second part of the timer's life has to trace.
fn firing<H: Host>(timer: TimerId, code: usize) -> Vec<Event> {
    let cpu = CpuId(1);
    let mut expected = vec![
        Event::ExpireEntry {
            cpu,
            timer,
            code,
            now: 1_001_000,
            hard: 1_001_000,
            soft: 1_000_500,
        },
        Event::ExpireExit { timer },
        Event::Start {
            cpu,
            timer,
            code,
            clock: Clock::Realtime,
            hard: 1_004_000,
            soft: 1_003_500,
            mode: StartMode::default(),
            was_armed: false,
            stood: Placement::Moved,
        },
    ];
    if Rig::<H>::DEFERRED_REARM {
        expected.push(Event::Flush {
            cpu,
            reason: Flush::KernelExit,
            stale: false,
        });
    }
    expected.push(rearm(1, 4_000, Rig::<H>::DEFERRED_REARM));
    expected
}

/// Checks the third part of the life.
fn is_moved(trace: &[Event]) {
    assert!(matches!(
        trace,
        [
            Event::Move {
                from: CpuId(1),
                to: CpuId(0),
                ..
            },
            Event::Start {
                cpu: CpuId(0),
                was_armed: true,
                stood: Placement::Moved,
                ..
            },
            Event::Rearm { cpu: CpuId(0), .. },
        ]
    ));
}

/// TR-1, change 22: a number of restarts is traced as that number of starts, and as no cancel.
pub fn restarts_are_starts_and_nothing_else<H: Host>() {
    let rig = Rig::<H>::new(1);
    let timer = TestTimer::once(&rig);
    rig.take_trace();
    for step in 0..50 {
        rig.on(0, || timer.start(at_on(9_000 + step * 7)));
    }
    let trace = rig.take_trace();
    let starts = trace
        .iter()
        .filter(|event| matches!(event, Event::Start { .. }))
        .count();
    assert_eq!(starts, 50);
    assert!(
        !trace
            .iter()
            .any(|event| matches!(event, Event::Cancel { .. }))
    );
}

/// The oracle itself: it notices lives that no timer can have.
pub fn impossible_lives_are_noticed<H: Host>() {
    let rig = Rig::<H>::new(1);
    let timer = TestTimer::once(&rig);
    rig.take_trace();
    rig.on(0, || timer.start(at_on(1_000)));
    rig.run_until(2_000);
    let trace = rig.take_trace();
    let follows = |trace: &[Event]| panic_of(|| Grammar::new().follow(trace)).is_none();
    assert!(follows(&trace));
    for missing in 0..trace.len() {
        let mut broken = trace.clone();
        let event = broken.remove(missing);
        let matters = matches!(event, Event::Start { .. } | Event::ExpireEntry { .. });
        assert_eq!(follows(&broken), !matters, "without {event:?}");
        broken.insert(missing, event);
        broken.insert(missing, event);
        let doubled_matters = matches!(
            event,
            Event::Start { .. } | Event::ExpireEntry { .. } | Event::ExpireExit { .. }
        );
        assert_eq!(follows(&broken), !doubled_matters, "two of {event:?}");
    }
}

crate::kit::cases!(trace:
    the_life_of_a_timer_is_told_event_by_event [CPUS, PATHS, CLOCKS, TRACE],
    restarts_are_starts_and_nothing_else [TRACE],
    impossible_lives_are_noticed [TRACE, PANICS],
);
