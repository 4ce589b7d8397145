//! Tests of each part of the tick alone; the simulator's machine tests the parts together.

use std::boxed::Box;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::vec;
use std::vec::Vec;

use proptest::prelude::*;
use tickless_link::lock::{SoloLock, SpinLock, Watcher};

use super::count::SeenCounts;
use super::cpu::{Context, CpuTick, Mode, Role, skew};
use super::{
    Broadcast, BroadcastExit, Busy, Carrier, CpuMask, Dependencies, Dependency, Duty, Entered,
    IdleTime, STALL_TICKS, Scope, TickCount, first_dependency,
};
use crate::cpu::CpuId;
use crate::slots::geometry::Tick;
use crate::time::{Instant, Span};

const PERIOD: Span = Span::from_millis(1);
const MS: i64 = 1_000_000;

fn at(nanos: i64) -> Instant {
    Instant::from_nanos(nanos)
}

fn new_count() -> TickCount<SpinLock> {
    TickCount::new(PERIOD, at(0))
}

/// Returns the count, and the begin of its tick in nanoseconds.
fn pair(count: &TickCount<impl tickless_link::lock::RawLock>) -> (u64, i64) {
    let now = count.now();
    (now.tick.0, now.began.as_nanos())
}

#[test]
fn whole_periods_are_counted_at_once() {
    let count = new_count();
    assert_eq!(count.update(at(MS - 1)), 0);
    assert_eq!(count.update(at(MS)), 1);
    assert_eq!(pair(&count), (1, MS));
    assert_eq!(count.update(at(12 * MS + 7)), 11);
    assert_eq!(pair(&count), (12, 12 * MS));
    // An old look at the clock.
    assert_eq!(count.update(at(3 * MS)), 0);
    assert_eq!(pair(&count), (12, 12 * MS));
}

/// R45: the count is usable from the beginning, without a time in which it does not advance because its construction is
/// not complete.
#[test]
fn r45_a_count_is_complete_from_the_beginning() {
    let count = TickCount::<SpinLock>::new(PERIOD, at(5 * MS + 3));
    assert_eq!(pair(&count), (0, 5 * MS + 3));
    assert_eq!(count.update(at(0)), 0);
    assert_eq!(count.update(at(6 * MS + 3)), 1);
    assert_eq!(pair(&count), (1, 6 * MS + 3));
}

#[test]
#[should_panic(expected = "a tick takes time")]
fn a_period_of_nothing_is_refused() {
    let _count = TickCount::<SpinLock>::new(Span::ZERO, at(0));
}

#[test]
fn the_first_cpu_that_ticks_counts_and_others_do_not() {
    let count = new_count();
    let mut watches = [SeenCounts::default(); 2];
    assert_eq!(count.duty(), Duty::Free { last: None });
    // All may go idle before the first tick, and one has to look at the clock (TIM-21).
    assert!(count.duty().concerns(CpuId(0)) && count.duty().concerns(CpuId(7)));
    assert_eq!(count.tick(CpuId(1), at(MS), true, &mut watches[1]), 1);
    assert_eq!(count.duty(), Duty::Taken { by: CpuId(1) });
    assert_eq!(count.tick(CpuId(0), at(2 * MS), true, &mut watches[0]), 0);
    assert!(!count.give_up(CpuId(0)));
    assert!(count.give_up(CpuId(1)));
    let free = count.duty();
    assert!(free.concerns(CpuId(1)) && !free.concerns(CpuId(0)));
    assert_eq!(count.tick(CpuId(2), at(2 * MS), false, &mut watches[0]), 0);
    assert_eq!(count.tick(CpuId(0), at(2 * MS), true, &mut watches[0]), 1);
    assert!(!count.duty().concerns(CpuId(1)));
}

#[test]
fn a_cpu_that_leaves_hands_on_that_one_wakes_up_for_the_clock() {
    let count = new_count();
    assert!(!count.bequeath(CpuId(0), CpuId(1)));
    count.tick(CpuId(0), at(MS), true, &mut SeenCounts::default());
    assert!(count.bequeath(CpuId(0), CpuId(1)));
    assert_eq!(
        count.duty(),
        Duty::Free {
            last: Some(CpuId(1))
        }
    );
    assert!(count.bequeath(CpuId(1), CpuId(2)));
    assert!(count.duty().concerns(CpuId(2)));
}

