//! The output of commands: standard output, which its reader may close at any time, and files, which are written whole
//! or not at all.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, Permissions};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use clap::Args;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags};
use serde::Serialize;
use tempfile::NamedTempFile;

use crate::failure::Failure;
use crate::shown;

/// The options that every command takes.
#[derive(Clone, Debug, Args)]
pub(crate) struct Options {
    /// Write the result as JSON to this file; `-` is standard output, and then nothing else is printed there
    #[arg(long, value_name = "PATH")]
    pub(crate) json: Option<Place>,

    /// Print nothing but errors
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

/// A target of output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    StandardOutput,
    File(PathBuf),
}

impl From<OsString> for Place {
    fn from(argument: OsString) -> Self {
        if argument == OsStr::new("-") {
            Self::StandardOutput
        } else {
            Self::File(argument.into())
        }
    }
}

impl Place {
    /// Returns the place by its one full name; `None` for a device or a pipe, which may take several outputs.
    fn settled(&self) -> Option<Self> {
        let path = match self {
            Self::File(path) => path,
            Self::StandardOutput => return Some(Self::StandardOutput),
        };
        if fs::metadata(path).is_ok_and(|data| !data.is_file()) {
            return None;
        }
        let new = || {
            let full = std::path::absolute(path).ok()?;
            Some(
                fs::canonicalize(full.parent()?)
                    .ok()?
                    .join(full.file_name()?),
            )
        };
        fs::canonicalize(path).ok().or_else(new).map(Self::File)
    }
}

/// The output for people: standard output, unless it is reserved for JSON or the user asked for silence.
#[derive(Debug)]
pub(crate) struct Screen {
    silent: bool,
}

impl Screen {
    pub(crate) fn new(options: &Options) -> Self {
        let taken = options.json == Some(Place::StandardOutput);
        Self {
            silent: options.quiet || taken,
        }
    }

    /// Returns true if printed text is visible to the user.
    pub(crate) fn is_shown(&self) -> bool {
        !self.silent
    }

    /// Prints `text`; characters that a terminal would obey are escaped.
    pub(crate) fn print(&self, text: &str) -> Result<(), Failure> {
        self.print_obeyed(&shown::text(text))
    }

    /// Prints `text` with its control sequences, which the terminal obeys. No part of the text comes from a file.
    pub(crate) fn print_obeyed(&self, text: &str) -> Result<(), Failure> {
        if self.silent {
            return Ok(());
        }
        print(text.as_bytes())
    }
}

/// Writes to standard output. A reader that closed the pipe, or a terminal that closed, wants no more output, which is
/// no error.
pub(crate) fn print(bytes: &[u8]) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Err(error) if !is_unread(&error) => Err(Failure::Machine(format!(
            "cannot write to standard output: {error}"
        ))),
        _ => Ok(()),
    }
}

/// Returns false if standard output is a pipe that its reader has closed.
pub(crate) fn is_read() -> bool {
    let out = io::stdout();
    let mut ends = [PollFd::new(&out, PollFlags::empty())];
    let at_once = Timespec::default();
    !matches!(poll(&mut ends, Some(&at_once)), Ok(1)) || !ends[0].revents().contains(PollFlags::ERR)
}

/// Returns true if an error of standard output says that no reader is left.
fn is_unread(error: &io::Error) -> bool {
    let hung_up = Some(rustix::io::Errno::IO.raw_os_error());
    error.kind() == io::ErrorKind::BrokenPipe
        || error.raw_os_error() == hung_up
            && rustix::fs::fstat(io::stdout())
                .is_ok_and(|out| FileType::from_raw_mode(out.st_mode) == FileType::CharacterDevice)
}

/// A line of progress on a terminal's standard error. Each update overwrites the line, and the end erases it.
#[derive(Debug)]
pub(crate) struct Progress {
    bar: ProgressBar,
}

impl Progress {
    pub(crate) fn new(options: &Options) -> Self {
        // Which is hidden where standard error is no terminal.
        let target = if options.quiet {
            ProgressDrawTarget::hidden()
        } else {
            ProgressDrawTarget::stderr()
        };
        let style = ProgressStyle::with_template("{wide_msg}");
        let bar = ProgressBar::with_draw_target(None, target);
        Self {
            bar: bar.with_style(style.expect("the template is right")),
        }
    }

