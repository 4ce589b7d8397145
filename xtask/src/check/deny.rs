//! The walls between the library crates, and the licences and sources of what they are built from.
//!
//! A crate exists only where the compiler should keep two things apart. A dependency that is added in passing breaks
//! that wall unnoticed. Dependencies of tests are not limited, because they reach no user. `deny.toml` has the rules for
//! all other dependencies; what stands here works without a tool that takes minutes to build.

use super::run::Run;
use crate::invocation::Invocation;
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
/// The licences that a user of the library may have to accept.
const LICENCES: &str = "0BSD, Apache-2.0, Apache-2.0 WITH LLVM-exception, BSD-2-Clause, BSD-3-Clause, BSL-1.0, CC0-1.0, \
    ISC, MIT, Unicode-3.0, Zlib";

/// Checks the licences of all packages that reach users, and the source of each package.
pub(super) fn step(run: &mut Run<'_>) -> Result<(), String> {
    let tree = [
        "tree",
        "--all-features",
        "--target",
        "all",
        "--edges",
        "no-dev",
        "--prefix",
        "none",
    ];
    let libraries: Vec<&str> = WALLS.iter().map(|(name, _)| *name).collect();
    let tree = Invocation::cargo(&tree)
        .args(&["--format", "{p}|{l}"])
        .packages(&libraries);
    let captured = tree.capture(run.root())?;
    captured.result?;
    let mut faults = walls(&run.workspace()?);
    for line in captured.stdout.lines() {
        if let Some((package, licence)) = line.split_once('|')
            && !permits(licence.trim_end_matches(" (*)"))
        {
            faults.push(format!(
                "{package}: its licence `{licence}` is not allowed for users"
            ));
        }
    }
    let lock = crate::files::read(run.root(), "Cargo.lock")?;
    let sources = lock.lines().filter(|line| line.starts_with("source = "));
    faults.extend(foreign(sources).map(|line| format!("Cargo.lock: {line} is not the registry")));
    faults.sort();
    faults.dedup();
    if faults.is_empty() {
        Ok(())
    } else {
        Err(faults.join("\n   "))
    }
}

fn foreign<'l>(sources: impl Iterator<Item = &'l str>) -> impl Iterator<Item = &'l str> {
    sources.filter(|line| !line.contains("\"registry+https://github.com/rust-lang/"))
}

/// Returns true if each part of an expression between `AND` offers an allowed licence. That is never true of a foreign
/// licence; it may be false where a choice in front of an `AND` would do.
fn permits(expression: &str) -> bool {
    let allowed: Vec<&str> = LICENCES.split(", ").collect();
    let plain = expression.replace(['(', ')'], "").replace('/', " OR ");
    let offers = |part: &str| {
        part.split(" OR ")
            .any(|name| allowed.contains(&name.trim()))
    };
    plain.split(" AND ").all(offers)
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

    use super::{foreign, permits, walls};
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

    #[test]
    fn foreign_licences_and_sources_are_found() {
        for good in [
            "MIT",
            "MIT/Apache-2.0",
            "GPL-3.0-only OR MIT",
            "(MIT OR Apache-2.0) AND Unicode-3.0",
            "Apache-2.0 WITH LLVM-exception",
        ] {
            assert!(permits(good), "{good}");
        }
        for bad in [
            "GPL-3.0-only",
            "MIT AND GPL-3.0-only",
            "(MIT OR Apache-2.0) AND GPL-3.0-only",
            "",
            "MIT WITH LLVM-exception",
            "MPL-2.0",
            "MIT Apache-2.0",
        ] {
            assert!(!permits(bad), "{bad}");
        }
        assert_eq!(
            foreign(["source = \"git+https://example.org/x\""].into_iter()).count(),
            1
        );
    }
}
