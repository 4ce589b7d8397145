//! Loom cases.
