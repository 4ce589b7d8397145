//! The workloads of `bench/`, and a workload of workers that sleep. Each is executed on a worker of this process and on
//! a worker in virtual time.

use tickless_sim::random::Random;

use super::subject::{Subject, TICK};

/// The kinds of workload, each named after the timer operation that it repeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WorkloadKind {
    ArmAndCancelSleep,
    PushOutSleep,
    StartAndCancel,
    StartInPlace,
    BringForward,
    ArmAndDelete,
    ArmInSlot,
    FireExact,
    FireCoarse,
    Sleeps,
    MixedSleeps,
    Stranger,
}

/// A workload to execute.
#[derive(Clone, Copy, Debug)]
pub(super) struct Workload {
    pub(super) kind: WorkloadKind,
    /// Timers that stay queued meanwhile, or on which the workload operates.
    pub(super) timers: usize,
}

const fn of(kind: WorkloadKind, timers: usize) -> Workload {
    Workload { kind, timers }
}

/// All workloads; the larger ones are left out of quick runs.
pub(super) const ALL: [Workload; 18] = [
    of(WorkloadKind::ArmAndCancelSleep, 0),
    of(WorkloadKind::ArmAndCancelSleep, 1_000),
    of(WorkloadKind::PushOutSleep, 1_000),
    of(WorkloadKind::StartAndCancel, 0),
    of(WorkloadKind::StartAndCancel, 1_000),
    of(WorkloadKind::StartInPlace, 1_000),
    of(WorkloadKind::BringForward, 1_000),
    of(WorkloadKind::ArmAndDelete, 0),
    of(WorkloadKind::ArmAndDelete, 1_000),
    of(WorkloadKind::ArmInSlot, 1_000),
    of(WorkloadKind::FireExact, 2_000),
    of(WorkloadKind::FireCoarse, 2_000),
    of(WorkloadKind::Sleeps, 10),
    of(WorkloadKind::MixedSleeps, 12),
    of(WorkloadKind::Stranger, 500),
    of(WorkloadKind::ArmAndCancelSleep, 100_000),
    of(WorkloadKind::StartInPlace, 100_000),
    of(WorkloadKind::BringForward, 100_000),
];

/// The largest number of timers of a quick run: more take too long.
const MANY: usize = 10_000;

impl Workload {
    /// Returns the name of the workload.
    pub(super) const fn name(self) -> &'static str {
        match self.kind {
            WorkloadKind::ArmAndCancelSleep => "arm and cancel a sleep",
            WorkloadKind::PushOutSleep => "push out a sleep",
            WorkloadKind::StartAndCancel => "start and cancel an exact timer",
            WorkloadKind::StartInPlace => "start in place",
            WorkloadKind::BringForward => "bring an exact timer forward",
            WorkloadKind::ArmAndDelete => "arm and delete a coarse timer",
            WorkloadKind::ArmInSlot => "arm again within the slot",
            WorkloadKind::FireExact => "fire an exact timer",
            WorkloadKind::FireCoarse => "fire a coarse timer",
            WorkloadKind::Sleeps => "sleep until a deadline",
            WorkloadKind::MixedSleeps => "sleep, push out, give up",
            WorkloadKind::Stranger => "cancel by a stranger",
        }
    }

    /// Returns the costs that the prediction adds up.
    pub(super) const fn made_of(self) -> &'static str {
        match self.kind {
            WorkloadKind::ArmAndCancelSleep => "counter, 2 lock, hr_start, wheel_arm, wheel_cancel",
            WorkloadKind::PushOutSleep | WorkloadKind::StartInPlace => "lock, hr_start",
            WorkloadKind::StartAndCancel => "2 lock, hr_start, tree_insert, tree_erase",
            WorkloadKind::BringForward => "lock, hr_start, tree_insert, tree_erase",
            WorkloadKind::ArmAndDelete => "counter, 2 lock, wheel_arm, wheel_cancel",
            WorkloadKind::ArmInSlot => "counter, lock, wheel_arm",
            WorkloadKind::FireExact => "lock, tree_erase, wheel_expire",
            WorkloadKind::FireCoarse => "lock, wheel_expire",
            WorkloadKind::Sleeps | WorkloadKind::MixedSleeps => "park, and the turn",
            WorkloadKind::Stranger => "lock, line, tree_erase",
        }
    }

    /// Returns the part of the workload's time that the prediction is known to leave out.
    pub(super) const fn leaves_out(self) -> &'static str {
        if self.is_large() {
            return "the caches of this machine, which hold only a part of so many timers";
        }
        match self.kind {
            WorkloadKind::PushOutSleep => {
                "what a future adds: the conversion of its deadline, its phases"
            }
            WorkloadKind::StartAndCancel | WorkloadKind::BringForward => {
                "how deep the tree is: tree_insert is that of 256 timers"
            }
            WorkloadKind::ArmInSlot => "that nothing is filed: a store is cheaper than wheel_arm",
            WorkloadKind::StartInPlace => "caches: the timers are visited in random order",
            WorkloadKind::Stranger => "that a CPU asks for several lines at a time",
            WorkloadKind::Sleeps | WorkloadKind::MixedSleeps => {
                "that what the worker executes after a sleep is cold, and comes from memory"
            }
            _ => "nothing that is known; a neighbour may have slowed this machine down",
        }
    }

    pub(super) const fn is_large(self) -> bool {
        self.timers > MANY
    }

    /// Returns true if the workload's timers fire. The kernel's scheduler then influences the counts: a thread that
    /// loses its CPU meanwhile writes the device more often, or finds more timers due.
    pub(super) const fn waits_for_time(self) -> bool {
        matches!(
            self.kind,
            WorkloadKind::FireExact
                | WorkloadKind::FireCoarse
                | WorkloadKind::Sleeps
                | WorkloadKind::MixedSleeps
        )
    }

    /// Returns true if the workload needs two CPUs.
    pub(super) const fn needs_stranger(self) -> bool {
        matches!(self.kind, WorkloadKind::Stranger)
    }
}

