//! The system layer for Linux, with futexes, descriptors and membarrier.

pub(crate) mod barriers;
pub(crate) mod clocks;
pub(crate) mod descriptors;
pub(crate) mod threads;
pub(crate) mod timers;
pub(crate) mod waiting;
