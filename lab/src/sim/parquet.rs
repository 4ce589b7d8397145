//! Lines of JSON as a Parquet file: a column for each key.
//!
//! The encoder is large, so it is there only with the feature `parquet`; without it, a user who asks for such a file is
//! told before anything runs.

#[cfg(feature = "parquet")]
mod columns;

use std::path::Path;

use serde_json::{Map, Value};

use crate::failure::Failure;
use crate::output::{OutFile, Place};

const MISSING: &str = "this command was built without Parquet: build it with --features parquet, or write lines of \
                       JSON, from which DuckDB makes a Parquet file";

/// Whether a user who names a file like this wants Parquet in it.
pub(super) fn is_meant_by(place: &Place) -> bool {
    match place {
        Place::StandardOutput => false,
        Place::File(path) => path.extension().is_some_and(|end| end == "parquet"),
    }
}

/// Sees to it that a Parquet file can be written to `path`.
pub(super) fn prepare(path: &Path) -> Result<OutFile, Failure> {
    if cfg!(feature = "parquet") {
        OutFile::prepare(&Place::File(path.to_owned()))
    } else {
        Err(Failure::Input(MISSING.to_owned()))
    }
}

/// The file with these rows.
#[cfg(feature = "parquet")]
pub(super) fn encode(rows: &[&Map<String, Value>]) -> Result<Vec<u8>, Failure> {
    columns::encode(rows)
        .map_err(|error| Failure::Machine(format!("cannot write Parquet: {error}")))
}

/// Refuses.
#[cfg(not(feature = "parquet"))]
pub(super) fn encode(_rows: &[&Map<String, Value>]) -> Result<Vec<u8>, Failure> {
    Err(Failure::Input(MISSING.to_owned()))
}
