//! Cases about clocks that jump (spec ).

use alloc::rc::Rc;
use core::cell::RefCell;

use tickless_core::clock::ClockSet;
use tickless_core::hrtimer::{Restart, Setup, Stage, Start};
use tickless_core::platform::CpuId;
use tickless_core::time::{Boottime, Clock, ClockId, Instant, Monotonic, Realtime, Span, Tai};

use crate::prelude::*;
use crate::suite::{at, at_on, kicks};
use crate::{Host, Rig, TestTimer};

const WALL: i64 = 1_700_000_000_000_000_000;
const SEC: i64 = 1_000_000_000;
const HOUR: i64 = 3_600 * SEC;

fn at_wall(nanos: i64) -> Start<Realtime> {
    at_on(WALL + nanos)
}

/// Makes a rig whose time of day is [`WALL`].
fn on_wall<H: Host>(cpus: u32) -> Rig<H> {
    let rig = Rig::<H>::new(cpus);
    rig.set_wall(0, WALL);
    rig
}

/// TIM-30, TIM-31: a step forward kicks an idle CPU whose timer became due, and the timer fires at once.
pub fn a_step_forward_kicks_the_cpu_whose_timer_became_due<H: Host>() {
    let rig = on_wall::<H>(3);
    let timer = TestTimer::<H, Realtime>::once_on(&rig);
    rig.on(1, || timer.start(at_wall(HOUR / 2)));
    rig.take_trace();
    rig.set_wall(0, WALL + HOUR);
    assert_eq!(kicks(&rig.take_trace()), [1], "and no other");
    assert!(rig.is_kicked(1) && !rig.is_kicked(2));
    rig.deliver_all();
    rig.run_until(1_000);
    assert_eq!(timer.fired_at().len(), 1);
    assert!(timer.fired_at()[0] >= WALL + HOUR / 2);
}

/// TIM-30 step 4, B66: the device of the CPU that sets the clock is programmed again, too.
pub fn the_cpu_that_sets_the_clock_is_reprogrammed_too<H: Host>() {
    let rig = on_wall::<H>(2);
    let timer = TestTimer::<H, Realtime>::once_on(&rig);
    rig.on(1, || timer.start(at_wall(HOUR)));
    rig.set_wall(1, WALL + HOUR - 5_000);
    assert_eq!(rig.fires_at(1), Some(5_000));
    assert_eq!(rig.armed(1), Instant::from_nanos(5_000));
    rig.run_until(9_000);
    assert_eq!(timer.fired_at(), [WALL + HOUR]);
}

/// TIM-32: a step backwards kicks no CPU. The device fires once without a due timer, and that interrupt arms it
/// exactly.
pub fn a_step_backwards_costs_one_interrupt<H: Host>() {
    let rig = on_wall::<H>(2);
    let timer = TestTimer::<H, Realtime>::once_on(&rig);
    rig.on(1, || timer.start(at_wall(5_000)));
    rig.take_trace();
    rig.set_wall(0, WALL - 4_000);
    assert_eq!(kicks(&rig.take_trace()), []);
    assert_eq!(rig.fires_at(1), Some(5_000));
    rig.run_until(20_000);
    assert_eq!(timer.fired_at(), [WALL + 5_000]);
    assert_eq!(rig.stats(1).spurious, 1);
    assert_eq!(rig.stats(1).interrupts, 2);
}

/// TIM-30 step 3: a CPU without timers on a clock that jumped, or with an earlier event armed, is not kicked.
pub fn only_timers_of_clocks_that_jumped_matter<H: Host>() {
    let rig = on_wall::<H>(4);
    let mono = TestTimer::once(&rig);
    let boot = TestTimer::<H, Boottime>::once_on(&rig);
    let (real, tai) = (
        TestTimer::<H, Realtime>::once_on(&rig),
        TestTimer::<H, Tai>::once_on(&rig),
    );
    rig.on(1, || mono.start(at(HOUR)));
    rig.on(2, || boot.start(at_on(HOUR)));
    rig.on(3, || {
        tai.start(at_on(WALL + 37 * SEC + HOUR));
        real.start(at_wall(2 * HOUR));
    });
    rig.take_trace();
    rig.set_wall(0, WALL + SEC);
    assert_eq!(kicks(&rig.take_trace()), [3]);
    rig.deliver_all();
    rig.on(3, || mono.start(at(5_000)));
    assert_eq!(mono.cpu(), Some(3));
    rig.set_wall(0, WALL + 2 * SEC);
    assert_eq!(kicks(&rig.take_trace()), [], "an earlier event is armed");
    rig.check();
}

