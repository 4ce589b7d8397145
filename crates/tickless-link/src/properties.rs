//! The number of random cases for each property test.

use proptest::prelude::ProptestConfig;
use proptest::test_runner::RngAlgorithm;

/// Returns proptest's own number of cases, or `under_miri` under Miri, where each case takes seconds. The cases are
/// then drawn by a generator that Miri executes quickly: proptest's takes longer to draw them than the test to try
/// them. Failed cases are not kept in a file, because Miri cannot write one.
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
