//! Clocks that jump (spec 1.2, 1.6).

use tickless_core::clock::ClockSet;
use tickless_core::hrtimer::{Restart, Setup, Stage, Start};
use tickless_core::platform::CpuId;
use tickless_core::time::{Boottime, Clock, ClockId, Instant, Monotonic, Realtime, Span, Tai};
use tickless_rig::suite::{at, at_on, kicks};
use tickless_rig::{Config, Machine, TestTimer, all_configs};

const WALL: i64 = 1_700_000_000_000_000_000;
const SEC: i64 = 1_000_000_000;
const HOUR: i64 = 3_600 * SEC;

fn at_wall(nanos: i64) -> Start<Realtime> {
    at_on(WALL + nanos)
}

/// 14.3, TIM-30, TIM-31: a step forward kicks an idle CPU whose timer became due, and the timer fires at once.
fn a_step_forward_kicks_the_cpu_whose_timer_became_due<C: Config>() {
    let machine = Machine::<C>::new(3);
    machine.set_wall(0, WALL);
    let timer = TestTimer::<C, Realtime>::once_on(&machine);
    machine.on(1, || timer.start(at_wall(HOUR / 2)));
    machine.take_trace();
    machine.set_wall(0, WALL + HOUR);
    assert_eq!(kicks(&machine.take_trace()), [1], "and nobody else");
    assert!(machine.is_kicked(1) && !machine.is_kicked(2));
    machine.deliver_all();
    machine.run_until(1_000);
    assert_eq!(timer.fired_at().len(), 1);
    assert!(timer.fired_at()[0] >= WALL + HOUR / 2);
}

/// TIM-30 step 4, B66: the CPU that sets the clock is no exception.
fn the_cpu_that_sets_the_clock_is_reprogrammed_too<C: Config>() {
    let machine = Machine::<C>::new(2);
    machine.set_wall(0, WALL);
    let timer = TestTimer::<C, Realtime>::once_on(&machine);
    machine.on(1, || timer.start(at_wall(HOUR)));
    machine.set_wall(1, WALL + HOUR - 5_000);
    assert_eq!(machine.fires_at(1), Some(5_000));
    assert_eq!(machine.armed(1), Instant::from_nanos(5_000));
    machine.run_until(9_000);
    assert_eq!(timer.fired_at(), [WALL + HOUR]);
}

/// TIM-32: a step backwards kicks nobody; the device fires once for nothing and is armed exactly then.
fn a_step_backwards_costs_one_interrupt<C: Config>() {
    let machine = Machine::<C>::new(2);
    machine.set_wall(0, WALL);
    let timer = TestTimer::<C, Realtime>::once_on(&machine);
    machine.on(1, || timer.start(at_wall(5_000)));
    machine.take_trace();
    machine.set_wall(0, WALL - 4_000);
    assert_eq!(kicks(&machine.take_trace()), []);
    assert_eq!(machine.fires_at(1), Some(5_000));
    machine.run_until(20_000);
    assert_eq!(timer.fired_at(), [WALL + 5_000]);
    assert_eq!(machine.stats(1).spurious, 1);
    assert_eq!(machine.stats(1).interrupts, 2);
}

/// TIM-30 step 3: CPUs without timers on a clock that jumped, or with an earlier event armed, are left in peace.
fn only_timers_of_clocks_that_jumped_matter<C: Config>() {
    let machine = Machine::<C>::new(4);
    machine.set_wall(0, WALL);
    let mono = TestTimer::once(&machine);
    let boot = TestTimer::<C, Boottime>::once_on(&machine);
    let (real, tai) = (
        TestTimer::<C, Realtime>::once_on(&machine),
        TestTimer::<C, Tai>::once_on(&machine),
    );
    machine.on(1, || mono.start(at(HOUR)));
    machine.on(2, || boot.start(at_on(HOUR)));
    machine.on(3, || {
        tai.start(at_on(WALL + 37 * SEC + HOUR));
        real.start(at_wall(2 * HOUR));
    });
    machine.take_trace();
    machine.set_wall(0, WALL + SEC);
    assert_eq!(kicks(&machine.take_trace()), [3]);
    machine.deliver_all();
    machine.on(3, || mono.start(at(5_000)));
    assert_eq!(mono.cpu(), Some(3));
    machine.set_wall(0, WALL + 2 * SEC);
    assert_eq!(
        kicks(&machine.take_trace()),
        [],
        "an earlier event is armed"
    );
    machine.check();
}