/// R34: the CPU with the duty does not count.
#[test]
fn r34_a_stalled_count_is_rescued_at_the_fifth_sight_and_from_then_on() {
    let count = new_count();
    let (mut holder, mut watch) = (SeenCounts::default(), SeenCounts::default());
    count.tick(CpuId(0), at(MS), true, &mut holder);
    let counted: Vec<u64> = (1..=8)
        .map(|tick| count.tick(CpuId(1), at((1 + tick) * MS), true, &mut watch))
        .collect();
    let before = usize::try_from(STALL_TICKS).unwrap() - 1;
    assert_eq!(counted, [0, 0, 0, 0, 5, 1, 1, 1]);
    assert_eq!(
        counted.iter().take_while(|ticks| **ticks == 0).count(),
        before
    );
    assert_eq!(pair(&count), (9, 9 * MS));
    // He is back.
    count.tick(CpuId(0), at(10 * MS), true, &mut holder);
    assert_eq!(count.tick(CpuId(1), at(11 * MS), true, &mut watch), 0);
}

type Hook = Box<dyn FnOnce()>;

std::thread_local! {
    static COMING: Cell<u32> = const { Cell::new(0) };
    static HOOK: RefCell<Option<Hook>> = const { RefCell::new(None) };
}

/// Counts the CPUs that take the lock, and lets other CPUs run in between.
#[derive(Debug, Default)]
struct Arrivals;

impl Watcher for Arrivals {
    fn comes(&self) {
        COMING.set(COMING.get() + 1);
        let hook = HOOK.take();
        if let Some(hook) = hook {
            hook();
        }
    }
}

/// R41: all CPUs notice the stall before the first of them has taken the lock.
#[test]
fn r41_of_all_that_notice_a_stall_one_comes_for_the_lock() {
    const CPUS: u32 = 100;
    let count = Rc::new(TickCount::<SoloLock<Arrivals>>::new(PERIOD, at(0)));
    count.tick(CpuId(CPUS), at(MS), true, &mut SeenCounts::default());
    let mut watches: Vec<SeenCounts> = (0..CPUS).map(|_| SeenCounts::default()).collect();
    for tick in 1..i64::from(STALL_TICKS) {
        for (cpu, watch) in (0..).zip(&mut watches) {
            assert_eq!(count.tick(CpuId(cpu), at((tick + 1) * MS), true, watch), 0);
        }
    }
    COMING.set(0);
    let mut first = watches.remove(0);
    let others = Rc::clone(&count);
    HOOK.set(Some(Box::new(move || {
        for (cpu, mut watch) in (1..).zip(watches) {
            others.tick(CpuId(cpu), at(6 * MS), true, &mut watch);
        }
    })));
    assert_eq!(count.tick(CpuId(0), at(6 * MS), true, &mut first), 5);
    assert_eq!(COMING.get(), 1);
    assert_eq!(pair(&count), (6, 6 * MS));
}

fn ticking(due: i64) -> CpuTick {
    let mut tick = CpuTick::new(CpuId(0), Role::Housekeeping);
    tick.context = Context::Task;
    tick.mode = Mode::Ticking { due: at(due) };
    tick
}

#[test]
fn a_tick_that_is_late_says_what_it_left_out() {
    let mut tick = ticking(MS);
    assert_eq!(tick.fired(at(MS + 10), PERIOD), (Some(at(2 * MS)), 0));
    assert_eq!(tick.fired(at(5 * MS + 10), PERIOD), (Some(at(6 * MS)), 3));
}

#[test]
fn a_tick_goes_on_in_the_phase_that_it_had() {
    let mut tick = ticking(MS + 250);
    assert_eq!(tick.resume(at(0), PERIOD), None, "it runs");
    assert_eq!(tick.stop(at(50 * MS)), Some(at(50 * MS)));
    assert_eq!(tick.resume(at(33 * MS), PERIOD), Some(at(33 * MS + 250)));
    assert_eq!(tick.stop(Instant::FOREVER), Some(Instant::FOREVER));
    assert_eq!(
        tick.resume(at(40 * MS + 250), PERIOD),
        Some(at(41 * MS + 250))
    );
    // Before the tick that it left out has come.
    assert_eq!(tick.stop(at(50 * MS)), Some(at(50 * MS)));
    assert_eq!(
        tick.resume(at(40 * MS + 900), PERIOD),
        Some(at(41 * MS + 250))
    );
}

