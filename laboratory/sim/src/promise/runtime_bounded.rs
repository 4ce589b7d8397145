//! `runtime_bounded`: a task with a reservation does not run for longer than its runtime in a period. The time by which
//! a decision was late is subtracted from the following periods.
//!
//! Checked whenever the task is accounted, in two ways: by the CPU time that the task had since it became ready or had
//! runtime again, and by a bucket that leaks at the rate of the reservation. Two runtimes fit into the bucket, because
//! a task may use the runtime of one period at its end and the runtime of the next period at its beginning. The bucket
//! also has to hold the amount that leaks while late decisions for other tasks keep the task waiting beyond its
//! deadline.

use crate::model::time::Picos;

/// Describes the violation if a task ran for `spent` since it got its `runtime`, and that exceeds the runtime by more
/// than `late`, the allowed delay of a decision.
pub(crate) fn overspent(spent: Picos, runtime: Picos, late: Picos) -> Option<String> {
    (spent > runtime + late)
        .then(|| format!("a task with a runtime of {runtime} ran for {spent} in one piece of it"))
}

/// The service that a task had beyond the rate of its reservation.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Bucket {
    /// The nanoseconds of the excess service, times the period.
    level: u128,
}

impl Bucket {
    /// Adds to the bucket that the task `had` a part of the time `passed`. Describes the violation if the bucket is too
    /// full. A decision about the task may be `late`, and other tasks may have `kept` the task waiting.
    pub(crate) fn pours(
        &mut self,
        (had, passed): (Picos, Picos),
        (runtime, period): (Picos, Picos),
        (late, kept): (Picos, Picos),
    ) -> Option<String> {
        let nanos = |time: Picos| u128::from(time.as_nanos());
        let leaked = nanos(passed) * nanos(runtime);
        self.level = self.level.saturating_sub(leaked) + nanos(had) * nanos(period);
        let most =
            (nanos(runtime) * 2 + nanos(late)) * nanos(period) + nanos(kept) * nanos(runtime);
        (self.level > most).then(|| {
            let above = self.level / nanos(period).max(1);
            format!("a task with {runtime} in {period} had {above} ns more than that, of late")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Bucket;
    use crate::model::time::Picos;

    #[test]
    fn two_runtimes_may_meet_and_a_third_one_may_not() {
        let millis = Picos::from_millis;
        let reservation = (millis(2), millis(10));
        let mut bucket = Bucket::default();
        let mut pours = |had, passed| {
            let pair = (millis(had), millis(passed));
            bucket
                .pours(pair, reservation, (Picos::ZERO, Picos::ZERO))
                .is_none()
        };
        assert!(pours(2, 2) && pours(2, 2), "the end of one, and the next");
        assert!(pours(0, 8) && pours(2, 2), "a period later");
        assert!(!pours(2, 2), "that period had its runtime");
    }

    #[test]
    fn what_was_kept_waiting_has_what_leaked_meanwhile() {
        let millis = Picos::from_millis;
        for (kept, is_kept) in [(10, true), (9, false)] {
            let lateness = (Picos::ZERO, millis(kept));
            let mut bucket = Bucket::default();
            let wrong = bucket.pours((millis(6), Picos::ZERO), (millis(2), millis(10)), lateness);
            assert_eq!(wrong.is_none(), is_kept, "{kept}");
        }
    }
}
