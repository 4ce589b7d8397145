//! The workspace according to `cargo metadata`, with the parts that the tasks need.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::invocation::Invocation;

/// The workspace with the graph of all its resolved dependencies, with all features on.
#[derive(Debug, Deserialize)]
pub(crate) struct Workspace {
    pub(crate) packages: Vec<Package>,
    workspace_members: BTreeSet<String>,
    workspace_root: PathBuf,
    resolve: Resolve,
}

/// A package, inside or outside the workspace.
#[derive(Debug, Deserialize)]
pub(crate) struct Package {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) version: String,
    /// The registry or repository that the package came from; `None` for a path.
    pub(crate) source: Option<String>,
    pub(crate) license: Option<String>,
    #[cfg(test)]
    pub(crate) rust_version: Option<String>,
    pub(crate) features: BTreeMap<String, Vec<String>>,
    pub(crate) dependencies: Vec<Dependency>,
    targets: Vec<Target>,
    manifest_path: PathBuf,
}

/// A dependency as a manifest declares it.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Dependency {
    pub(crate) name: String,
    /// The kind of the dependency: `None` for a normal one, else `build` or `dev`.
    pub(crate) kind: Option<String>,
    /// The condition on the target, as `cfg(loom)`.
    pub(crate) target: Option<String>,
    pub(crate) optional: bool,
}

#[derive(Debug, Deserialize)]
struct Target {
    kind: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct Resolve {
    nodes: Vec<Node>,
}

#[derive(Debug, Deserialize)]
struct Node {
    id: String,
    deps: Vec<Edge>,
}

#[derive(Debug, Deserialize)]
struct Edge {
    pkg: String,
    dep_kinds: Vec<EdgeKind>,
}

#[derive(Debug, Deserialize)]
struct EdgeKind {
    kind: Option<String>,
    target: Option<String>,
}

/// The crates that replace the atomics in models, and the condition under which each does so. A dependency that only
/// such a condition enables is in no build of a user.
pub(crate) const MODEL_CHECKERS: [(&str, &str); 2] =
    [("loom", "cfg(loom)"), ("shuttle", "cfg(shuttle)")];

impl Workspace {
    /// Reads the workspace from cargo.
    pub(crate) fn load(root: &Path) -> Result<Self, String> {
        let line = Invocation::cargo(&["metadata", "--format-version", "1", "--all-features"]);
        let captured = line.capture(root)?;
        if captured.result.is_err() {
            return Err(format!("`{line}` failed: {}", captured.last_complaint()));
        }
        Self::parse(&captured.stdout)
    }

    pub(crate) fn parse(json: &str) -> Result<Self, String> {
        serde_json::from_str(json)
            .map_err(|error| format!("the answer of cargo metadata is not understood: {error}"))
    }

    /// Returns the packages of the workspace itself.
    pub(crate) fn members(&self) -> impl Iterator<Item = &Package> {
        self.packages
            .iter()
            .filter(|package| self.workspace_members.contains(&package.id))
    }

    /// Returns the member called `name`.
    pub(crate) fn member(&self, name: &str) -> Option<&Package> {
        self.members().find(|package| package.name == name)
    }

    /// Returns the members under `crates/` on which other packages can depend: the library, as opposed to its tools.
    pub(crate) fn libraries(&self) -> impl Iterator<Item = &Package> {
        self.members().filter(|package| {
            package.is_library() && self.directory(package).starts_with("crates/")
        })
    }

    /// Returns the directory of a member relative to the root, with a slash at its end.
    pub(crate) fn directory(&self, package: &Package) -> String {
        let directory = package.directory();
        let relative = directory
            .strip_prefix(&self.workspace_root)
            .unwrap_or(directory);
        format!("{}/", relative.display())
    }

    /// Returns the identities of all packages that `roots` need in order to be built, including the roots. Packages
    /// that only their tests or models need are left out.
    pub(crate) fn needed_by<'w>(
        &'w self,
        roots: impl IntoIterator<Item = &'w Package>,
    ) -> BTreeSet<&'w str> {
        let nodes: BTreeMap<&str, &Node> = self
            .resolve
            .nodes
            .iter()
            .map(|node| (node.id.as_str(), node))
            .collect();
        let mut found = BTreeSet::new();
        let mut open: Vec<&str> = roots.into_iter().map(|root| root.id.as_str()).collect();
        while let Some(id) = open.pop() {
            if !found.insert(id) {
                continue;
            }
            let edges = nodes.get(id).map_or(&[][..], |node| &node.deps);
            let needed = edges
                .iter()
                .filter(|edge| edge.dep_kinds.iter().any(EdgeKind::is_for_users));
            open.extend(needed.map(|edge| edge.pkg.as_str()));
        }
        found
    }
}

