//! The counters of each CPU, and the lateness of timers on the CPUs of a group.

use serde::Serialize;

use crate::model::time::Picos;
use crate::record::distribution::Distribution;

/// The counters of a CPU, or of several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Tally {
    /// Timers that the CPU started, moved or cancelled, with a lock.
    pub operations: u64,
    /// Timers that the CPU fired, including those of other CPUs.
    pub fires: u64,
    /// Coarse timers of other CPUs that the CPU fired.
    pub remote_fires: u64,
    /// Coarse timers of the CPU that other CPUs fired.
    pub fired_by_others: u64,
    /// Timer interrupts.
    pub interrupts: u64,
    /// Writes to the CPU's event device.
    pub device_writes: u64,
    /// Inter-processor interrupts that the CPU received.
    pub ipis: u64,
    /// Wake-ups of the CPU from an idle state.
    pub wakes: u64,
}

impl Tally {
    pub(crate) const fn add(&mut self, other: &Self) {
        self.operations += other.operations;
        self.fires += other.fires;
        self.remote_fires += other.remote_fires;
        self.fired_by_others += other.fired_by_others;
        self.interrupts += other.interrupts;
        self.device_writes += other.device_writes;
        self.ipis += other.ipis;
        self.wakes += other.wakes;
    }
}

#[derive(Debug, Default)]
pub(crate) struct Tallies {
    cpus: Vec<Tally>,
    group_of: Vec<u32>,
    late: Vec<[Distribution; 2]>,
}

impl Tallies {
    /// Makes the tallies of CPUs that belong to these groups.
    pub(crate) fn new(group_of: &[u32]) -> Self {
        let groups = group_of.iter().max().map_or(0, |last| *last as usize + 1);
        Self {
            cpus: vec![Tally::default(); group_of.len()],
            group_of: group_of.to_vec(),
            late: vec![Default::default(); groups],
        }
    }

    /// Applies `what` to the tally of `cpu`, if `cpu` is the number of a CPU.
    #[inline]
    pub(crate) fn count(&mut self, cpu: u32, what: impl FnOnce(&mut Tally)) {
        if let Some(tally) = self.cpus.get_mut(cpu as usize) {
            what(tally);
        }
    }

    fn late_of(&mut self, cpu: u32, kind: usize) -> Option<&mut Distribution> {
        let group = *self.group_of.get(cpu as usize)?;
        self.late.get_mut(group as usize)?.get_mut(kind)
    }

    /// Counts a coarse timer of `owner` that `cpu` fired.
    pub(crate) fn coarse(&mut self, cpu: u32, owner: u32, late: Picos) {
        self.count(cpu, |tally| {
            tally.fires += 1;
            tally.remote_fires += u64::from(owner != cpu);
        });
        self.count(owner, |tally| {
            tally.fired_by_others += u64::from(owner != cpu);
        });
        if let Some(times) = self.late_of(cpu, 0) {
            times.note(late);
        }
    }

    pub(crate) fn exact(&mut self, cpu: u32, late: Picos) {
        self.count(cpu, |tally| tally.fires += 1);
        if let Some(times) = self.late_of(cpu, 1) {
            times.note(late);
        }
    }

    /// Takes the lateness of coarse timers and of exact timers, for each group.
    pub(crate) fn take_late(&mut self) -> Vec<[Distribution; 2]> {
        std::mem::take(&mut self.late)
    }

    /// Returns the group and the tally of each CPU.
    pub(crate) fn of_cpus(&self) -> impl Iterator<Item = (u32, &Tally)> {
        self.group_of.iter().copied().zip(&self.cpus)
    }
}
