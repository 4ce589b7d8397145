//! Names as text that a terminal shows.

use std::fmt::{self, Write};

/// A name for lines of text, with its control characters escaped: a terminal obeys them, and a line break makes a line
/// that the library did not write.
pub(crate) struct Shown<'n>(pub(crate) &'n str);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.chars().try_for_each(|letter| {
            if letter.is_control() {
                write!(formatter, "{}", letter.escape_default())
            } else {
                formatter.write_char(letter)
            }
        })
    }
}
