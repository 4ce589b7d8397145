//! `--trace`: a recording as a file, one JSON object a line. docs/trace.md describes it.

use serde::Serialize;
use tickless_sim::world::record::{End, Header, Record, Sink};

use crate::failure::Failure;
use crate::hash::Hash;
use crate::output::{OutFile, Stream};
use crate::verify::{FORMAT, VERSION};

/// The first line.
#[derive(Debug, Serialize)]
struct First<'r> {
    format: &'static str,
    version: u64,
    /// What times are counted in.
    unit: &'static str,
    #[serde(flatten)]
    header: &'r Header,
}

/// The last line.
#[derive(Debug, Serialize)]
struct Last {
    time: u64,
    event: &'static str,
    /// How many lines there are, with the first and this.
    lines: u64,
    queued: u64,
    /// Of all lines before.
    digest: String,
}

/// Writes what happens.
#[derive(Debug)]
pub(crate) struct Writer {
    stream: Stream,
    lines: u64,
    hash: Hash,
    failed: Option<serde_json::Error>,
}

impl Writer {
    pub(crate) fn new(file: OutFile) -> Self {
        Self {
            stream: Stream::new(file),
            lines: 0,
            hash: Hash::new(),
            failed: None,
        }
    }

    fn line(&mut self, value: &impl Serialize) {
        self.lines += 1;
        if self.stream.has_failed() || self.failed.is_some() {
            return;
        }
        let buffer = self.stream.buffer();
        let start = buffer.len();
        if let Err(error) = serde_json::to_writer(&mut *buffer, value) {
            self.failed = Some(error);
            return;
        }
        self.hash.add(&buffer[start..]);
        buffer.push(b'\n');
    }

    /// The file is there, whole.
    pub(crate) fn finish(self) -> Result<(), Failure> {
        match self.failed {
            Some(error) => Err(Failure::Machine(format!("cannot write JSON: {error}"))),
            None => self.stream.finish(),
        }
    }
}

impl Sink for Writer {
    fn begin(&mut self, header: &Header) {
        self.line(&First {
            format: FORMAT,
            version: VERSION,
            unit: "ns",
            header,
        });
    }

    fn take(&mut self, record: &Record) {
        self.line(record);
    }

    fn end(&mut self, end: End) {
        let last = Last {
            time: end.time,
            event: "end",
            lines: self.lines + 1,
            queued: end.queued,
            digest: self.hash.text(),
        };
        self.line(&last);
    }
}
