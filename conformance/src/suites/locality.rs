//! Tests of the choice of the CPU on which a timer is queued (spec ).

use alloc::rc::Rc;
use core::cell::Cell;

use tickless_core::base::TryCancel;
use tickless_core::hrtimer::{Restart, Setup, Stage};
use tickless_core::platform::CpuId;
use tickless_core::time::{Instant, Realtime, Span};

use crate::suite::{at, at_on, kicks, moves, panic_of};
use crate::{Host, Rig, TestTimer};

/// The state that a start finds, in the order of the table in spec.
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

    /// Returns false for a situation that cannot arise: a CPU that is offline has no timers.
    fn possible(&self) -> bool {
        self.online || !self.local
    }

    fn home(&self) -> u32 {
        if self.local { ME } else { HOUSEKEEPING }
    }

    /// Returns true if the timer stays on the executing CPU, according to the table.
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

    /// Returns the CPU on which the timer must be after the start.
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
/// The CPU to which the host sends timers that do not stay on the executing CPU.
const BUSY: u32 = 2;

/// Starts a timer in a situation, and returns the CPU on which it is queued then.
fn place<H: Host>(situation: Situation) -> Option<u32> {
    let rig = Rig::<H>::new(3);
    let home = situation.home();
    let [other, filler] = [(); 2].map(|()| TestTimer::once(&rig));
    // So that BUSY is suitable for what comes later than this.
    rig.on(BUSY, || filler.start(at(10_000)));
    if !situation.first {
        rig.on(home, || other.start(at(15_000)));
    }
    let restart = {
        let rig = rig.clone();
        move |timer: &TestTimer<H>| {
            rig.set_idleness(ME, situation.isolated, situation.tick_stopped);
            rig.set_migration(situation.migration);
            rig.set_busy(Some(BUSY));
            if situation.reschedule {
                rig.set_need_resched(ME);
            }
            if !situation.online {
                rig.offline(ME);
            }
            let start = at(60_000);
            let start = if situation.pinned {
                start.pinned()
            } else {
                start
            };
            rig.on(ME, || timer.start(start));
        }
    };
    let timer = if situation.running {
        let mut restart = Some(restart);
        let timer = TestTimer::cyclic(&rig, Setup::new(), move |own, _| {
            if let Some(restart) = restart.take() {
                restart(own);
            }
            Restart::No
        });
        rig.on(home, || timer.start(at(1_000).pinned()));
        rig.run_until(1_000);
        timer
    } else {
        let timer = Rc::new(TestTimer::once(&rig));
        rig.on(home, || timer.start(at(20_000).pinned()));
        restart(&timer);
        timer
    };
    rig.deliver_all();
    rig.check();
    let cpu = timer.cpu();
    rig.run_until(100_000);
    assert_eq!(timer.fired_at().last(), Some(&60_000), "{situation:?}");
    cpu
}

/// LOC-4, X-2.8: every row of the table in every combination, including LOC-11, LOC-14, LOC-15 and HP-6.
pub fn a_timer_goes_where_the_table_says<H: Host>() {
    for situation in Situation::all().filter(Situation::possible) {
        assert_eq!(
            place::<H>(situation),
            Some(situation.expected()),
            "{situation:?}"
        );
    }
}

/// Change 28: a start that keeps the timer on its CPU takes one lock. A start that moves the timer takes the lock of
/// the other CPU too, and never holds both locks at once.
pub fn staying_costs_one_lock_and_leaving_two<H: Host>() {
    let rig = Rig::<H>::new(3);
    let [first, timer, filler] = [(); 3].map(|()| TestTimer::once(&rig));
    rig.on(BUSY, || filler.start(at(1_000)));
    rig.on(ME, || {
        first.start(at(2_000));
        timer.start(at(9_000));
    });
    let locks = |start| {
        let before = rig.lock_acquisitions();
        rig.on(ME, || timer.start(start));
        rig.lock_acquisitions() - before
    };
    assert_eq!(locks(at(8_000)), 1, "case 9: the tick runs");
    rig.set_idleness(ME, false, true);
    assert_eq!(locks(at(8_000).pinned()), 1, "case 7");
    assert_eq!(locks(at(8_000)), 1, "case 11 with nowhere to go");
    rig.set_busy(Some(BUSY));
    rig.take_trace();
    assert_eq!(locks(at(8_500)), 2, "case 11");
    assert_eq!(moves(&rig.take_trace()), [(ME, BUSY)]);
    assert_eq!(rig.stats(BUSY).arrived, 1);
}

