//! Standard output, which may be closed at any time, and files, which are written whole or not at all.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, Permissions};
use std::io::{self, IsTerminal, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;
use tempfile::NamedTempFile;

use crate::failure::Failure;

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

/// Where something is written to.
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

/// Where the people's part of the output goes: standard output, unless that is kept for JSON or nobody wants it.
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

    /// Whether anything printed is seen.
    pub(crate) fn is_shown(&self) -> bool {
        !self.silent
    }

    /// Prints `text` as it is.
    pub(crate) fn print(&self, text: &str) -> Result<(), Failure> {
        if self.silent {
            return Ok(());
        }
        print(text.as_bytes())
    }
}

/// Writes to standard output. A reader who left wants no more, which is no error.
fn print(bytes: &[u8]) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(Failure::Machine(format!(
            "cannot write to standard output: {error}"
        ))),
        _ => Ok(()),
    }
}

/// One line about what goes on, on a terminal's standard error; written over again and again, and gone at the end.
#[derive(Debug)]
pub(crate) struct Progress {
    shown: bool,
}

impl Progress {
    pub(crate) fn new(options: &Options) -> Self {
        Self {
            shown: !options.quiet && io::stderr().is_terminal(),
        }
    }

    pub(crate) fn show(&self, line: &str) {
        if self.shown {
            // The terminal may have gone; there is nobody left to tell.
            let _nobody = write!(io::stderr(), "\r\x1b[2K{line}");
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.show("");
    }
}

/// A file that is to be written at the end of a run. Whether it can be is known at the beginning.
#[derive(Debug)]
pub(crate) enum OutFile {
    StandardOutput,
    /// Beside its target until it is whole.
    Temporary {
        file: NamedTempFile,
        target: PathBuf,
    },
    /// A device or a pipe, which cannot be replaced.
    Special {
        file: File,
        target: PathBuf,
    },
}

impl OutFile {
    /// Sees to it that `place` can be written to.
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
        let file = tempfile::Builder::new()
            .prefix(".tickless-")
            // As for any new file; what the user masks is masked.
            .permissions(Permissions::from_mode(0o666))
            .tempfile_in(directory)
            .map_err(|error| match error.kind() {
                io::ErrorKind::NotFound if !directory.is_dir() => {
                    refuse(&format!("there is no directory {}", directory.display()))
                }
                // Without the name of the temporary file, which means nothing to anybody.
                kind => refuse(&format!("{}: {kind}", directory.display())),
            })?;
        Ok(Self::Temporary { file, target })
    }

    /// Writes the whole content.
    pub(crate) fn write(self, content: &[u8]) -> Result<(), Failure> {
        let (target, result) = match self {
            Self::StandardOutput => return print(content),
            Self::Special { mut file, target } => (target, file.write_all(content)),
            Self::Temporary { mut file, target } => {
                let result = file
                    .write_all(content)
                    .and_then(|()| file.persist(&target).map_err(|error| error.error))
                    .map(drop);
                (target, result)
            }
        };
        result.map_err(|error| {
            Failure::Machine(format!("cannot write {}: {error}", target.display()))
        })
    }

    fn write_some(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::StandardOutput => io::stdout().lock().write_all(bytes),
            Self::Special { file, .. } => file.write_all(bytes),
            Self::Temporary { file, .. } => file.write_all(bytes),
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

/// A file that is too long to be kept until it is written.
#[derive(Debug)]
pub(crate) struct Stream {
    file: OutFile,
    buffer: Vec<u8>,
    failed: Option<io::Error>,
}

impl Stream {
    /// How much is written at once.
    const PIECE: usize = 1 << 20;

    pub(crate) fn new(file: OutFile) -> Self {
        Self {
            file,
            buffer: Vec::with_capacity(Self::PIECE),
            failed: None,
        }
    }

    /// Where to put what comes next.
    pub(crate) fn buffer(&mut self) -> &mut Vec<u8> {
        if self.buffer.len() >= Self::PIECE {
            self.flush();
        }
        &mut self.buffer
    }

    /// Whether what is still to come goes nowhere.
    pub(crate) fn has_failed(&self) -> bool {
        self.failed.is_some()
    }

    fn flush(&mut self) {
        if self.failed.is_none() {
            self.failed = self.file.write_some(&self.buffer).err();
        }
        self.buffer.clear();
    }

    /// The rest is written, and the file is there.
    pub(crate) fn finish(mut self) -> Result<(), Failure> {
        self.flush();
        match (self.failed, &self.file) {
            // A reader who left wants no more.
            (Some(error), OutFile::StandardOutput) if error.kind() == io::ErrorKind::BrokenPipe => {
                Ok(())
            }
            (Some(error), OutFile::StandardOutput) => Err(Failure::Machine(format!(
                "cannot write to standard output: {error}"
            ))),
            (Some(error), OutFile::Temporary { target, .. } | OutFile::Special { target, .. }) => {
                Err(Failure::Machine(format!(
                    "cannot write {}: {error}",
                    target.display()
                )))
            }
            // Nothing more, but what a whole file does.
            (None, _) => self.file.write(b""),
        }
    }
}

/// Prepares the file of `--json`, if it was given.
pub(crate) fn prepare_json(options: &Options) -> Result<Option<OutFile>, Failure> {
    options.json.as_ref().map(OutFile::prepare).transpose()
}
