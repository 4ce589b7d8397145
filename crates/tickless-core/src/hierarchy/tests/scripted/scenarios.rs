//! The regression scenarios of spec C-8.2 that are not among the worked examples.

use std::rc::Rc;

use super::{LEFT, ROOT, pairs};
use crate::cpu::CpuId;
use crate::hierarchy::tests::host::{NEVER, Tree, at, idle_tree, idle_tree_with};
use crate::hierarchy::{ChildSlot, MigratorPolicy, Pull, Refusal, Step};

/// Makes the tree in which CPU 2 is awake, and CPU 0 idles with a timer at 10.
fn watched_by_2() -> Rc<Tree<2>> {
    let tree = pairs();
    tree.wakes(2);
    assert_eq!(tree.arms(0, 10), NEVER);
    tree
}

/// R15, second half: a CPU without a timer goes idle in an active group that has a parent. The CPU takes no lock of a
/// group.
#[test]
fn r15_no_lock_is_taken_for_nothing_below_the_root() {
    let tree = pairs();
    tree.wakes(0);
    tree.wakes(1);
    tree.host().steps.borrow_mut().clear();
    assert_eq!(tree.idles(0), NEVER);
    let steps = tree.host().steps.take();
    assert!(
        !steps
            .iter()
            .any(|step| matches!(step, Step::Publishing { .. })),
        "{steps:?}"
    );
    tree.check_all();
}

/// R20: the CPU's own event is due, because time has passed since the CPU ran its own timers. The CPU serves this event
/// as it serves any other event.
#[test]
fn r20_an_idle_cpu_serves_itself() {
    let tree = pairs();
    assert_eq!(tree.arms(0, 10), at(10));
    let mut budget = u32::MAX;
    let pull = tree.serve_remote(CpuId(0), at(10), &mut budget);
    assert_eq!((pull.served, pull.has_more), (1, false));
    assert_eq!(tree.fired().len(), 1);
    assert!(!tree.remote_work_due(CpuId(0), at(10)));
    tree.check_all();
}

/// PULL-5, R20: the budget ends a call in which an event stays due after each service.
#[test]
fn r20_serving_ends_although_an_event_stays_due() {
    let tree = watched_by_2();
    tree.host().bases(0).is_stuck = true;
    let mut budget = 5;
    let pull = tree.serve_remote(CpuId(2), at(10), &mut budget);
    assert_eq!((pull.served, pull.has_more, budget), (5, true, 0));
    assert!(tree.remote_work_due(CpuId(2), at(10)), "it comes again");
    tree.host().bases(0).is_stuck = false;
    tree.ticks(2, 10);
    assert_eq!(tree.fired().len(), 1);
    tree.check_all();
}

/// Spec C-D.6: callbacks count against the budget. The remaining timers stay due, and so does the promise of an idle
/// server.
#[test]
fn a_spent_budget_leaves_the_rest_due() {
    let tree = pairs();
    assert_eq!(tree.arms(3, 7), at(7));
    for time in [7, 8, 9] {
        assert_eq!(tree.arms(0, time), NEVER);
    }
    let mut budget = 2;
    let pull = tree.serve_remote(CpuId(3), at(10), &mut budget);
    assert!(pull.has_more);
    assert_eq!(tree.fired().len(), 2);
    assert!(tree.remote_work_due(CpuId(3), at(10)));
    tree.ticks(3, 10);
    assert_eq!(tree.fired().len(), 2);
    tree.check_all();
}

/// Two CPUs wake at the same time, one of them in vain. Only one of them promises the next event.
#[test]
fn a_promise_is_given_once() {
    let tree = pairs();
    assert_eq!(tree.arms(0, 10), at(10));
    assert_eq!(tree.arms(2, 20), NEVER, "CPU 0 wakes up before");
    assert_eq!(tree.arms(2, 5), at(5), "it wakes up after");
    // CPU 2 runs its own at 5, and promises what CPU 0 does already: the hint forgot whom to ask.
    tree.wakes(2);
    tree.ticks(2, 5);
    assert_eq!(tree.idles(2), at(10));
    for (cpu, promise) in [(0, NEVER), (2, at(20))] {
        tree.wakes(cpu);
        tree.ticks(cpu, 10);
        tree.check_all();
        assert_eq!(tree.idles(cpu), promise);
    }
    assert_eq!(tree.fired().len(), 2);
    // The next round has one left.
    let promises = (0..4).filter(|cpu| tree.node(*cpu).wakeup() != NEVER);
    assert_eq!(promises.count(), 1);
    tree.check_all();
    tree.let_time_run(11, 20);
    assert_eq!(tree.fired().len(), 1);
}

