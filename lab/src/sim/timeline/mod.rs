//! A part of a run, drawn: what each CPU did, and which looked after which.

mod draw;
mod lanes;
mod state;
#[cfg(test)]
mod tests;
mod window;

pub(super) use draw::{STYLE, section};
pub(super) use window::{Part, Picture, Window};
