//! The mutants: patches that put switches into a copy of the tree.
//!
//! The sources of the product contain no mutants. `xtask/mutants` has a patch for each file that gets switches, under
//! the path of that file, and the module with the macro `mutant!`, which is copied into the link crate of the copy. All
//! patches are applied to one copy below the target directory, so that one build serves all mutants. A hunk is found by
//! its context, even if the context has moved. If the context is not found, `cargo xtask tidy` names the patch.
//!
//! `--tree` makes the copy, and `--save` writes the patches again from the changes in the copy. A second directory
//! keeps each patched file in its state before the patch, so that a source that has changed since is not taken for a
//! part of a mutant.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use diffy::{DiffOptions, Patch, apply};

use crate::files;

const PATCHES: &str = "xtask/mutants/";
const EXTENSION: &str = ".patch";
/// The module with the switches, and its path in the copy.
pub(super) const SWITCHES: (&str, &str) = (
    "xtask/mutants/mutants.rs",
    "crates/tickless-link/src/mutants.rs",
);
/// The number of lines around a change by which the change is found again.
const CONTEXT: usize = 2;

/// The texts of the files of a checkout, by path.
pub(crate) type Texts = BTreeMap<String, String>;

/// Returns the files that get switches, by path, with the switches in them. If patches do not apply, returns these
/// patches instead, with the reasons.
pub(crate) fn patched(texts: &Texts) -> Result<Texts, Vec<(String, String)>> {
    let mut changed = Texts::new();
    let mut stale = Vec::new();
    for (name, text) in texts.range(PATCHES.to_owned()..) {
        let Some(path) = name
            .strip_prefix(PATCHES)
            .and_then(|path| path.strip_suffix(EXTENSION))
        else {
            continue;
        };
        let result = texts
            .get(path)
            .ok_or_else(|| format!("{path} is not there"))
            .and_then(|source| with(source, text));
        match result {
            Ok(source) => {
                changed.insert(path.to_owned(), source);
            }
            Err(reason) => stale.push((name.clone(), reason)),
        }
    }
    if let Some(switches) = texts.get(SWITCHES.0) {
        changed.insert(SWITCHES.1.to_owned(), switches.clone());
    }
    if stale.is_empty() {
        Ok(changed)
    } else {
        Err(stale)
    }
}

fn with(source: &str, patch: &str) -> Result<String, String> {
    let patch = Patch::from_str(patch).map_err(|error| error.to_string())?;
    apply(source, &patch).map_err(|error| error.to_string())
}

/// The copy of the tree, into which the switches are patched.
pub(super) struct Copy {
    pub(super) root: PathBuf,
    /// The directory of the patched files in their state before the patch.
    plain: PathBuf,
}

impl Copy {
    pub(super) fn of(root: &Path) -> Self {
        let directory = files::target(root).join("mutants");
        Self {
            root: directory.join("tree"),
            plain: directory.join("plain"),
        }
    }

    /// Updates the copy. An unchanged file is not written, so that cargo builds only what changed.
    ///
    /// Each file in `patched` replaces the file of the same path in `root`.
    pub(super) fn update(&self, root: &Path, texts: &Texts, patched: &Texts) -> Result<(), String> {
        let paths = files::list(root)?;
        let kept: BTreeSet<&String> = paths.iter().chain(patched.keys()).collect();
        for path in &kept {
            let bytes = match patched.get(*path) {
                Some(text) => text.clone().into_bytes(),
                None => fs::read(root.join(path))
                    .map_err(|error| format!("cannot read {path}: {error}"))?,
            };
            write(&self.root.join(path), &bytes)?;
        }
        self.keep_plain(texts)?;
        // Test programs of a directory are found by looking: one that is gone must not be built.
        remove_others(&self.root, &self.root, &kept)
    }

    /// Keeps the state of each file that has a patch, whether or not the patch applies.
    fn keep_plain(&self, texts: &Texts) -> Result<(), String> {
        for (path, text) in texts {
            if texts.contains_key(&format!("{PATCHES}{path}{EXTENSION}")) {
                write(&self.plain.join(path), text.as_bytes())?;
            }
        }
        Ok(())
    }

    /// Writes the patches again from the contents of the copy, and returns the number of patches.
    pub(super) fn save(&self, root: &Path, texts: &Texts) -> Result<usize, String> {
        let mut saved = 0;
        for (path, source) in texts.iter().filter(|(path, _)| path.ends_with(".rs")) {
            let Ok(copied) = fs::read_to_string(self.root.join(path)) else {
                continue;
            };
            let patch = format!("{PATCHES}{path}{EXTENSION}");
            if path.starts_with("xtask/") || (copied == *source && !texts.contains_key(&patch)) {
                continue;
            }
            let plain = fs::read_to_string(self.plain.join(path));
            if plain.is_ok_and(|plain| plain != *source) {
                return Err(format!(
                    "{path} changed since the copy was made: make it again by --tree"
                ));
            }
            let place = root.join(&patch);
            if copied == *source {
                fs::remove_file(&place)
                    .map_err(|error| format!("cannot remove {patch}: {error}"))?;
                continue;
            }
            let made = DiffOptions::new()
                .set_context_len(CONTEXT)
                .set_original_filename(format!("a/{path}"))
                .set_modified_filename(format!("b/{path}"))
                .create_patch(source, &copied)
                .to_string();
            write(&place, made.as_bytes())?;
            saved += 1;
        }
        Ok(saved)
    }
}

