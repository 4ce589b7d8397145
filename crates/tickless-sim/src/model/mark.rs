//! The confidence in a number.

use serde::{Deserialize, Serialize};

/// The confidence in a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Mark {
    /// Measured on that class of machine.
    A,
    /// Measured on a close relative, or on a machine that its source does not name.
    B,
    /// Estimated.
    C,
}
