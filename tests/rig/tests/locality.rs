//! On which CPU a timer is (spec 2.7, 2.8).

use std::cell::Cell;
use std::rc::Rc;

use tickless_core::base::TryCancel;
use tickless_core::hrtimer::{Restart, Setup, Stage};
use tickless_core::platform::CpuId;
use tickless_core::time::{Instant, Realtime, Span};
use tickless_rig::suite::{at, at_on, kicks, moves, panic_of};
use tickless_rig::{Config, Machine, TestTimer, all_configs};

/// What a start finds, in the order of the table in spec 2.8.
#[derive(Clone, Copy, Debug)]
struct Situation {
    online: bool,
    running: bool,
    migration: bool,
    local: bool,
    first: bool,
    pinned: bool,
    isolated: bool,
    tick_stopped: bool,
    reschedule: bool,
}

impl Situation {
    fn all() -> impl Iterator<Item = Self> {
        (0..1_u32 << 9).map(|bits| {
            let bit = |index: u32| bits & (1 << index) != 0;
            Self {
                online: bit(0),
                running: bit(1),
                migration: bit(2),
                local: bit(3),
                first: bit(4),
                pinned: bit(5),
                isolated: bit(6),
                tick_stopped: bit(7),
                reschedule: bit(8),
            }
        })
    }

    /// A CPU that is offline has no timers.
    fn possible(&self) -> bool {
        self.online || !self.local
    }

    fn home(&self) -> u32 {
        if self.local { ME } else { HOUSEKEEPING }
    }

    /// The table, case by case.
    fn keeps(&self) -> bool {
        if self.running {
            return true;
        }
        if !self.online {
            return false;
        }
        if !self.migration {
            return self.local;
        }
        if !self.local {
            return false;
        }
        if self.first || self.pinned {
            return true;
        }
        if self.isolated {
            return false;
        }
        !self.tick_stopped || self.reschedule
    }

    /// Where the timer must be afterwards.
    fn expected(&self) -> u32 {
        if self.keeps() {
            return self.home();
        }
        if !self.online {
            return HOUSEKEEPING;
        }
        if self.pinned || !self.migration {
            ME
        } else {
            BUSY
        }
    }
}

const HOUSEKEEPING: u32 = 0;
/// The CPU that executes the start.
const ME: u32 = 1;
/// Where the host sends what does not stay.
const BUSY: u32 = 2;

/// Starts a timer in a situation, and says where it is then.
fn place<C: Config>(situation: Situation) -> Option<u32> {
    let machine = Machine::<C>::new(3);
    let home = situation.home();
    let [other, filler] = [(); 2].map(|()| TestTimer::once(&machine));
    // So that BUSY is suitable for what comes later than this.
    machine.on(BUSY, || filler.start(at(10_000)));
    if !situation.first {
        machine.on(home, || other.start(at(15_000)));
    }
    let restart = {
        let machine = machine.clone();
        move |timer: &TestTimer<C>| {
            machine.set_idleness(ME, situation.isolated, situation.tick_stopped);
            machine.set_migration(situation.migration);
            machine.set_busy(Some(BUSY));
            if situation.reschedule {
                machine.set_need_resched(ME);
            }
            if !situation.online {
                machine.offline(ME);
            }
            let start = at(60_000);
            let start = if situation.pinned {
                start.pinned()
            } else {
                start
            };
            machine.on(ME, || timer.start(start));
        }
    };
    let timer = if situation.running {
        let mut restart = Some(restart);
        let timer = TestTimer::cyclic(&machine, Setup::new(), move |own, _| {
            if let Some(restart) = restart.take() {
                restart(own);
            }
            Restart::No
        });
        machine.on(home, || timer.start(at(1_000).pinned()));
        machine.run_until(1_000);
        timer
    } else {
        let timer = Rc::new(TestTimer::once(&machine));
        machine.on(home, || timer.start(at(20_000).pinned()));
        restart(&timer);
        timer
    };
    machine.deliver_all();
    machine.check();
    let cpu = timer.cpu();
    machine.run_until(100_000);
    assert_eq!(timer.fired_at().last(), Some(&60_000), "{situation:?}");
    cpu
}

