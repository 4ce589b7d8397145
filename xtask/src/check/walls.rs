//! The walls between the library crates: the dependencies that each crate may have.
//!
//! A crate exists only where the compiler should keep two things apart. A dependency that is added in passing breaks
//! that wall unnoticed. So a table lists the dependencies that each crate may have, and this check compares the
//! manifests with the table. Dependencies of tests are not limited, because they reach no user.

use crate::workspace::{Dependency, MODEL_CHECKERS, Package, Workspace};

/// The dependencies that one library crate may have.
struct Wall {
    package: &'static str,
    /// The packages of the workspace that the crate may depend on.
    inside: &'static [&'static str],
    outside: Outside,
}

/// The foreign packages that a library crate may depend on.
enum Outside {
    /// The crate may depend on these packages, and on any optional package: an optional package comes with a feature,
    /// which a user has to choose.
    Only(&'static [&'static str]),
    /// The crate may depend on these packages only; no optional package is allowed.
    Never,
}

/// The wall of each package under `crates/`.
///
/// Most crates may depend on the link crate: all crates take their atomics from it, and hosts implement its locks. The
/// link crate walls off pointer `unsafe`, which stays inside it.
const WALLS: &[Wall] = &[
    Wall {
        package: "tickless-link",
        inside: &[],
        // Atomics of processors that have none of a size: no other target builds them.
        outside: Outside::Only(&["critical-section", "portable-atomic"]),
    },
    Wall {
        package: "tickless-core",
        inside: &["tickless-link"],
        outside: Outside::Never,
    },
    Wall {
        package: "tickless-sched",
        inside: &["tickless-link", "tickless-core"],
        outside: Outside::Never,
    },
    Wall {
        package: "tickless",
        inside: &[
            "tickless-link",
            "tickless-core",
            "tickless-macros",
            "tickless-sched",
        ],
        // What the operating system or the page offers, the bindings to it, pinned fields without unsafe code, and the
        // cells and the list of an executor's tasks (decision 28).
        outside: Outside::Only(&[
            "async-task",
            "io-uring",
            "libc",
            "pin-project-lite",
            "rustix",
            "slab",
            "wasm-bindgen",
            "windows-sys",
        ]),
    },
    Wall {
        package: "tickless-macros",
        inside: &[],
        // The parser of Rust that all such crates use: it reaches no program.
        outside: Outside::Only(&["proc-macro2", "quote", "syn"]),
    },
    Wall {
        package: "tickless-capi",
        inside: &["tickless"],
        // Signals, and the structures of POSIX.
        outside: Outside::Only(&["libc"]),
    },
    Wall {
        package: "tickless-preload",
        inside: &["tickless-capi"],
        outside: Outside::Only(&["libc"]),
    },
];

/// Returns every dependency of a library crate that its wall does not allow, and every library crate without a wall.
pub(super) fn breaches(workspace: &Workspace) -> Vec<String> {
    breaches_of(workspace, WALLS)
}

fn breaches_of(workspace: &Workspace, walls: &[Wall]) -> Vec<String> {
    let mut breaches = Vec::new();
    for package in workspace.libraries() {
        match walls.iter().find(|wall| wall.package == package.name) {
            Some(wall) => breaches.extend(breaches_in(workspace, package, wall)),
            None => breaches.push(format!(
                "{} has no wall: add what it may depend on to xtask/src/check/walls.rs",
                package.name
            )),
        }
    }
    breaches
}

fn breaches_in<'w>(
    workspace: &'w Workspace,
    package: &'w Package,
    wall: &'w Wall,
) -> impl Iterator<Item = String> + 'w {
    package
        .dependencies
        .iter()
        .filter(|dependency| dependency.kind.as_deref() != Some("dev"))
        .filter(move |dependency| {
            !wall.admits(dependency, workspace.member(&dependency.name).is_some())
        })
        .map(move |dependency| {
            format!(
                "{} depends on {}, which its wall does not admit (xtask/src/check/walls.rs)",
                package.name, dependency.name
            )
        })
}

impl Wall {
    fn admits(&self, dependency: &Dependency, is_member: bool) -> bool {
        let name = dependency.name.as_str();
        if is_member {
            return self.inside.contains(&name);
        }
        // A model checker passes through every wall under its own condition.
        let condition = dependency.target.as_deref().unwrap_or_default();
        if MODEL_CHECKERS.contains(&(name, condition)) {
            return true;
        }
        match self.outside {
            Outside::Only(names) => names.contains(&name) || dependency.optional,
            Outside::Never => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{MODEL_CHECKERS, breaches};
    use crate::workspace::samples::{dependency, library, workspace};

    const MEMBERS: [&str; 4] = [
        "tickless-link",
        "tickless-core",
        "tickless-sched",
        "tickless",
    ];

    /// Returns the breaches of the walls if `package` has `dependencies`.
    fn broken(package: &str, dependencies: Vec<Value>) -> Vec<String> {
        let members: Vec<Value> = MEMBERS
            .iter()
            .map(|name| {
                let own = if *name == package {
                    dependencies.clone()
                } else {
                    Vec::new()
                };
                library(name, json!(own))
            })
            .collect();
        breaches(&workspace(&members, &[], &[]))
    }

    #[test]
    fn what_the_design_allows_passes() {
        let depends = |name| vec![dependency(name)];
        assert!(broken("tickless-core", depends("tickless-link")).is_empty());
        assert!(broken("tickless-sched", depends("tickless-core")).is_empty());
        assert!(broken("tickless", depends("rustix")).is_empty());
    }

    #[test]
    fn what_the_design_forbids_is_found() {
        let depends = |name| vec![dependency(name)];
        for (package, forbidden) in [
            ("tickless-link", "tickless-core"),
            ("tickless-link", "bitflags"),
            ("tickless-core", "tickless-sched"),
            ("tickless-core", "bitflags"),
            ("tickless-sched", "tickless"),
            ("tickless", "nix"),
            ("tickless", "tickless-sim"),
        ] {
            let found = broken(package, depends(forbidden));
            assert_eq!(found.len(), 1, "{package} on {forbidden}");
            assert!(found[0].starts_with(&format!("{package} depends on {forbidden},")));
        }
    }

    #[test]
    fn a_model_checker_passes_under_its_own_condition_only() {
        for (name, condition) in MODEL_CHECKERS {
            let mut checker = dependency(name);
            assert_eq!(broken("tickless-link", vec![checker.clone()]).len(), 1);
            checker["target"] = json!("cfg(unix)");
            assert_eq!(broken("tickless-link", vec![checker.clone()]).len(), 1);
            checker["target"] = json!(condition);
            assert!(broken("tickless-link", vec![checker]).is_empty());
        }
    }

    #[test]
    fn tests_may_depend_on_anything_and_features_bring_adapters() {
        let mut proptest = dependency("proptest");
        proptest["kind"] = json!("dev");
        assert!(broken("tickless-link", vec![proptest]).is_empty());

        let mut adapter = dependency("hyper");
        assert_eq!(broken("tickless", vec![adapter.clone()]).len(), 1);
        adapter["optional"] = json!(true);
        assert!(broken("tickless", vec![adapter.clone()]).is_empty());
        assert_eq!(broken("tickless-core", vec![adapter]).len(), 1);
    }

    #[test]
    fn a_library_without_a_wall_is_found() {
        let sample = workspace(&[library("tickless-new", json!([]))], &[], &[]);
        let found = breaches(&sample);
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with("tickless-new has no wall"));
    }
}
