//! Tests of each name of `tickless::time`.
//!
//! The tests are one program, because linking a further program takes longer than running all of these tests.

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
