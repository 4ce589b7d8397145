//! The workspace according to `cargo metadata`, with the parts that the tasks need.

#[cfg(test)]
use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::Value;

use crate::invocation::Invocation;

/// The workspace and the packages of all its resolved dependencies, with all features on.
#[derive(Debug, Deserialize)]
pub(crate) struct Workspace {
    pub(crate) packages: Vec<Package>,
    workspace_members: BTreeSet<String>,
    workspace_root: PathBuf,
}

/// A package, inside or outside the workspace.
#[derive(Debug, Deserialize)]
pub(crate) struct Package {
    pub(crate) id: String,
    pub(crate) name: String,
    #[cfg(test)]
    pub(crate) rust_version: Option<String>,
    #[cfg(test)]
    pub(crate) features: BTreeMap<String, Vec<String>>,
    #[cfg(test)]
    targets: Vec<Target>,
    manifest_path: PathBuf,
}

#[cfg(test)]
#[derive(Debug, Deserialize)]
struct Target {
    kind: Vec<String>,
}

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

    #[cfg(test)]
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
}

impl Package {
    #[cfg(test)]
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

/// A test program that cargo built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Program {
    pub(crate) name: String,
    pub(crate) executable: PathBuf,
    /// The directory in which cargo would run the program.
    pub(crate) directory: PathBuf,
}

impl Program {
    /// Returns the test program that a line of cargo's messages names.
    pub(crate) fn of(line: &str) -> Option<Self> {
        let message: Value = serde_json::from_str(line).ok()?;
        let executable = PathBuf::from(message["executable"].as_str()?);
        let is_test = message["profile"]["test"].as_bool()?;
        let manifest = Path::new(message["manifest_path"].as_str()?);
        is_test.then_some(Self {
            name: message["target"]["name"].as_str()?.to_owned(),
            executable,
            directory: manifest.parent()?.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Program;

    #[test]
    fn only_test_programs_are_taken_from_what_cargo_says() {
        let test = r#"{"reason":"compiler-artifact","manifest_path":"/crates/one/Cargo.toml",
            "target":{"name":"time"},"profile":{"test":true},"executable":"/target/time-1"}"#;
        let program = Program::of(test).expect("a program");
        assert_eq!(program.directory.to_str(), Some("/crates/one"));
        assert_eq!(Program::of(&test.replace("true", "false")), None);
        assert_eq!(
            Program::of(&test.replace("\"/target/time-1\"", "null")),
            None
        );
        assert_eq!(Program::of("   Compiling one"), None);
    }
}