/// LOC-5, LOC-13, B37: a timer that would be the first event of another CPU stays on this CPU, because this CPU cannot
/// write the other device.
pub fn a_timer_that_would_be_first_elsewhere_stays<H: Host>() {
    let rig = Rig::<H>::new(3);
    let [first, timer, filler] = [(); 3].map(|()| TestTimer::once(&rig));
    rig.set_idleness(ME, false, true);
    rig.set_busy(Some(BUSY));
    rig.on(BUSY, || filler.start(at(5_000).pinned()));
    rig.on(ME, || first.start(at(1_000).pinned()));
    rig.take_trace();
    for (deadline, cpu) in [(4_999, ME), (5_000, BUSY), (4_000, ME), (6_000, BUSY)] {
        rig.on(ME, || timer.start(at(deadline)));
        assert_eq!(timer.cpu(), Some(cpu), "{deadline}");
        rig.check();
    }
    // From ME to BUSY and back, twice; what came back at once is no move.
    assert_eq!(
        moves(&rig.take_trace()),
        [(ME, BUSY), (BUSY, ME), (ME, BUSY)]
    );
    rig.run_until(9_000);
    assert_eq!(timer.fired_at(), [6_000]);
}

/// LOC-5: a timer is not pushed to a CPU whose device has no armed event.
pub fn a_cpu_without_events_gets_no_timers_from_others<H: Host>() {
    let rig = Rig::<H>::new(3);
    let timer = TestTimer::once(&rig);
    rig.set_idleness(ME, true, true);
    rig.set_busy(Some(BUSY));
    rig.on(ME, || timer.start(at(5_000)));
    assert_eq!(timer.cpu(), Some(ME));
    rig.run_until(9_000);
    assert_eq!(timer.fired_at(), [5_000]);
}

/// LOC-6, B36: the new deadline of a timer is compared, not its old deadline.
pub fn the_new_deadline_decides_whether_a_cpu_is_suitable<H: Host>() {
    let rig = Rig::<H>::new(3);
    let [first, timer, filler] = [(); 3].map(|()| TestTimer::once(&rig));
    rig.on(ME, || {
        first.start(at(1_000));
        timer.start(at(50_000));
    });
    rig.on(BUSY, || filler.start(at(10_000)));
    rig.set_idleness(ME, false, true);
    rig.set_busy(Some(BUSY));
    rig.on(ME, || timer.start(at(5_000)));
    assert_eq!(timer.cpu(), Some(ME));
    rig.check();
    rig.run_until(20_000);
    assert_eq!(timer.fired_at(), [5_000]);
}

/// LOC-5 on other clocks: the comparison is made on the monotonic clock, with the offset of the target.
pub fn suitability_is_judged_on_the_monotonic_clock<H: Host>() {
    let rig = Rig::<H>::new(3);
    rig.set_wall(0, 1_700_000_000_000_000_000);
    let real = |nanos: i64| at_on::<Realtime>(1_700_000_000_000_000_000 + nanos);
    let timer = TestTimer::<H, Realtime>::once_on(&rig);
    let filler = TestTimer::once(&rig);
    rig.on(BUSY, || filler.start(at(10_000)));
    rig.set_idleness(ME, false, true);
    rig.set_busy(Some(BUSY));
    rig.on(ME, || timer.start(real(9_000)));
    assert_eq!(timer.cpu(), Some(ME));
    let other = TestTimer::<H, Realtime>::once_on(&rig);
    rig.on(ME, || other.start(real(11_000)));
    assert_eq!(other.cpu(), Some(BUSY));
    rig.check();
    rig.run_until(20_000);
    assert_eq!(timer.fired_at().len() + other.fired_at().len(), 2);
}

