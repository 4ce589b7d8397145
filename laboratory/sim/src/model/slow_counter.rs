//! The slow counter that all CPUs share, in virtual time: the counter serves one CPU after the other.
//!
//! CPUs execute one after the other, and a CPU executes ahead of the CPUs that follow. So the counter keeps the times
//! at which it was busy, instead of the time at which it becomes free: a CPU whose time is before that of the others
//! gets an earlier gap. The capacity of the counter in a given time is preserved. Among CPUs that arrive within one
//! gap, the CPU that executes first is served first.

use std::collections::VecDeque;

use tickless_core::clock::combined::{Step, Waiting, Word};

use crate::model::cost_model::CostModel;
use crate::model::time::Picos;

/// The number of reads that are remembered, which is more than all CPUs make within the time that one CPU executes at
/// once.
const REMEMBERED: usize = 4 * crate::model::topology::CPUS_MAX as usize;

/// The word in which a CPU publishes the number of a read. The number has no meaning of its own; it only advances.
type Number = Word<32>;

#[derive(Clone, Copy, Debug)]
struct Read {
    /// The time at which the counter begins the read.
    from: Picos,
    /// The time at which the counter ends the read.
    until: Picos,
    /// The word that the CPU found before the read, and the word that it published after the read.
    found: Number,
    published: Number,
    /// The CPU that acquired the line last, and the time from which on that CPU has it.
    last: u32,
    handed: Picos,
}

/// The slow counter, with its remembered reads.
#[derive(Debug, Default)]
pub(crate) struct SlowCounter {
    /// The reads in the order of their times, without an overlap.
    reads: VecDeque<Read>,
    /// The number of reads of the counter itself.
    served: u64,
}

impl SlowCounter {
    /// Returns the number of reads of the counter itself.
    pub(crate) const fn served(&self) -> u64 {
        self.served
    }

    /// Lets `cpu`, which arrives at `now`, read the counter by itself and keep it busy for `serial`. Returns the time
    /// at which the read begins.
    pub(crate) fn serves(&mut self, cpu: u32, now: Picos, serial: Picos) -> Picos {
        let mut place = self.reads.partition_point(|read| read.until <= now);
        let mut from = now;
        while let Some(read) = self.reads.get(place)
            && read.from < from + serial
        {
            from = read.until;
            place += 1;
        }
        self.insert(place, cpu, (from, from + serial));
        from
    }

    /// Lets `cpu` take part in a combined read at `now`. Returns the time at which the sample that it gets was taken,
    /// and the time at which `cpu` has the sample.
    ///
    /// The CPU that reads masks its interrupts meanwhile. The simulation needs nothing for that, because the work that
    /// a CPU executes at once is not interrupted.
    pub(crate) fn read_joined(
        &mut self,
        model: &CostModel,
        cpu: u32,
        now: Picos,
    ) -> (Picos, Picos) {
        let charges = &model.charges;
        let place = self.reads.partition_point(|read| read.until <= now);
        // The line comes from the CPU that had it last.
        let before = place.checked_sub(1).and_then(|last| self.reads.get(last));
        let (word, last) = before.map_or((Number::START, cpu), |read| (read.published, read.last));
        let line = |one, other| charges.line(model.distance(one, other));
        let locked = now + line(last, cpu) + charges.exchange;
        let until = locked + charges.slow_counter;
        if let Some(read) = self.reads.get_mut(place)
            && read.from < until + charges.exchange
        {
            let mut waiting = Waiting::for_any(read.found);
            // It is locked when this CPU comes, or before this CPU has locked it.
            let waits = waiting.judge(read.found.locked());
            let leaves = waiting.judge(read.published);
            assert!(
                waits == Step::Wait && leaves == Step::Leave(read.published.value()),
                "{read:?}: {waits:?}, {leaves:?}"
            );
            // Waiters get the line one after the other.
            read.handed = read.handed.max(now) + line(read.last, cpu);
            read.last = cpu;
            return (read.until, read.handed);
        }
        assert_eq!(Waiting::for_any(word).judge(word), Step::Lead, "{word:?}");
        let until = until + charges.exchange;
        self.insert(place, cpu, (now, until));
        (until, until)
    }

