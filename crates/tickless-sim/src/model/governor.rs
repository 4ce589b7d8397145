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

#[cfg(test)]
mod tests {
    use super::choose;
    use crate::model::profile::Profile;
    use crate::model::time::Picos;

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
