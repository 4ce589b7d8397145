//! The serial line: CPUs write whole lines, which never mix.

use core::fmt::{self, Write};

use tickless_link::lock::Lock;

use crate::lock::MaskingLock;
use crate::serial::Serial;

static LINE: Lock<MaskingLock, Serial> = Lock::new(MaskingLock::new(), Serial);

pub(crate) fn line(text: fmt::Arguments<'_>) {
    // The serial line takes all that it is given.
    let _written = writeln!(LINE.lock(None), "{text}");
}

/// Writes a line to the serial line.
macro_rules! say {
    ($($text:tt)*) => { $crate::console::line(format_args!($($text)*)) };
}
pub(crate) use say;