/// R36: after the timer of the tick fired, it is programmed again even for the same time.
#[test]
fn r36_what_fired_or_went_on_is_programmed_again() {
    let mut tick = ticking(MS);
    assert_eq!(tick.stop(at(9 * MS)), Some(at(9 * MS)));
    assert_eq!(tick.stop(at(9 * MS)), None, "it stands right");
    assert_eq!(tick.fired(at(8 * MS), PERIOD), (None, 0));
    assert_eq!(tick.next(), None);
    assert_eq!(tick.stop(at(9 * MS)), Some(at(9 * MS)));
    tick.resume(at(8 * MS), PERIOD);
    assert_eq!(tick.stop(at(9 * MS)), Some(at(9 * MS)));
}

proptest! {
    /// Spec C-7.5: the phase is kept for any phase and any length of the sleep.
    #[test]
    fn the_phase_is_kept_for_ever(phase in 0..MS, ends in proptest::collection::vec(0_i64..1 << 50, 1..20)) {
        let mut tick = ticking(phase);
        let mut now = 0;
        for end in ends {
            tick.stop(Instant::FOREVER);
            now += end;
            let due = tick.resume(at(now), PERIOD).unwrap().as_nanos();
            prop_assert!(due > now && due - now <= MS);
            prop_assert_eq!(due.rem_euclid(MS), phase);
        }
    }
}

#[test]
fn ticks_are_spread_over_half_a_period() {
    let skews = [0, 1, 3].map(|cpu| skew(CpuId(cpu), 4, PERIOD).as_nanos());
    assert_eq!(skews, [0, 125_000, 375_000]);
    assert_eq!(skew(CpuId(0), 0, PERIOD), Span::ZERO);
}

/// B14: an empty set was treated as a dependency.
#[test]
fn b14_nothing_is_no_dependency() {
    let scopes: [Dependencies; 4] = core::array::from_fn(|_| Dependencies::new());
    let first = || first_dependency(&scopes[0], &scopes[1], &scopes[2], &scopes[3]);
    assert_eq!(first(), None);
    assert!(scopes[3].set(Dependency::CpuTimers), "kick");
    assert!(!scopes[3].set(Dependency::PerfEvents), "they look already");
    assert_eq!(first(), Some((Scope::Process, Dependency::CpuTimers)));
    assert!(scopes[1].set(Dependency::GracePeriod));
    assert_eq!(first(), Some((Scope::Cpu, Dependency::GracePeriod)));
    scopes[1].clear(Dependency::GracePeriod);
    scopes[3].clear(Dependency::CpuTimers);
    assert_eq!(first(), Some((Scope::Process, Dependency::PerfEvents)));
    scopes[3].clear(Dependency::PerfEvents);
    assert_eq!(first(), None);
}

/// R43: the clock of a reader is ahead of the clock reading with which the CPU wakes.
#[test]
fn r43_idle_time_does_not_go_back() {
    let (account, mut writer) = IdleTime::new();
    assert_eq!(account.read(at(10)), Span::ZERO);
    account.enter(&mut writer, at(50));
    account.enter(&mut writer, at(60));
    assert_eq!(account.read(at(40)), Span::ZERO, "an old clock");
    assert_eq!(account.read(at(95)).as_nanos(), 45);
    account.exit(&mut writer, at(90));
    account.exit(&mut writer, at(99));
    assert_eq!(account.read(at(99)).as_nanos(), 45);
    account.enter(&mut writer, at(100));
    assert_eq!(account.read(at(104)).as_nanos(), 45);
    assert_eq!(account.read(at(110)).as_nanos(), 50);
}

#[test]
fn masks_have_as_many_words_as_the_host_says() {
    let mut mask: CpuMask<3> = [191, 0, 64, 63].map(CpuId).into_iter().collect();
    assert_eq!(
        mask.iter().map(|cpu| cpu.0).collect::<Vec<_>>(),
        [0, 63, 64, 191]
    );
    assert!(!mask.insert(CpuId(64)) && mask.remove(CpuId(64)) && !mask.remove(CpuId(64)));
    assert!(mask.contains(CpuId(191)) && !mask.contains(CpuId(64)));
    assert!(!mask.is_empty() && mask.and(&CpuMask::NONE).is_empty());
    assert_eq!(mask.or(&CpuMask::ALL), CpuMask::ALL);
}

