//! A file that is written piece by piece because its content is too long for memory. It is compressed if its name says
//! so.

use std::io::{self, Write};
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;

use crate::failure::Failure;
use crate::output::{OutFile, Place};

/// The extension of compressed files.
const COMPRESSED: &str = "gz";

/// The bytes for the file: plain or compressed.
#[derive(Debug)]
enum Pieces {
    Plain(Vec<u8>),
    /// The bytes before compression, and the encoder.
    Compressed(Vec<u8>, GzEncoder<Vec<u8>>),
}

/// A file that is written piece by piece.
#[derive(Debug)]
pub(crate) struct Stream {
    file: OutFile,
    pieces: Pieces,
    /// The number of bytes that were written to the file.
    written: u64,
    failed: Option<io::Error>,
}

impl Stream {
    /// The number of bytes written at once.
    const PIECE: usize = 1 << 20;

    /// Makes a stream to `file`, which was prepared for `place`.
    pub(crate) fn new(file: OutFile, place: &Place) -> Self {
        let buffer = Vec::with_capacity(Self::PIECE);
        let pieces = if is_compressed(place) {
            // The fastest level: traces are long, and alike enough for any.
            let encoder = GzEncoder::new(Vec::new(), Compression::fast());
            Pieces::Compressed(buffer, encoder)
        } else {
            Pieces::Plain(buffer)
        };
        Self {
            file,
            pieces,
            written: 0,
            failed: None,
        }
    }

    /// Returns the buffer for the next bytes.
    pub(crate) fn buffer(&mut self) -> &mut Vec<u8> {
        let (Pieces::Plain(buffer) | Pieces::Compressed(buffer, _)) = &self.pieces;
        if buffer.len() >= Self::PIECE {
            self.flush();
        }
        let (Pieces::Plain(buffer) | Pieces::Compressed(buffer, _)) = &mut self.pieces;
        buffer
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
        match &mut self.pieces {
            Pieces::Plain(buffer) => {
                put(&mut self.file, buffer, &mut self.written, &mut self.failed);
            }
            Pieces::Compressed(buffer, encoder) => {
                // Into memory, which cannot fail.
                let _infallible = encoder.write_all(buffer);
                buffer.clear();
                let ready = encoder.get_mut();
                put(&mut self.file, ready, &mut self.written, &mut self.failed);
            }
        }
    }

    /// Writes the rest, puts the file in its place, and returns the number of its bytes.
    pub(crate) fn finish(mut self) -> Result<u64, Failure> {
        self.flush();
        if let Pieces::Compressed(_, encoder) = &mut self.pieces {
            // As above.
            let _infallible = encoder.try_finish();
            let rest = encoder.get_mut();
            put(&mut self.file, rest, &mut self.written, &mut self.failed);
        }
        let target = match (&self.failed, &self.file) {
            // Nothing more, but what a whole file does.
            (None, _) => return self.file.write(b"").map(|()| self.written),
            // A reader who left wants no more.
            (Some(error), OutFile::StandardOutput) if error.kind() == io::ErrorKind::BrokenPipe => {
                return Ok(self.written);
            }
            (_, OutFile::StandardOutput) => "to standard output".to_owned(),
            (_, OutFile::Temporary { target, .. } | OutFile::Special { target, .. }) => {
                target.display().to_string()
            }
        };
        let error = self
            .failed
            .map_or_else(String::new, |error| error.to_string());
        Err(Failure::Machine(format!("cannot write {target}: {error}")))
    }
}

/// Writes the content of `buffer`, unless an earlier write failed.
fn put(
    file: &mut OutFile,
    buffer: &mut Vec<u8>,
    written: &mut u64,
    failed: &mut Option<io::Error>,
) {
    if failed.is_none() {
        *failed = file.write_some(buffer).err();
        *written += buffer.len() as u64;
    }
    buffer.clear();
}

/// Returns true if the name has the extension of compressed files.
fn is_compressed(place: &Place) -> bool {
    match place {
        Place::StandardOutput => false,
        Place::File(path) => extension(path) == Some(COMPRESSED),
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