/// LOC-16: a CPU that went offline after it was picked is not suitable.
pub fn a_cpu_that_left_gets_no_timers<H: Host>() {
    let rig = Rig::<H>::new(3);
    let timer = TestTimer::once(&rig);
    rig.set_idleness(ME, false, true);
    rig.set_busy(Some(BUSY));
    rig.offline(BUSY);
    rig.on(ME, || timer.start(at(5_000)));
    assert_eq!(timer.cpu(), Some(ME));
    rig.run_until(9_000);
    assert_eq!(timer.fired_at(), [5_000]);

    // And one that leaves in the middle: the timer is under way to it already.
    let rig = Rig::<H>::new(3);
    let (timer, filler) = (TestTimer::once(&rig), TestTimer::once(&rig));
    rig.on(BUSY, || filler.start(at(1_000)));
    rig.set_idleness(ME, false, true);
    rig.set_busy(Some(BUSY));
    {
        let inner = rig.clone();
        rig.before_lock(1, move || inner.offline(BUSY));
    }
    rig.on(ME, || timer.start(at(5_000)));
    assert_eq!(timer.cpu(), Some(ME));
    rig.deliver_all();
    rig.run_until(9_000);
    assert_eq!(timer.fired_at(), [5_000]);
}

/// LOC-2: the owner is checked again under the owner's lock, because the timer may have moved meanwhile.
pub fn a_timer_that_moves_before_its_lock_is_taken_is_followed<H: Host>() {
    let rig = Rig::<H>::new(3);
    let timer = Rc::new(TestTimer::once(&rig));
    rig.on(0, || timer.start(at(50_000)));
    let races = {
        let (rig, timer) = (rig.clone(), Rc::clone(&timer));
        move || rig.on(BUSY, || timer.start(at(40_000).pinned()))
    };
    rig.before_lock(0, races);
    rig.on(ME, || timer.start(at(30_000).pinned()));
    assert_eq!(timer.cpu(), Some(ME));
    rig.check();

    let races = {
        let (rig, timer) = (rig.clone(), Rc::clone(&timer));
        move || rig.on(0, || timer.start(at(20_000).pinned()))
    };
    rig.before_lock(0, races);
    rig.on(ME, || assert!(timer.cancel()));
    rig.check();
    rig.run_until(60_000);
    assert!(timer.fired_at().is_empty());
}

/// LOC-7, LOC-3, LOC-8, INV-7: while a pending timer moves, it names no base, and reads as active to every caller.
pub fn a_travelling_timer_is_active_and_out_of_reach<H: Host>() {
    let rig = Rig::<H>::new(3);
    let timer = Rc::new(TestTimer::once(&rig));
    rig.on(0, || timer.start(at(50_000)));
    let seen = Rc::new(Cell::new(None));
    let watch = {
        let (rig, timer, seen) = (rig.clone(), Rc::clone(&timer), Rc::clone(&seen));
        move || {
            // A CPU that looks for it waits, here for ever, because no other runs.
            let waits = panic_of(|| {
                rig.on(0, || {
                    let _never: TryCancel = timer.try_cancel();
                });
            });
            seen.set(Some((
                timer.is_active() && timer.is_queued(),
                timer.cpu(),
                waits.is_some_and(|text| text.contains("livelock")),
                rig.timers().pending(CpuId(0)),
            )));
        }
    };
    // The first lock is that of the base it leaves, the second that of the base it comes to.
    rig.before_lock(1, watch);
    rig.on(ME, || timer.start(at(40_000)));
    assert_eq!(seen.get(), Some((true, None, true, 0)));
    assert_eq!(timer.cpu(), Some(ME));
    rig.run_until(60_000);
    assert_eq!(timer.fired_at(), [40_000]);
}