    pub(crate) fn show(&self, line: &str) {
        self.bar.set_message(shown::line(line).into_owned());
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// A file that is written at the end of a run. An error of opening the file is reported at the beginning.
#[derive(Debug)]
pub(crate) enum OutFile {
    StandardOutput,
    /// A file on the file system of its target, which replaces the target when it is complete.
    Temporary {
        file: Unfinished,
        target: PathBuf,
    },
    /// A device or a pipe, which cannot be replaced.
    Special {
        file: File,
        target: PathBuf,
    },
}

/// An incomplete file, which vanishes unless it is moved to its target.
#[derive(Debug)]
pub(crate) enum Unfinished {
    /// A file without a name, which vanishes when the process ends.
    Nameless { file: File, directory: PathBuf },
    /// A file with a name, for file systems that do not support files without one; a killed process leaves the file
    /// behind.
    Named(NamedTempFile),
}

/// The prefix of the names of incomplete files.
const PREFIX: &str = ".tickless-";

impl Unfinished {
    fn create_in(directory: &Path) -> io::Result<Self> {
        // As for any new file; what the user masks is masked.
        const MODE: u32 = 0o666;
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        let nameless = rustix::fs::open(directory, flags, Mode::from_raw_mode(MODE));
        // Without /proc it could not be given its name.
        if let Some(file) = nameless
            .ok()
            .filter(|_| Path::new("/proc/self/fd").exists())
        {
            return Ok(Self::Nameless {
                file: file.into(),
                directory: directory.to_owned(),
            });
        }
        let mut named = tempfile::Builder::new();
        named
            .prefix(PREFIX)
            .permissions(Permissions::from_mode(MODE));
        named.tempfile_in(directory).map(Self::Named)
    }

    fn as_file(&mut self) -> &mut File {
        match self {
            Self::Nameless { file, .. } => file,
            Self::Named(file) => file.as_file_mut(),
        }
    }

    /// Moves the file to its target, and replaces an existing file atomically. Who may read that one may read this.
    fn persist(mut self, target: &Path) -> io::Result<()> {
        if let Ok(data) = fs::metadata(target) {
            self.as_file().set_permissions(data.permissions())?;
        }
        let (file, directory) = match self {
            Self::Named(file) => {
                return file.persist(target).map(drop).map_err(|error| error.error);
            }
            Self::Nameless { file, directory } => (file, directory),
        };
        // A name first: only what has one can take the place of another file.
        let itself = format!("/proc/self/fd/{}", file.as_raw_fd());
        let link = |name: &Path| {
            rustix::fs::linkat(CWD, &itself, CWD, name, AtFlags::SYMLINK_FOLLOW)
                .map_err(io::Error::from)
        };
        let named = tempfile::Builder::new()
            .prefix(PREFIX)
            .make_in(directory, link)?;
        named.persist(target).map_err(|error| error.error)
    }
}

impl OutFile {
    /// Prepares `place` for writing, or fails if it cannot be written to.
    pub(crate) fn prepare(place: &Place) -> Result<Self, Failure> {
        match place {
            Place::StandardOutput => Ok(Self::StandardOutput),
            Place::File(path) => Self::prepare_file(path),
        }
    }

    fn prepare_file(path: &Path) -> Result<Self, Failure> {
        // What a link points to is replaced, not the link.
        let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let refuse = |why: &str| {
            let path = path.display();
            Failure::Input(format!("cannot write {path}: {why}"))
        };
        match fs::metadata(&target) {
            Ok(data) if data.is_dir() => {
                return Err(refuse("it is a directory; give the name of a file in it"));
            }
            Ok(data) if !data.is_file() => {
                let file = File::options().write(true).open(&target);
                let file = file.map_err(|error| refuse(&error.to_string()))?;
                return Ok(Self::Special { file, target });
            }
            // A file, or nothing yet.
            _ => {}
        }
        let directory = match target.parent() {
            Some(parent) if parent != Path::new("") => parent,
            _ => Path::new("."),
        };
        let file = Unfinished::create_in(directory).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound if !directory.is_dir() => {
                refuse(&format!("there is no directory {}", directory.display()))
            }
            // Without the name of the temporary file, which means nothing to the user.
            kind => refuse(&format!("{}: {kind}", directory.display())),
        })?;
        Ok(Self::Temporary { file, target })
    }

    pub(crate) fn write(self, content: &[u8]) -> Result<(), Failure> {
        let name = self.name();
        let result = match self {
            Self::StandardOutput => return print(content),
            Self::Special { mut file, .. } => file.write_all(content),
            Self::Temporary { mut file, target } => {
                { file.as_file().write_all(content) }.and_then(|()| file.persist(&target))
            }
        };
        result.map_err(|error| Failure::Machine(format!("cannot write {name}: {error}")))
    }

    /// Returns the target, for messages.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::StandardOutput => "to standard output".to_owned(),
            Self::Temporary { target, .. } | Self::Special { target, .. } => {
                target.display().to_string()
            }
        }
    }

    pub(crate) fn write_some(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::StandardOutput => io::stdout().lock().write_all(bytes),
            Self::Special { file, .. } => file.write_all(bytes),
            Self::Temporary { file, .. } => file.as_file().write_all(bytes),
        }
    }

    /// Writes `value` as JSON, indented, with a line end.
    pub(crate) fn write_json(self, value: &impl Serialize) -> Result<(), Failure> {
        let mut text = serde_json::to_vec_pretty(value)
            .map_err(|error| Failure::Machine(format!("cannot write JSON: {error}")))?;
        text.push(b'\n');
        self.write(&text)
    }
}

/// Prepares the file of `--json`, if it was given.
pub(crate) fn prepare_json(options: &Options) -> Result<Option<OutFile>, Failure> {
    options.json.as_ref().map(OutFile::prepare).transpose()
}

/// Prepares the file of `--json`. Refuses an output that would take the place of an input or of another output; `others`
/// are the inputs and the other outputs of the command, with their names.
pub(crate) fn prepare_json_beside(
    others: &[(&str, Option<Place>)],
    options: &Options,
) -> Result<Option<OutFile>, Failure> {
    let mut taken = Vec::new();
    for (name, place) in others.iter().chain(&[("--json", options.json.clone())]) {
        let Some(place) = place.as_ref().and_then(Place::settled) else {
            continue;
        };
        if let Some((other, _)) = taken.iter().find(|(_, other)| *other == place) {
            return Err(Failure::Input(format!(
                "{other} and {name} would share one place; give {name} a file of its own"
            )));
        }
        taken.push((name, place));
    }
    prepare_json(options)
}
