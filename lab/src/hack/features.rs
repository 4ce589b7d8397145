//! The mechanisms that avoid writes to the device, each with a switch that turns the mechanism off.

use serde::Serialize;

/// The features that are on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Features {
    /// Slices end by a timer, to the microsecond.
    pub(super) hrtick: bool,
    /// A timer that moves later leaves the device as it is.
    pub(super) lazy: bool,
    /// The device is written at the end of the worker's turn.
    pub(super) deferred: bool,
    /// A timer that keeps its place in the queue is not removed from it.
    pub(super) in_place: bool,
    /// The device is programmed with the value of a counter, without a reading of the counter.
    pub(super) coupled: bool,
    /// Moves of 5 us or less are dropped.
    pub(super) filter: bool,
}

/// A function that returns the switch of a feature.
type Switch = fn(&mut Features) -> &mut bool;

/// The features that save something, with their names.
const SAVING: [(&str, Switch); 5] = [
    ("lazy", |features| &mut features.lazy),
    ("deferred", |features| &mut features.deferred),
    ("in place", |features| &mut features.in_place),
    ("coupled", |features| &mut features.coupled),
    ("filter", |features| &mut features.filter),
];

impl Features {
    /// Returns the features with all that save something on, or all of them off.
    pub(super) const fn all(on: bool, hrtick: bool) -> Self {
        Self {
            hrtick,
            lazy: on,
            deferred: on,
            in_place: on,
            coupled: on,
            filter: on,
        }
    }

    /// Returns the configurations: all features on, all but one on for each feature, and all off.
    pub(super) fn matrix(hrtick: bool) -> Vec<Self> {
        let all = Self::all(true, hrtick);
        let without = SAVING.iter().map(|(_, of)| {
            let mut features = all;
            *of(&mut features) = false;
            features
        });
        let ends = [Self::all(false, hrtick)];
        std::iter::once(all).chain(without).chain(ends).collect()
    }

    /// Returns the name of the configuration: `all on`, `without lazy`, `all off`.
    pub(super) fn name(mut self) -> String {
        let off: Vec<&str> = SAVING
            .iter()
            .filter(|(_, of)| !*of(&mut self))
            .map(|(name, _)| *name)
            .collect();
        match off.len() {
            0 => "all on".to_owned(),
            count if count == SAVING.len() => "all off".to_owned(),
            _ => format!("without {}", off.join(", ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Features;

    #[test]
    fn the_matrix_leaves_out_each_and_all() {
        let names: Vec<String> = Features::matrix(true)
            .into_iter()
            .map(Features::name)
            .collect();
        assert_eq!(
            names,
            [
                "all on",
                "without lazy",
                "without deferred",
                "without in place",
                "without coupled",
                "without filter",
                "all off"
            ]
        );
        assert!(
            Features::matrix(false)
                .iter()
                .all(|features| !features.hrtick)
        );
    }
}
