//! The files of the checkout: the files that git tracks, and those that it would track.
//!
//! The list comes from git and not from the file system. It therefore leaves out built and ignored files, and contains
//! a new file before the file is committed, which is when the rules are needed.

use std::path::{Path, PathBuf};

use crate::invocation::Invocation;

/// Returns the paths of all files, relative to `root`, with `/` between the parts, sorted.
pub(crate) fn list(root: &Path) -> Result<Vec<String>, String> {
    let line = Invocation::new("git").args(&["ls-files", "-co", "--exclude-standard", "-z"]);
    let captured = line.capture(root)?;
    if captured.result.is_err() {
        return Err(format!("`{line}` failed: {}", captured.last_complaint()));
    }
    let mut paths: Vec<String> = captured
        .stdout
        .split_terminator('\0')
        .filter(|path| root.join(path).is_file())
        .map(str::to_owned)
        .collect();
    paths.sort();
    paths.dedup();
    Ok(paths)
}

pub(crate) fn read(root: &Path, path: &str) -> Result<String, String> {
    std::fs::read_to_string(root.join(path)).map_err(|error| format!("cannot read {path}: {error}"))
}

pub(crate) fn target(root: &Path) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from)
}
