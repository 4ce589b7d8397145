//! How threads and processes come and go.

pub(crate) mod fork;
