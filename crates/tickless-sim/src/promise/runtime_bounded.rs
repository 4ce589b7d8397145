//! `runtime_bounded`: a task with a reservation runs for its runtime in each period at most, and as long beyond that as
//! it takes until a decision is made; that is taken from the periods to come.
//!
//! Looked at whenever the task is accounted: what it had since it was ready or had runtime again, and a bucket that
//! leaks at the rate of the reservation. Two runtimes fit into it, because a task may use the one of a period at its
//! end, and that of the next at its begin.

use crate::model::time::Picos;

/// What is wrong with a task that ran for `spent` since it had `runtime`, where a decision may be `late`.
pub(crate) fn overspent(spent: Picos, runtime: Picos, late: Picos) -> Option<String> {
    (spent > runtime + late)
        .then(|| format!("a task with a runtime of {runtime} ran for {spent} in one piece of it"))
}

/// What a task had beyond the rate of its reservation.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Bucket {
    /// In nanoseconds, times the period.
    level: u128,
}

impl Bucket {
    /// The task `had` so much of `passed`; what is wrong with that.
    pub(crate) fn pours(
        &mut self,
        (had, passed): (Picos, Picos),
        (runtime, period): (Picos, Picos),
        late: Picos,
    ) -> Option<String> {
        let nanos = |time: Picos| u128::from(time.as_nanos());
        let leaked = nanos(passed) * nanos(runtime);
        self.level = self.level.saturating_sub(leaked) + nanos(had) * nanos(period);
        let most = (nanos(runtime) * 2 + nanos(late)) * nanos(period);
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
            bucket.pours(pair, reservation, Picos::ZERO).is_none()
        };
        assert!(pours(2, 2) && pours(2, 2), "the end of one, and the next");
        assert!(pours(0, 8) && pours(2, 2), "a period later");
        assert!(!pours(2, 2), "that period had its runtime");
    }
}
