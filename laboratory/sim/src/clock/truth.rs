//! The true time of each clock, computed independently of the clocks that the machine shows.

use tickless_core::time::Clock;

/// The leads of the other clocks over the monotonic one, in nanoseconds, from one moment of it on.
#[derive(Clone, Copy, Debug)]
struct Ahead {
    from: i64,
    realtime: i64,
    boottime: i64,
    tai: i64,
}

impl Ahead {
    const fn of(&self, clock: Clock) -> i64 {
        match clock {
            Clock::Monotonic => 0,
            Clock::Realtime => self.realtime,
            Clock::Boottime => self.boottime,
            Clock::Tai => self.tai,
        }
    }
}

/// All changes of the clocks so far, and those that are announced.
#[derive(Debug)]
pub(crate) struct Truth(Vec<Ahead>);

impl Truth {
    pub(super) fn new(realtime: i64, tai: i64) -> Self {
        let boottime = 0;
        Self(vec![Ahead {
            from: 0,
            realtime,
            boottime,
            tai,
        }])
    }

    /// Adds so much to the leads of the clocks, from `from` on.
    pub(super) fn changes(&mut self, from: i64, realtime: i64, boottime: i64, tai: i64) {
        let place = self.0.partition_point(|one| one.from <= from);
        let before = self.0[place - 1];
        let new = Ahead { from, ..before };
        self.0.insert(place, new);
        // A leap second that is announced stands after a change that was not.
        for one in &mut self.0[place..] {
            one.realtime += realtime;
            one.boottime += boottime;
            one.tai += tai;
        }
    }

    /// Returns the time of `clock` when the monotonic one shows `now`.
    pub(crate) fn shows(&self, clock: Clock, now: i64) -> i64 {
        let place = self.0.partition_point(|one| one.from <= now).max(1);
        now.saturating_add(self.0[place - 1].of(clock))
    }

    /// Returns the time for which a timer for `deadline` of `clock` has been due without a pause, when the monotonic
    /// clock shows `now`; `None` if it is not due.
    pub(crate) fn due_for(&self, clock: Clock, deadline: i64, now: i64) -> Option<u64> {
        let place = self.0.partition_point(|one| one.from <= now).max(1);
        let mut since = None;
        let mut until = now;
        for one in self.0[..place].iter().rev() {
            let due = deadline.saturating_sub(one.of(clock)).max(one.from);
            if due > until {
                break;
            }
            since = Some(due);
            if due > one.from {
                break;
            }
            // It was due when this began. Before?
            until = one.from - 1;
        }
        since.map(|since| now.abs_diff(since))
    }
}

#[cfg(test)]
mod tests {
    use tickless_core::time::Clock::{Boottime, Monotonic, Realtime, Tai};

    use super::Truth;

    #[test]
    fn clocks_are_ahead_by_what_happened() {
        let mut truth = Truth::new(1_000, 1_037);
        truth.changes(50, 10, 0, 10);
        assert_eq!(truth.shows(Realtime, 49), 1_049);
        assert_eq!(truth.shows(Realtime, 50), 1_060);
        assert_eq!(truth.shows(Tai, 50), 1_097);
        truth.changes(60, 5, 5, 5);
        assert_eq!(truth.shows(Boottime, 60), 65);
        assert_eq!(truth.shows(Monotonic, 60), 60);
    }

    #[test]
    fn what_was_announced_comes_on_top_of_what_was_not() {
        let mut truth = Truth::new(0, 0);
        truth.changes(100, -10, 0, 0);
        truth.changes(50, 7, 0, 7);
        assert_eq!(truth.shows(Realtime, 70), 77);
        assert_eq!(truth.shows(Realtime, 100), 97);
        assert_eq!(truth.shows(Tai, 100), 107);
    }

    #[test]
    fn a_step_forward_makes_due_and_one_back_takes_it_back() {
        let mut truth = Truth::new(0, 0);
        truth.changes(100, 1_000, 0, 1_000);
        assert_eq!(truth.due_for(Realtime, 500, 99), None);
        assert_eq!(truth.due_for(Realtime, 500, 130), Some(30));
        assert_eq!(
            truth.due_for(Realtime, 90, 130),
            Some(40),
            "due before already"
        );
        assert_eq!(truth.due_for(Monotonic, 500, 130), None);
        truth.changes(140, -1_000, 0, -1_000);
        assert_eq!(truth.due_for(Realtime, 500, 150), None);
        assert_eq!(truth.due_for(Realtime, 145, 150), Some(5), "due again");
    }
}
