//! The reader of traces, line by line. Each error names the file and the line.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use flate2::bufread::MultiGzDecoder;
use serde::Deserialize;
use tickless_core::trace::line::{FORMAT, VERSION};
use tickless_sim::promise::trace::{Event, Head, Header};

use crate::failure::Failure;
use crate::hash::Hash;

/// The greatest length of a line. A file with a longer line is no trace.
const LONGEST: u64 = 1 << 20;

/// A trace that is being read, line by line.
pub(crate) struct Reader {
    input: Box<dyn BufRead>,
    /// The name of the input, for messages.
    name: String,
    line: u64,
    hash: Hash,
    bytes: Vec<u8>,
}

/// The first line of a trace in the project's own format.
#[derive(Deserialize)]
struct First {
    format: String,
    version: u32,
    unit: String,
    #[serde(flatten)]
    header: Header,
}

impl Reader {
    /// Opens a file; `-` is standard input.
    pub(crate) fn open(path: &Path) -> Result<Self, Failure> {
        let (name, input): (String, Box<dyn BufRead>) = if path == Path::new("-") {
            ("<stdin>".to_owned(), Box::new(BufReader::new(io::stdin())))
        } else {
            let name = path.display().to_string();
            let file = File::open(path)
                .map_err(|error| Failure::Input(format!("cannot read {name}: {error}")))?;
            (name, Box::new(BufReader::with_capacity(1 << 18, file)))
        };
        let input = uncompressed(&name, input)?;
        Ok(Self::new(name, input))
    }

    pub(crate) fn new(name: String, input: Box<dyn BufRead>) -> Self {
        Self {
            input,
            name,
            line: 0,
            hash: Hash::new(),
            bytes: Vec::new(),
        }
    }

    pub(crate) const fn lines(&self) -> u64 {
        self.line
    }

    /// Returns the failure for the line that was read last.
    pub(crate) fn wrong(&self, what: &str) -> Failure {
        Failure::Input(format!("{}:{}: {what}", self.name, self.line))
    }

    /// Returns true if the line that was read last is the last one and has no end.
    pub(crate) fn is_cut(&mut self) -> bool {
        (self.bytes.len() as u64) < LONGEST && matches!(self.input.fill_buf(), Ok([]))
    }

    /// Returns the failure for a file in which no line is that of an event.
    pub(crate) fn no_events(&self) -> Failure {
        let name = &self.name;
        Failure::Input(format!("{name}:1: it is no trace; {}", right()))
    }

    /// Reads the first line, without its end. Returns true for a trace in the project's own format: it begins with `{`.
    pub(crate) fn first(&mut self) -> Result<bool, Failure> {
        if !self.next()? {
            self.line = 1;
            return Err(self.wrong(&format!("the file is empty; {}", right())));
        }
        Ok(self.bytes.starts_with(b"{"))
    }

    /// Reads the next line; false at the end of the file.
    pub(crate) fn next(&mut self) -> Result<bool, Failure> {
        if self.line > 0 {
            self.hash.add(&self.bytes);
        }
        self.bytes.clear();
        let mut input = self.input.by_ref().take(LONGEST);
        let read = input.read_until(b'\n', &mut self.bytes);
        let read = read.map_err(|error| {
            Failure::Input(format!("cannot read {} further: {error}", self.name))
        })?;
        if read == 0 {
            return Ok(false);
        }
        self.line += 1;
        if self.bytes.pop_if(|last| *last == b'\n').is_some() {
            return Ok(true);
        }
        let what = if self.bytes.len() as u64 == LONGEST {
            "the line is longer than any line of a trace, 1 MiB"
        } else {
            "the line is cut off: the trace is not whole; record it again"
        };
        Err(self.wrong(what))
    }