#[test]
#[should_panic(expected = "a word for every CPU")]
fn a_cpu_beyond_the_mask_is_refused() {
    let _ = CpuMask::<1>::NONE.contains(CpuId(64));
}

type Sleepers = Broadcast<SpinLock, 2>;

fn sleepers(carrier: Carrier) -> Sleepers {
    let broadcast = Sleepers::new();
    for cpu in [0, 1, 2, 70, 71] {
        broadcast.online(CpuId(cpu), cpu == 71);
    }
    assert_eq!(broadcast.enter(CpuId(1), at(50)), Err(Busy::NoCarrier));
    let programs = broadcast.set_carrier(CpuId(0), carrier, at(0));
    assert!(programs.is_forever());
    broadcast
}

fn woken(broadcast: &Sleepers, cpu: u32, now: i64) -> (Vec<u32>, bool, Option<i64>) {
    let delivery = broadcast.handle(CpuId(cpu), at(now));
    let program = (!delivery.program.is_forever()).then(|| delivery.program.as_nanos());
    let wake = delivery.wake.iter().map(|cpu| cpu.0).collect();
    (wake, delivery.own, program)
}

#[test]
fn the_broadcast_device_fires_for_the_earliest_and_then_for_the_next() {
    let broadcast = sleepers(Carrier::Oneshot);
    assert_eq!(
        broadcast.enter(CpuId(1), at(50)),
        Ok(Entered::Program(at(50)))
    );
    assert_eq!(broadcast.enter(CpuId(2), at(50)), Ok(Entered::Covered));
    assert_eq!(
        broadcast.enter(CpuId(70), at(30)),
        Ok(Entered::Program(at(30)))
    );
    assert_eq!(
        broadcast.enter(CpuId(71), at(10)),
        Ok(Entered::OwnWakeup(at(10)))
    );
    assert!(broadcast.interrupt(CpuId(70)) && !broadcast.interrupt(CpuId(71)));
    assert_eq!(woken(&broadcast, 0, 30), (vec![70], false, Some(50)));
    assert_eq!(broadcast.exit(CpuId(70), at(31)), BroadcastExit::SwitchOn);
    // The CPU that handles it may be one of those that are due.
    assert_eq!(woken(&broadcast, 2, 50), (vec![1], true, None));
    assert_eq!(broadcast.exit(CpuId(2), at(50)), BroadcastExit::SwitchOn);
    assert_eq!(broadcast.exit(CpuId(1), at(50)), BroadcastExit::SwitchOn);
    assert_eq!(broadcast.exit(CpuId(1), at(50)), BroadcastExit::WasAwake);
    assert!(broadcast.next().is_forever());
}

#[test]
fn who_comes_back_early_programs_its_own_device() {
    let broadcast = sleepers(Carrier::Oneshot);
    assert_eq!(
        broadcast.enter(CpuId(1), at(50)),
        Ok(Entered::Program(at(50)))
    );
    assert_eq!(broadcast.exit(CpuId(1), at(49)), BroadcastExit::Program);
    assert_eq!(woken(&broadcast, 0, 50), (vec![], false, None));
    let never = broadcast.enter(CpuId(1), Instant::FOREVER);
    assert_eq!(never, Ok(Entered::Covered));
    assert_eq!(broadcast.exit(CpuId(1), at(90)), BroadcastExit::SwitchOn);
}

/// A CPU wakes for another reason after its event has passed, and before the broadcast handler has run.
#[test]
fn who_comes_back_late_is_sent_its_interrupt_all_the_same() {
    let broadcast = sleepers(Carrier::Oneshot);
    assert_eq!(
        broadcast.enter(CpuId(1), at(50)),
        Ok(Entered::Program(at(50)))
    );
    assert_eq!(broadcast.exit(CpuId(1), at(51)), BroadcastExit::SwitchOn);
    // It would wake up at once.
    assert_eq!(broadcast.enter(CpuId(1), at(80)), Err(Busy::Forced));
    assert!(!broadcast.interrupt(CpuId(1)), "its device goes on");
    assert_eq!(woken(&broadcast, 0, 52), (vec![1], false, None));
    assert_eq!(
        broadcast.enter(CpuId(1), at(80)),
        Ok(Entered::Program(at(80)))
    );
}

