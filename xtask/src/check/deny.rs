//! The check of the library's dependencies: licences, sources, and the walls between its crates.
//!
//! The output of `cargo metadata` is enough for the part of a dependency checker that works without a network. The
//! other part is advisories, which this step does not check.

use std::collections::BTreeSet;

use super::licence::permits;
use super::run::Run;
use super::walls;
use crate::workspace::{Package, Workspace};

/// The licences that a user of the library may have to accept.
const FOR_USERS: &[&str] = &[
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "ISC",
    "MIT",
    "Unicode-3.0",
    "Zlib",
];

/// The licences that tools and tests may have in addition: these bind those who change such a package, and do not reach
/// users of the library.
const FOR_TOOLS: &[&str] = &["MPL-2.0", "MPL-2.0+"];

/// The only registry from which packages come.
const REGISTRY: &str = concat!(
    "registry+https://github.com/rust-lang/crates",
    ".",
    "io-index"
);

pub(super) fn step(run: &mut Run<'_>) -> Result<(), String> {
    let workspace = &run.workspace()?;
    let mut faults = walls::breaches(workspace);
    faults.extend(faults_of_packages(workspace));
    run.note(&format!(
        "{} packages, {} of them reach users",
        workspace.packages.len(),
        workspace.needed_by(workspace.libraries()).len()
    ));
    if faults.is_empty() {
        Ok(())
    } else {
        Err(faults.join("\n   "))
    }
}

fn faults_of_packages(workspace: &Workspace) -> Vec<String> {
    let members: BTreeSet<&str> = workspace.members().map(|package| &*package.id).collect();
    let reaching_users = workspace.needed_by(workspace.libraries());
    let tools = [FOR_USERS, FOR_TOOLS].concat();
    let mut faults = Vec::new();
    for package in &workspace.packages {
        let allowed = if reaching_users.contains(&*package.id) {
            FOR_USERS
        } else {
            &tools
        };
        let is_member = members.contains(&*package.id);
        let found = [
            fault_of_licence(package, allowed),
            fault_of_source(package, is_member),
        ];
        faults.extend(
            found
                .into_iter()
                .flatten()
                .map(|fault| format!("{} {}: {fault}", package.name, package.version)),
        );
    }
    faults
}

fn fault_of_licence(package: &Package, allowed: &[&str]) -> Option<String> {
    let Some(expression) = &package.license else {
        return Some("it names no licence".into());
    };
    match permits(expression, allowed) {
        Ok(true) => None,
        Ok(false) => Some(format!(
            "its licence `{expression}` is not allowed here (xtask/src/check/deny.rs)"
        )),
        Err(message) => Some(message),
    }
}

fn fault_of_source(package: &Package, is_member: bool) -> Option<String> {
    match package.source.as_deref() {
        None if is_member => None,
        Some(REGISTRY) => None,
        None => Some("it comes from a path outside the workspace".into()),
        Some(other) => Some(format!("it comes from {other}, not from the registry")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{REGISTRY, faults_of_packages};
    use crate::workspace::samples::{library, workspace};

    fn foreign(name: &str, licence: Value, source: Value) -> Value {
        let mut package = library(name, json!([]));
        package["license"] = licence;
        package["source"] = source;
        package
    }

    /// Returns the faults if a library depends on `package` by an edge of `kind`.
    fn faults(package: Value, kind: Option<&str>) -> Vec<String> {
        let name = package["name"].as_str().unwrap().to_owned();
        faults_of_packages(&workspace(
            &[library("tickless-link", json!([]))],
            &[package],
            &[("tickless-link", &name, kind)],
        ))
    }

    #[test]
    fn a_permitted_package_of_the_registry_passes() {
        let package = foreign("good", json!("MIT/Apache-2.0"), json!(REGISTRY));
        assert_eq!(faults(package, None), Vec::<String>::new());
    }

    #[test]
    fn a_foreign_licence_and_none_at_all_are_found() {
        let package = foreign("viral", json!("GPL-3.0-only"), json!(REGISTRY));
        assert!(faults(package, None)[0].starts_with("viral 0.1.0: its licence `GPL-3.0-only`"));
        let package = foreign("silent", json!(null), json!(REGISTRY));
        assert_eq!(
            faults(package, Some("dev")),
            ["silent 0.1.0: it names no licence"]
        );
    }

    #[test]
    fn tools_may_use_what_users_are_spared() {
        let package = foreign("tool", json!("MPL-2.0"), json!(REGISTRY));
        assert_eq!(faults(package.clone(), Some("dev")), Vec::<String>::new());
        assert_eq!(faults(package.clone(), None).len(), 1);
        assert_eq!(faults(package, Some("build")).len(), 1);
    }

    #[test]
    fn other_sources_are_found() {
        let package = foreign(
            "forked",
            json!("MIT"),
            json!("git+https://example.org/forked"),
        );
        assert!(faults(package, None)[0].contains("it comes from git+"));
        let package = foreign("beside", json!("MIT"), json!(null));
        assert!(faults(package, None)[0].contains("a path outside the workspace"));
    }
}
