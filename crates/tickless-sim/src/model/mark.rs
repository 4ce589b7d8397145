//! The confidence in a number.

use serde::{Deserialize, Serialize};

/// The confidence in a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Mark {
    /// The number was measured on that class of machine.
    A,
    /// The number was measured on a similar machine, or on a machine that its source does not name.
    B,
    /// The number was estimated.
    C,
}
