//! The places that carry out a deferred rearm, each by itself (spec 4.5).
//!
//! Where the interrupt rearms by itself the same scripts must leave the same device behind, and no place has anything
//! to do.

use std::cell::Cell;
use std::rc::Rc;

use tickless_core::event::Flush;
use tickless_core::hrtimer::{Restart, Setup, Stage};
use tickless_core::platform::Waiting;
use tickless_rig::suite::{at, panic_of};
use tickless_rig::{Config, Interrupted, Machine, Schedule, TestTimer, all_configs};

/// A machine with a timer that is due now, at 1000, and one at 9000.
struct Due<C: Config> {
    machine: Machine<C>,
    _due: TestTimer<C>,
    later: TestTimer<C>,
}

fn due<C: Config>() -> Due<C> {
    let machine = Machine::<C>::new(2);
    let (due, later) = (TestTimer::once(&machine), TestTimer::once(&machine));
    machine.on(0, || {
        due.start(at(1_000));
        later.start(at(9_000));
    });
    machine.spend(1_000);
    Due {
        machine,
        _due: due,
        later,
    }
}

impl<C: Config> Due<C> {
    /// The flush was carried out at `place` and nowhere else, and the device is armed.
    fn flushed_at(&self, place: Flush) {
        let mut expected = [0; Flush::COUNT];
        expected[place as usize] = u64::from(C::DEFERRED_REARM);
        assert_eq!(self.machine.stats(0).flushes, expected, "{}", place.name());
        assert!(!self.machine.owes_rearm(0));
        assert_eq!(self.machine.fires_at(0), Some(9_000), "{}", place.name());
        assert_eq!(self.machine.armed(0).as_nanos(), 9_000);
        self.machine.check();
        self.machine.run_until(20_000);
        assert_eq!(self.later.fired_at(), [9_000]);
    }
}

/// S1: the way back to a user's program.
fn s1_return_to_user_mode_flushes<C: Config>() {
    let due = due::<C>();
    due.machine
        .interrupt(0, Interrupted::User, &Schedule::SWITCH);
    due.flushed_at(Flush::UserExit);
}

/// S1, S5: with a reschedule pending S1 leaves it to the scheduler, which picks another task.
fn s5_the_scheduler_flushes_when_it_switches<C: Config>() {
    let due = due::<C>();
    due.machine.set_need_resched(0);
    due.machine
        .interrupt(0, Interrupted::User, &Schedule::SWITCH);
    due.flushed_at(Flush::Switched);
}

/// S5: the other end of the scheduler.
fn s5_the_scheduler_flushes_when_it_picks_the_same_task<C: Config>() {
    let due = due::<C>();
    due.machine.set_need_resched(0);
    let same = Schedule {
        switches: false,
        ..Schedule::SWITCH
    };
    due.machine.interrupt(0, Interrupted::User, &same);
    due.flushed_at(Flush::SameTask);
}

/// S3: the way back into the kernel.
fn s3_return_to_kernel_mode_flushes<C: Config>() {
    let due = due::<C>();
    due.machine
        .interrupt(0, Interrupted::Kernel, &Schedule::SWITCH);
    due.flushed_at(Flush::KernelExit);
}

/// S3, S5: a preemption on the way back flushes before S3 is reached.
fn s3_comes_after_a_preemption<C: Config>() {
    let due = due::<C>();
    due.machine.set_need_resched(0);
    due.machine
        .interrupt(0, Interrupted::Kernel, &Schedule::SWITCH);
    due.flushed_at(Flush::Switched);
}

/// S4, change 36: before soft work, so that hard timers stay on time however long the soft work takes.
fn s4_is_before_soft_work<C: Config>() {
    let Due {
        machine,
        later,
        _due,
    } = due::<C>();
    let at_start = Rc::new(Cell::new(None));
    let soft = {
        let (machine, at_start) = (machine.clone(), Rc::clone(&at_start));
        TestTimer::with_setup(
            &machine.clone(),
            Setup::new().stage(Stage::Soft),
            move |_| {
                at_start.set(machine.fires_at(0));
                assert!(!machine.owes_rearm(0));
                // Where a callback can be interrupted, the hard timer is on time although this takes long.
                machine.spend(8_000);
                if C::WAITING != Waiting::Sleep {
                    machine.deliver_due(0);
                }
                machine.spend(10_000_000);
                Restart::No
            },
        )
    };
    machine.on(0, || soft.start(at(1_000)));
    machine.interrupt(0, Interrupted::User, &Schedule::SWITCH);
    assert_eq!(soft.fired_at(), [1_000]);
    assert_eq!(at_start.get(), Some(9_000));
    assert_eq!(
        machine.stats(0).flushes[Flush::SoftWork as usize],
        u64::from(C::DEFERRED_REARM)
    );
    machine.deliver_all();
    let expected = if C::WAITING == Waiting::Sleep {
        10_009_000
    } else {
        9_000
    };
    assert_eq!(later.fired_at(), [expected]);
}

/// S6: the entry of an interrupt that comes before the scheduler is reached.
fn s6_a_nested_interrupt_flushes_on_entry<C: Config>() {
    let due = due::<C>();
    due.machine.set_need_resched(0);
    let nested = || {
        due.machine
            .interrupt(0, Interrupted::Kernel, &Schedule::SWITCH)
    };
    let schedule = Schedule {
        before: Some(&nested),
        ..Schedule::SWITCH
    };
    due.machine.interrupt(0, Interrupted::User, &schedule);
    due.flushed_at(Flush::NestedInterrupt);
}

