//! Cases about the flush points that carry out a deferred rearm, one by one (spec ).
//!
//! On a host whose interrupt rearms by itself, the same scripts must leave the device in the same state, and no flush
//! point has anything to do.

use alloc::rc::Rc;
use core::cell::Cell;

use tickless_core::event::Flush;
use tickless_core::hrtimer::{Restart, Setup, Stage};
use tickless_core::platform::Waiting;

use crate::suite::{at, panic_of};
use crate::{Host, Interrupted, Rig, Schedule, TestTimer};

/// A rig with a timer that is due now, at 1000, and a timer that is due at 9000.
struct Due<H: Host> {
    rig: Rig<H>,
    _due: TestTimer<H>,
    later: TestTimer<H>,
}

fn due<H: Host>() -> Due<H> {
    let rig = Rig::<H>::new(2);
    let (due, later) = (TestTimer::once(&rig), TestTimer::once(&rig));
    rig.on(0, || {
        due.start(at(1_000));
        later.start(at(9_000));
    });
    rig.spend(1_000);
    Due {
        rig,
        _due: due,
        later,
    }
}

impl<H: Host> Due<H> {
    /// Checks that the flush was carried out at `place` only, and that the device is armed.
    fn flushed_at(&self, place: Flush) {
        let mut expected = [0; Flush::COUNT];
        expected[place as usize] = u64::from(Rig::<H>::DEFERRED_REARM);
        assert_eq!(self.rig.stats(0).flushes, expected, "{}", place.name());
        assert!(!self.rig.owes_rearm(0));
        assert_eq!(self.rig.fires_at(0), Some(9_000), "{}", place.name());
        assert_eq!(self.rig.armed(0).as_nanos(), 9_000);
        self.rig.check();
        self.rig.run_until(20_000);
        assert_eq!(self.later.fired_at(), [9_000]);
    }
}

/// FLUSH-1: the return to a user's program flushes.
pub fn s1_return_to_user_mode_flushes<H: Host>() {
    let due = due::<H>();
    due.rig.interrupt(0, Interrupted::User, &Schedule::SWITCH);
    due.flushed_at(Flush::UserExit);
}

/// FLUSH-1, FLUSH-3, FLUSH-5: with a pending reschedule, the way back leaves the flush to the scheduler, whether it picks
/// another task or the same.
pub fn s5_the_scheduler_flushes<H: Host>() {
    for (interrupted, switches, place) in [
        (Interrupted::User, true, Flush::Switched),
        (Interrupted::User, false, Flush::SameTask),
        (Interrupted::Kernel, true, Flush::Switched),
    ] {
        let due = due::<H>();
        due.rig.set_need_resched(0);
        let schedule = Schedule {
            switches,
            ..Schedule::SWITCH
        };
        due.rig.interrupt(0, interrupted, &schedule);
        due.flushed_at(place);
    }
}

/// FLUSH-3: the return to the kernel flushes.
pub fn s3_return_to_kernel_mode_flushes<H: Host>() {
    let due = due::<H>();
    due.rig.interrupt(0, Interrupted::Kernel, &Schedule::SWITCH);
    due.flushed_at(Flush::KernelExit);
}

/// FLUSH-4, change 36: a flush precedes soft work, so that hard timers are on time however long the soft work takes.
pub fn s4_is_before_soft_work<H: Host>() {
    let Due { rig, later, _due } = due::<H>();
    let at_start = Rc::new(Cell::new(None));
    let soft = {
        let (rig, at_start) = (rig.clone(), Rc::clone(&at_start));
        TestTimer::with_setup(&rig.clone(), Setup::new().stage(Stage::Soft), move |_| {
            at_start.set(rig.fires_at(0));
            assert!(!rig.owes_rearm(0));
            // Where a callback can be interrupted, the hard timer is on time although this takes long.
            rig.spend(8_000);
            if Rig::<H>::WAITING != Waiting::Sleep {
                rig.deliver_due(0);
            }
            rig.spend(10_000_000);
            Restart::No
        })
    };
    rig.on(0, || soft.start(at(1_000)));
    rig.interrupt(0, Interrupted::User, &Schedule::SWITCH);
    assert_eq!(soft.fired_at(), [1_000]);
    assert_eq!(at_start.get(), Some(9_000));
    assert_eq!(
        rig.stats(0).flushes[Flush::SoftWork as usize],
        u64::from(Rig::<H>::DEFERRED_REARM)
    );
    rig.deliver_all();
    let expected = if Rig::<H>::WAITING == Waiting::Sleep {
        10_009_000
    } else {
        9_000
    };
    assert_eq!(later.fired_at(), [expected]);
}

/// FLUSH-6: the entry of an interrupt that comes before the scheduler is reached flushes.
pub fn s6_a_nested_interrupt_flushes_on_entry<H: Host>() {
    let due = due::<H>();
    due.rig.set_need_resched(0);
    let nested = || due.rig.interrupt(0, Interrupted::Kernel, &Schedule::SWITCH);
    let schedule = Schedule {
        before: Some(&nested),
        ..Schedule::SWITCH
    };
    due.rig.interrupt(0, Interrupted::User, &schedule);
    due.flushed_at(Flush::NestedInterrupt);
}

