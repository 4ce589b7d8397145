//! The marks that grade the confidence in a number.

use serde::{Deserialize, Serialize};

/// The confidence in a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Mark {
    /// The number was measured on the class of machine for which it is used.
    A,
    /// The number was measured on a similar machine, or on a machine that its source does not name.
    B,
    /// The number was estimated.
    C,
}