/// 2.8: every row of the table, in every combination, LOC-11, LOC-14, LOC-15 and HP-6 among them.
fn a_timer_goes_where_the_table_says<C: Config>() {
    for situation in Situation::all().filter(Situation::possible) {
        assert_eq!(
            place::<C>(situation),
            Some(situation.expected()),
            "{situation:?}"
        );
    }
}

/// Change 28: what stays costs one lock; what leaves costs that of the other CPU too, and never both at once.
fn staying_costs_one_lock_and_leaving_two<C: Config>() {
    let machine = Machine::<C>::new(3);
    let [first, timer, filler] = [(); 3].map(|()| TestTimer::once(&machine));
    machine.on(BUSY, || filler.start(at(1_000)));
    machine.on(ME, || {
        first.start(at(2_000));
        timer.start(at(9_000));
    });
    let locks = |start| {
        let before = machine.lock_acquisitions();
        machine.on(ME, || timer.start(start));
        machine.lock_acquisitions() - before
    };
    assert_eq!(locks(at(8_000)), 1, "case 9: the tick runs");
    machine.set_idleness(ME, false, true);
    assert_eq!(locks(at(8_000).pinned()), 1, "case 7");
    assert_eq!(locks(at(8_000)), 1, "case 11 with nowhere to go");
    machine.set_busy(Some(BUSY));
    machine.take_trace();
    assert_eq!(locks(at(8_500)), 2, "case 11");
    assert_eq!(moves(&machine.take_trace()), [(ME, BUSY)]);
    assert_eq!(machine.stats(BUSY).arrived, 1);
}

/// LOC-5, LOC-13, B37: a timer that would be the first event of another CPU stays here, because nobody writes that
/// device.
fn a_timer_that_would_be_first_elsewhere_stays<C: Config>() {
    let machine = Machine::<C>::new(3);
    let [first, timer, filler] = [(); 3].map(|()| TestTimer::once(&machine));
    machine.set_idleness(ME, false, true);
    machine.set_busy(Some(BUSY));
    machine.on(BUSY, || filler.start(at(5_000).pinned()));
    machine.on(ME, || first.start(at(1_000).pinned()));
    machine.take_trace();
    for (deadline, cpu) in [(4_999, ME), (5_000, BUSY), (4_000, ME), (6_000, BUSY)] {
        machine.on(ME, || timer.start(at(deadline)));
        assert_eq!(timer.cpu(), Some(cpu), "{deadline}");
        machine.check();
    }
    // From ME to BUSY and back, twice; what came back at once is no move.
    assert_eq!(
        moves(&machine.take_trace()),
        [(ME, BUSY), (BUSY, ME), (ME, BUSY)]
    );
    machine.run_until(9_000);
    assert_eq!(timer.fired_at(), [6_000]);
}

/// LOC-5: nor is it pushed to a CPU that has nothing armed.
fn a_cpu_without_events_gets_no_timers_from_others<C: Config>() {
    let machine = Machine::<C>::new(3);
    let timer = TestTimer::once(&machine);
    machine.set_idleness(ME, true, true);
    machine.set_busy(Some(BUSY));
    machine.on(ME, || timer.start(at(5_000)));
    assert_eq!(timer.cpu(), Some(ME));
    machine.run_until(9_000);
    assert_eq!(timer.fired_at(), [5_000]);
}

/// LOC-6, B36: what is judged is the new deadline, not the one the timer had.
fn the_new_deadline_decides_whether_a_cpu_is_suitable<C: Config>() {
    let machine = Machine::<C>::new(3);
    let [first, timer, filler] = [(); 3].map(|()| TestTimer::once(&machine));
    machine.on(ME, || {
        first.start(at(1_000));
        timer.start(at(50_000));
    });
    machine.on(BUSY, || filler.start(at(10_000)));
    machine.set_idleness(ME, false, true);
    machine.set_busy(Some(BUSY));
    machine.on(ME, || timer.start(at(5_000)));
    assert_eq!(timer.cpu(), Some(ME));
    machine.check();
    machine.run_until(20_000);
    assert_eq!(timer.fired_at(), [5_000]);
}

