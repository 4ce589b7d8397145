//! `--trace`: the writer of a recording to a file, with one JSON object a line. docs/trace.md describes the format.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::Serialize;
use tickless_core::trace::line::{FORMAT, Line, VERSION};
use tickless_sim::record::{End, Header, MachineEvent, Record, Recorded, Sink};

use crate::failure::Failure;
use crate::hash::Hash;
use crate::output::{OutFile, Place};
use crate::stream::Stream;

/// The first line of a trace.
#[derive(Debug, Serialize)]
struct First<'r> {
    format: &'static str,
    version: u32,
    /// The unit of the trace's times.
    unit: &'static str,
    #[serde(flatten)]
    header: &'r Header,
}

/// The line of an event that only the simulator has.
#[derive(Debug, Serialize)]
struct MachineLine<'r> {
    time: u64,
    cpu: Option<u32>,
    #[serde(flatten)]
    event: &'r MachineEvent,
}

/// The last line of a trace.
#[derive(Debug, Serialize)]
struct Last {
    time: u64,
    event: &'static str,
    /// The number of lines, the first and the last line included.
    lines: u64,
    queued: u64,
    /// The digest of all lines before the last line.
    digest: String,
}

/// The size of a trace so far, which the thread that waits for the trace reads.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// The virtual time so far, in nanoseconds.
    time: AtomicU64,
    bytes: AtomicU64,
}

impl Tally {
    /// Returns the virtual time in nanoseconds, and the number of bytes.
    pub(crate) fn now(&self) -> (u64, u64) {
        // Relaxed, as wherever they are written: figures for people.
        let time = self.time.load(Ordering::Relaxed);
        (time, self.bytes.load(Ordering::Relaxed))
    }
}

/// The size of a whole trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Size {
    pub(crate) lines: u64,
    pub(crate) bytes: u64,
}

/// A sink that writes the events of a run as a trace.
pub(crate) struct Writer {
    stream: Stream,
    lines: u64,
    hash: Hash,
    failed: Option<io::Error>,
    tally: Arc<Tally>,
}

impl Writer {
    /// Makes a writer to `file`, which was prepared for `place`.
    pub(crate) fn new(file: OutFile, place: &Place, tally: Arc<Tally>) -> Self {
        Self {
            stream: Stream::new(file, place),
            lines: 0,
            hash: Hash::new(),
            failed: None,
            tally,
        }
    }

    fn json(&mut self, value: &impl Serialize) {
        self.line(|buffer| Ok(serde_json::to_writer(buffer, value)?));
    }

    fn line(&mut self, write: impl FnOnce(&mut Vec<u8>) -> io::Result<()>) {
        self.lines += 1;
        let stream = &mut self.stream;
        if stream.has_failed() || self.failed.is_some() {
            return;
        }
        let buffer = stream.buffer();
        let start = buffer.len();
        if let Err(error) = write(buffer) {
            self.failed = Some(error);
            return;
        }
        self.hash.add(&buffer[start..]);
        buffer.push(b'\n');
        // Relaxed: figures for people.
        self.tally.bytes.store(stream.written(), Ordering::Relaxed);
    }

    /// Completes the file, puts it in its place, and returns the size of the trace.
    pub(crate) fn finish(self) -> Result<Size, Failure> {
        if let Some(error) = self.failed {
            return Err(Failure::Machine(format!("cannot write JSON: {error}")));
        }
        let bytes = self.stream.finish()?;
        Ok(Size {
            lines: self.lines,
            bytes,
        })
    }
}

impl Sink for Writer {
    fn begin(&mut self, header: &Header) {
        self.json(&First {
            format: FORMAT,
            version: VERSION,
            unit: "ns",
            header,
        });
    }

    fn take(&mut self, record: &Record) {
        // Relaxed: a figure for people.
        self.tally.time.store(record.time, Ordering::Relaxed);
        let Record {
            time,
            cpu,
            ref what,
        } = *record;
        // A run ends long before the sign would change.
        let at = time.cast_signed();
        match what {
            Recorded::Library { event, timer } => self.line(|buffer| {
                let line = Line {
                    time: at,
                    cpu,
                    event,
                    timer: *timer,
                };
                write!(buffer, "{line}")
            }),
            Recorded::Tree(part) => self.line(|buffer| write!(buffer, "{}", part.line(0, at))),
            Recorded::Machine(event) => self.json(&MachineLine { time, cpu, event }),
        }
    }

    fn end(&mut self, end: End) {
        let last = Last {
            time: end.time,
            event: "end",
            lines: self.lines + 1,
            queued: end.queued,
            digest: self.hash.text(),
        };
        self.json(&last);
    }
}