/// TIM-30 step 1: a CPU that has already taken the jump into account is not kicked again.
pub fn a_jump_that_was_seen_is_not_told_again<H: Host>() {
    let rig = on_wall::<H>(2);
    let (real, mono) = (
        TestTimer::<H, Realtime>::once_on(&rig),
        TestTimer::once(&rig),
    );
    rig.on(1, || {
        real.start(at_wall(HOUR));
        mono.start(at(1_000));
    });
    rig.publish_wall(WALL + HOUR - 50_000);
    // The interrupt reads the clocks and evaluates.
    rig.run_until(1_000);
    assert_eq!(rig.fires_at(1), Some(50_000));
    rig.take_trace();
    rig.on(0, || rig.timers().clock_was_set(ClockSet::WALL));
    rig.on(0, || rig.timers().clock_was_set(ClockSet::WALL));
    assert_eq!(kicks(&rig.take_trace()), []);
}

/// TIM-30 step 1: fresh copies of the offsets do not prove that a CPU has taken a jump into account, because the soft
/// stage copies the offsets too, and checks only its own queues.
pub fn a_jump_that_only_the_soft_stage_saw_is_told<H: Host>() {
    let rig = on_wall::<H>(2);
    let real = TestTimer::<H, Realtime>::once_on(&rig);
    let soft = TestTimer::with_setup(&rig, Setup::new().stage(Stage::Soft), |_| Restart::No);
    rig.on(1, || {
        real.start(at_wall(HOUR));
        soft.start(at(1_000));
    });
    rig.spend(1_000);
    let _turn = rig.enter_interrupt(1);
    rig.publish_wall(WALL + HOUR - 50_000);
    rig.leave_interrupt(1);
    assert_eq!(soft.fired_at(), [1_000]);
    rig.on(0, || rig.timers().clock_was_set(ClockSet::WALL));
    rig.deliver_all();
    rig.check();
    assert_eq!(rig.fires_at(1), Some(50_000));
    rig.run_until(60_000);
    assert_eq!(real.fired_at(), [WALL + HOUR]);
}

/// TIM-30 step 2, X-14.3: a CPU that owes a rearm is notified by a mark, not by a kick.
pub fn a_cpu_that_owes_a_rearm_is_not_kicked<H: Host>() {
    let rig = on_wall::<H>(2);
    let real = TestTimer::<H, Realtime>::once_on(&rig);
    let mono = TestTimer::once(&rig);
    rig.on(1, || {
        real.start(at_wall(HOUR));
        mono.start(at(1_000));
    });
    rig.spend(1_000);
    let _turn = rig.enter_interrupt(1);
    rig.take_trace();
    rig.set_wall(0, WALL + HOUR - 50_000);
    let kicked = kicks(&rig.take_trace());
    assert_eq!(kicked.is_empty(), Rig::<H>::DEFERRED_REARM);
    rig.leave_interrupt(1);
    rig.deliver_all();
    assert_eq!(rig.fires_at(1), Some(50_000));
    rig.run_until(60_000);
    assert_eq!(real.fired_at(), [WALL + HOUR]);
}

/// TIM-36: a jump during the handler of the CPU is seen by the running pass if the pass has not reached the queue yet,
/// and otherwise by the next pass.
pub fn a_jump_during_the_handler_is_found_by_its_end<H: Host>() {
    jump_in_the_callback_of::<H, Monotonic>(0, 1);
    jump_in_the_callback_of::<H, Tai>(37 * SEC + WALL, 2);
}