#[test]
fn a_timer_that_acts_as_the_device_keeps_its_cpu_awake() {
    let broadcast = sleepers(Carrier::Software);
    assert_eq!(broadcast.enter(CpuId(0), at(50)), Err(Busy::Carries));
    assert_eq!(
        broadcast.enter(CpuId(1), at(50)),
        Err(Busy::TakesOver(at(50)))
    );
    assert!(!broadcast.interrupt(CpuId(1)));
    assert_eq!(broadcast.enter(CpuId(0), at(60)), Ok(Entered::Covered));
    assert_eq!(
        broadcast.enter(CpuId(2), at(40)),
        Err(Busy::TakesOver(at(40)))
    );
    assert_eq!(woken(&broadcast, 2, 40), (vec![], false, Some(60)));
    assert_eq!(broadcast.offline(CpuId(2), CpuId(1)), Some(at(60)));
    assert_eq!(broadcast.offline(CpuId(70), CpuId(1)), None);
    assert_eq!(broadcast.enter(CpuId(1), at(99)), Err(Busy::Carries));
    assert_eq!(woken(&broadcast, 1, 60), (vec![0], false, None));
}

#[test]
fn a_cpu_that_left_is_not_woken_and_the_device_goes_on() {
    let broadcast = sleepers(Carrier::Oneshot);
    assert_eq!(
        broadcast.enter(CpuId(1), at(50)),
        Ok(Entered::Program(at(50)))
    );
    assert_eq!(broadcast.enter(CpuId(2), at(60)), Ok(Entered::Covered));
    assert_eq!(broadcast.offline(CpuId(1), CpuId(0)), None);
    assert_eq!(woken(&broadcast, 0, 50), (vec![], false, Some(60)));
    assert_eq!(woken(&broadcast, 0, 60), (vec![2], false, None));
}

#[test]
fn who_waits_for_a_period_sleeps_until_it_when_the_device_changes_its_mode() {
    let broadcast = sleepers(Carrier::Periodic(Span::from_nanos(100)));
    assert_eq!(broadcast.enter(CpuId(1), at(5_000)), Ok(Entered::Covered));
    assert_eq!(broadcast.enter(CpuId(2), at(5_000)), Ok(Entered::Covered));
    assert_eq!(broadcast.exit(CpuId(2), at(10)), BroadcastExit::SwitchOn);
    assert!(broadcast.interrupt(CpuId(1)) && !broadcast.interrupt(CpuId(2)));
    assert_eq!(woken(&broadcast, 0, 100).0, [1], "each period");
    let first = broadcast.set_carrier(CpuId(0), Carrier::Oneshot, at(130));
    assert_eq!(first, at(230));
    assert_eq!(woken(&broadcast, 0, 230), (vec![1], false, None));
}

/// R39: a better device replaces the broadcast device.
#[test]
fn r39_replacing_the_broadcast_device_puts_no_cpu_to_sleep() {
    let broadcast = sleepers(Carrier::Oneshot);
    assert_eq!(
        broadcast.enter(CpuId(1), at(50)),
        Ok(Entered::Program(at(50)))
    );
    let first = broadcast.set_carrier(CpuId(0), Carrier::Oneshot, at(20));
    assert_eq!(first, at(50), "the new one goes on for those who sleep");
    assert!(broadcast.interrupt(CpuId(1)) && !broadcast.interrupt(CpuId(2)));
    assert_eq!(broadcast.exit(CpuId(2), at(21)), BroadcastExit::WasAwake);
    assert_eq!(
        broadcast.enter(CpuId(2), at(30)),
        Ok(Entered::Program(at(30))),
        "what it hands over counts"
    );
}

#[test]
fn the_count_of_a_machine_that_stood_still_for_years_is_exact() {
    let count = new_count();
    let years = 200 * 365 * 86_400 * 1_000 * MS;
    assert_eq!(
        count.update(at(years + 1)),
        years.unsigned_abs() / 1_000_000
    );
    assert_eq!(count.now().tick, Tick(years.unsigned_abs() / 1_000_000));
}
