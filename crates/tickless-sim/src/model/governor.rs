//! The governor: which state an idle CPU sleeps in.

use super::profile::IdleState;
use super::time::Picos;

/// The deepest state that pays for a sleep of `length`, as far as the governor knows.
pub(crate) fn choose(states: &[IdleState], length: Picos) -> usize {
    let pays = |state: &IdleState| state.believed_residency <= length;
    let fitting = states.iter().rposition(pays);
    // Nothing fits a sleep that is too short for all: the shallowest.
    fitting.unwrap_or(0)
}

/// How many sleeps of a CPU are remembered.
const REMEMBERED: usize = 8;

/// How long the last sleeps of a CPU were.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sleeps {
    last: [Picos; REMEMBERED],
    noted: usize,
}

impl Sleeps {
    /// A sleep lasted so long.
    pub(crate) const fn note(&mut self, slept: Picos) {
        self.last[self.noted % REMEMBERED] = slept;
        self.noted = self.noted.wrapping_add(1);
    }

    /// What all of the last ones but one stayed below; `None` while too few are known.
    pub(crate) fn usual(&self) -> Option<Picos> {
        if self.noted < REMEMBERED {
            return None;
        }
        let mut sorted = self.last;
        sorted.sort();
        Some(sorted[REMEMBERED - 2])
    }

    /// Whether it pays to write the device for a CPU that goes to sleep, at `write`, rather than to let it fire after
    /// `lead` for nothing, at `wake`: it does if enough of the last sleeps lasted as long. While too few are known the
    /// sleep is taken to.
    pub(crate) fn pays_to_write(&self, lead: Picos, write: Picos, wake: Picos) -> bool {
        if self.noted < REMEMBERED {
            return true;
        }
        let longer = self.last.iter().filter(|slept| **slept >= lead).count() as u64;
        wake.0.saturating_mul(longer) > write.0.saturating_mul(REMEMBERED as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::{Sleeps, choose};
    use crate::model::profile::Profile;
    use crate::model::time::Picos;

    #[test]
    fn one_long_sleep_of_eight_is_not_usual_but_worth_a_write() {
        let micros = Picos::from_micros;
        let mut sleeps = Sleeps::default();
        for _ in 0..7 {
            sleeps.note(micros(20));
        }
        assert_eq!(sleeps.usual(), None);
        assert!(
            sleeps.pays_to_write(micros(3_000), micros(1), micros(2)),
            "nothing is known"
        );
        sleeps.note(micros(30));
        assert_eq!(sleeps.usual(), Some(micros(20)));
        assert!(!sleeps.pays_to_write(micros(3_000), micros(1), micros(1_000)));
        sleeps.note(micros(5_000));
        assert_eq!(sleeps.usual(), Some(micros(30)));
        assert!(!sleeps.pays_to_write(micros(3_000), micros(1), micros(8)));
        assert!(sleeps.pays_to_write(micros(3_000), micros(1), micros(9)));
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
