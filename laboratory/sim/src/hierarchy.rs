//! A host that has only a migration hierarchy: its CPUs' global timers are instants without callbacks.
//!
//! To draw a hierarchy, or to count its operations under a load, its [tables](tickless_conformance::tables) are enough:
//! [`Cpus`] keeps the real nodes and groups, answers for timers that have no callbacks, and counts the [`Step`]s.
//!
//! ```
//! use tickless_core::hierarchy::{MigratorPolicy, Hierarchy, Layout, NumaNode, Presence};
//! use tickless_core::platform::CpuId;
//! use tickless_core::time::Instant;
//! use tickless_sim::hierarchy::{Cpus, with_cpus};
//!
//! let layout = Layout::new(2, 1, 8);
//! let tree = Hierarchy::<Cpus>::new(with_cpus(2, layout), layout, MigratorPolicy::LowestBit);
//! for cpu in [CpuId(0), CpuId(1)] {
//!     tree.prepare(cpu, NumaNode(0))?;
//!     tree.set_available(cpu, Presence::Awake).expect("it is prepared");
//! }
//! let due = Instant::from_nanos(1_000);
//! tree.host().timers().arm(CpuId(1), due);
//! // CPU 0 is awake and looks after it.
//! assert!(tree.enter_idle(CpuId(1), due).is_forever());
//! assert!(tree.remote_work_due(CpuId(0), due));
//! # Ok::<(), tickless_core::hierarchy::PrepareError>(())
//! ```
//!
//! # Limits
//!
//! Only one thread may use the hierarchy. Each group takes a place of a few bytes that is reserved in advance.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use tickless_conformance::tables::{CpuTimers, PlainLock, Tables};
use tickless_core::hierarchy::{Layout, State, Step, WIDTH_DEFAULT};
use tickless_core::platform::CpuId;
use tickless_core::time::Instant;

/// The counters of one hierarchy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Changes of state words: each is an atomic exchange on a cache line that a group's children share.
    pub exchanges: u64,
    /// Changes of a state word that replaced a migrator which became idle.
    pub handovers: u64,
    /// Visits of walks to the queue of a group, under its lock.
    pub publications: u64,
    /// Timers that fired.
    pub fired: u64,
}

/// The global timers of all CPUs, each of which is an instant.
#[derive(Debug)]
pub struct Moments {
    /// The number of timers of each CPU, by their due time.
    timers: Vec<RefCell<BTreeMap<Instant, u32>>>,
    counts: Cell<Counts>,
}

/// The tables of a hierarchy, and its CPUs' global timers.
pub type Cpus<const WIDTH: usize = WIDTH_DEFAULT> = Tables<Moments, WIDTH>;

/// Makes CPUs 0 to `cpus - 1`, with places for all groups that `layout` can need.
#[must_use]
pub fn with_cpus<const WIDTH: usize>(cpus: u32, layout: Layout) -> Cpus<WIDTH> {
    let moments = Moments {
        timers: (0..cpus).map(|_| RefCell::default()).collect(),
        counts: Cell::default(),
    };
    Tables::with_timers(moments, cpus, layout)
}

impl Moments {
    fn of(&self, cpu: CpuId) -> &RefCell<BTreeMap<Instant, u32>> {
        &self.timers[cpu.0 as usize]
    }

    /// Adds a global timer to `cpu`. The caller notifies the hierarchy.
    ///
    /// # Panics
    ///
    /// When there is no such CPU.
    pub fn arm(&self, cpu: CpuId, due: Instant) {
        let mut timers = self.of(cpu).borrow_mut();
        *timers.entry(due).or_default() += 1;
    }

    /// Returns the due time of the first global timer of `cpu`; [`Instant::FOREVER`] if it has none.
    ///
    /// # Panics
    ///
    /// When there is no such CPU.
    #[must_use]
    pub fn first(&self, cpu: CpuId) -> Instant {
        let timers = self.of(cpu).borrow();
        timers
            .first_key_value()
            .map_or(Instant::FOREVER, |(due, _)| *due)
    }

    /// Returns the counts so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counts.get()
    }

    fn count(&self, change: impl FnOnce(&mut Counts)) {
        let mut counts = self.counts.get();
        change(&mut counts);
        self.counts.set(counts);
    }
}

