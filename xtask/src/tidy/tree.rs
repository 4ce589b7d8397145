//! The files that the rules check.

use std::collections::BTreeSet;
use std::path::Path;

use crate::files;

/// The text files of a checkout, read once for all rules.
pub(super) struct Tree {
    pub(super) files: Vec<File>,
    /// All paths, including those of files that are not text.
    paths: BTreeSet<String>,
}

pub(crate) struct File {
    /// The path of the file, relative to the root, with `/` between the parts.
    pub(super) path: String,
    pub(super) text: String,
}

/// The receiver of a rule's findings.
pub(super) struct Report<'r> {
    pub(super) rule: &'static str,
    pub(super) findings: &'r mut Vec<(String, usize, String)>,
}

impl Report<'_> {
    pub(super) fn error(&mut self, path: &str, line: usize, message: impl AsRef<str>, hint: &str) {
        let text = format!("[{}] {}: {hint}", self.rule, message.as_ref());
        self.findings.push((path.to_owned(), line, text));
    }
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
                found.push(File {
                    path: path.clone(),
                    text,
                });
            }
        }
        let paths = paths.into_iter().collect();
        Ok(Self {
            files: found,
            paths,
        })
    }

    #[cfg(test)]
    pub(super) fn of(files: &[(&str, &str)]) -> Self {
        Self {
            files: files
                .iter()
                .map(|(path, text)| File {
                    path: (*path).into(),
                    text: (*text).into(),
                })
                .collect(),
            paths: files.iter().map(|(path, _)| (*path).into()).collect(),
        }
    }

    pub(super) fn file(&self, path: &str) -> Option<&File> {
        self.files.iter().find(|file| file.path == path)
    }

    pub(super) fn ending<'t>(&'t self, end: &'t str) -> impl Iterator<Item = &'t File> {
        self.files
            .iter()
            .filter(move |file| file.path.ends_with(end))
    }

    /// Returns true if `path` is a file, or a directory that contains files.
    pub(super) fn contains(&self, path: &str) -> bool {
        let inside = format!("{path}/");
        let mut below = self.paths.range(inside.clone()..);
        path.is_empty()
            || self.paths.contains(path)
            || below.next().is_some_and(|first| first.starts_with(&inside))
    }
}

impl File {
    /// Returns the lines, counted from one.
    pub(super) fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        (1..).zip(self.text.lines())
    }
}

/// Returns the offset after which everything in the Rust file at `path` is tests: the end of the file, the beginning of
/// the tests at its end, or the beginning of the file.
pub(crate) fn tests_from(path: &str, text: &str) -> usize {
    let path = format!("/{path}");
    if path.ends_with("/tests.rs") || path.ends_with("/model.rs") || path.contains("/tests/") {
        return 0;
    }
    let (mut from, mut attribute) = (0, None);
    for line in text.split_inclusive('\n') {
        if line.starts_with("#[cfg(") && line.contains("test") {
            attribute = attribute.or(Some(from));
        } else if !line.starts_with('#')
            && let Some(attribute) = attribute.take()
            && line.contains("mod ")
            && line.contains('{')
        {
            return attribute;
        }
        from += line.len();
    }
    text.len()
}

/// Returns true if `letter` can be part of an identifier.
pub(crate) fn is_word(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

#[cfg(test)]
mod tests {
    use super::tests_from;

    #[test]
    fn tests_are_told_from_the_rest_by_path_and_by_module() {
        assert_eq!(
            tests_from("src/a.rs", "fn a() {}\n#[cfg(test)]\nmod tests {}\n"),
            10
        );
        assert_eq!(tests_from("src/a.rs", "fn a() {}\n"), 10);
        for path in [
            "src/a/tests.rs",
            "src/a/model.rs",
            "tests/a.rs",
            "src/a/tests/b.rs",
        ] {
            assert_eq!(tests_from(path, "fn a() {}\n"), 0, "{path}");
        }
    }
}
