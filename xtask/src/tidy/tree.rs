//! The files that the rules check, and the rules about which files exist.

use std::collections::BTreeSet;
use std::path::Path;

use super::Report;
use super::scan::Scan;
use crate::files;

/// The text files of a checkout, read once for all rules.
pub(super) struct Tree {
    files: Vec<File>,
    /// All paths, including those of files that are not text.
    paths: BTreeSet<String>,
}

/// One text file.
pub(super) struct File {
    /// The path of the file, relative to the root, with `/` between the parts.
    pub(super) path: String,
    pub(super) text: String,
    /// The parts of the file's text, if it is Rust.
    scan: Option<Scan>,
}

impl Tree {
    pub(super) fn load(root: &Path) -> Result<Self, String> {
        let paths = files::list(root)?;
        let mut found = Vec::new();
        for path in &paths {
            let bytes = std::fs::read(root.join(path))
                .map_err(|error| format!("cannot read {path}: {error}"))?;
            // What is not text has no style.
            if let Ok(text) = String::from_utf8(bytes) {
                found.push(File::new(path, text));
            }
        }
        Ok(Self {
            files: found,
            paths: paths.into_iter().collect(),
        })
    }

    #[cfg(test)]
    pub(super) fn of(files: &[(&str, &str)]) -> Self {
        Self {
            files: files
                .iter()
                .map(|(path, text)| File::new(path, (*text).into()))
                .collect(),
            paths: files.iter().map(|(path, _)| (*path).into()).collect(),
        }
    }

    pub(super) fn files(&self) -> &[File] {
        &self.files
    }

    pub(super) fn file(&self, path: &str) -> Option<&File> {
        self.files.iter().find(|file| file.path == path)
    }

    /// Returns the files whose names end in `.extension`.
    pub(super) fn with_extension<'t>(
        &'t self,
        extension: &'t str,
    ) -> impl Iterator<Item = &'t File> {
        self.files
            .iter()
            .filter(move |file| file.extension() == Some(extension))
    }

    /// Returns the Rust files with their code and comments.
    pub(super) fn rust(&self) -> impl Iterator<Item = (&File, &Scan)> {
        self.files
            .iter()
            .filter_map(|file| Some((file, file.scan.as_ref()?)))
    }

    /// Returns true if `path` is a file, or a directory that contains files.
    pub(super) fn contains(&self, path: &str) -> bool {
        let path = path.trim_end_matches('/');
        let inside = format!("{path}/");
        path.is_empty()
            || self.paths.contains(path)
            || self
                .paths
                .range(inside.clone()..)
                .next()
                .is_some_and(|first| first.starts_with(&inside))
    }
}

/// Returns the offset in the Rust file at `path` after which everything is tests.
pub(super) fn tests_of(path: &str, text: &str) -> usize {
    File::new(path, text.into()).tests_from()
}

impl File {
    fn new(path: &str, text: String) -> Self {
        let mut file = Self {
            path: path.into(),
            text,
            scan: None,
        };
        if file.extension() == Some("rs") {
            file.scan = Some(Scan::new(&file.text));
        }
        file
    }

    /// Returns the offset after which everything is tests: the end of the file, the beginning of the tests at its end,
    /// or the beginning of the file.
    pub(super) fn tests_from(&self) -> usize {
        let path = format!("/{}", self.path);
        let is_tests = ["/tests.rs", "/model.rs"]
            .iter()
            .any(|end| path.ends_with(end));
        if is_tests || path.contains("/tests/") {
            return 0;
        }
        let inline = self.scan.as_ref().and_then(|scan| inline_tests(&scan.code));
        inline.unwrap_or(self.text.len())
    }

    /// Returns the parts of the file's text, if it is Rust.
    pub(super) const fn scan(&self) -> Option<&Scan> {
        self.scan.as_ref()
    }

    pub(super) fn extension(&self) -> Option<&str> {
        Path::new(&self.path).extension()?.to_str()
    }

    /// Returns the lines, counted from one.
    pub(super) fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        (1..).zip(self.text.lines())
    }
}

/// Returns the offset of the module of tests inside the file with this code.
fn inline_tests(code: &str) -> Option<usize> {
    let mut from = 0;
    let mut attribute = None;
    for line in code.split_inclusive('\n') {
        if line.starts_with("#[cfg(") && line.contains("test") {
            attribute = attribute.or(Some(from));
        } else if !line.starts_with('#') {
            if line.contains("mod ") && line.contains('{') && attribute.is_some() {
                return attribute;
            }
            attribute = None;
        }
        from += line.len();
    }
    None
}

/// H2: checks that each package inherits the lints of the workspace, because a package that forgets `[lints]` has none
/// of them.
pub(super) fn workspace_lints(tree: &Tree, report: &mut Report<'_>) {
    for file in tree.with_extension("toml") {
        let has = |wanted: &str| file.lines().any(|(_, line)| line.trim() == wanted);
        let is_package = file.path.ends_with("Cargo.toml") && has("[package]");
        // A package that is a workspace of its own has no lints to take.
        if is_package && !has("[workspace]") && !has_workspace_lints(&file.text) {
            report.error(
                &file.path,
                1,
                "the package has lints of its own or none",
                "add [lints] with workspace = true",
            );
        }
    }
}

fn has_workspace_lints(manifest: &str) -> bool {
    let mut lines = manifest.lines().map(str::trim);
    lines.any(|line| line == "[lints]") && lines.next() == Some("workspace = true")
}

#[cfg(test)]
mod tests {
    use super::{Tree, workspace_lints};
    use crate::tidy::samples::{CLEAN, lines};

    #[test]
    fn a_directory_is_there_when_a_file_is_in_it() {
        let tree = Tree::of(&[("docs/map.md", ""), ("docs-old.md", "")]);
        for there in ["docs/map.md", "docs", "docs/", ""] {
            assert!(tree.contains(there), "{there}");
        }
        for missing in ["doc", "docs/ma", "map.md", "docs-old"] {
            assert!(!tree.contains(missing), "{missing}");
        }
    }

    #[test]
    fn tests_are_told_from_the_rest_by_path_and_by_module() {
        let from = |path, text: &str| Tree::of(&[(path, text)]).files()[0].tests_from();
        let text = "fn a() {}\n#[cfg(test)]\nmod tests {}\n";
        assert_eq!(
            &text[from("src/a.rs", text)..],
            "#[cfg(test)]\nmod tests {}\n"
        );
        assert_eq!(from("src/a.rs", "fn a() {}\n"), 10);
        for path in [
            "src/a/tests.rs",
            "src/a/model.rs",
            "tests/a.rs",
            "src/a/tests/b.rs",
        ] {
            assert_eq!(from(path, "fn a() {}\n"), 0, "{path}");
        }
    }

    #[test]
    fn a_package_without_the_lints_of_the_workspace_is_found() {
        let package = "[package]\nname = \"a\"\n";
        let with = format!("{package}\n[lints]\nworkspace = true\n");
        let without = format!("{package}\n[lints.rust]\nunused = \"allow\"\n");
        let alone = format!("{package}\n[workspace]\n");
        let path = "crates/a/Cargo.toml";
        assert_eq!(lines(workspace_lints, path, &with), CLEAN);
        assert_eq!(lines(workspace_lints, path, &alone), CLEAN);
        assert_eq!(lines(workspace_lints, path, package), [1]);
        assert_eq!(lines(workspace_lints, path, &without), [1]);
        assert_eq!(lines(workspace_lints, "Cargo.toml", "[workspace]\n"), CLEAN);
    }
}
