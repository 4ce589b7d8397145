//! The governor, which chooses the idle state in which a CPU sleeps.

use super::profile::IdleState;
use super::time::Picos;

/// Returns the deepest state that pays for a sleep of `length`, by the values that the governor assumes.
pub(crate) fn choose(states: &[IdleState], length: Picos) -> usize {
    let pays = |state: &IdleState| state.believed_residency <= length;
    let fitting = states.iter().rposition(pays);
    // Nothing fits a sleep that is too short for all: the shallowest.
    fitting.unwrap_or(0)
}

/// The number of last sleeps that are remembered for each CPU.
const REMEMBERED: usize = 8;

/// The lengths of the last sleeps of a CPU.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sleeps {
    last: [Picos; REMEMBERED],
    noted: usize,
}

impl Sleeps {
    pub(crate) const fn note(&mut self, slept: Picos) {
        self.last[self.noted % REMEMBERED] = slept;
        self.noted = self.noted.wrapping_add(1);
    }

    /// Returns the rest of a sleep that has lasted for `slept`, up to the length below which all but one of the last
    /// sleeps stayed. Returns `None` while too few sleeps are known, and when this sleep is already longer, because it
    /// is then of another kind.
    pub(crate) fn usual(&self, slept: Picos) -> Option<Picos> {
        if self.noted < REMEMBERED {
            return None;
        }
        let mut sorted = self.last;
        sorted.sort();
        let usual = sorted[REMEMBERED - 2];
        (slept < usual).then(|| usual - slept)
    }

    /// Returns true if it pays to write the device, at the price `write`, for a CPU that has slept for `slept`.
    /// Otherwise the device fires after `lead` without a due timer, at the price `wake`. A write pays if enough of the
    /// last sleeps that were longer than this one lasted until the device fires. If there was no longer sleep, or too
    /// few are known, this sleep is assumed to last.
    pub(crate) fn pays_to_write(
        &self,
        slept: Picos,
        lead: Picos,
        write: Picos,
        wake: Picos,
    ) -> bool {
        let longer_than = |length: Picos| {
            let longer = self.last.iter().filter(|slept| **slept >= length);
            longer.count() as u64
        };
        let such = longer_than(slept);
        if self.noted < REMEMBERED || such == 0 {
            return true;
        }
        let longer = longer_than(slept + lead);
        wake.0.saturating_mul(longer) > write.0.saturating_mul(such)
    }
}

#[cfg(test)]
mod tests {
    use super::{Sleeps, choose};
    use crate::model::profile::Profile;
    use crate::model::time::Picos;

    /// Makes the record of `count` sleeps of 20 us.
    fn short_sleeps(count: u32) -> Sleeps {
        let mut sleeps = Sleeps::default();
        for _ in 0..count {
            sleeps.note(Picos::from_micros(20));
        }
        sleeps
    }

    #[test]
    fn one_long_sleep_of_eight_is_not_usual_but_worth_a_write() {
        let micros = Picos::from_micros;
        let mut sleeps = short_sleeps(7);
        let pays = |sleeps: &Sleeps, wake| {
            sleeps.pays_to_write(Picos::ZERO, micros(3_000), micros(1), micros(wake))
        };
        assert_eq!(sleeps.usual(Picos::ZERO), None);
        assert!(pays(&sleeps, 2), "nothing is known");
        sleeps.note(micros(30));
        assert_eq!(sleeps.usual(Picos::ZERO), Some(micros(20)));
        assert!(!pays(&sleeps, 1_000));
        sleeps.note(micros(5_000));
        assert_eq!(sleeps.usual(Picos::ZERO), Some(micros(30)));
        assert!(!pays(&sleeps, 8));
        assert!(pays(&sleeps, 9));
    }

    /// Earlier sleeps do not keep the tick of a CPU that sleeps longer than they lasted.
    #[test]
    fn a_sleep_that_is_longer_than_the_last_ones_is_expected_to_go_on() {
        let micros = Picos::from_micros;
        let sleeps = short_sleeps(8);
        assert_eq!(sleeps.usual(micros(15)), Some(micros(5)));
        assert_eq!(sleeps.usual(micros(20)), None);
        let pays =
            |slept| sleeps.pays_to_write(micros(slept), micros(100), micros(1), micros(1_000));
        assert_eq!([0, 20, 21].map(pays), [false, false, true]);
    }

    #[test]
    fn the_governor_takes_the_deepest_state_that_pays() {
        let skylake = Profile::embedded("skl-112").unwrap().idle;
        let name = |micros| {
            skylake[choose(&skylake, Picos::from_micros(micros))]
                .name
                .as_str()
        };
        assert_eq!(
            [1, 2, 19, 20, 599, 600, 1_000_000].map(name),
            ["poll", "C1", "C1", "C1E", "C1E", "C6", "C6"]
        );
    }
}