/// The error of a run in which the machine was later than the workload allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Disturbed;

/// Executes the workload; returns the time of an operation in each of `rounds`. A worker that sleeps does so for `gap`
/// at least.
pub(super) fn run<S: Subject>(
    workload: Workload,
    subject: &mut S,
    rounds: usize,
    gap: i64,
) -> Result<Vec<f64>, Disturbed> {
    let timers = workload.timers;
    Ok(match workload.kind {
        WorkloadKind::ArmAndCancelSleep => arm_and_cancel_sleep(subject, timers, rounds),
        WorkloadKind::PushOutSleep => push_out_sleep(subject, timers, rounds),
        WorkloadKind::StartAndCancel => start_and_cancel(subject, timers, rounds),
        WorkloadKind::StartInPlace => start_in_place(subject, timers, rounds),
        WorkloadKind::BringForward => bring_forward(subject, timers, rounds),
        WorkloadKind::ArmAndDelete => arm_and_delete(subject, timers, rounds),
        WorkloadKind::ArmInSlot => arm_in_slot(subject, timers, rounds),
        WorkloadKind::FireExact => fire_exact(subject, timers, rounds)?,
        WorkloadKind::FireCoarse => fire_coarse(subject, timers, rounds),
        WorkloadKind::Sleeps => vec![sleeps(subject, timers, gap)?],
        WorkloadKind::MixedSleeps => vec![mixed_sleeps(subject, timers, gap)?],
        WorkloadKind::Stranger => strangers(subject, timers, rounds),
    })
}

/// Operations of a round.
const SHORT: usize = 1_000;
/// A delay so long that no timer fires.
const FAR: i64 = 10_000_000_000_000;
/// The distance between two deadlines in a queue.
const APART: i64 = 1_000;
const SECOND: i64 = 1_000_000_000;
/// The width of a slot of the two finest levels of far timers, in nanoseconds: eight units.
const FAR_SLOT: i64 = 8 << 20;

