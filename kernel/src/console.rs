//! The serial line: CPUs write whole lines, which never mix.

use core::fmt::{self, Write};

use tickless_link::lock::Lock;

use crate::arch;
use crate::lock::MaskingLock;

static LINE: Lock<MaskingLock, Serial> = Lock::new(MaskingLock::new(), Serial);

struct Serial;

impl Write for Serial {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        text.bytes().for_each(arch::put);
        Ok(())
    }
}

/// Writes a line.
pub(crate) fn line(text: fmt::Arguments<'_>) {
    // The serial line takes all that it is given.
    let _written = writeln!(LINE.lock(None), "{text}");
}

/// Writes the last line of a kernel that fails: without the lock, which the failure may have left taken.
pub(crate) fn last_line(text: fmt::Arguments<'_>) {
    let _written = writeln!(Serial, "\n{text}");
}

/// Writes a line to the serial line.
macro_rules! say {
    ($($text:tt)*) => { $crate::console::line(format_args!($($text)*)) };
}
pub(crate) use say;