/// FLUSH-6: a nested *timer* interrupt finds no owed rearm.
pub fn s6_a_nested_timer_interrupt_finds_nothing_owed<H: Host>() {
    let Due { rig, later, _due } = due::<H>();
    rig.set_need_resched(0);
    let schedule = Schedule {
        before: Some(&|| {
            rig.interrupt(0, Interrupted::Kernel, &Schedule::SWITCH);
            rig.spend(8_500);
        }),
        ..Schedule::SWITCH
    };
    rig.interrupt(0, Interrupted::User, &schedule);
    assert_eq!(rig.stats(0).missed_flushes, 0);
    rig.check();
    assert_eq!(later.fired_at().len(), 1);
}

/// FLUSH-7: a time-slice extension that replaces the scheduler flushes.
pub fn s7_a_slice_extension_flushes<H: Host>() {
    let due = due::<H>();
    due.rig.set_need_resched(0);
    let extension = Schedule {
        extension: true,
        ..Schedule::SWITCH
    };
    due.rig.interrupt(0, Interrupted::User, &extension);
    due.flushed_at(Flush::SliceExtension);
}

/// FLUSH-8: a handler that was called by hand, and returns to a context with interrupts masked, flushes.
pub fn s8_a_handler_called_by_hand_flushes<H: Host>() {
    let due = due::<H>();
    due.rig.set_masked(0, true);
    due.rig.interrupt(0, Interrupted::Masked, &Schedule::SWITCH);
    assert_eq!(
        due.rig.fires_at(0),
        Some(9_000),
        "before anything is unmasked"
    );
    due.rig.set_masked(0, false);
    due.flushed_at(Flush::MaskedReturn);
}

/// FLUSH-9: a rearm that a CPU owes when it goes offline is forgiven, and the CPU comes online without an owed rearm.
pub fn s9_going_offline_forgives<H: Host>() {
    let Due { rig, later, _due } = due::<H>();
    let _turn = rig.enter_interrupt(0);
    rig.offline(0);
    rig.set_masked(0, false);
    let dump = rig.dump();
    let left = dump.split("cpu: 1").next().expect("the part of CPU 0");
    assert!(left.contains(".deferred_rearm : clear"), "{left}");
    assert_eq!(
        rig.stats(0).flushes[Flush::Offline as usize],
        u64::from(Rig::<H>::DEFERRED_REARM)
    );
    rig.deliver_all();
    assert_eq!(later.cpu(), Some(1));
    rig.online(0);
    let timer = TestTimer::once(&rig);
    rig.on(0, || timer.start(at(3_000)));
    assert_eq!(rig.fires_at(0), Some(3_000));
    rig.run_until(20_000);
    assert_eq!(timer.fired_at(), [3_000]);
    assert_eq!(later.fired_at(), [9_000]);
}

/// FLUSH-9, TIM-41: a rearm that a CPU owes when the host suspends is forgiven, and after the suspend the device is
/// armed for the first timer.
pub fn s9_a_suspend_forgives<H: Host>() {
    let Due { rig, later, _due } = due::<H>();
    let _turn = rig.enter_interrupt(0);
    rig.suspend_for(1_000_000);
    rig.set_masked(0, false);
    assert_eq!(rig.fires_at(0), Some(9_000));
    let timer = TestTimer::once(&rig);
    rig.on(0, || timer.start(at(3_000)));
    rig.check();
    rig.run_until(20_000);
    assert_eq!(timer.fired_at(), [3_000]);
    assert_eq!(later.fired_at(), [9_000]);
}

/// INV-2: the rig notices a return path without its flush point. (A canary: the rig itself must fail here.)
pub fn a_missing_flush_point_is_noticed<H: Host>() {
    let due = due::<H>();
    let rig = &due.rig;
    let _turn = rig.enter_interrupt(0);
    // As if the host had no flush point at all: it goes on to the next interrupt.
    let _turn = rig.on(0, || {
        rig.timers().interrupt(tickless_core::platform::CpuId(0))
    });
    assert_eq!(
        rig.stats(0).missed_flushes,
        u64::from(Rig::<H>::DEFERRED_REARM)
    );
    let noticed = panic_of(|| rig.check());
    assert_eq!(noticed.is_some(), Rig::<H>::DEFERRED_REARM);
}

/// B6, X-4.5: a flush with timer delivery enabled is an error of the host.
pub fn a_flush_with_interrupts_enabled_is_noticed<H: Host>() {
    let due = due::<H>();
    let rig = &due.rig;
    let _turn = rig.enter_interrupt(0);
    // Unmasked without the delivery that would come with it.
    let noticed = panic_of(|| {
        rig.set_masked(0, false);
        rig.flush(0, Flush::SliceExtension);
    });
    assert_eq!(noticed.is_some(), Rig::<H>::DEFERRED_REARM);
}

crate::kit::cases!(flush_points:
    s1_return_to_user_mode_flushes [CPUS, PATHS],
    s3_return_to_kernel_mode_flushes [CPUS, PATHS],
    s4_is_before_soft_work [CPUS, SOFT, PATHS],
    s5_the_scheduler_flushes [CPUS, PATHS],
    s6_a_nested_interrupt_flushes_on_entry [CPUS, PATHS],
    s6_a_nested_timer_interrupt_finds_nothing_owed [CPUS, PATHS],
    s7_a_slice_extension_flushes [CPUS, PATHS],
    s8_a_handler_called_by_hand_flushes [CPUS, PATHS],
    s9_going_offline_forgives [CPUS, PATHS],
    s9_a_suspend_forgives [CPUS, PATHS, CLOCKS],
    a_missing_flush_point_is_noticed [CPUS, PATHS, PANICS],
    a_flush_with_interrupts_enabled_is_noticed [CPUS, PATHS, PANICS],
);
