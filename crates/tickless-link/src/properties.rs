//! How often properties are tried.

use proptest::prelude::ProptestConfig;
use proptest::test_runner::RngAlgorithm;

/// As often as proptest does of itself, and under Miri, where each case takes seconds, `under_miri` times, drawn by a
/// generator that Miri executes quickly: with that of proptest to draw the cases takes longer than to try them. Cases
/// that failed are not kept in a file: Miri cannot write one.
pub(crate) fn config(under_miri: u32) -> ProptestConfig {
    let config = ProptestConfig::default();
    ProptestConfig {
        cases: if cfg!(miri) { under_miri } else { config.cases },
        failure_persistence: None,
        rng_algorithm: if cfg!(miri) {
            RngAlgorithm::XorShift
        } else {
            config.rng_algorithm
        },
        ..config
    }
}
