//! The walls between the library crates.
//!
//! A crate exists only where the compiler should keep two things apart. A dependency that is added in passing breaks
//! that wall unnoticed. Dependencies of tests are not limited, because they reach no user. `deny.toml` has the rules for
//! all other dependencies; what stands here works without a tool that takes minutes to build, and so do the lines of the
//! step about licences and sources.

use super::run::Run;
use crate::workspace::{Dependency, Workspace};

/// What a crate may depend on; `optional` stands for any package that comes with a feature, which a user has to choose.
const WALLS: &[(&str, &[&str])] = &[
    // Atomics of processors that have none of a size: no other target builds them.
    (
        "tickless-link",
        &["critical-section", "portable-atomic", "optional"],
    ),
    ("tickless-core", &["tickless-link"]),
    ("tickless-sched", &["tickless-link", "tickless-core"]),
    // What the operating system or the page offers, pinned fields without unsafe code, and the cells and the list of an
    // executor's tasks (decision 28).
    (
        "tickless",
        &[
            "tickless-link tickless-core tickless-macros tickless-sched",
            "async-task libc pin-project-lite rustix slab wasm-bindgen windows-sys optional",
        ],
    ),
    // The parser of Rust that all such crates use: it reaches no program.
    ("tickless-macros", &["proc-macro2", "quote", "syn"]),
    ("tickless-capi", &["tickless", "libc"]),
    ("tickless-preload", &["tickless-capi", "libc"]),
];
/// The crates that replace the atomics in models, each under its own condition, which no user's build has.
const MODEL_CHECKERS: [(&str, &str); 2] = [("loom", "cfg(loom)"), ("shuttle", "cfg(shuttle)")];
/// Checks the dependencies of the library crates.
pub(super) fn step(run: &Run<'_>) -> Result<(), String> {
    let breaches = walls(&run.workspace()?);
    if breaches.is_empty() {
        Ok(())
    } else {
        Err(breaches.join("\n   "))
    }
}

/// Returns every dependency of a library crate that its wall does not allow, and every library crate without a wall.
fn walls(workspace: &Workspace) -> Vec<String> {
    let mut breaches = Vec::new();
    for package in workspace.libraries() {
        let Some((name, allowed)) = WALLS.iter().find(|(name, _)| *name == package.name) else {
            breaches.push(format!(
                "{} has no wall in xtask/src/check/deny.rs",
                package.name
            ));
            continue;
        };
        for on in package
            .dependencies
            .iter()
            .filter(|on| on.kind.as_deref() != Some("dev"))
        {
            if !admits(allowed, on, workspace.member(&on.name).is_some()) {
                breaches.push(format!(
                    "{name} depends on {}, which its wall does not admit",
                    on.name
                ));
            }
        }
    }
    breaches
}

fn admits(allowed: &[&str], on: &Dependency, is_member: bool) -> bool {
    let has = |name: &str| {
        allowed
            .iter()
            .any(|names| names.split(' ').any(|known| known == name))
    };
    let condition = on.target.as_deref().unwrap_or_default();
    has(&on.name)
        || (on.optional && !is_member && has("optional"))
        || MODEL_CHECKERS.contains(&(on.name.as_str(), condition))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::walls;
    use crate::workspace::Workspace;

    /// Returns the breaches of the walls if `package` depends on `on` under `target`.
    fn broken(package: &str, on: &str, kind: Value, target: Value, optional: bool) -> usize {
        let member = |name: &str, dependencies: Value| {
            json!({"id": name, "name": name, "version": "0", "features": {}, "dependencies": dependencies,
                "targets": [{"kind": ["lib"]}], "manifest_path": format!("/w/crates/{name}/Cargo.toml")})
        };
        let on = json!([{"name": on, "kind": kind, "target": target, "optional": optional}]);
        let members = [
            member(package, on),
            member("tickless-sched", json!([])),
            member("tickless-sim", json!([])),
        ];
        let ids = members.each_ref().map(|member| &member["id"]);
        let metadata =
            json!({"packages": members, "workspace_members": ids, "workspace_root": "/w"});
        // The simulator has no wall.
        walls(&Workspace::parse(&metadata.to_string()).unwrap()).len() - 1
    }

    #[test]
    fn what_breaks_a_wall_is_found() {
        let null = || json!(null);
        for (package, on, optional, breaches) in [
            ("tickless-core", "tickless-link", false, 0),
            ("tickless", "rustix", false, 0),
            ("tickless", "hyper", true, 0),
            ("tickless", "hyper", false, 1),
            ("tickless", "tickless-sim", true, 1),
            ("tickless-link", "tickless-core", false, 1),
            ("tickless-link", "bitflags", false, 1),
            ("tickless-core", "tickless-sched", false, 1),
            ("tickless-core", "bitflags", true, 1),
            ("tickless-link", "loom", false, 1),
        ] {
            assert_eq!(
                broken(package, on, null(), null(), optional),
                breaches,
                "{package} on {on}"
            );
        }
        assert_eq!(
            broken("tickless-link", "loom", null(), json!("cfg(loom)"), false),
            0
        );
        assert_eq!(
            broken("tickless-link", "loom", null(), json!("cfg(unix)"), false),
            1
        );
        assert_eq!(
            broken("tickless-core", "proptest", json!("dev"), null(), false),
            0
        );
        assert_eq!(
            broken("tickless-new", "tickless-link", null(), null(), false),
            1
        );
    }
}
