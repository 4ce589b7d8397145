//! The cost of locks and cache lines for the executing CPU. The cost depends on the CPU that used them last.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use tickless_link::lock::{SoloLock, Watcher};

use super::costs::{Charges, Costs};
use super::current_cpu::{self, CurrentCpu, NO_CPU};
use super::time::Picos;
use super::topology::{CpuPlace, Distance, Topology};

/// The constants of a machine while it runs: the prices, and the places of its CPUs.
#[derive(Debug, Default)]
pub(crate) struct CostModel {
    pub(crate) charges: Charges,
    places: Vec<CpuPlace>,
}

impl CostModel {
    pub(crate) fn new(costs: &Costs, topology: &Topology) -> Self {
        Self {
            charges: costs.charges(),
            places: (0..topology.cpus())
                .map(|cpu| topology.place(cpu))
                .collect(),
        }
    }

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

/// The waits for the locks of all bases, nodes and groups together.
struct Locks {
    /// The price of a lock that is free and near.
    near: Cell<Picos>,
    waits: Cell<u64>,
    waited: Cell<Picos>,
}

thread_local! {
    static LOCKS: Locks = const {
        Locks {
            near: Cell::new(Picos::ZERO),
            waits: Cell::new(0),
            waited: Cell::new(Picos::ZERO),
        }
    };
    static MODEL: RefCell<Option<Rc<CostModel>>> = const { RefCell::new(None) };
}

/// Prepares this thread for a machine in which operations cost as `model` says.
pub(crate) fn install(model: &Rc<CostModel>) {
    current_cpu::reset();
    LOCKS.with(|locks| {
        locks.near.set(model.charges.lock);
        locks.waits.set(0);
        locks.waited.set(Picos::ZERO);
    });
    MODEL.set(Some(Rc::clone(model)));
}

/// Returns the number of waits for locks, and the total time of the waits.
pub(crate) fn waits() -> (u64, Picos) {
    LOCKS.with(|locks| (locks.waits.get(), locks.waited.get()))
}

/// A lock whose operations have a cost in virtual time.
pub(crate) type CostedLock = SoloLock<VirtualLock>;

/// A lock in virtual time: the CPU that held the lock last, and the time span for which it was busy without a pause.
///
/// A CPU that arrives within that span waits until its end, even if a CPU that arrives later was executed earlier. The
/// model preserves the number of acquisitions in a given time, but not the order of the waiting CPUs.
#[derive(Debug)]
pub(crate) struct VirtualLock {
    holder: Cell<u32>,
    since: Cell<Picos>,
    until: Cell<Picos>,
}

impl Default for VirtualLock {
    fn default() -> Self {
        Self {
            holder: Cell::new(NO_CPU),
            since: Cell::new(Picos::ZERO),
            until: Cell::new(Picos::ZERO),
        }
    }
}

impl VirtualLock {
    /// Acquires the lock for the CPU that executes, after the CPU that holds it at this moment.
    #[inline]
    fn acquire(&self) {
        current_cpu::with(|current| {
            let me = current.cpu.get();
            if me == NO_CPU {
                return;
            }
            let last = self.holder.replace(me);
            if last == me || last == NO_CPU {
                let now = current.cursor.get();
                self.begins(now);
                let near = LOCKS.with(|locks| locks.near.get());
                current.cursor.set(now + near);
            } else {
                self.acquire_from(last, current);
            }
        });
    }

    /// Acquires the lock for the CPU that executes, if another CPU held it last.
    fn acquire_from(&self, last: u32, current: &CurrentCpu) {
        MODEL.with_borrow(|model| {
            let Some(model) = model else {
                return;
            };
            let distance = model.distance(last, current.cpu.get());
            let mut now = current.cursor.get();
            if self.since.get() <= now && now < self.until.get() {
                let free = self.until.get();
                LOCKS.with(|locks| {
                    locks.waits.set(locks.waits.get() + 1);
                    locks.waited.set(locks.waited.get() + (free - now));
                });
                now = free + model.charges.hand(distance);
            } else {
                self.begins(now);
                now += model.charges.lock + model.charges.line(distance);
            }
            current.cursor.set(now);
        });
    }

    /// Notes that the lock becomes busy at `now`, unless `now` is before the known busy time.
    #[inline]
    fn begins(&self, now: Picos) {
        if now >= self.until.get() {
            self.since.set(now);
        }
    }

    #[inline]
    fn release(&self) {
        current_cpu::with(|current| {
            if current.cpu.get() != NO_CPU {
                self.until.set(current.cursor.get().max(self.until.get()));
            }
        });
    }
}

impl Watcher for VirtualLock {
    #[inline]
    fn takes(&self) {
        self.acquire();
    }

