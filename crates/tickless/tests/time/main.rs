//! `tickless::time`, word by word.
//!
//! One program: each that is linked takes longer to build than all of these tests to run.

#[macro_use]
#[path = "../support/mod.rs"]
mod support;

mod blocking;
mod instant;
mod interval;
mod slack;
mod sleep;
#[cfg(feature = "stream")]
mod stream;
mod timeout;
mod timer;
mod waiting;
