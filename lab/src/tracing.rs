//! The kernel's tracing, which an option marks and stops, so that it shows what happened just before.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

/// The kernel's tracing, ready to be stopped at once.
#[derive(Debug)]
pub(crate) struct Tracing {
    root: PathBuf,
    /// Files that are opened before the run: there is no time for it afterwards.
    files: Result<Files, String>,
}

#[derive(Debug)]
struct Files {
    marker: File,
    switch: File,
}

impl Tracing {
    pub(crate) fn open(root: &Path) -> Self {
        let open = |name: &str| {
            let path = root.join(name);
            let file = File::options().write(true).open(&path);
            file.map_err(|error| format!("{}: {error}", path.display()))
        };
        let files = open("trace_marker")
            .and_then(|marker| open("tracing_on").map(|switch| Files { marker, switch }));
        Self {
            root: root.to_owned(),
            files,
        }
    }

    /// Leaves `mark` in the trace and stops it. Returns true if that could be done.
    pub(crate) fn stop(&self, mark: &str) -> bool {
        let Ok(files) = &self.files else {
            return false;
        };
        let marked = (&files.marker).write_all(mark.as_bytes());
        let stopped = (&files.switch).write_all(b"0");
        marked.and(stopped).is_ok()
    }

    /// Describes the missing kernel trace, for people; `None` if it is there.
    pub(crate) fn complaint(&self) -> Option<String> {
        let error = self.files.as_ref().err()?;
        Some(format!(
            "there is no kernel trace to mark and stop: {error}; mount tracefs on {} as root, or name its place with \
             --tracefs",
            self.root.display()
        ))
    }
}