fn signed(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

#[expect(clippy::cast_precision_loss, reason = "for printing")]
fn each(spent: f64, operations: usize) -> f64 {
    spent / operations as f64
}

fn shuffled(count: usize) -> Vec<usize> {
    Random::new(11).permutation(count)
}

/// Returns the place of a timer that stays queued.
fn place(index: usize) -> i64 {
    FAR + signed(index) * APART
}

fn many<T>(count: usize, make: impl Fn() -> T) -> Vec<T> {
    (0..count).map(|_| make()).collect()
}

/// Starts exact timers that stay queued, each at its place, in random order.
fn waiting<S: Subject>(subject: &mut S, count: usize) -> Vec<S::Exact> {
    let timers = many(count, || subject.exact());
    for index in shuffled(count) {
        subject.start(&timers[index], place(index));
    }
    timers
}

fn arm_and_cancel_sleep<S: Subject>(subject: &mut S, pending: usize, rounds: usize) -> Vec<f64> {
    let mut waiting = many(pending, || subject.sleep());
    for (index, sleep) in shuffled(pending).into_iter().zip(&mut waiting) {
        // Farther apart than what a machine may keep this thread waiting.
        subject.begin(sleep, 600 * SECOND + signed(index) * SECOND);
    }
    let mut sleep = subject.sleep();
    let round = |_| {
        let spent = subject.spent(|subject| {
            for _ in 0..SHORT {
                subject.begin(&mut sleep, 500 * SECOND);
                subject.give_up(&mut sleep);
            }
        });
        each(spent, SHORT)
    };
    (0..rounds).map(round).collect()
}

fn push_out_sleep<S: Subject>(subject: &mut S, pending: usize, rounds: usize) -> Vec<f64> {
    let mut waiting = many(pending, || subject.sleep());
    for sleep in &mut waiting {
        subject.begin(sleep, 500 * SECOND);
    }
    let order = shuffled(pending);
    let mut at = 2_000 * SECOND;
    let round = |_| {
        at += SECOND;
        let deadline = subject.deadline(at);
        let spent = subject.spent(|subject| {
            for index in &order {
                subject.reset(&mut waiting[*index], deadline);
            }
        });
        each(spent, pending)
    };
    (0..rounds).map(round).collect()
}

fn start_and_cancel<S: Subject>(subject: &mut S, pending: usize, rounds: usize) -> Vec<f64> {
    let _waiting = waiting(subject, pending);
    let timer = subject.exact();
    let order = shuffled(SHORT);
    let round = |_| {
        let spent = subject.spent(|subject| {
            for index in &order {
                subject.start(&timer, place(*index) + APART / 2);
                subject.cancel(&timer);
            }
        });
        each(spent, SHORT)
    };
    (0..rounds).map(round).collect()
}

fn start_in_place<S: Subject>(subject: &mut S, pending: usize, rounds: usize) -> Vec<f64> {
    let waiting = waiting(subject, pending);
    let order = shuffled(pending);
    // Always a little later: one that is brought forward leaves its slot.
    let mut later = 0;
    let round = |_| {
        later += 1;
        let spent = subject.spent(|subject| {
            for index in &order {
                subject.start(&waiting[*index], place(*index) + later);
            }
        });
        each(spent, pending)
    };
    (0..rounds).map(round).collect()
}

fn bring_forward<S: Subject>(subject: &mut S, pending: usize, rounds: usize) -> Vec<f64> {
    let _waiting = waiting(subject, pending);
    let own = many(SHORT / 4, || subject.exact());
    let order = shuffled(pending);
    let behind = |index: usize| place(pending + index);
    let mut begins = 0;
    let round = |_| {
        for (index, timer) in own.iter().enumerate() {
            subject.cancel(timer);
            subject.start(timer, behind(index));
        }
        begins += own.len();
        let spent = subject.spent(|subject| {
            let places = order.iter().cycle().skip(begins % pending);
            for (timer, index) in own.iter().zip(places) {
                subject.start(timer, place(*index) + APART / 2);
            }
        });
        each(spent, own.len())
    };
    (0..rounds).map(round).collect()
}

/// Returns an expiry from a hundred ticks to a million ahead.
fn scattered(index: usize) -> u64 {
    100 + ((index as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 44)
}

fn arm_and_delete<S: Subject>(subject: &mut S, pending: usize, rounds: usize) -> Vec<f64> {
    // So far away that none fires while this runs.
    let now = subject.tick() + 60_000;
    let waiting = many(pending, || subject.coarse());
    for (index, timer) in waiting.iter().enumerate() {
        subject.arm(timer, now + scattered(index));
    }
    let own = many(64, || subject.coarse());
    let round = |_| {
        let spent = subject.spent(|subject| {
            for index in 0..SHORT {
                let timer = &own[index % own.len()];
                subject.arm(timer, now + scattered(index + 7_777));
                subject.delete(timer);
            }
        });
        each(spent, SHORT)
    };
    (0..rounds).map(round).collect()
}

fn arm_in_slot<S: Subject>(subject: &mut S, pending: usize, rounds: usize) -> Vec<f64> {
    /// Ticks of a slot of the level for timers that are 10 to 23 seconds ahead.
    const SLOT: u64 = 512;
    let begins = subject.tick().next_multiple_of(SLOT) + 20 * SLOT;
    let expiry = |index: usize| begins + SLOT * (index as u64 % 24) + 1;
    let waiting = many(pending, || subject.coarse());
    for (index, timer) in waiting.iter().enumerate() {
        subject.arm(timer, expiry(index));
    }
    let order = shuffled(pending);
    let mut step = 0;
    let round = |_| {
        step = 1 - step;
        let spent = subject.spent(|subject| {
            for index in &order {
                subject.modify(&waiting[*index], expiry(*index) + step);
            }
        });
        each(spent, pending)
    };
    (0..rounds).map(round).collect()
}

/// Takes turns until `count` timers fired: one turn cascades only some timers of a slot of the far wheel, and fires
/// only some.
fn fire_all<S: Subject>(subject: &mut S, count: usize) -> f64 {
    let spent = subject.spent(|subject| {
        let mut fired = 0;
        while fired < count {
            fired += subject.turn() as usize;
        }
    });
    each(spent, count)
}

/// Fires exact timers that all are in one slot of the far wheel, wherever the clock is. So each pass opens the same
/// slots, and writes the device at the same times.
fn fire_exact<S: Subject>(
    subject: &mut S,
    count: usize,
    rounds: usize,
) -> Result<Vec<f64>, Disturbed> {
    let timers = many(count, || subject.exact());
    let order = shuffled(count);
    let round = |_| {
        let at = subject.origin() + subject.now() + 50 * TICK;
        let begins = at + FAR_SLOT - at.rem_euclid(FAR_SLOT) - subject.origin();
        for (index, timer) in order.iter().zip(&timers) {
            subject.start(timer, begins + signed(*index) * 10);
        }
        if subject.now() + 10 * TICK > begins {
            return Err(Disturbed);
        }
        subject.spin_until(begins + signed(count) * 10);
        Ok(fire_all(subject, count))
    };
    (0..rounds).map(round).collect()
}

fn fire_coarse<S: Subject>(subject: &mut S, count: usize, rounds: usize) -> Vec<f64> {
    let timers = many(count, || subject.coarse());
    let round = |_| {
        let expiry = subject.tick() + 2;
        for timer in &timers {
            subject.arm(timer, expiry);
        }
        while subject.tick() <= expiry + 1 {
            let next = subject.now() + TICK / 10;
            subject.spin_until(next);
        }
        fire_all(subject, count)
    };
    (0..rounds).map(round).collect()
}

/// The distance between two deadlines of a sleeping worker, in nanoseconds: more than the lateness of most machines.
pub(super) const GAP: i64 = 5 * TICK;

/// Parks until all timers at `deadlines`, which rise, have fired; returns the time that was spent. The machine may wake
/// the worker late, but not after the next deadline.
fn sleep_through<S: Subject>(
    subject: &mut S,
    deadlines: &[i64],
    timers: u32,
) -> Result<f64, Disturbed> {
    let mut fired = 0;
    let mut is_disturbed = false;
    let spent = subject.spent(|subject| {
        for (place, deadline) in deadlines.iter().enumerate() {
            // For none of them at most once: a sleep may end for no reason.
            while fired < timers && subject.now() < *deadline {
                fired += subject.park();
            }
            let next = deadlines.get(place + 1);
            is_disturbed |= next.is_some_and(|next| subject.now() + TICK / 5 > *next);
        }
    });
    if is_disturbed || fired != timers {
        return Err(Disturbed);
    }
    Ok(each(spent, deadlines.len()))
}

/// Runs sleeps with two timers at each deadline.
fn sleeps<S: Subject>(subject: &mut S, count: usize, gap: i64) -> Result<f64, Disturbed> {
    let begins = subject.now() + gap;
    let deadlines: Vec<i64> = (0..count)
        .map(|index| begins + signed(index) * gap)
        .collect();
    let pairs: Vec<_> = deadlines
        .iter()
        .map(|_| [subject.exact(), subject.exact()])
        .collect();
    for (pair, deadline) in pairs.iter().zip(&deadlines) {
        for timer in pair {
            subject.start(timer, *deadline);
        }
    }
    let timers = u32::try_from(2 * count).unwrap_or(u32::MAX);
    sleep_through(subject, &deadlines, timers)
}

/// Runs sleeps of futures: one in three is pushed out beyond all others, and one in three is dropped. An exact timer
/// fires before the first of these sleeps, in place of a sleep that was first.
fn mixed_sleeps<S: Subject>(subject: &mut S, count: usize, gap: i64) -> Result<f64, Disturbed> {
    let begins = subject.now();
    let mut sleeps = many(count, || subject.sleep());
    for (place, sleep) in (1..).zip(&mut sleeps) {
        subject.begin(sleep, place * gap);
    }
    let mut deadlines = Vec::new();
    for (index, sleep) in sleeps.iter_mut().enumerate() {
        match index % 3 {
            0 => {
                let at = begins + signed(count + index) * gap;
                let deadline = subject.deadline(at);
                subject.reset(sleep, deadline);
                deadlines.push(at);
            }
            1 => subject.give_up(sleep),
            _ => deadlines.push(begins + (signed(index) + 1) * gap),
        }
    }
    let exact = subject.exact();
    let at = begins + gap + gap / 2;
    subject.start(&exact, at);
    deadlines.push(at);
    deadlines.sort_unstable();
    let timers = u32::try_from(deadlines.len()).unwrap_or(u32::MAX);
    deadlines.dedup();
    sleep_through(subject, &deadlines, timers)
}

fn strangers<S: Subject>(subject: &mut S, count: usize, rounds: usize) -> Vec<f64> {
    let timers = many(count, || subject.exact());
    let order = shuffled(count);
    let round = |_| {
        for (index, timer) in order.iter().zip(&timers) {
            subject.start(timer, place(*index));
        }
        each(subject.strangely_cancel(&timers), count)
    };
    (0..rounds).map(round).collect()
}
