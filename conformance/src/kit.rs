//! The kit that makes tests of a host out of the suites.
//!
//! [`conformance!`](crate::conformance) makes a test of each case, in a module that has the name of its suite. A case
//! that needs a capability which the host lacks is skipped, and prints this. One more test prints for each suite the
//! number of skipped cases.

use crate::capability::Capabilities;
use crate::host::Host;
use crate::prelude::*;
use crate::surroundings::{print, say};

/// A case: a function that is generic over the host.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// The name of the function.
    pub name: &'static str,
    /// The capabilities that the case needs.
    pub needs: Capabilities,
}

/// The cases of one subject.
#[derive(Clone, Copy, Debug)]
pub struct Suite {
    /// The name of the suite's module.
    pub name: &'static str,
    /// The cases of the suite.
    pub cases: &'static [Case],
}

impl Suite {
    /// Runs the case `name`, which is `body` for `H`, unless `H` lacks a capability that the case needs.
    ///
    /// # Panics
    ///
    /// Panics if the host does not conform.
    pub fn run<H: Host>(&self, name: &str, body: fn()) {
        let lacking = self.lacking::<H>(name);
        if lacking.is_empty() {
            body();
        } else {
            print(&skipped::<H>(&format!("{}::{name}", self.name), lacking));
        }
    }

    /// Returns the capabilities that the case `name` needs and `H` lacks.
    ///
    /// # Panics
    ///
    /// Panics if the suite has no such case.
    #[must_use]
    pub fn lacking<H: Host>(&self, name: &str) -> Capabilities {
        let case = self.cases.iter().find(|case| case.name == name);
        case.expect("the case is in its suite")
            .needs
            .without(H::HAS)
    }

    /// Counts the cases that `H` has to skip, and collects the capabilities that these cases need and `H` lacks.
    fn skipped<H: Host>(&self) -> (usize, Capabilities) {
        let lacking = self.cases.iter().map(|case| case.needs.without(H::HAS));
        lacking
            .filter(|lacking| !lacking.is_empty())
            .fold((0, Capabilities::NONE), |(count, all), lacking| {
                (count + 1, all.and(lacking))
            })
    }
}

fn skipped<H: Host>(what: &str, lacking: Capabilities) -> String {
    format!("skipped: {what}, because {} has no {lacking}", H::NAME)
}

/// Counts the cases that `H` has to skip, and prints a line for each suite with skipped cases.
#[must_use]
pub fn report<H: Host>() -> usize {
    let (mut sum, mut all) = (0, 0);
    for suite in crate::suites::ALL {
        let (count, lacking) = suite.skipped::<H>();
        sum += count;
        all += suite.cases.len();
        if count > 0 {
            let of_suite = format!("{count} of {} cases of {}", suite.cases.len(), suite.name);
            say(&skipped::<H>(&of_suite, lacking));
        }
    }
    say(&format!("{}: {} of {all} cases run", H::NAME, all - sum));
    sum
}

/// Lists the cases of a suite with the capabilities that each needs, and defines the macro that makes tests of them.
macro_rules! cases {
    ($suite:ident: $($case:ident $([$($need:ident),+])?),+ $(,)?) => {
        /// The cases of this suite.
        pub const SUITE: crate::kit::Suite = crate::kit::Suite {
            name: stringify!($suite),
            cases: &[$(crate::kit::Case {
                name: stringify!($case),
                needs: crate::Capabilities::NONE$($(.and(crate::Capabilities::$need))+)?,
            }),+],
        };

        /// Calls `visit` with each case of this suite, for `H`.
        pub fn each<H: crate::Host>(visit: &mut dyn FnMut(&'static crate::kit::Suite, &'static str, fn())) {
            $(visit(&SUITE, stringify!($case), $case::<H>);)+
        }

        #[doc(hidden)]
        #[macro_export]
        macro_rules! $suite {
            () => {
                mod $suite {
                    $(
                        #[test]
                        fn $case() {
                            $crate::suites::$suite::SUITE.run::<super::UnderTest>(
                                stringify!($case),
                                $crate::suites::$suite::$case::<super::UnderTest>,
                            );
                        }
                    )+
                }
            };
        }
    };
}
pub(crate) use cases;

/// Defines the list of all suites and the macro that makes tests of all of them.
macro_rules! suites {
    (($d:tt) $($suite:ident),+ $(,)?) => {
        /// All suites.
        pub const ALL: &[crate::kit::Suite] = &[$($suite::SUITE),+];

        /// Calls `visit` with each case of each suite, for `H`: the suite, the name of the case, and the function. A
        /// program without a test harness uses this: it calls the function unless the [`Suite`](crate::kit::Suite) says
        /// that `H` lacks a capability.
        pub fn each<H: crate::Host>(visit: &mut dyn FnMut(&'static crate::kit::Suite, &'static str, fn())) {
            $($suite::each::<H>(visit);)+
        }

        /// Makes a test of each case of each suite for a [`Host`](crate::Host), in a module for each suite.
        ///
        /// The test `skipped` prints how many cases were skipped because the host lacks a capability that they need.
        /// `skips: N` makes the test fail if that number is not `N`.
        ///
        /// The module in which the macro stands tells the tests of several hosts apart:
        ///
        /// ```
        /// mod deferred {
        ///     tickless_conformance::conformance!(tickless_conformance::Deferred, skips: 0);
        /// }
        /// mod immediate {
        ///     tickless_conformance::conformance!(tickless_conformance::Immediate);
        /// }
        /// # fn main() {}
        /// ```
        #[macro_export]
        macro_rules! conformance {
            ($d host:ty $d (, skips: $d skips:expr)?) => {
                type UnderTest = $d host;

                #[test]
                fn skipped() {
                    let skipped = $d crate::kit::report::<UnderTest>();
                    $d (assert_eq!(skipped, $d skips, "cases that the host cannot run");)?
                    let _ = skipped;
                }

                $($d crate::$suite!();)+
            };
        }
    };
}
pub(crate) use suites;