/// LOC-5 on other clocks: the comparison is made on the monotonic clock, with the offset of the target.
fn suitability_is_judged_on_the_monotonic_clock<C: Config>() {
    let machine = Machine::<C>::new(3);
    machine.set_wall(0, 1_700_000_000_000_000_000);
    let real = |nanos: i64| at_on::<Realtime>(1_700_000_000_000_000_000 + nanos);
    let timer = TestTimer::<C, Realtime>::once_on(&machine);
    let filler = TestTimer::once(&machine);
    machine.on(BUSY, || filler.start(at(10_000)));
    machine.set_idleness(ME, false, true);
    machine.set_busy(Some(BUSY));
    machine.on(ME, || timer.start(real(9_000)));
    assert_eq!(timer.cpu(), Some(ME));
    let other = TestTimer::<C, Realtime>::once_on(&machine);
    machine.on(ME, || other.start(real(11_000)));
    assert_eq!(other.cpu(), Some(BUSY));
    machine.check();
    machine.run_until(20_000);
    assert_eq!(timer.fired_at().len() + other.fired_at().len(), 2);
}

/// LOC-16: a CPU that went offline after it was picked is not suitable.
fn a_cpu_that_left_gets_no_timers<C: Config>() {
    let machine = Machine::<C>::new(3);
    let timer = TestTimer::once(&machine);
    machine.set_idleness(ME, false, true);
    machine.set_busy(Some(BUSY));
    machine.offline(BUSY);
    machine.on(ME, || timer.start(at(5_000)));
    assert_eq!(timer.cpu(), Some(ME));
    machine.run_until(9_000);
    assert_eq!(timer.fired_at(), [5_000]);

    // And one that leaves in the middle: the timer is under way to it already.
    let machine = Machine::<C>::new(3);
    let (timer, filler) = (TestTimer::once(&machine), TestTimer::once(&machine));
    machine.on(BUSY, || filler.start(at(1_000)));
    machine.set_idleness(ME, false, true);
    machine.set_busy(Some(BUSY));
    {
        let inner = machine.clone();
        machine.before_lock(1, move || inner.offline(BUSY));
    }
    machine.on(ME, || timer.start(at(5_000)));
    assert_eq!(timer.cpu(), Some(ME));
    machine.deliver_all();
    machine.run_until(9_000);
    assert_eq!(timer.fired_at(), [5_000]);
}

/// LOC-2: the owner is looked at again when its lock is held, because the timer may have moved meanwhile.
fn a_timer_that_moves_before_its_lock_is_taken_is_followed<C: Config>() {
    let machine = Machine::<C>::new(3);
    let timer = Rc::new(TestTimer::once(&machine));
    machine.on(0, || timer.start(at(50_000)));
    let races = {
        let (machine, timer) = (machine.clone(), Rc::clone(&timer));
        move || machine.on(BUSY, || timer.start(at(40_000).pinned()))
    };
    machine.before_lock(0, races);
    machine.on(ME, || timer.start(at(30_000).pinned()));
    assert_eq!(timer.cpu(), Some(ME));
    machine.check();

    let races = {
        let (machine, timer) = (machine.clone(), Rc::clone(&timer));
        move || machine.on(0, || timer.start(at(20_000).pinned()))
    };
    machine.before_lock(0, races);
    machine.on(ME, || assert!(timer.cancel()));
    machine.check();
    machine.run_until(60_000);
    assert!(timer.fired_at().is_empty());
}

/// LOC-3, LOC-8, INV-7: on its way a pending timer names no base, and is active for everybody who asks.
fn a_travelling_timer_is_active_and_out_of_reach<C: Config>() {
    let machine = Machine::<C>::new(3);
    let timer = Rc::new(TestTimer::once(&machine));
    machine.on(0, || timer.start(at(50_000)));
    let seen = Rc::new(Cell::new(None));
    let watch = {
        let (machine, timer, seen) = (machine.clone(), Rc::clone(&timer), Rc::clone(&seen));
        move || {
            // Who looks for it waits, here for ever, because nobody else runs.
            let waits = panic_of(|| {
                machine.on(0, || {
                    let _never: TryCancel = timer.try_cancel();
                });
            });
            seen.set(Some((
                timer.is_active() && timer.is_queued(),
                timer.cpu(),
                waits.is_some_and(|text| text.contains("livelock")),
                machine.timers().pending(CpuId(0)),
            )));
        }
    };
    // The first lock is that of the base it leaves, the second that of the base it comes to.
    machine.before_lock(1, watch);
    machine.on(ME, || timer.start(at(40_000)));
    assert_eq!(seen.get(), Some((true, None, true, 0)));
    assert_eq!(timer.cpu(), Some(ME));
    machine.run_until(60_000);
    assert_eq!(timer.fired_at(), [40_000]);
}

