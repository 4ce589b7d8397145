//! The standard library, and the timers of the systems that are known ([`native`]).

pub(crate) mod barriers;
pub(crate) mod clocks;
pub(crate) mod descriptors;
#[cfg(event_host)]
pub(crate) mod events;
mod native;
pub(crate) mod signals;
mod sleeper;
pub(crate) mod threads;
pub(crate) mod timers;
pub(crate) mod waiting;
