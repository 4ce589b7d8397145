//! The reader of traces, line by line. Each error names the file, the line, the key, and the correct input.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use flate2::bufread::MultiGzDecoder;
use serde_json::{Map, Value};

use super::{FORMAT, VERSION};
use crate::failure::Failure;
use crate::hash::Hash;

/// The greatest length of a line. A file with a longer line is no trace.
const LONGEST: u64 = 1 << 20;

/// A trace that is being read, line by line.
pub(super) struct Reader {
    input: Box<dyn BufRead>,
    /// The name of the input, for messages.
    name: String,
    line: u64,
    hash: Hash,
    bytes: Vec<u8>,
}

/// One line: an object, and the number of the line.
#[derive(Debug)]
pub(super) struct Line {
    name: String,
    pub(super) number: u64,
    pub(super) keys: Map<String, Value>,
}

/// The contents of the first line.
#[derive(Clone, Debug)]
pub(super) struct Header {
    pub(super) cpus: u32,
    pub(super) tick: u64,
    pub(super) late_max: u64,
    pub(super) isolated: Vec<u32>,
}

impl Reader {
    /// Opens a file; `-` is standard input.
    pub(super) fn open(path: &Path) -> Result<Self, Failure> {
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

    pub(super) fn new(name: String, input: Box<dyn BufRead>) -> Self {
        Self {
            input,
            name,
            line: 0,
            hash: Hash::new(),
            bytes: Vec::new(),
        }
    }

    /// Returns the number of lines that were read.
    pub(super) const fn lines(&self) -> u64 {
        self.line
    }

    fn wrong(&self, what: &str) -> Failure {
        Failure::Input(format!("{}:{}: {what}", self.name, self.line))
    }

    /// Reads the first line.
    pub(super) fn header(&mut self) -> Result<Header, Failure> {
        let right = format!(
            "a trace begins with {{\"format\":\"{FORMAT}\",\"version\":{VERSION},...}}, see docs/trace.md"
        );
        let line = match self.next() {
            Ok(Some(line)) => line,
            Ok(None) => {
                self.line = 1;
                return Err(self.wrong(&format!("the file is empty; {right}")));
            }
            Err(Failure::Input(what)) => return Err(Failure::Input(format!("{what}; {right}"))),
            Err(other) => return Err(other),
        };
        if line.keys.get("format").and_then(Value::as_str) != Some(FORMAT) {
            return Err(line.wrong("format", "it is no trace", &right));
        }
        let version = line.whole("version")?;
        if version != VERSION {
            let what = format!("version {version} is not known");
            return Err(line.wrong("version", &what, &format!("{VERSION} is")));
        }
        let unit = line.text("unit")?;
        if unit != "ns" {
            let what = format!("\"{unit}\" is not known");
            return Err(line.wrong("unit", &what, "\"ns\" is, nanoseconds"));
        }
        line.header()
    }

    /// Reads the next line; `None` at the end of the file.
    pub(super) fn next(&mut self) -> Result<Option<Line>, Failure> {
        if self.line > 0 {
            let text = self.bytes.strip_suffix(b"\n").unwrap_or(&self.bytes);
            self.hash.add(text);
        }
        self.bytes.clear();
        let mut input = self.input.by_ref().take(LONGEST);
        let read = input.read_until(b'\n', &mut self.bytes);
        let read = read.map_err(|error| {
            Failure::Input(format!("cannot read {} further: {error}", self.name))
        })?;
        if read == 0 {
            return Ok(None);
        }
        self.line += 1;
        let Some(text) = self.bytes.strip_suffix(b"\n") else {
            let what = if self.bytes.len() as u64 == LONGEST {
                "the line is longer than any line of a trace, 1 MiB"
            } else {
                "the line is cut off: the trace is not whole; record it again"
            };
            return Err(self.wrong(what));
        };
        match serde_json::from_slice(text) {
            Ok(Value::Object(keys)) => Ok(Some(Line {
                name: self.name.clone(),
                number: self.line,
                keys,
            })),
            Ok(_) => {
                Err(self.wrong("the line is no object; {\"time\":...,\"event\":...} would be"))
            }
            Err(error) => {
                let what = error.to_string();
                let what = what.split(" at line ").next().unwrap_or("");
                let column = error.column();
                Err(self.wrong(&format!(
                    "the line is no JSON ({what}, column {column}); one object a line would be right"
                )))
            }
        }
    }

    /// Checks the counts in the last line against the file, and checks that no line follows.
    pub(super) fn end(&mut self, last: &Line) -> Result<(), Failure> {
        let lines = last.whole("lines")?;
        if lines != self.line {
            let what = format!("there are {} lines, and it says {lines}", self.line);
            return Err(last.wrong("lines", &what, "record it again, all of it"));
        }
        // A trace that was made by hand has none.
        if last.keys.contains_key("digest") {
            let said = last.text("digest")?;
            let is = self.hash.text();
            if said != is {
                let what = format!("the lines before have {is}, and it says {said}");
                let right = "record it again; a trace that was changed on purpose has no such key";
                return Err(last.wrong("digest", &what, right));
            }
        }
        if self.next()?.is_some() {
            return Err(
                self.wrong("there is more after the line that says it is the end; delete it")
            );
        }
        Ok(())
    }

    /// Returns the failure for a file that ended without a last line.
    pub(super) fn truncated(&self) -> Failure {
        self.wrong(
            "the trace ends here without a line {\"event\":\"end\",...}: it is not whole; record it again",
        )
    }
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

impl Line {
    /// Returns the failure for a wrong key, with the correct input.
    pub(super) fn wrong(&self, key: &str, what: &str, right: &str) -> Failure {
        Failure::Input(format!(
            "{}:{}: {key}: {what}; {right}",
            self.name, self.number
        ))
    }

    fn get(&self, key: &str, right: &str) -> Result<&Value, Failure> {
        self.keys
            .get(key)
            .ok_or_else(|| self.wrong(key, "the key is missing", &format!("it is {right}")))
    }

    fn as_kind<'l, T>(
        &'l self,
        key: &str,
        right: &str,
        of: impl FnOnce(&'l Value) -> Option<T>,
    ) -> Result<T, Failure> {
        let value = self.get(key, right)?;
        of(value).ok_or_else(|| {
            let what = format!("{value} is not {right}");
            self.wrong(key, &what, &format!("it has to be {right}"))
        })
    }

    /// Reads a whole number that is not below 0.
    pub(super) fn whole(&self, key: &str) -> Result<u64, Failure> {
        self.as_kind(key, "a whole number from 0 on", Value::as_u64)
    }

    /// Reads a time of a clock.
    pub(super) fn time(&self, key: &str) -> Result<i64, Failure> {
        self.as_kind(key, "a whole number of nanoseconds", Value::as_i64)
    }

    /// Reads a time, in which `i64::MAX` means never.
    pub(super) fn time_or_never(&self, key: &str) -> Result<i64, Failure> {
        let right = "a whole number of nanoseconds, or null for never";
        self.as_kind(key, right, |value| match value {
            Value::Null => Some(i64::MAX),
            value => value.as_i64(),
        })
    }

    pub(super) fn is(&self, key: &str) -> Result<bool, Failure> {
        self.as_kind(key, "true or false", Value::as_bool)
    }

    pub(super) fn text(&self, key: &str) -> Result<&str, Failure> {
        self.as_kind(key, "a text", Value::as_str)
    }

    pub(super) fn is_null(&self, key: &str) -> Result<bool, Failure> {
        Ok(self.get(key, "something, or null")?.is_null())
    }

    /// Reads a number below `limit`, which counts the things that `what` names.
    pub(super) fn number(&self, key: &str, what: &str, limit: u32) -> Result<u32, Failure> {
        let number = self.whole(key)?;
        let known = u32::try_from(number).ok().filter(|number| *number < limit);
        known.ok_or_else(|| {
            let right = match limit.checked_sub(1) {
                Some(last) => format!("the last one is {last}"),
                None => "none was told of before".to_owned(),
            };
            self.wrong(key, &format!("there is no {what} {number}"), &right)
        })
    }

    /// Reads a number like [`number`](Self::number), or null.
    pub(super) fn number_or_null(
        &self,
        key: &str,
        what: &str,
        limit: u32,
    ) -> Result<Option<u32>, Failure> {
        if self.is_null(key)? {
            return Ok(None);
        }
        self.number(key, what, limit).map(Some)
    }

    /// Reads a set of children, as bits.
    pub(super) fn mask(&self, key: &str) -> Result<u16, Failure> {
        self.as_kind(key, "a set of children, 0 to 65535", |value| {
            u16::try_from(value.as_u64()?).ok()
        })
    }

    fn header(&self) -> Result<Header, Failure> {
        let cpus = self.as_kind("cpus", "a number of CPUs from 1 on", |value| {
            u32::try_from(value.as_u64()?)
                .ok()
                .filter(|cpus| *cpus > 0 && *cpus < 1 << 20)
        })?;
        let tick = self.as_kind("tick", "a number of nanoseconds from 1 on", |value| {
            value.as_u64().filter(|tick| *tick > 0)
        })?;
        let right = "a list of CPUs, such as [1,3]";
        let isolated = self.as_kind("isolated", right, |value| {
            let list = value
                .as_array()?
                .iter()
                .map(|one| u32::try_from(one.as_u64()?).ok().filter(|one| *one < cpus));
            list.collect()
        })?;
        Ok(Header {
            cpus,
            tick,
            late_max: self.whole("late_max")?,
            isolated,
        })
    }
}