/// TIM-30 step 1: a CPU that has taken the jump into account already is not asked again.
fn a_jump_that_was_seen_is_not_told_again<C: Config>() {
    let machine = Machine::<C>::new(2);
    machine.set_wall(0, WALL);
    let (real, mono) = (
        TestTimer::<C, Realtime>::once_on(&machine),
        TestTimer::once(&machine),
    );
    machine.on(1, || {
        real.start(at_wall(HOUR));
        mono.start(at(1_000));
    });
    machine.publish_wall(WALL + HOUR - 50_000);
    // The interrupt reads the clocks and evaluates.
    machine.run_until(1_000);
    assert_eq!(machine.fires_at(1), Some(50_000));
    machine.take_trace();
    machine.on(0, || machine.timers().clock_was_set(ClockSet::WALL));
    machine.on(0, || machine.timers().clock_was_set(ClockSet::WALL));
    assert_eq!(kicks(&machine.take_trace()), []);
}

/// TIM-30 step 1: having fresh copies of the offsets is not having taken them into account: the soft stage copies them
/// too, and looks at its own queues alone.
fn a_jump_that_only_the_soft_stage_saw_is_told<C: Config>() {
    let machine = Machine::<C>::new(2);
    machine.set_wall(0, WALL);
    let real = TestTimer::<C, Realtime>::once_on(&machine);
    let soft = TestTimer::with_setup(&machine, Setup::new().stage(Stage::Soft), |_| Restart::No);
    machine.on(1, || {
        real.start(at_wall(HOUR));
        soft.start(at(1_000));
    });
    machine.spend(1_000);
    let _turn = machine.enter_interrupt(1);
    machine.publish_wall(WALL + HOUR - 50_000);
    machine.leave_interrupt(1);
    assert_eq!(soft.fired_at(), [1_000]);
    machine.on(0, || machine.timers().clock_was_set(ClockSet::WALL));
    machine.deliver_all();
    machine.check();
    assert_eq!(machine.fires_at(1), Some(50_000));
    machine.run_until(60_000);
    assert_eq!(real.fired_at(), [WALL + HOUR]);
}

/// TIM-30 step 2, 14.3: a CPU that owes a rearm is told by a mark, not by a kick.
fn a_cpu_that_owes_a_rearm_is_not_kicked<C: Config>() {
    let machine = Machine::<C>::new(2);
    machine.set_wall(0, WALL);
    let real = TestTimer::<C, Realtime>::once_on(&machine);
    let mono = TestTimer::once(&machine);
    machine.on(1, || {
        real.start(at_wall(HOUR));
        mono.start(at(1_000));
    });
    machine.spend(1_000);
    let _turn = machine.enter_interrupt(1);
    machine.take_trace();
    machine.set_wall(0, WALL + HOUR - 50_000);
    let kicked = kicks(&machine.take_trace());
    assert_eq!(kicked.is_empty(), C::DEFERRED_REARM);
    machine.leave_interrupt(1);
    machine.deliver_all();
    assert_eq!(machine.fires_at(1), Some(50_000));
    machine.run_until(60_000);
    assert_eq!(real.fired_at(), [WALL + HOUR]);
}

/// TIM-36: a jump while the CPU is in its handler is seen by the pass, if the queue is still to come, or by the next
/// one.
fn a_jump_during_the_handler_is_found_by_its_end<C: Config>() {
    jump_in_the_callback_of::<C, Monotonic>(0, 1);
    jump_in_the_callback_of::<C, Tai>(37 * SEC + WALL, 2);
}

