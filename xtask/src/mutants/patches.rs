//! The mutants: patches that put switches into a copy of the tree.
//!
//! The sources of the product know nothing of mutants. `xtask/mutants` has a patch for each file that gets switches,
//! under the path of the file, and the module with the macro `mutant!`, which the copy of the link crate gets. All
//! patches are applied to one copy below the target directory, so that one build serves all mutants. A hunk is found by
//! its context, wherever that has moved to; where it is found nowhere, `cargo xtask tidy` names the patch.
//!
//! `--tree` makes the copy, `--save` writes the patches anew by what was changed in it. Beside the copy lies what each
//! patched file was without its patch: a source that has changed since is not mistaken for a part of a mutant.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use diffy::{DiffOptions, Patch, apply};

use crate::files;

/// The directory of the patches.
const PATCHES: &str = "xtask/mutants/";
const EXTENSION: &str = ".patch";
/// The module with the switches, and where the copy has it.
pub(super) const SWITCHES: (&str, &str) = (
    "xtask/mutants/mutants.rs",
    "crates/tickless-link/src/mutants.rs",
);
/// Lines around a change by which it is found again.
const CONTEXT: usize = 2;

/// The texts of the files of a checkout, by path.
pub(crate) type Texts = BTreeMap<String, String>;

/// Returns the files that get switches, with them, by path; or the patches that do not apply, with the reason.
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

/// The copy of the tree.
pub(super) struct Copy {
    /// Directory of the copy.
    pub(super) root: PathBuf,
    /// Directory of patched files as they were before.
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

    /// Brings the copy up to date. A file that is as it should be is left alone, so that cargo builds what changed.
    ///
    /// With `patched` each file in it takes the place of the one in `root`.
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
        for path in patched.keys().filter(|path| texts.contains_key(*path)) {
            write(&self.plain.join(path), texts[path].as_bytes())?;
        }
        // Test programs of a directory are found by looking: one that is gone must not be built.
        remove_others(&self.root, &self.root, &kept)
    }

    /// Writes the patches anew by what the copy has, and returns their number.
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

/// Writes a file, unless it is so already.
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

/// Removes the Rust files below `directory` that are not `kept`, whose paths are relative to `root`.
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
        let _removed = std::fs::remove_dir_all(directory);
    }
}