/// Sets the clock in a callback on clock `T`. A pass handles the queues in the order of their clocks: monotonic, time
/// of day, and two more.
fn jump_in_the_callback_of<H: Host, T: ClockId>(offset: i64, passes: u64) {
    let rig = on_wall::<H>(2);
    let real = TestTimer::<H, Realtime>::once_on(&rig);
    let setter = {
        let rig = rig.clone();
        TestTimer::<H, T>::with_setup(&rig.clone(), Setup::new(), move |_| {
            rig.set_wall(1, WALL + HOUR);
            assert!(!rig.is_kicked(0));
            Restart::No
        })
    };
    rig.on(0, || {
        real.start(at_wall(HOUR / 2));
        setter.start(at_on(offset + 1_000));
    });
    rig.run_until(1_000);
    assert_eq!(real.fired_at(), [WALL + HOUR + 1_000]);
    assert_eq!(rig.stats(0).passes, passes);
}

/// TIM-30 step 3 for the soft stage: the time of the soft queue is compared with the time at which the stage would be
/// raised.
pub fn a_step_forward_brings_the_soft_stage_forward<H: Host>() {
    let rig = on_wall::<H>(2);
    let setup = Setup::new().stage(Stage::Soft);
    let soft = TestTimer::<H, Realtime>::with_setup(&rig, setup, |_| Restart::No);
    let hard = TestTimer::once(&rig);
    rig.on(1, || {
        hard.start(at(5_000));
        soft.start(at_wall(HOUR));
    });
    rig.take_trace();
    rig.set_wall(0, WALL + HOUR - 7_000);
    assert_eq!(
        kicks(&rig.take_trace()),
        [1],
        "later than the hard timer, earlier than the stage"
    );
    rig.deliver_all();
    rig.run_until(20_000);
    assert_eq!(soft.fired_at(), [WALL + HOUR]);
    assert_eq!(hard.fired_at(), [5_000]);
}

/// TIM-31, REARM-3: a kick writes the device even if the next event did not change, because the device may have lost
/// the event.
pub fn a_kick_writes_the_device_in_any_case<H: Host>() {
    let rig = Rig::<H>::new(1);
    let timer = TestTimer::once(&rig);
    rig.break_device(0);
    rig.on(0, || timer.start(at(5_000)));
    assert_eq!(rig.fires_at(0), None, "lost");
    rig.on(0, || timer.start(at(5_000)));
    assert_eq!(
        rig.fires_at(0),
        None,
        "a start that changes nothing does not know"
    );
    rig.timers().retrigger(CpuId(0));
    assert_eq!(rig.fires_at(0), Some(5_000));
    rig.run_until(9_000);
    assert_eq!(timer.fired_at(), [5_000]);
}

/// TIM-20, B43: at a leap second that the record does not contain yet, no timer on the time of day is a second early.
pub fn a_leap_second_makes_no_timer_early<H: Host>() {
    let rig = on_wall::<H>(1);
    rig.set_next_leap(Some(Instant::from_nanos(10 * SEC)));
    let before = TestTimer::<H, Realtime>::once_on(&rig);
    let behind = TestTimer::<H, Realtime>::once_on(&rig);
    rig.on(0, || {
        before.start(at_wall(9 * SEC));
        behind.start(at_wall(10 * SEC + SEC / 2));
    });
    rig.run_until(10 * SEC + SEC / 2);
    assert_eq!(before.fired_at(), [WALL + 9 * SEC]);
    assert!(
        behind.fired_at().is_empty(),
        "it is a second before its time again"
    );
    // The record learns of it.
    rig.set_next_leap(None);
    rig.set_wall(0, WALL - SEC);
    rig.run_until(12 * SEC);
    assert_eq!(behind.fired_at(), [WALL + 10 * SEC + SEC / 2]);
}

