//! What threads do for each other's timers.
//!
//! | room | holds |
//! |---|---|
//! | [`trees`] | the hierarchies in which threads that sleep are found when something is due |
//! | [`publish`] | what a thread tells others of its first coarse timer |
//! | [`housekeeping`] | where an isolated worker's global timers go |
//! | [`expire`] | turns for other threads |
//! | [`stuck`] | help for workers that take no turns |
//! | [`expiry_thread`] | the loop of the thread that expires for foreign threads |

mod expire;
pub(crate) mod expiry_thread;
pub(crate) mod housekeeping;
pub(crate) mod publish;
pub(super) mod state;
mod stuck;
pub(crate) mod trees;