/// The queues of a pass come in the order of their clocks: monotonic, time of day, and two more.
fn jump_in_the_callback_of<C: Config, T: ClockId>(offset: i64, passes: u64) {
    let machine = Machine::<C>::new(2);
    machine.set_wall(0, WALL);
    let real = TestTimer::<C, Realtime>::once_on(&machine);
    let setter = {
        let machine = machine.clone();
        TestTimer::<C, T>::with_setup(&machine.clone(), Setup::new(), move |_| {
            machine.set_wall(1, WALL + HOUR);
            assert!(!machine.is_kicked(0));
            Restart::No
        })
    };
    machine.on(0, || {
        real.start(at_wall(HOUR / 2));
        setter.start(at_on(offset + 1_000));
    });
    machine.run_until(1_000);
    assert_eq!(real.fired_at(), [WALL + HOUR + 1_000]);
    assert_eq!(machine.stats(0).passes, passes);
}

/// TIM-30 step 3 for the soft stage: its time is compared with that at which the stage would be raised.
fn a_step_forward_brings_the_soft_stage_forward<C: Config>() {
    let machine = Machine::<C>::new(2);
    machine.set_wall(0, WALL);
    let setup = Setup::new().stage(Stage::Soft);
    let soft = TestTimer::<C, Realtime>::with_setup(&machine, setup, |_| Restart::No);
    let hard = TestTimer::once(&machine);
    machine.on(1, || {
        hard.start(at(5_000));
        soft.start(at_wall(HOUR));
    });
    machine.take_trace();
    machine.set_wall(0, WALL + HOUR - 7_000);
    assert_eq!(
        kicks(&machine.take_trace()),
        [1],
        "later than the hard timer, earlier than the stage"
    );
    machine.deliver_all();
    machine.run_until(20_000);
    assert_eq!(soft.fired_at(), [WALL + HOUR]);
    assert_eq!(hard.fired_at(), [5_000]);
}

/// TIM-31, REARM-3: a kick writes the device even when the next event did not change, because the device may have lost
/// it.
fn a_kick_writes_the_device_in_any_case<C: Config>() {
    let machine = Machine::<C>::new(1);
    let timer = TestTimer::once(&machine);
    machine.break_device(0);
    machine.on(0, || timer.start(at(5_000)));
    assert_eq!(machine.fires_at(0), None, "lost");
    machine.on(0, || timer.start(at(5_000)));
    assert_eq!(
        machine.fires_at(0),
        None,
        "a start that changes nothing does not know"
    );
    machine.timers().retrigger(CpuId(0));
    assert_eq!(machine.fires_at(0), Some(5_000));
    machine.run_until(9_000);
    assert_eq!(timer.fired_at(), [5_000]);
}

/// TIM-20, B43: at a leap second that the record does not know yet, no timer on the time of day is a second early.
fn a_leap_second_makes_nobody_early<C: Config>() {
    let machine = Machine::<C>::new(1);
    machine.set_wall(0, WALL);
    machine.set_next_leap(Some(Instant::from_nanos(10 * SEC)));
    let before = TestTimer::<C, Realtime>::once_on(&machine);
    let behind = TestTimer::<C, Realtime>::once_on(&machine);
    machine.on(0, || {
        before.start(at_wall(9 * SEC));
        behind.start(at_wall(10 * SEC + SEC / 2));
    });
    machine.run_until(10 * SEC + SEC / 2);
    assert_eq!(before.fired_at(), [WALL + 9 * SEC]);
    assert!(
        behind.fired_at().is_empty(),
        "it is a second before its time again"
    );
    // The record learns of it.
    machine.set_next_leap(None);
    machine.set_wall(0, WALL - SEC);
    machine.run_until(12 * SEC);
    assert_eq!(behind.fired_at(), [WALL + 10 * SEC + SEC / 2]);
}