impl EdgeKind {
    fn is_for_users(&self) -> bool {
        let condition = self.target.as_deref();
        let is_in_models = MODEL_CHECKERS
            .iter()
            .any(|(_, in_models)| condition == Some(*in_models));
        self.kind.as_deref() != Some("dev") && !is_in_models
    }
}

impl Package {
    /// Returns true if the package has a library target.
    pub(crate) fn is_library(&self) -> bool {
        const LIBRARY_KINDS: [&str; 5] = ["lib", "rlib", "staticlib", "cdylib", "dylib"];
        self.targets
            .iter()
            .flat_map(|target| &target.kind)
            .any(|kind| LIBRARY_KINDS.contains(&kind.as_str()))
    }

    /// Returns the directory of the package's manifest.
    pub(crate) fn directory(&self) -> &Path {
        self.manifest_path.parent().unwrap_or(Path::new(""))
    }
}

#[cfg(test)]
pub(crate) mod samples {
    //! Workspaces for tests, made from a short description.

    use serde_json::{Value, json};

    use super::{MODEL_CHECKERS, Workspace};

    /// Returns a member under `crates/`, with a library.
    pub(crate) fn library(name: &str, dependencies: Value) -> Value {
        json!({
            "id": name, "name": name, "version": "0.1.0", "source": null,
            "license": "MIT OR Apache-2.0", "rust_version": "1.88", "features": {},
            "dependencies": dependencies,
            "targets": [{"kind": ["lib"]}],
            "manifest_path": format!("/w/crates/{name}/Cargo.toml"),
        })
    }

    /// Returns a dependency as a manifest declares it.
    pub(crate) fn dependency(name: &str) -> Value {
        json!({"name": name, "kind": null, "target": null, "optional": false})
    }

    /// Returns a workspace of `members`, other `packages`, and edges `(from, to, kind)` between their identities; the
    /// kind `loom` stands for a normal dependency in models.
    pub(crate) fn workspace(
        members: &[Value],
        packages: &[Value],
        edges: &[(&str, &str, Option<&str>)],
    ) -> Workspace {
        let ids: Vec<&Value> = members.iter().map(|member| &member["id"]).collect();
        let all: Vec<&Value> = members.iter().chain(packages).collect();
        let nodes: Vec<Value> = all
            .iter()
            .map(|package| {
                let deps: Vec<Value> = edges
                    .iter()
                    .filter(|(from, ..)| package["id"] == *from)
                    .map(|(_, to, kind)| json!({"pkg": to, "dep_kinds": [edge_kind(*kind)]}))
                    .collect();
                json!({"id": package["id"], "deps": deps})
            })
            .collect();
        let metadata = json!({
            "packages": all, "workspace_members": ids,
            "workspace_root": "/w", "resolve": {"nodes": nodes},
        });
        Workspace::parse(&metadata.to_string()).unwrap()
    }

    fn edge_kind(kind: Option<&str>) -> Value {
        match kind {
            Some("loom") => json!({"kind": null, "target": MODEL_CHECKERS[0].1}),
            kind => json!({"kind": kind, "target": null}),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::samples::{library, workspace};

    #[test]
    fn libraries_are_the_members_under_crates_with_a_library() {
        let mut tool = library("tool", json!([]));
        tool["manifest_path"] = json!("/w/tool/Cargo.toml");
        let mut program = library("program", json!([]));
        program["targets"] = json!([{"kind": ["bin"]}]);
        let sample = workspace(
            &[library("link", json!([])), tool, program],
            &[library("foreign", json!([]))],
            &[],
        );
        let names: Vec<&str> = sample.libraries().map(|package| &*package.name).collect();
        assert_eq!(names, ["link"]);
        assert_eq!(
            sample.directory(sample.member("link").unwrap()),
            "crates/link/"
        );
        assert!(sample.member("foreign").is_none());
    }

    #[test]
    fn what_only_tests_and_models_need_is_not_needed() {
        let sample = workspace(
            &[library("core", json!([]))],
            &["link", "deep", "builder", "proptest", "loom"].map(|name| library(name, json!([]))),
            &[
                ("core", "link", None),
                ("link", "deep", None),
                ("deep", "link", None),
                ("core", "builder", Some("build")),
                ("core", "proptest", Some("dev")),
                ("core", "loom", Some("loom")),
            ],
        );
        let needed = sample.needed_by(sample.member("core"));
        assert_eq!(
            needed.into_iter().collect::<Vec<_>>(),
            ["builder", "core", "deep", "link"]
        );
    }
}
