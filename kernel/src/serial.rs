//! The serial line, without a lock.

use core::fmt::{self, Write};

use crate::arch;

/// A writer to the serial line.
pub(crate) struct Serial;

impl Write for Serial {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        text.bytes().for_each(arch::put);
        Ok(())
    }
}

/// Writes the last line of a kernel that fails: without the lock, which the failure may have left taken.
pub(crate) fn last_line(text: fmt::Arguments<'_>) {
    // The serial line takes all that it is given.
    let _written = writeln!(Serial, "\n{text}");
}
