//! What threads do for each other: the trees through which their timers are found, the thread that expires for those that
//! do not do it themselves, and the help for workers that take no turns.

pub(crate) mod expiry_thread;
pub(crate) mod stuck;
pub(crate) mod trees;