/// LOC-12, OBJ-15, X-14.1: a timer that another CPU restarts while its callback runs stays on its CPU; this takes no
/// kick and one write.
pub fn a_running_timer_is_restarted_where_it_runs<H: Host>() {
    for stage in [Stage::Hard, Stage::Soft] {
        let rig = Rig::<H>::new(2);
        let timer = {
            let rig = rig.clone();
            let mut runs = 0;
            let setup = Setup::new().stage(stage);
            TestTimer::cyclic(&rig.clone(), setup, move |own, expired| {
                runs += 1;
                if runs == 1 {
                    rig.take_trace();
                    rig.on(1, || own.start(at(9_000)));
                    assert_eq!(own.cpu(), Some(0));
                    assert_eq!(kicks(&rig.take_trace()), []);
                    expired.forward_now(Span::from_nanos(500));
                    return Restart::Yes;
                }
                Restart::No
            })
        };
        rig.on(0, || timer.start(at(1_000)));
        let writes = rig.stats(0).device_writes;
        rig.run_until(1_100);
        assert_eq!(timer.deadline(), Some(9_000));
        assert_eq!(rig.fires_at(0), Some(9_000));
        if stage == Stage::Hard {
            assert_eq!(rig.stats(0).device_writes - writes, 1);
        }
        rig.run_until(20_000);
        assert_eq!(timer.fired_at(), [1_000, 9_000]);
    }
}

/// LOC-17: a kick is not repeated while an earlier kick is pending, and the CPU that takes the kick works on the state
/// of that moment.
pub fn kicks_that_wait_are_not_repeated<H: Host>() {
    let rig = Rig::<H>::new(2);
    rig.set_wall(0, 1_000_000);
    let timer = TestTimer::<H, Realtime>::once_on(&rig);
    rig.on(1, || timer.start(at_on(1_900_000)));
    rig.set_masked(1, true);
    rig.take_trace();
    rig.set_wall(0, 1_100_000);
    rig.set_wall(0, 1_200_000);
    assert_eq!(kicks(&rig.take_trace()), [1]);
    let before = rig.stats(1).kicks;
    rig.set_masked(1, false);
    assert_eq!(rig.stats(1).kicks - before, 1);
    assert_eq!(rig.armed(1), Instant::from_nanos(700_000));
    rig.set_wall(0, 1_300_000);
    assert_eq!(kicks(&rig.take_trace()), [1], "the next one is sent again");
    rig.deliver_all();
    rig.check();
}

/// LOC-1, LOC-9, ORACLE-9: only a CPU that goes offline makes a thread hold two base locks. (The locks themselves check
/// this; the test makes them meet every kind of operation on two CPUs.)
pub fn no_thread_holds_two_base_locks<H: Host>() {
    let rig = Rig::<H>::new(2);
    let timer = TestTimer::once(&rig);
    rig.on(0, || timer.start(at(5_000)));
    rig.on(1, || timer.start(at(6_000)));
    rig.on(0, || timer.start(at(7_000).pinned()));
    rig.set_wall(1, 77);
    rig.offline(1);
    rig.online(1);
    rig.suspend_for(100);
    rig.on_no_cpu(|| timer.start(at(8_000)));
    rig.deliver_all();
    rig.on(1, || assert!(timer.cancel()));
    rig.check();
}

crate::kit::cases!(locality:
    a_timer_goes_where_the_table_says [CPUS, PATHS, PLACEMENT],
    staying_costs_one_lock_and_leaving_two [CPUS, PLACEMENT, LOCKS, TRACE],
    a_timer_that_would_be_first_elsewhere_stays [CPUS, PLACEMENT, TRACE],
    a_cpu_without_events_gets_no_timers_from_others [CPUS, PLACEMENT],
    the_new_deadline_decides_whether_a_cpu_is_suitable [CPUS, PLACEMENT],
    suitability_is_judged_on_the_monotonic_clock [CPUS, CLOCKS, PLACEMENT],
    a_cpu_that_left_gets_no_timers [CPUS, PLACEMENT, LOCKS],
    a_timer_that_moves_before_its_lock_is_taken_is_followed [CPUS, LOCKS],
    a_travelling_timer_is_active_and_out_of_reach [CPUS, LOCKS, PANICS],
    a_running_timer_is_restarted_where_it_runs [CPUS, SOFT, TRACE],
    kicks_that_wait_are_not_repeated [CPUS, CLOCKS, TRACE],
    no_thread_holds_two_base_locks [CPUS, CLOCKS],
);