/// S6: a nested *timer* interrupt finds nothing owed.
fn s6_a_nested_timer_interrupt_finds_nothing_owed<C: Config>() {
    let Due {
        machine,
        later,
        _due,
    } = due::<C>();
    machine.set_need_resched(0);
    let schedule = Schedule {
        before: Some(&|| {
            machine.interrupt(0, Interrupted::Kernel, &Schedule::SWITCH);
            machine.spend(8_500);
        }),
        ..Schedule::SWITCH
    };
    machine.interrupt(0, Interrupted::User, &schedule);
    assert_eq!(machine.stats(0).missed_flushes, 0);
    machine.check();
    assert_eq!(later.fired_at().len(), 1);
}

/// S7: a time-slice extension that takes the place of the scheduler.
fn s7_a_slice_extension_flushes<C: Config>() {
    let due = due::<C>();
    due.machine.set_need_resched(0);
    let extension = Schedule {
        extension: true,
        ..Schedule::SWITCH
    };
    due.machine.interrupt(0, Interrupted::User, &extension);
    due.flushed_at(Flush::SliceExtension);
}

/// S8: a handler that is called by hand and returns to a context with interrupts masked.
fn s8_a_handler_called_by_hand_flushes<C: Config>() {
    let due = due::<C>();
    due.machine.set_masked(0, true);
    due.machine
        .interrupt(0, Interrupted::Masked, &Schedule::SWITCH);
    assert_eq!(
        due.machine.fires_at(0),
        Some(9_000),
        "before anything is unmasked"
    );
    due.machine.set_masked(0, false);
    due.flushed_at(Flush::MaskedReturn);
}

/// S9: what a CPU owes when it leaves is forgiven, and the CPU comes back without a debt.
fn s9_going_offline_forgives<C: Config>() {
    let Due {
        machine,
        later,
        _due,
    } = due::<C>();
    let _turn = machine.enter_interrupt(0);
    machine.offline(0);
    machine.set_masked(0, false);
    let dump = machine.dump();
    let left = dump.split("cpu: 1").next().expect("the part of CPU 0");
    assert!(left.contains(".deferred_rearm : clear"), "{left}");
    assert_eq!(
        machine.stats(0).flushes[Flush::Offline as usize],
        u64::from(C::DEFERRED_REARM)
    );
    machine.deliver_all();
    assert_eq!(later.cpu(), Some(1));
    machine.online(0);
    let timer = TestTimer::once(&machine);
    machine.on(0, || timer.start(at(3_000)));
    assert_eq!(machine.fires_at(0), Some(3_000));
    machine.run_until(20_000);
    assert_eq!(timer.fired_at(), [3_000]);
    assert_eq!(later.fired_at(), [9_000]);
}

/// S9, TIM-41: what a CPU owes when the machine falls asleep is forgiven, and it wakes up armed for what is first.
fn s9_a_suspend_forgives<C: Config>() {
    let Due {
        machine,
        later,
        _due,
    } = due::<C>();
    let _turn = machine.enter_interrupt(0);
    machine.suspend_for(1_000_000);
    machine.set_masked(0, false);
    assert_eq!(machine.fires_at(0), Some(9_000));
    let timer = TestTimer::once(&machine);
    machine.on(0, || timer.start(at(3_000)));
    machine.check();
    machine.run_until(20_000);
    assert_eq!(timer.fired_at(), [3_000]);
    assert_eq!(later.fired_at(), [9_000]);
}

/// INV-2: a way out without its flush point does not go unnoticed. (A canary: the machine itself must fail here.)
fn a_missing_flush_point_is_noticed<C: Config>() {
    let Due {
        machine,
        later: _later,
        _due,
    } = due::<C>();
    let _turn = machine.enter_interrupt(0);
    // As if the host had no flush point at all: it goes on to the next interrupt.
    let _turn = machine.on(0, || {
        machine
            .timers()
            .interrupt(tickless_core::platform::CpuId(0))
    });
    assert_eq!(
        machine.stats(0).missed_flushes,
        u64::from(C::DEFERRED_REARM)
    );
    let noticed = panic_of(|| machine.check());
    assert_eq!(noticed.is_some(), C::DEFERRED_REARM);
}

/// B6, 4.5: a flush with timer delivery enabled is an error of the host.
fn a_flush_with_interrupts_enabled_is_noticed<C: Config>() {
    let Due {
        machine,
        later: _later,
        _due,
    } = due::<C>();
    let _turn = machine.enter_interrupt(0);
    // Unmasked without the delivery that would come with it.
    let noticed = panic_of(|| {
        machine.set_masked(0, false);
        machine.flush(0, Flush::SliceExtension);
    });
    assert_eq!(noticed.is_some(), C::DEFERRED_REARM);
}

all_configs!(
    s1_return_to_user_mode_flushes,
    s3_return_to_kernel_mode_flushes,
    s3_comes_after_a_preemption,
    s4_is_before_soft_work,
    s5_the_scheduler_flushes_when_it_switches,
    s5_the_scheduler_flushes_when_it_picks_the_same_task,
    s6_a_nested_interrupt_flushes_on_entry,
    s6_a_nested_timer_interrupt_finds_nothing_owed,
    s7_a_slice_extension_flushes,
    s8_a_handler_called_by_hand_flushes,
    s9_going_offline_forgives,
    s9_a_suspend_forgives,
    a_missing_flush_point_is_noticed,
    a_flush_with_interrupts_enabled_is_noticed,
);
