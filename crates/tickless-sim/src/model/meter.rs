//! Who executes, and where in virtual time.
//!
//! The core calls locks and the platform without saying when; this is where they look it up. One world runs at a time
//! on a thread.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use crate::model::costs::Charges;
use crate::model::time::Picos;
use crate::model::topology::{Distance, Place};

/// What does not change while a world runs.
#[derive(Debug, Default)]
pub(crate) struct Ground {
    pub(crate) charges: Charges,
    pub(crate) places: Vec<Place>,
}

impl Ground {
    pub(crate) fn distance(&self, one: u32, other: u32) -> Distance {
        if one == other {
            return Distance::None;
        }
        match (
            self.places.get(one as usize),
            self.places.get(other as usize),
        ) {
            (Some(one), Some(other)) => one.distance(other),
            _ => Distance::None,
        }
    }
}

/// Something that fired, to be looked at when the core has returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fired {
    /// The tick of the CPU that executes: what it found.
    Tick {
        /// Its wheels have something due.
        wheel_is_due: bool,
        /// Others that sleep have something due that is its to run.
        remote_is_due: bool,
    },
    /// The slice of the task of a CPU.
    Slice(u32),
    /// The sleep of a task is over.
    Task(u32),
    /// A coarse timer of a task.
    Coarse { task: u32, index: u32 },
}

/// Nobody: the world itself, which looks and does not execute.
pub(crate) const NOBODY: u32 = u32::MAX;

/// What each step asks for. Nothing in it needs to be dropped with the thread, so that reaching it takes no check.
struct Meter {
    cpu: Cell<u32>,
    cursor: Cell<Picos>,
    /// What a lock costs that is free and near.
    lock: Cell<Picos>,
    /// Something fired.
    has_fired: Cell<bool>,
    waits: Cell<u64>,
    waited: Cell<Picos>,
    starts: Cell<u64>,
    starting: Cell<Picos>,
}

thread_local! {
    static METER: Meter = const {
        Meter {
            cpu: Cell::new(NOBODY),
            cursor: Cell::new(Picos::ZERO),
            lock: Cell::new(Picos::ZERO),
            has_fired: Cell::new(false),
            waits: Cell::new(0),
            waited: Cell::new(Picos::ZERO),
            starts: Cell::new(0),
            starting: Cell::new(Picos::ZERO),
        }
    };
    static GROUND: RefCell<Option<Rc<Ground>>> = const { RefCell::new(None) };
    static FIRED: RefCell<Vec<Fired>> = const { RefCell::new(Vec::new()) };
}

/// Begins a world on this thread.
pub(crate) fn install(ground: &Rc<Ground>) {
    METER.with(|meter| {
        meter.cpu.set(NOBODY);
        meter.cursor.set(Picos::ZERO);
        meter.lock.set(ground.charges.lock);
        meter.has_fired.set(false);
        meter.waits.set(0);
        meter.waited.set(Picos::ZERO);
        meter.starts.set(0);
        meter.starting.set(Picos::ZERO);
    });
    GROUND.set(Some(Rc::clone(ground)));
    FIRED.take();
}

/// From here on `cpu` executes, at `cursor`.
#[inline]
pub(crate) fn enter(cpu: u32, cursor: Picos) {
    METER.with(|meter| {
        meter.cpu.set(cpu);
        meter.cursor.set(cursor);
    });
}

/// Nobody executes from here on; how far the last one got.
#[inline]
pub(crate) fn leave() -> Picos {
    METER.with(|meter| {
        meter.cpu.set(NOBODY);
        meter.cursor.get()
    })
}

/// Lets nobody look, which costs nothing.
pub(crate) fn looking<R>(look: impl FnOnce() -> R) -> R {
    let cpu = METER.with(|meter| meter.cpu.replace(NOBODY));
    let result = look();
    METER.with(|meter| meter.cpu.set(cpu));
    result
}

/// Who executes.
#[inline]
pub(crate) fn cpu() -> u32 {
    METER.with(|meter| meter.cpu.get())
}

/// How far the CPU that executes has got.
#[inline]
pub(crate) fn cursor() -> Picos {
    METER.with(|meter| meter.cursor.get())
}

