//! The kernel's tracing. An option makes the command mark and stop it, so that the trace shows the events just before.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

/// The open files of the kernel's tracing, with which it is stopped at once.
#[derive(Debug)]
pub(crate) struct Tracing {
    root: PathBuf,
    /// The files, opened before the run because opening them at the stop would take too long.
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

    /// Leaves `mark` in the trace and stops the tracing. Returns true if both succeeded.
    pub(crate) fn stop(&self, mark: &str) -> bool {
        let Ok(files) = &self.files else {
            return false;
        };
        let marked = (&files.marker).write_all(mark.as_bytes());
        let stopped = (&files.switch).write_all(b"0");
        marked.and(stopped).is_ok()
    }

    /// Describes, for people, why the kernel trace is missing; `None` if the trace exists.
    pub(crate) fn complaint(&self) -> Option<String> {
        let error = self.files.as_ref().err()?;
        Some(format!(
            "there is no kernel trace to mark and stop: {error}; mount tracefs on {} as root, or name its place with \
             --tracefs",
            self.root.display()
        ))
    }
}
