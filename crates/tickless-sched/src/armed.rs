//! Breaking rules on purpose, for the tests of this crate.

/// Breaks the rule that the environment names, in builds that can.
pub(crate) fn arm_mutant() {
    #[cfg(tickless_mutants)]
    if let Some(name) = std::env::var_os("TICKLESS_MUTANT") {
        let name = name.to_str().expect("names are ASCII");
        tickless_link::mutants::arm(name).expect("the name is in mutants::NAMES");
    }
}