/// The CPU that executes is busy for `cost`.
#[inline]
pub(crate) fn charge(cost: Picos) {
    METER.with(|meter| {
        if meter.cpu.get() != NOBODY {
            meter.cursor.set(meter.cursor.get() + cost);
        }
    });
}

/// Something fired.
#[inline]
pub(crate) fn note(fired: Fired) {
    METER.with(|meter| meter.has_fired.set(true));
    FIRED.with_borrow_mut(|all| all.push(fired));
}

/// Hands out what fired since the last time, in order, into `into`, which is empty.
#[inline]
pub(crate) fn take_fired(into: &mut Vec<Fired>) {
    if METER.with(|meter| meter.has_fired.replace(false)) {
        FIRED.with_borrow_mut(|all| std::mem::swap(into, all));
    }
}

/// How often somebody waited for a lock, and for how long altogether.
pub(crate) fn waits() -> (u64, Picos) {
    METER.with(|meter| (meter.waits.get(), meter.waited.get()))
}

/// The CPU that executes starts an exact timer.
#[inline]
pub(crate) fn start(body: impl FnOnce()) {
    let before = cursor();
    body();
    METER.with(|meter| {
        if meter.cpu.get() != NOBODY {
            let took = meter.cursor.get() - before;
            meter.starts.set(meter.starts.get() + 1);
            meter.starting.set(meter.starting.get() + took);
        }
    });
}

/// How many starts of exact timers were timed, and how long those took altogether.
pub(crate) fn starts() -> (u64, Picos) {
    METER.with(|meter| (meter.starts.get(), meter.starting.get()))
}

/// A lock in virtual time: who had it last, and from when to when it was busy without a pause.
///
/// Whoever comes within that time waits until its end, also if one who came later was executed earlier: what a lock can
/// do in a given time is kept, the order among those who wait is not.
#[derive(Debug)]
pub(crate) struct Hold {
    holder: Cell<u32>,
    since: Cell<Picos>,
    until: Cell<Picos>,
}

impl Default for Hold {
    fn default() -> Self {
        Self {
            holder: Cell::new(NOBODY),
            since: Cell::new(Picos::ZERO),
            until: Cell::new(Picos::ZERO),
        }
    }
}

impl Hold {
    /// The CPU that executes takes the lock, after whoever has it at this moment.
    #[inline]
    pub(crate) fn take(&self) {
        METER.with(|meter| {
            let me = meter.cpu.get();
            if me == NOBODY {
                return;
            }
            let last = self.holder.replace(me);
            if last == me || last == NOBODY {
                let now = meter.cursor.get();
                self.begins(now);
                meter.cursor.set(now + meter.lock.get());
            } else {
                self.take_from(last, meter);
            }
        });
    }

    /// The CPU that executes takes the lock, which another one had last.
    fn take_from(&self, last: u32, meter: &Meter) {
        GROUND.with_borrow(|ground| {
            let Some(ground) = ground else {
                return;
            };
            let distance = ground.distance(last, meter.cpu.get());
            let mut now = meter.cursor.get();
            if self.since.get() <= now && now < self.until.get() {
                let free = self.until.get();
                meter.waits.set(meter.waits.get() + 1);
                meter.waited.set(meter.waited.get() + (free - now));
                now = free + ground.charges.hand(distance);
            } else {
                self.begins(now);
                now += ground.charges.lock + ground.charges.line(distance);
            }
            meter.cursor.set(now);
        });
    }

    /// The lock becomes busy at `now`, unless that is before the time of which it is known.
    #[inline]
    fn begins(&self, now: Picos) {
        if now >= self.until.get() {
            self.since.set(now);
        }
    }

    /// The CPU that executes gives the lock back.
    #[inline]
    pub(crate) fn give(&self) {
        METER.with(|meter| {
            if meter.cpu.get() != NOBODY {
                self.until.set(meter.cursor.get().max(self.until.get()));
            }
        });
    }
}

/// A cache line in virtual time: who wrote it last.
#[derive(Debug)]
pub(crate) struct Line(Cell<u32>);

impl Default for Line {
    fn default() -> Self {
        Self(Cell::new(NOBODY))
    }
}

