//! A drawing of a part of a run: the work of each CPU, and the other CPUs that the CPU served.

mod draw;
mod lanes;
mod state;
#[cfg(test)]
mod tests;
mod window;

pub(super) use draw::{STYLE_SHEET, section};
pub(super) use window::{Part, Picture, Window};