/// TIM-6, B47: a relative sleep lasts as long as requested, whatever happens to the time of day. (A relative start on
/// that clock does not compile.)
pub fn a_relative_sleep_ignores_the_time_of_day<H: Host>() {
    let rig = on_wall::<H>(1);
    let timer = TestTimer::once(&rig);
    rig.on(0, || timer.start(Start::after(Span::from_micros(50))));
    rig.set_wall(0, WALL - HOUR);
    rig.run_until(20_000);
    rig.set_wall(0, WALL + HOUR);
    rig.run_until(90_000);
    assert_eq!(timer.fired_at(), [50_000]);
}

/// OBJ-17: a relative start on a clock that jumped counts from the time that the clock shows, not from the copy in the
/// base.
pub fn a_relative_start_behind_a_jump_uses_the_new_time<H: Host>() {
    let rig = on_wall::<H>(1);
    rig.publish_wall(WALL + HOUR);
    let timer = TestTimer::<H, Tai>::once_on(&rig);
    rig.on(0, || timer.start(Start::after(Span::from_micros(5))));
    assert_eq!(timer.deadline(), Some(WALL + HOUR + 37 * SEC + 5_000));
    rig.on(0, || rig.timers().clock_was_set(ClockSet::WALL));
    rig.run_until(9_000);
    assert_eq!(timer.fired_at(), [WALL + HOUR + 37 * SEC + 5_000]);
}