impl Line {
    /// The CPU that executes writes `lines` of them, which may have to come from elsewhere first.
    #[inline]
    pub(crate) fn write(&self, ground: &Ground, lines: u64) {
        let me = cpu();
        if me == NOBODY {
            return;
        }
        let last = self.0.replace(me);
        if last != me && last != NOBODY {
            charge(ground.charges.line(ground.distance(last, me)) * lines);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use super::{Ground, Hold, Line, cursor, enter, install, looking, waits};
    use crate::model::profile::Profile;
    use crate::model::time::Picos;

    fn skylake() -> Rc<Ground> {
        let profile = Profile::embedded("skl-112").unwrap();
        let ground = Rc::new(Ground {
            charges: profile.costs.charges(),
            places: (0..112).map(|cpu| profile.topology.place(cpu)).collect(),
        });
        install(&ground);
        ground
    }

    /// What taking `hold` costs `cpu` at `at`; it holds it for `nanos`.
    fn takes(hold: &Hold, cpu: u32, at: u64, nanos: u64) -> u64 {
        enter(cpu, Picos::from_nanos(at));
        hold.take();
        let took = cursor() - Picos::from_nanos(at);
        super::charge(Picos::from_nanos(nanos));
        hold.give();
        took.as_nanos()
    }

    #[test]
    fn locks_cost_by_where_they_were() {
        skylake();
        let hold = Hold::default();
        assert_eq!(takes(&hold, 0, 0, 10), 12, "free and new");
        assert_eq!(takes(&hold, 0, 1_000, 10), 12, "free and near");
        assert_eq!(takes(&hold, 1, 2_000, 10), 12 + 48, "of the same socket");
        assert_eq!(takes(&hold, 28, 3_000, 10), 12 + 135, "of another socket");
        assert_eq!(takes(&hold, 84, 4_000, 10), 12 + 7, "of a sibling");
    }

    #[test]
    fn a_lock_that_is_held_is_waited_for() {
        skylake();
        let hold = Hold::default();
        assert_eq!(takes(&hold, 0, 0, 1_000), 12);
        // Held from 12 to 1,012.
        assert_eq!(takes(&hold, 1, 500, 10), 512 + 110);
        assert_eq!(waits(), (1, Picos::from_nanos(512)));
        // It is busy until 1,132, also for whoever should have come before that one.
        assert_eq!(takes(&hold, 2, 400, 10), 732 + 110);
        assert_eq!(waits().0, 2);
    }

    #[test]
    fn whoever_comes_from_the_past_does_not_wait_for_the_future() {
        skylake();
        let hold = Hold::default();
        assert_eq!(takes(&hold, 0, 5_000, 1_000), 12);
        assert_eq!(takes(&hold, 1, 100, 10), 12 + 48);
        assert_eq!(waits().0, 0);
        // That it was busy then is not forgotten.
        assert_eq!(takes(&hold, 2, 5_500, 10), 512 + 110);
    }

    #[test]
    fn a_lock_is_not_held_by_two_at_a_time() {
        skylake();
        let hold = Hold::default();
        // Sixteen come within a microsecond, for a hundred nanoseconds each.
        let last = (0..16)
            .zip(0_u64..)
            .map(|(cpu, turn)| 60 * turn + takes(&hold, cpu, 60 * turn, 100))
            .max();
        assert_eq!(last, Some(12 + 15 * (100 + 110)));
    }

    #[test]
    fn looking_costs_nothing() {
        let ground = skylake();
        let (hold, line) = (Hold::default(), Line::default());
        enter(3, Picos::ZERO);
        looking(|| {
            hold.take();
            hold.give();
            line.write(&ground, 1);
        });
        assert_eq!(cursor(), Picos::ZERO);
    }

    #[test]
    fn lines_come_from_who_wrote_them() {
        let ground = skylake();
        let line = Line::default();
        enter(0, Picos::ZERO);
        line.write(&ground, 2);
        assert_eq!(cursor(), Picos::ZERO);
        enter(28, Picos::ZERO);
        line.write(&ground, 2);
        assert_eq!(cursor(), Picos::from_nanos(270));
    }
}