/// LOC-12, OBJ-15, 14.1: restarted by another CPU while its callback runs, a timer stays, without a kick, for one
/// write.
fn a_running_timer_is_restarted_where_it_runs<C: Config>() {
    for stage in [Stage::Hard, Stage::Soft] {
        let machine = Machine::<C>::new(2);
        let timer = {
            let machine = machine.clone();
            let mut runs = 0;
            let setup = Setup::new().stage(stage);
            TestTimer::cyclic(&machine.clone(), setup, move |own, expired| {
                runs += 1;
                if runs == 1 {
                    machine.take_trace();
                    machine.on(1, || own.start(at(9_000)));
                    assert_eq!(own.cpu(), Some(0));
                    assert_eq!(kicks(&machine.take_trace()), []);
                    expired.forward_now(Span::from_nanos(500));
                    return Restart::Yes;
                }
                Restart::No
            })
        };
        machine.on(0, || timer.start(at(1_000)));
        let writes = machine.stats(0).device_writes;
        machine.run_until(1_100);
        assert_eq!(timer.deadline(), Some(9_000));
        assert_eq!(machine.fires_at(0), Some(9_000));
        if stage == Stage::Hard {
            assert_eq!(machine.stats(0).device_writes - writes, 1);
        }
        machine.run_until(20_000);
        assert_eq!(timer.fired_at(), [1_000, 9_000]);
    }
}

/// LOC-17: kicks that were not taken yet are not repeated, and the one that is taken works on the state of then.
fn kicks_that_wait_are_not_repeated<C: Config>() {
    let machine = Machine::<C>::new(2);
    machine.set_wall(0, 1_000_000);
    let timer = TestTimer::<C, Realtime>::once_on(&machine);
    machine.on(1, || timer.start(at_on(1_900_000)));
    machine.set_masked(1, true);
    machine.take_trace();
    machine.set_wall(0, 1_100_000);
    machine.set_wall(0, 1_200_000);
    assert_eq!(kicks(&machine.take_trace()), [1]);
    let before = machine.stats(1).kicks;
    machine.set_masked(1, false);
    assert_eq!(machine.stats(1).kicks - before, 1);
    assert_eq!(machine.armed(1), Instant::from_nanos(700_000));
    machine.set_wall(0, 1_300_000);
    assert_eq!(
        kicks(&machine.take_trace()),
        [1],
        "the next one is sent again"
    );
    machine.deliver_all();
    machine.check();
}

/// LOC-1, LOC-9, O9: whatever is done, only a CPU that leaves makes anybody hold two base locks. (The locks themselves
/// check it; this test makes them meet every kind of operation on two CPUs.)
fn nobody_holds_two_base_locks<C: Config>() {
    let machine = Machine::<C>::new(2);
    let timer = TestTimer::once(&machine);
    machine.on(0, || timer.start(at(5_000)));
    machine.on(1, || timer.start(at(6_000)));
    machine.on(0, || timer.start(at(7_000).pinned()));
    machine.set_wall(1, 77);
    machine.offline(1);
    machine.online(1);
    machine.suspend_for(100);
    machine.on_no_cpu(|| timer.start(at(8_000)));
    machine.deliver_all();
    machine.on(1, || assert!(timer.cancel()));
    machine.check();
}

all_configs!(
    a_timer_goes_where_the_table_says,
    staying_costs_one_lock_and_leaving_two,
    a_timer_that_would_be_first_elsewhere_stays,
    a_cpu_without_events_gets_no_timers_from_others,
    the_new_deadline_decides_whether_a_cpu_is_suitable,
    suitability_is_judged_on_the_monotonic_clock,
    a_cpu_that_left_gets_no_timers,
    a_timer_that_moves_before_its_lock_is_taken_is_followed,
    a_travelling_timer_is_active_and_out_of_reach,
    a_running_timer_is_restarted_where_it_runs,
    kicks_that_wait_are_not_repeated,
    nobody_holds_two_base_locks,
);