/// TIM-8: the hard and the soft queue of a clock have the same copy of its offset.
pub fn both_stages_see_the_same_offset<H: Host>() {
    let rig = Rig::<H>::new(1);
    for wall in [WALL, -SEC, 0] {
        rig.set_wall(0, wall);
        let dump = rig.dump();
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

/// B50, TIM-2: at the end of the representable time no value wraps.
pub fn a_time_of_day_near_the_end_does_not_wrap<H: Host>() {
    let rig = Rig::<H>::new(1);
    let latest = Instant::<Realtime>::LATEST.as_nanos();
    rig.set_wall(0, latest - HOUR);
    let (tai, real) = (
        TestTimer::<H, Tai>::once_on(&rig),
        TestTimer::<H, Realtime>::once_on(&rig),
    );
    rig.on(0, || {
        tai.start(Start::after(Span::MAX));
        real.start(Start::at(Instant::FOREVER).slack(Span::MAX));
    });
    rig.check();
    rig.run_until(SEC);
    assert!(tai.is_queued() && real.is_queued());
    rig.set_wall(0, i64::MAX);
    rig.check();
    rig.set_wall(0, i64::MIN + 37 * SEC);
    rig.check();
}

/// The firings of a timer: true for a firing that a clock set caused, with the deadline at that time.
type Notes = Rc<RefCell<Vec<(bool, i64)>>>;

/// Makes a timer that fires when its clock is set, and notes the reason and the deadline of each firing; after a clock
/// set it restarts for the same deadline.
fn asking<H: Host, T: ClockId>(rig: &Rig<H>, setup: Setup) -> (TestTimer<H, T>, Notes) {
    let told = Rc::new(RefCell::new(Vec::new()));
    let notes = Rc::clone(&told);
    let timer = TestTimer::with_setup(rig, setup.fire_on_clock_set(), move |expired| {
        let (clock_was_set, deadline) = (expired.clock_was_set(), expired.deadline());
        notes
            .borrow_mut()
            .push((clock_was_set, deadline.as_nanos()));
        if clock_was_set && expired.now() < deadline {
            Restart::Yes
        } else {
            Restart::No
        }
    });
    (timer, told)
}

/// TIM-34: a timer that is set up to fire on clock sets fires at each set, forwards, backwards and to the same time,
/// and keeps its deadline. Other timers do not fire.
pub fn a_timer_that_asks_is_told_of_each_set<H: Host>() {
    for setup in [Setup::new(), Setup::new().stage(Stage::Soft)] {
        let rig = on_wall::<H>(2);
        let (real, told) = asking::<H, Realtime>(&rig, setup);
        let (mono, never) = asking::<H, Monotonic>(&rig, setup);
        let (first, last) = (
            TestTimer::<H, Realtime>::once_on(&rig),
            TestTimer::<H, Realtime>::once_on(&rig),
        );
        rig.on(1, || {
            first.start(at_wall(HOUR / 2));
            real.start(at_wall(HOUR));
            last.start(at_wall(2 * HOUR));
            mono.start(at(2 * HOUR));
        });
        let mut expected = Vec::new();
        for (round, wall) in (1..).zip([WALL + 5_000, WALL + 5_000, WALL - HOUR, WALL]) {
            rig.set_wall(0, wall);
            rig.check();
            rig.deliver_all();
            rig.run_until(round * 1_000);
            expected.push((true, WALL + HOUR));
            assert_eq!(*told.borrow(), expected, "round {round}");
            rig.check();
        }
        assert!(first.fired_at().is_empty() && first.is_queued() && last.is_queued());
        rig.run_until(2 * HOUR);
        expected.push((false, WALL + HOUR));
        assert_eq!(*told.borrow(), expected);
        assert_eq!(*never.borrow(), [(false, 2 * HOUR)]);
        assert_eq!(first.fired_at(), [WALL + HOUR / 2]);
        let told_of_sets: u64 = (0..2).map(|cpu| rig.stats(cpu).told_of_sets).sum();
        assert_eq!(told_of_sets, 4);
    }
}

/// TIM-34: a CPU that is to notify its timers of a set goes offline first. It hands the timers over, and their new CPU
/// notifies them.
pub fn a_timer_is_told_of_a_set_although_its_cpu_leaves<H: Host>() {
    let rig = on_wall::<H>(2);
    let (real, told) = asking::<H, Realtime>(&rig, Setup::new());
    rig.on(1, || real.start(at_wall(HOUR)));
    rig.set_wall(0, WALL - HOUR);
    rig.offline(1);
    rig.deliver_all();
    rig.run_until(1_000);
    assert_eq!(*told.borrow(), [(true, WALL + HOUR)]);
    rig.check();
}

/// TIM-34: a timer that is queued after cancelled timers is notified of a set; so is a timer that is started for a
/// later time before its CPU handles the set.
pub fn what_happens_to_other_timers_hides_no_set<H: Host>() {
    let rig = on_wall::<H>(2);
    let (real, told) = asking::<H, Realtime>(&rig, Setup::new());
    let (other, of_other) = asking::<H, Realtime>(&rig, Setup::new());
    let plain = TestTimer::<H, Realtime>::once_on(&rig);
    rig.on(1, || {
        other.start(at_wall(HOUR));
        real.start(at_wall(2 * HOUR));
        plain.start(at_wall(HOUR / 2));
    });
    rig.set_wall(0, WALL - HOUR);
    rig.on(1, || {
        plain.cancel();
        other.cancel();
    });
    rig.check();
    rig.deliver_all();
    rig.run_until(1_000);
    assert_eq!(*told.borrow(), [(true, WALL + 2 * HOUR)]);
    assert!(of_other.borrow().is_empty());
    rig.check();
}

/// TIM-34: timers are also notified of a set that the CPU has already taken into account when the host reports the set.
/// An interrupt moves the queues to the new offsets, and notifies no timer.
pub fn a_set_that_was_seen_is_told_to_those_that_ask<H: Host>() {
    let rig = on_wall::<H>(2);
    let (real, told) = asking::<H, Realtime>(&rig, Setup::new());
    let (mono, before) = (
        TestTimer::once(&rig),
        TestTimer::<H, Realtime>::once_on(&rig),
    );
    rig.on(1, || {
        before.start(at_wall(HOUR / 2));
        real.start(at_wall(2 * HOUR));
        mono.start(at(1_000));
    });
    rig.publish_wall(WALL - HOUR);
    rig.run_until(1_000);
    assert!(told.borrow().is_empty());
    rig.on(0, || rig.timers().clock_was_set(ClockSet::WALL));
    rig.check();
    assert!(rig.is_kicked(1));
    rig.deliver_all();
    rig.run_until(2_000);
    assert_eq!(*told.borrow(), [(true, WALL + 2 * HOUR)]);
    rig.check();
}

/// TIM-34: a set moves the clock past the deadline of a timer, and the timer fires by that deadline before the host
/// reports the set. This firing notifies the timer of the set.
pub fn a_timer_that_a_set_made_due_is_told_of_it<H: Host>() {
    let rig = on_wall::<H>(2);
    let (real, told) = asking::<H, Realtime>(&rig, Setup::new());
    let mono = TestTimer::once(&rig);
    rig.on(1, || {
        real.start(at_wall(HOUR));
        mono.start(at(1_000));
    });
    rig.publish_wall(WALL + 2 * HOUR);
    rig.run_until(1_000);
    assert_eq!(*told.borrow(), [(true, WALL + HOUR)]);
    rig.on(0, || rig.timers().clock_was_set(ClockSet::WALL));
    rig.deliver_all();
    rig.on(1, || real.start(at_wall(2 * HOUR + 5_000)));
    rig.run_until(9_000);
    assert_eq!(
        told.borrow()[1..],
        [(false, WALL + 2 * HOUR + 5_000)],
        "told once"
    );
}

/// TIM-34: a timer is notified if its clock is set while its callback executes and the callback restarts it.
pub fn a_timer_is_told_of_a_set_during_its_callback<H: Host>() {
    for setup in [Setup::new(), Setup::new().stage(Stage::Soft)] {
        let rig = on_wall::<H>(2);
        let told = Rc::new(RefCell::new(Vec::new()));
        let (notes, inside) = (Rc::clone(&told), rig.clone());
        let timer =
            TestTimer::<H, Realtime>::with_setup(&rig, setup.fire_on_clock_set(), move |expired| {
                notes.borrow_mut().push(expired.clock_was_set());
                if notes.borrow().len() > 1 {
                    return Restart::No;
                }
                inside.set_wall(1, WALL - HOUR);
                expired.set_deadline(Instant::from_nanos(WALL + HOUR));
                Restart::Yes
            });
        rig.on(1, || timer.start(at_wall(1_000)));
        rig.run_until(2_000);
        rig.deliver_all();
        rig.run_until(3_000);
        assert_eq!(*told.borrow(), [false, true]);
        rig.check();
    }
}

/// TIM-34, Q-24: the next event of a CPU without its first timer is the event of another timer that is to be notified.
pub fn the_next_event_without_a_timer_is_one_to_be_told<H: Host>() {
    let rig = on_wall::<H>(2);
    let (first, _) = asking::<H, Realtime>(&rig, Setup::new());
    let (second, _) = asking::<H, Realtime>(&rig, Setup::new());
    rig.on(1, || {
        first.start(at_wall(HOUR));
        second.start(at_wall(2 * HOUR));
    });
    rig.set_wall(0, WALL - HOUR);
    assert!(first.next_event_without(1) <= 0);
    assert!(second.next_event_without(1) <= 0);
}

/// B50, B52, TIM-3: a clock is set by years, back and forth and to both ends of the range. No timer fires before its
/// time, no value wraps, and each set costs a few interrupts.
pub fn a_clock_set_by_years_makes_no_storm<H: Host>() {
    const YEAR: i64 = 365 * 24 * HOUR;
    let rig = on_wall::<H>(2);
    let real = TestTimer::<H, Realtime>::once_on(&rig);
    let (tai, _told) = asking::<H, Tai>(&rig, Setup::new());
    let mono = TestTimer::once(&rig);
    rig.on(1, || {
        real.start(at_wall(60 * YEAR));
        tai.start(at_on(WALL + 60 * YEAR));
        mono.start(at(SEC));
    });
    let walls = [
        WALL + 30 * YEAR,
        WALL - 30 * YEAR,
        0,
        -30 * YEAR,
        i64::MIN + 37 * SEC,
        WALL + 59 * YEAR,
        i64::MIN + 38 * SEC,
        WALL,
    ];
    for (round, wall) in (1..).zip(walls) {
        rig.set_wall(0, wall);
        rig.deliver_all();
        rig.run_until(round * 1_000);
        rig.check();
        assert!(real.fired_at().is_empty() && mono.fired_at().is_empty());
    }
    let interrupts = rig.stats(1).interrupts;
    assert!(interrupts <= 3 * walls.len() as u64, "{interrupts}");
    rig.set_wall(0, i64::MAX - 100 * SEC);
    rig.deliver_all();
    rig.run_until(20_000);
    assert_eq!(real.fired_at().len(), 1);
    assert!(real.fired_at()[0] >= WALL + 60 * YEAR);
    rig.run_until(2 * SEC);
    assert_eq!(mono.fired_at(), [SEC]);
    rig.check();
}

/// B41, T3: a periodic timer that was not served for ten minutes, because its process was stopped, fires once and
/// reports how many periods it missed.
pub fn ten_minutes_without_a_turn_cost_one_expiry<H: Host>() {
    const TEN_MINUTES: i64 = 600 * SEC;
    let rig = on_wall::<H>(1);
    let missed = Rc::new(RefCell::new(Vec::new()));
    let notes = Rc::clone(&missed);
    let timer = TestTimer::<H, Realtime>::with_setup(&rig, Setup::new(), move |expired| {
        let now = expired.now();
        let passed = expired.forward(now, Span::from_millis(1));
        notes.borrow_mut().push(passed);
        Restart::Yes
    });
    rig.on(0, || timer.start(at_wall(1_000_000)));
    rig.set_masked(0, true);
    rig.spend(TEN_MINUTES);
    rig.set_masked(0, false);
    rig.run_until(TEN_MINUTES + 2_500_000);
    assert_eq!(missed.borrow()[0], 600_000);
    assert_eq!(missed.borrow()[1..], [1, 1]);
    assert!(rig.stats(0).interrupts <= 4);
    rig.check();
}

crate::kit::cases!(clocks:
    a_step_forward_kicks_the_cpu_whose_timer_became_due [CPUS, CLOCKS, TRACE],
    the_cpu_that_sets_the_clock_is_reprogrammed_too [CPUS, CLOCKS],
    a_step_backwards_costs_one_interrupt [CPUS, CLOCKS, TRACE],
    only_timers_of_clocks_that_jumped_matter [CPUS, CLOCKS, TRACE],
    a_jump_that_was_seen_is_not_told_again [CPUS, CLOCKS, TRACE],
    a_jump_that_only_the_soft_stage_saw_is_told [CPUS, SOFT, PATHS, CLOCKS],
    a_cpu_that_owes_a_rearm_is_not_kicked [CPUS, PATHS, CLOCKS, TRACE],
    a_jump_during_the_handler_is_found_by_its_end [CPUS, CLOCKS],
    a_step_forward_brings_the_soft_stage_forward [CPUS, SOFT, CLOCKS, TRACE],
    a_kick_writes_the_device_in_any_case [DEVICES],
    a_leap_second_makes_no_timer_early [CLOCKS],
    a_relative_sleep_ignores_the_time_of_day [CLOCKS],
    a_relative_start_behind_a_jump_uses_the_new_time [CLOCKS],
    both_stages_see_the_same_offset [CLOCKS],
    a_time_of_day_near_the_end_does_not_wrap [CLOCKS],
    a_timer_that_asks_is_told_of_each_set [CPUS, SOFT, CLOCKS],
    a_timer_is_told_of_a_set_although_its_cpu_leaves [CPUS, CLOCKS],
    what_happens_to_other_timers_hides_no_set [CPUS, CLOCKS],
    a_set_that_was_seen_is_told_to_those_that_ask [CPUS, CLOCKS],
    a_timer_that_a_set_made_due_is_told_of_it [CPUS, CLOCKS],
    a_timer_is_told_of_a_set_during_its_callback [CPUS, SOFT, CLOCKS],
    the_next_event_without_a_timer_is_one_to_be_told [CPUS, CLOCKS],
    a_clock_set_by_years_makes_no_storm [CPUS, CLOCKS],
    ten_minutes_without_a_turn_cost_one_expiry [CLOCKS],
);