    #[inline]
    fn released(&self) {
        self.release();
    }
}

/// A cache line in virtual time: the CPU that wrote it last.
#[derive(Debug)]
pub(crate) struct CacheLine(Cell<u32>);

impl Default for CacheLine {
    fn default() -> Self {
        Self(Cell::new(NO_CPU))
    }
}

impl CacheLine {
    /// Writes `lines` such cache lines on the CPU that executes. The lines may have to be transferred from another CPU
    /// first.
    #[inline]
    pub(crate) fn write(&self, model: &CostModel, lines: u64) {
        let me = current_cpu::cpu();
        if me == NO_CPU {
            return;
        }
        let last = self.0.replace(me);
        if last != me && last != NO_CPU {
            current_cpu::charge(model.charges.line(model.distance(last, me)) * lines);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use super::{CacheLine, CostModel, VirtualLock, install, waits};
    use crate::model::current_cpu::{charge, cursor, enter, looking};
    use crate::model::profile::Profile;
    use crate::model::time::Picos;

    fn skylake() -> Rc<CostModel> {
        let profile = Profile::embedded("skl-112").unwrap();
        let model = Rc::new(CostModel::new(&profile.costs, &profile.topology));
        install(&model);
        model
    }

    /// Returns the time that `cpu` takes to acquire `lock` at `at`; `cpu` then holds the lock for `nanos`.
    fn takes(lock: &VirtualLock, cpu: u32, at: u64, nanos: u64) -> u64 {
        enter(cpu, Picos::from_nanos(at));
        lock.acquire();
        let took = cursor() - Picos::from_nanos(at);
        charge(Picos::from_nanos(nanos));
        lock.release();
        took.as_nanos()
    }

    #[test]
    fn locks_cost_by_where_they_were() {
        skylake();
        let lock = VirtualLock::default();
        assert_eq!(takes(&lock, 0, 0, 10), 12, "free and new");
        assert_eq!(takes(&lock, 0, 1_000, 10), 12, "free and near");
        assert_eq!(takes(&lock, 1, 2_000, 10), 12 + 48, "of the same socket");
        assert_eq!(takes(&lock, 28, 3_000, 10), 12 + 135, "of another socket");
        assert_eq!(takes(&lock, 84, 4_000, 10), 12 + 7, "of a sibling");
    }

    #[test]
    fn a_lock_that_is_held_is_waited_for() {
        skylake();
        let lock = VirtualLock::default();
        assert_eq!(takes(&lock, 0, 0, 1_000), 12);
        // Held from 12 to 1,012.
        assert_eq!(takes(&lock, 1, 500, 10), 512 + 110);
        assert_eq!(waits(), (1, Picos::from_nanos(512)));
        // It is busy until 1,132, also for a CPU that should have come before that one.
        assert_eq!(takes(&lock, 2, 400, 10), 732 + 110);
        assert_eq!(waits().0, 2);
    }

    #[test]
    fn an_earlier_cursor_does_not_wait_for_a_later_lock_holder() {
        skylake();
        let lock = VirtualLock::default();
        assert_eq!(takes(&lock, 0, 5_000, 1_000), 12);
        assert_eq!(takes(&lock, 1, 100, 10), 12 + 48);
        assert_eq!(waits().0, 0);
        // That it was busy then is not forgotten.
        assert_eq!(takes(&lock, 2, 5_500, 10), 512 + 110);
    }

    #[test]
    fn a_lock_is_not_held_by_two_at_a_time() {
        skylake();
        let lock = VirtualLock::default();
        // Sixteen come within a microsecond, for a hundred nanoseconds each.
        let last = (0..16)
            .zip(0_u64..)
            .map(|(cpu, turn)| 60 * turn + takes(&lock, cpu, 60 * turn, 100))
            .max();
        assert_eq!(last, Some(12 + 15 * (100 + 110)));
    }

    #[test]
    fn looking_costs_nothing() {
        let model = skylake();
        let (lock, line) = (VirtualLock::default(), CacheLine::default());
        enter(3, Picos::ZERO);
        looking(|| {
            lock.acquire();
            lock.release();
            line.write(&model, 1);
        });
        assert_eq!(cursor(), Picos::ZERO);
    }

    #[test]
    fn lines_come_from_the_cpu_that_wrote_them() {
        let model = skylake();
        let line = CacheLine::default();
        enter(0, Picos::ZERO);
        line.write(&model, 2);
        assert_eq!(cursor(), Picos::ZERO);
        enter(28, Picos::ZERO);
        line.write(&model, 2);
        assert_eq!(cursor(), Picos::from_nanos(270));
    }
}
