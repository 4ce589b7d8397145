//! The standard library alone.

pub(crate) mod barriers;
pub(crate) mod clocks;
pub(crate) mod descriptors;
#[cfg(event_host)]
pub(crate) mod events;
pub(crate) mod signals;
pub(crate) mod threads;
pub(crate) mod waiting;