/// Two CPUs that had promised the same time serve at that time, and continue to sleep. One of them promises the next
/// event. Otherwise both would wake at the same times for ever.
#[test]
fn two_who_serve_at_one_moment_do_not_both_promise_what_comes_next() {
    let tree = pairs();
    assert_eq!(tree.arms(0, 10), at(10));
    assert_eq!(tree.arms(2, 5), at(5));
    assert_eq!(tree.arms(1, 20), NEVER);
    assert_eq!(tree.arms(3, 30), NEVER);
    tree.ticks(2, 5);
    let promises = || {
        let promises = (0..4).map(|cpu| tree.node(cpu).wakeup());
        promises
            .filter(|time| *time != NEVER)
            .collect::<std::vec::Vec<_>>()
    };
    assert_eq!(promises(), [at(10), at(10)], "the hint forgot whom to ask");
    for (time, next) in [(10, 20), (20, 30)] {
        for cpu in 0..4 {
            if tree.remote_work_due(CpuId(cpu), at(time)) {
                tree.ticks(cpu, time);
            }
        }
        assert_eq!(promises(), [at(next)]);
        tree.check_all();
    }
    assert_eq!(tree.fired().len(), 3);
}

/// All CPUs sleep, and CPU 0 has promised to wake up for them. A CPU that wakes meanwhile and sleeps again need not
/// wake up for them.
#[test]
fn nothing_is_forecast_that_another_cpu_has_promised() {
    let tree = pairs();
    assert_eq!(tree.arms(0, 10), at(10));
    assert_eq!(tree.arms(1, 20), NEVER);
    tree.wakes(2);
    assert_eq!(tree.peek(CpuId(2), NEVER), NEVER);
    assert_eq!(tree.peek(CpuId(2), at(15)), NEVER);
    assert_eq!(tree.peek(CpuId(2), at(5)), at(5), "CPU 0 sleeps longer");
    assert_eq!(tree.arms(2, 15), NEVER);
    assert_eq!(tree.idles(2), NEVER);
    // Awake, CPU 0 keeps its promise no longer: the first time is anybody's.
    tree.wakes(2);
    tree.wakes(0);
    tree.host().bases(0).timers.clear();
    assert_eq!(tree.idles(0), NEVER, "CPU 2 is awake");
    assert_eq!(tree.peek(CpuId(2), at(15)), at(15));
    tree.check_all();
}

/// CPU 0 had promised to wake at 10, woke, and idles without timers. Before CPU 0 has published that, CPU 2 arms a
/// timer, and must not rely on the earlier promise of CPU 0.
#[test]
fn no_cpu_relies_on_a_promise_that_was_withdrawn() {
    let tree = pairs();
    assert_eq!(tree.arms(0, 10), at(10));
    tree.wakes(0);
    tree.ticks(0, 10);
    tree.script(
        |step| {
            let idles = Step::Promising {
                cpu: CpuId(0),
                cover: NEVER,
            };
            step == idles
        },
        |tree| assert_eq!(tree.arms(2, 20), at(20)),
    );
    assert_eq!(tree.idles(0), NEVER);
    assert!(tree.host().script_is_done());
    tree.check_all();
    tree.let_time_run(11, 20);
    assert_eq!(tree.fired().len(), 2);
}

/// R52, HAZARD-1: CPU 0 has handed the duty over to CPU 1, which goes idle before CPU 0's event is in the queue.
#[test]
fn r52_a_stranded_event_reaches_the_root() {
    for root_is_active in [false, true] {
        let tree = pairs();
        tree.wakes(0);
        tree.wakes(1);
        if root_is_active {
            tree.wakes(2);
        }
        tree.arms(0, 10);
        tree.script(
            |step| matches!(step, Step::Publishing { group: LEFT }),
            |tree| assert_eq!(tree.idles(1), NEVER),
        );
        let cover = tree.idles(0);
        assert_eq!(cover, if root_is_active { NEVER } else { at(10) });
        tree.check_all();
        tree.let_time_run(0, 10);
        assert_eq!(tree.fired().len(), 1);
    }
}