    /// Returns the line that was read last.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    fn parsed<'r, T: Deserialize<'r>>(&'r self) -> Result<T, Failure> {
        serde_json::from_slice(&self.bytes).map_err(|error| {
            let what = error.to_string();
            let what = what.split(" at line ").next().unwrap_or("");
            match error.column() {
                0 => self.wrong(&format!("{what}; docs/trace.md has the keys of each event")),
                column if error.is_data() => self.wrong(&format!("{what}, column {column}")),
                column => self.wrong(&format!(
                    "the line is no JSON ({what}, column {column}); one object a line would be right"
                )),
            }
        })
    }

    /// Reads the header from the first line.
    pub(crate) fn header(&self) -> Result<Header, Failure> {
        let first: First = self.parsed().map_err(|failure| match failure {
            Failure::Input(what) => Failure::Input(format!("{what}; {}", right())),
            other => other,
        })?;
        if first.format != FORMAT {
            return Err(self.wrong(&format!("format: it is no trace; {}", right())));
        }
        if first.version != VERSION {
            let version = first.version;
            return Err(self.wrong(&format!(
                "version: version {version} is not known; {VERSION} is"
            )));
        }
        if first.unit != "ns" {
            let unit = first.unit;
            return Err(self.wrong(&format!(
                "unit: \"{unit}\" is not known; \"ns\" is, nanoseconds"
            )));
        }
        Ok(first.header)
    }

    /// Parses the line that was read last.
    pub(crate) fn event(&self) -> Result<(Head, Event), Failure> {
        let head: Head = self.parsed()?;
        let event = if head.event.starts_with("tmigr_") {
            Event::Hierarchy(self.parsed()?)
        } else {
            self.parsed()?
        };
        Ok((head, event))
    }

    /// Checks the counts in the last line against the file, and checks that no line follows.
    pub(crate) fn end(&mut self, lines: u64, digest: Option<&str>) -> Result<(), Failure> {
        if lines != self.line {
            let count = self.line;
            return Err(self.wrong(&format!(
                "lines: there are {count} lines, and it says {lines}; record it again, all of it"
            )));
        }
        let is = self.hash.text();
        // A trace that was made by hand has none.
        if let Some(said) = digest.filter(|said| *said != is) {
            return Err(self.wrong(&format!(
                "digest: the lines before have {is}, and it says {said}; record it again; a trace that was changed on \
                 purpose has no such key"
            )));
        }
        if self.next()? {
            return Err(
                self.wrong("there is more after the line that says it is the end; delete it")
            );
        }
        Ok(())
    }

    /// Returns the failure for a file that ended without a last line.
    pub(crate) fn truncated(&self) -> Failure {
        self.wrong(
            "the trace ends here without a line {\"event\":\"end\",...}: it is not whole; record it again",
        )
    }
}

/// Describes the first line of a trace.
fn right() -> String {
    format!(
        "a trace begins with {{\"format\":\"{FORMAT}\",\"version\":{VERSION},...}}, or is the text of the Linux kernel's \
         events, see docs/trace.md"
    )
}

/// Uncompresses a compressed trace. The first bytes decide whether it is compressed, because standard input has no
/// name.
fn uncompressed(name: &str, mut input: Box<dyn BufRead>) -> Result<Box<dyn BufRead>, Failure> {
    let wrong =
        |error: &dyn std::fmt::Display| Failure::Input(format!("cannot read {name}: {error}"));
    let begin = input.fill_buf().map_err(|error| wrong(&error))?;
    if begin.starts_with(&GZIP) {
        let decoder = MultiGzDecoder::new(input);
        return Ok(Box::new(BufReader::with_capacity(1 << 18, decoder)));
    }
    if begin.starts_with(&ZSTD) {
        let why = "it is compressed with zstd, and gzip is what is known; try zstd -dc FILE | tickless verify -";
        return Err(wrong(&why));
    }
    Ok(input)
}

/// The first bytes of a file that gzip compressed.
const GZIP: [u8; 2] = [0x1F, 0x8B];
const ZSTD: [u8; 4] = [0x28, 0xB5, 0x2F, 0xFD];
