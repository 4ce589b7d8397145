//! A file that is written piece by piece because its content is too long for memory. It is compressed if its name says
//! so.

use std::io::{self, Write};
use std::mem;
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;

use crate::failure::Failure;
use crate::output::{OutFile, Place};

/// The extension of compressed files.
const COMPRESSED: &str = "gz";
/// The number of bytes written at once.
const PIECE: usize = 1 << 20;

/// A file that is written piece by piece.
#[derive(Debug)]
pub(crate) struct Stream {
    file: OutFile,
    /// The bytes that are not compressed or written yet.
    buffer: Vec<u8>,
    encoder: Option<GzEncoder<Vec<u8>>>,
    /// The number of bytes that were written to the file.
    written: u64,
    failed: Option<io::Error>,
}

impl Stream {
    /// Makes a stream to `file`, which was prepared for `place`.
    pub(crate) fn new(file: OutFile, place: &Place) -> Self {
        let is_compressed =
            matches!(place, Place::File(path) if extension(path) == Some(COMPRESSED));
        Self {
            file,
            buffer: Vec::with_capacity(PIECE),
            // The fastest level: traces are long, and alike enough for any.
            encoder: is_compressed.then(|| GzEncoder::new(Vec::new(), Compression::fast())),
            written: 0,
            failed: None,
        }
    }

    /// Returns the buffer for the next bytes.
    pub(crate) fn buffer(&mut self) -> &mut Vec<u8> {
        if self.buffer.len() >= PIECE {
            self.flush();
        }
        &mut self.buffer
    }

    /// Returns true if a write to the file failed, after which further bytes are dropped.
    pub(crate) fn has_failed(&self) -> bool {
        self.failed.is_some()
    }

    /// Returns the number of bytes that were written to the file so far.
    pub(crate) const fn written(&self) -> u64 {
        self.written
    }

    fn flush(&mut self) {
        let mut ready = mem::take(&mut self.buffer);
        if let Some(encoder) = &mut self.encoder {
            // Into memory, which cannot fail.
            let _infallible = encoder.write_all(&ready);
            ready = mem::take(encoder.get_mut());
        }
        self.put(&ready);
    }

    /// Writes `bytes`, unless an earlier write failed.
    fn put(&mut self, bytes: &[u8]) {
        if self.failed.is_none() {
            self.failed = self.file.write_some(bytes).err();
            self.written += bytes.len() as u64;
        }
    }

    /// Writes the rest, puts the file in its place, and returns the number of its bytes.
    pub(crate) fn finish(mut self) -> Result<u64, Failure> {
        self.flush();
        if let Some(encoder) = self.encoder.take() {
            // As above.
            self.put(&encoder.finish().unwrap_or_default());
        }
        match (self.failed, self.file) {
            // Nothing more, but what a whole file does.
            (None, file) => file.write(b"").map(|()| self.written),
            // A reader who left wants no more.
            (Some(error), OutFile::StandardOutput) if error.kind() == io::ErrorKind::BrokenPipe => {
                Ok(self.written)
            }
            (Some(error), file) => Err(Failure::Machine(format!(
                "cannot write {}: {error}",
                file.name()
            ))),
        }
    }
}

fn extension(path: &Path) -> Option<&str> {
    path.extension()?.to_str()
}

/// Refuses the extensions of compressions that the command does not offer, because a user would expect a compressed
/// file.
pub(crate) fn check_name(place: &Place) -> Result<(), Failure> {
    let Place::File(path) = place else {
        return Ok(());
    };
    match extension(path) {
        Some(other @ ("zst" | "xz" | "bz2" | "lz4")) => Err(Failure::Input(format!(
            "cannot write {}: .{other} is no way to compress that this command knows; .{COMPRESSED} is",
            path.display()
        ))),
        _ => Ok(()),
    }
}