/// R53, HAZARD-2: the owner wakes, idles without timers, and an interrupt arms a timer, all during the callbacks.
#[test]
fn r53_a_timer_armed_in_idle_while_served_is_published() {
    let tree = watched_by_2();
    tree.script(
        |step| matches!(step, Step::Ran { cpu: CpuId(0) }),
        |tree| {
            tree.wakes(0);
            assert_eq!(tree.idles(0), NEVER);
            assert_eq!(tree.arms(0, 20), NEVER, "left to the server");
        },
    );
    tree.ticks(2, 10);
    tree.check_all();
    tree.ticks(2, 20);
    assert_eq!(tree.fired().len(), 2);
    tree.check_all();
}

/// R59: the owner wakes, arms, idles and arms again during the callbacks. The earliest time is published.
#[test]
fn r59_an_older_time_does_not_overwrite_a_newer_one() {
    let tree = watched_by_2();
    tree.script(
        |step| matches!(step, Step::Ran { cpu: CpuId(0) }),
        |tree| {
            tree.wakes(0);
            tree.arms(0, 30);
            assert_eq!(tree.idles(0), NEVER);
            assert_eq!(tree.arms(0, 20), NEVER);
        },
    );
    tree.ticks(2, 10);
    tree.check_all();
    assert_eq!(tree.host().group_first(ROOT), at(20));
    tree.let_time_run(11, 30);
    assert_eq!(tree.fired().len(), 3);
}

/// R59: the owner is awake again when its remaining time would be published. The owner fires its timers itself.
#[test]
fn r59_nothing_is_published_for_an_owner_that_woke() {
    let tree = watched_by_2();
    assert_eq!(tree.arms(0, 20), NEVER);
    tree.script(
        |step| matches!(step, Step::Ran { cpu: CpuId(0) }),
        |tree| tree.wakes(0),
    );
    tree.ticks(2, 10);
    let served = Step::Served {
        cpu: CpuId(0),
        next: None,
    };
    assert!(tree.host().steps.borrow().contains(&served));
    tree.check_all();
}

/// R60: the tree returns a time so near that the CPU stays awake. Then the CPU is active again.
#[test]
fn r60_a_cpu_that_stays_awake_is_active() {
    let tree = pairs();
    tree.wakes(0);
    assert_eq!(tree.arms(1, 1), NEVER);
    assert_eq!(tree.idles(0), at(1));
    tree.wakes(0);
    assert!(!tree.node(0).is_idle());
    assert_eq!(tree.node(0).wakeup(), NEVER);
    tree.check_all();
    tree.ticks(0, 1);
    assert_eq!(tree.fired().len(), 1);
}

/// PULL-1, TI7: a second migrator does not serve a CPU that is being served.
#[test]
fn a_cpu_is_served_by_one_at_a_time() {
    let tree = watched_by_2();
    tree.script(
        |step| matches!(step, Step::Serving { refused: None, .. }),
        |tree| {
            // The sibling of the served CPU wakes, and finds the event that is still in its leaf.
            tree.wakes(1);
            let mut budget = u32::MAX;
            let pull = tree.serve_remote(CpuId(1), at(10), &mut budget);
            assert_eq!((pull.served, pull.refused), (0, 1));
        },
    );
    tree.ticks(2, 10);
    assert_eq!(tree.fired().len(), 1);
    tree.check_all();
    let refused = Step::Serving {
        cpu: CpuId(0),
        refused: Some(Refusal::AlreadyServed),
    };
    assert!(tree.host().steps.borrow().contains(&refused));
}