/// Writes a file, unless it has this content already.
fn write(path: &Path, bytes: &[u8]) -> Result<(), String> {
    if fs::read(path).is_ok_and(|before| before == bytes) {
        return Ok(());
    }
    let complain = |error| format!("cannot write {}: {error}", path.display());
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory).map_err(complain)?;
    }
    fs::write(path, bytes).map_err(complain)
}

/// Removes the Rust files below `directory` that are not in `kept`; the paths in `kept` are relative to `root`.
fn remove_others(root: &Path, directory: &Path, kept: &BTreeSet<&String>) -> Result<(), String> {
    let complain = |error| format!("cannot look through {}: {error}", directory.display());
    for entry in fs::read_dir(directory).map_err(complain)? {
        let path = entry.map_err(complain)?.path();
        if path.is_dir() {
            remove_others(root, &path, kept)?;
            continue;
        }
        let relative = path.strip_prefix(root).unwrap_or(&path).to_string_lossy();
        let relative = relative.replace('\\', "/");
        if relative.ends_with(".rs") && !kept.contains(&relative) {
            fs::remove_file(&path).map_err(complain)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{Copy, Texts, patched};

    fn texts(files: &[(&str, &str)]) -> Texts {
        let owned = |(path, text): &(&str, &str)| ((*path).to_owned(), (*text).to_owned());
        files.iter().map(owned).collect()
    }

    const PATCH: &str =
        "--- a/x.rs\n+++ b/x.rs\n@@ -1,3 +1,3 @@\n fn a() {\n-    b();\n+    c();\n }\n";

    #[test]
    fn a_hunk_is_found_where_its_context_has_moved_to() {
        let moved = "// A line.\n// Another.\nfn a() {\n    b();\n}\n";
        let found = patched(&texts(&[
            ("x.rs", moved),
            ("xtask/mutants/x.rs.patch", PATCH),
        ]));
        assert_eq!(found.unwrap()["x.rs"], moved.replace("b();", "c();"));
    }

    #[test]
    fn a_patch_whose_place_is_gone_is_named() {
        let gone = texts(&[
            ("x.rs", "fn a() {\n    d();\n}\n"),
            ("xtask/mutants/x.rs.patch", PATCH),
            ("xtask/mutants/y.rs.patch", PATCH),
        ]);
        let stale = patched(&gone).unwrap_err();
        let names: Vec<&str> = stale.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(
            names,
            ["xtask/mutants/x.rs.patch", "xtask/mutants/y.rs.patch"]
        );
        assert_eq!(stale[1].1, "y.rs is not there");
    }

    #[test]
    fn what_was_changed_in_the_copy_is_saved_and_applies_again() {
        let directory = std::env::temp_dir().join(format!("xtask-mutants-{}", std::process::id()));
        let copy = Copy {
            root: directory.join("tree"),
            plain: directory.join("plain"),
        };
        let source = "fn a() {\n    b();\n}\n";
        let mut sources = texts(&[("x.rs", source)]);
        super::write(&copy.root.join("x.rs"), b"fn a() {\n    c();\n}\n").unwrap();
        assert_eq!(copy.save(&directory, &sources).unwrap(), 1);
        let name = "xtask/mutants/x.rs.patch";
        let patch = std::fs::read_to_string(directory.join(name)).unwrap();
        sources.insert(name.to_owned(), patch);
        assert_eq!(
            patched(&sources).unwrap()["x.rs"],
            "fn a() {\n    c();\n}\n"
        );

        super::write(&copy.plain.join("x.rs"), b"fn before() {}\n").unwrap();
        let refused = copy.save(&directory, &sources).unwrap_err();
        assert!(refused.contains("x.rs changed since"), "{refused}");
        // A copy that is made again is of the file as it is now, even where its patch does not apply.
        let stale = "--- a/x.rs\n+++ b/x.rs\n@@ -1,1 +1,1 @@\n-gone\n+here\n".to_owned();
        sources.insert(name.to_owned(), stale);
        assert!(patched(&sources).is_err());
        copy.keep_plain(&sources).unwrap();
        assert_eq!(copy.save(&directory, &sources).unwrap(), 1);
        let _removed = std::fs::remove_dir_all(directory);
    }
}
