//! How often properties are tried.

use proptest::prelude::ProptestConfig;

/// As often as proptest does of itself, and under Miri, where each case takes seconds, `under_miri` times. Cases that
/// failed are not kept in a file: Miri cannot write one.
pub(crate) fn config(under_miri: u32) -> ProptestConfig {
    let config = ProptestConfig::default();
    ProptestConfig {
        cases: if cfg!(miri) { under_miri } else { config.cases },
        failure_persistence: None,
        ..config
    }
}