/// Spec C-4.7: the timer was cancelled. Its event stays, and costs one useless check.
#[test]
fn a_cancelled_timer_costs_one_useless_look() {
    let tree = watched_by_2();
    tree.host().bases(0).timers.clear();
    assert_eq!(tree.idles(0), NEVER);
    assert!(tree.remote_work_due(CpuId(2), at(10)));
    tree.ticks(2, 10);
    assert!(!tree.remote_work_due(CpuId(2), at(10)));
    assert_eq!(tree.fired(), []);
    tree.check_all();
}

/// Spec C-3.2: a local timer of the CPU is due earlier, so the CPU will be awake when its global timer is due.
#[test]
fn a_cpu_that_wakes_for_itself_first_hands_nothing_over() {
    let tree = pairs();
    tree.wakes(0);
    tree.arms(0, 10);
    tree.host().bases(0).own = Some(5);
    assert_eq!(tree.idles(0), NEVER);
    assert!(tree.node(0).is_ignored());
    tree.check_all();
}

/// Spec C-4.11: another CPU is awake in the leaf, or in a group further up. The forecast is never.
#[test]
fn the_forecast_is_never_while_others_are_awake() {
    let tree = pairs();
    tree.wakes(2);
    tree.wakes(0);
    assert_eq!(tree.peek(CpuId(0), at(10)), NEVER, "another leaf is awake");
    assert_eq!(tree.idles(2), NEVER);
    assert_eq!(tree.peek(CpuId(0), at(10)), at(10));
    tree.wakes(1);
    assert_eq!(tree.peek(CpuId(0), at(10)), NEVER, "a sibling is awake");
    assert_eq!(tree.peek(CpuId(1), at(10)), NEVER, "a sibling is migrator");
}

/// Spec C-A.4: the columns of the table, for groups of two on two levels.
#[test]
fn the_walk_of_appendix_a4_on_the_tree() {
    let tree = pairs();
    let shown = || {
        [0, 1, 2].map(|id| {
            let state = tree.host().group_state(crate::hierarchy::GroupId(id));
            (
                state.active().bits(),
                state.migrator().map(ChildSlot::number),
            )
        })
    };
    let idle = (0, None);
    tree.wakes(2);
    assert_eq!(shown(), [idle, (0b01, Some(0)), (0b10, Some(1))]);
    tree.wakes(3);
    assert_eq!(shown(), [idle, (0b11, Some(0)), (0b10, Some(1))]);
    tree.wakes(0);
    assert_eq!(shown(), [(0b01, Some(0)), (0b11, Some(0)), (0b11, Some(1))]);
    tree.arms(2, 10);
    assert_eq!(tree.idles(2), NEVER);
    assert_eq!(shown(), [(0b01, Some(0)), (0b10, Some(1)), (0b11, Some(1))]);
    assert_eq!(tree.idles(3), NEVER);
    assert_eq!(shown(), [(0b01, Some(0)), idle, (0b01, Some(0))]);
    assert_eq!(tree.idles(0), at(10));
    assert_eq!(shown(), [idle, idle, idle]);
    tree.check_all();
}

/// Spec C-D.7: a policy chooses the CPU that gets the duty.
#[test]
fn the_duty_is_handed_over_by_policy() {
    let duty = |policy| {
        let tree = idle_tree_with::<4>(4, policy);
        for cpu in [2, 0, 1, 3] {
            tree.wakes(cpu);
        }
        // CPU 2 has the duty.
        let migrator = || {
            tree.host()
                .group_state(LEFT)
                .migrator()
                .map(ChildSlot::number)
        };
        assert_eq!(migrator(), Some(2));
        tree.idles(2);
        migrator()
    };
    assert_eq!(duty(MigratorPolicy::LowestBit), Some(0));
    assert_eq!(duty(MigratorPolicy::Rotating), Some(3));
}

#[test]
fn a_cpu_without_duty_serves_no_other() {
    let tree = idle_tree::<4>(4);
    tree.wakes(0);
    tree.wakes(1);
    tree.arms(3, 5);
    assert!(tree.remote_work_due(CpuId(0), at(5)));
    assert!(!tree.remote_work_due(CpuId(1), at(5)));
    let mut budget = u32::MAX;
    let pull = tree.serve_remote(CpuId(1), at(5), &mut budget);
    assert_eq!(pull, Pull::default());
    assert_eq!(tree.fired(), []);
}