/// TIM-6, B47: a relative sleep lasts as long as it was asked to, whatever happens to the time of day. (A relative
/// start on that clock does not compile.)
fn a_relative_sleep_ignores_the_time_of_day<C: Config>() {
    let machine = Machine::<C>::new(1);
    machine.set_wall(0, WALL);
    let timer = TestTimer::once(&machine);
    machine.on(0, || timer.start(Start::after(Span::from_micros(50))));
    machine.set_wall(0, WALL - HOUR);
    machine.run_until(20_000);
    machine.set_wall(0, WALL + HOUR);
    machine.run_until(90_000);
    assert_eq!(timer.fired_at(), [50_000]);
}

/// OBJ-17: a relative start on a clock that jumped counts from what the clock shows, not from the copy of the base.
fn a_relative_start_behind_a_jump_uses_the_new_time<C: Config>() {
    let machine = Machine::<C>::new(1);
    machine.set_wall(0, WALL);
    machine.publish_wall(WALL + HOUR);
    let timer = TestTimer::<C, Tai>::once_on(&machine);
    machine.on(0, || timer.start(Start::after(Span::from_micros(5))));
    assert_eq!(timer.deadline(), Some(WALL + HOUR + 37 * SEC + 5_000));
    machine.on(0, || machine.timers().clock_was_set(ClockSet::WALL));
    machine.run_until(9_000);
    assert_eq!(timer.fired_at(), [WALL + HOUR + 37 * SEC + 5_000]);
}

/// TIM-8: the hard and the soft queue of a clock have the same copy of its offset.
fn both_stages_see_the_same_offset<C: Config>() {
    let machine = Machine::<C>::new(1);
    for wall in [WALL, -SEC, 0] {
        machine.set_wall(0, wall);
        let dump = machine.dump();
        let offsets: Vec<_> = dump
            .lines()
            .filter_map(|line| line.strip_prefix("  .offset:     "))
            .map(|rest| {
                rest.trim_end_matches(" nsecs")
                    .parse::<i64>()
                    .expect("signed")
            })
            .collect();
        assert_eq!(offsets.len(), 8);
        assert_eq!(offsets[..4], offsets[4..]);
        assert_eq!(offsets[Clock::Realtime as usize], wall);
        assert_eq!(offsets[Clock::Tai as usize], wall + 37 * SEC);
        assert_eq!(offsets[Clock::Monotonic as usize], 0);
    }
}

/// B50, TIM-2: at the far end of the representable time nothing wraps.
fn a_time_of_day_near_the_end_does_not_wrap<C: Config>() {
    let machine = Machine::<C>::new(1);
    let latest = Instant::<Realtime>::LATEST.as_nanos();
    machine.set_wall(0, latest - HOUR);
    let (tai, real) = (
        TestTimer::<C, Tai>::once_on(&machine),
        TestTimer::<C, Realtime>::once_on(&machine),
    );
    machine.on(0, || {
        tai.start(Start::after(Span::MAX));
        real.start(Start::at(Instant::FOREVER).slack(Span::MAX));
    });
    machine.check();
    machine.run_until(SEC);
    assert!(tai.is_queued() && real.is_queued());
    machine.set_wall(0, i64::MAX);
    machine.check();
    machine.set_wall(0, i64::MIN + 37 * SEC);
    machine.check();
}

all_configs!(
    a_step_forward_kicks_the_cpu_whose_timer_became_due,
    the_cpu_that_sets_the_clock_is_reprogrammed_too,
    a_step_backwards_costs_one_interrupt,
    only_timers_of_clocks_that_jumped_matter,
    a_jump_that_was_seen_is_not_told_again,
    a_jump_that_only_the_soft_stage_saw_is_told,
    a_cpu_that_owes_a_rearm_is_not_kicked,
    a_jump_during_the_handler_is_found_by_its_end,
    a_step_forward_brings_the_soft_stage_forward,
    a_kick_writes_the_device_in_any_case,
    a_leap_second_makes_nobody_early,
    a_relative_sleep_ignores_the_time_of_day,
    a_relative_start_behind_a_jump_uses_the_new_time,
    both_stages_see_the_same_offset,
    a_time_of_day_near_the_end_does_not_wrap,
);