    fn insert(&mut self, place: usize, cpu: u32, (from, until): (Picos, Picos)) {
        self.served += 1;
        let before = place.checked_sub(1).and_then(|last| self.reads.get(last));
        let found = before.map_or(Number::START, |read| read.published);
        let read = Read {
            from,
            until,
            found,
            published: found.locked().publish(self.served),
            handed: until,
            last: cpu,
        };
        self.reads.insert(place, read);
        if self.reads.len() > REMEMBERED {
            self.reads.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::SlowCounter;
    use crate::model::cost_model::CostModel;
    use crate::model::profile::Profile;
    use crate::model::time::Picos;

    fn haswell() -> CostModel {
        let mut profile = Profile::embedded("hsw-144").unwrap();
        let nanos = Picos::from_nanos;
        profile.costs.slow_counter.value = nanos(1_000);
        profile.costs.exchange.value = nanos(10);
        profile.costs.line_cache.value = nanos(50);
        profile.costs.line_remote.value = nanos(150);
        CostModel::new(&profile.costs, &profile.topology)
    }

    fn serves(counter: &mut SlowCounter, cpu: u32, now: u64) -> u64 {
        let now = Picos::from_nanos(now);
        counter.serves(cpu, now, Picos::from_nanos(300)).as_nanos()
    }

    #[test]
    fn direct_reads_are_served_one_at_a_time() {
        let mut counter = SlowCounter::default();
        let from: Vec<_> = (0..4).map(|cpu| serves(&mut counter, cpu, 100)).collect();
        assert_eq!(from, [100, 400, 700, 1_000]);
        assert_eq!(counter.served(), 4);
    }

    /// A CPU that executed earlier may have read at a later time.
    #[test]
    fn a_cpu_from_the_past_finds_the_gaps_of_its_time() {
        let mut counter = SlowCounter::default();
        assert_eq!(serves(&mut counter, 0, 0), 0);
        assert_eq!(serves(&mut counter, 0, 800), 800);
        assert_eq!(serves(&mut counter, 1, 100), 300);
        assert_eq!(
            serves(&mut counter, 2, 100),
            1_100,
            "600 to 800 is too short"
        );
        assert_eq!(serves(&mut counter, 3, 5_000), 5_000);
    }

    fn joins(counter: &mut SlowCounter, model: &CostModel, cpu: u32, now: u64) -> (u64, u64) {
        let (sampled, has) = counter.read_joined(model, cpu, Picos::from_nanos(now));
        (sampled.as_nanos(), has.as_nanos())
    }

    /// Spec C-6.4: one read serves all waiting CPUs, and the cache line is transferred from each to the next.
    #[test]
    fn those_who_wait_get_the_read_in_flight() {
        let (model, mut counter) = (haswell(), SlowCounter::default());
        assert_eq!(joins(&mut counter, &model, 0, 0), (1_020, 1_020));
        assert_eq!(joins(&mut counter, &model, 1, 10), (1_020, 1_070));
        // From another socket.
        assert_eq!(joins(&mut counter, &model, 18, 1_000), (1_020, 1_220));
        assert_eq!(counter.served(), 1);
        // Over: the next one reads, and fetches the line first.
        assert_eq!(joins(&mut counter, &model, 0, 1_020), (2_190, 2_190));
        assert_eq!(counter.served(), 2);
    }

    /// A CPU gets a number that was published within its call, even if the CPU that reads is ahead.
    #[test]
    fn a_read_that_begins_before_ones_own_could_end_is_joined() {
        let (model, mut counter) = (haswell(), SlowCounter::default());
        assert_eq!(joins(&mut counter, &model, 0, 5_000), (6_020, 6_020));
        assert_eq!(joins(&mut counter, &model, 1, 4_500), (6_020, 6_070));
        assert_eq!(joins(&mut counter, &model, 1, 100), (1_120, 1_120));
        assert_eq!(counter.served(), 2);
    }
}