/// Returns true if `new` has another migrator where `old` had one.
fn is_handover(old: State, new: State) -> bool {
    match (old.migrator(), new.migrator()) {
        (Some(before), Some(after)) => before != after,
        _ => false,
    }
}

impl CpuTimers for Moments {
    type Lock = PlainLock;
    /// The unit: no base is locked, because with one thread no timer can be added, removed or changed meanwhile.
    type LockedBases<'a> = ();

    fn expire_global(&self, cpu: CpuId, now: Instant, budget: &mut u32) {
        let mut timers = self.of(cpu).borrow_mut();
        while *budget > 0 {
            let Some(mut first) = timers.first_entry().filter(|first| *first.key() <= now) else {
                return;
            };
            *first.get_mut() -= 1;
            if *first.get() == 0 {
                first.remove();
            }
            *budget -= 1;
            self.count(|counts| counts.fired += 1);
        }
    }

    fn lock_bases(&self, cpu: CpuId) -> ((), Instant) {
        ((), self.first(cpu))
    }

    /// Does nothing: the caller drives the CPUs.
    fn activate(&self, _cpu: CpuId) {}

    fn step(&self, step: Step) {
        match step {
            Step::State { old, new, .. } => self.count(|counts| {
                counts.exchanges += 1;
                counts.handovers += u64::from(is_handover(old, new));
            }),
            Step::Published { .. } => self.count(|counts| counts.publications += 1),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use tickless_core::hierarchy::{
        Hierarchy, HierarchyHost, Layout, MigratorPolicy, NumaNode, Presence,
    };
    use tickless_core::platform::CpuId;
    use tickless_core::time::Instant;

    use super::{Counts, Cpus, with_cpus};

    const fn at(nanos: i64) -> Instant {
        Instant::from_nanos(nanos)
    }

    fn awake(cpus: u32) -> Hierarchy<Cpus<2>, 2> {
        let layout = Layout::new(cpus, 1, 2);
        let tree = Hierarchy::new(with_cpus(cpus, layout), layout, MigratorPolicy::LowestBit);
        for cpu in (0..cpus).map(CpuId) {
            tree.prepare(cpu, NumaNode(0)).unwrap();
            tree.set_available(cpu, Presence::Awake).unwrap();
        }
        tree
    }

    #[test]
    fn timers_fire_in_order_and_within_the_budget() {
        let cpus = with_cpus::<2>(1, Layout::new(1, 1, 2));
        for due in [3, 1, 1, 9] {
            cpus.timers().arm(CpuId(0), at(due));
        }
        let mut budget = 1;
        cpus.expire_global(CpuId(0), at(5), &mut budget);
        assert_eq!((budget, cpus.timers().first(CpuId(0))), (0, at(1)));
        budget = 9;
        cpus.expire_global(CpuId(0), at(5), &mut budget);
        assert_eq!((budget, cpus.timers().first(CpuId(0))), (7, at(9)));
        assert_eq!(cpus.timers().counts().fired, 3);
    }

    #[test]
    fn what_a_walk_does_is_counted() {
        let tree = awake(2);
        let before = tree.host().timers().counts();
        tree.host().timers().arm(CpuId(0), at(7));
        assert!(tree.enter_idle(CpuId(0), at(7)).is_forever());
        let after = tree.host().timers().counts();
        let expected = Counts {
            exchanges: before.exchanges + 1,
            // CPU 0 had the duty.
            handovers: before.handovers + 1,
            publications: before.publications + 1,
            fired: 0,
        };
        assert_eq!(after, expected);
    }

    #[test]
    fn there_is_room_for_every_tree() {
        for cpus in 1..40 {
            let tree = awake(cpus);
            assert_eq!(tree.check(), Ok(()));
        }
        // Each CPU on a node of its own, and the fullest way up.
        let layout = Layout::new(30, 15, 2);
        let tree =
            Hierarchy::<Cpus<2>, 2>::new(with_cpus(30, layout), layout, MigratorPolicy::LowestBit);
        for cpu in 0..30 {
            tree.prepare(CpuId(cpu), NumaNode(cpu % 15)).unwrap();
        }
        assert_eq!(tree.check(), Ok(()));
    }
}
