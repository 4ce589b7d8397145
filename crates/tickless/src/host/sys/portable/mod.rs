//! The system layer for the portable host. It uses the standard library, and the native timers of those systems for
//! which [`native`] has them.

pub(crate) mod barriers;
pub(crate) mod clocks;
pub(crate) mod descriptors;
#[cfg(event_host)]
pub(crate) mod events;
mod native;
mod sleeper;
pub(crate) mod threads;
pub(crate) mod timers;
pub(crate) mod waiting;
