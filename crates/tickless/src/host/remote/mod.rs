//! Expiry of timers by threads other than their owners.
//!
//! | room | holds |
//! |---|---|
//! | [`trees`] | the hierarchies in which threads that sleep are found when something is due |
//! | [`publish`] | what a thread tells others of its first coarse timer |
//! | [`housekeeping`] | where an isolated worker's global timers go |
//! | [`expire`] | turns for other threads |
//! | [`stuck`] | help for workers that take no turns |
//! | [`reactors`] | runtimes whose reactors ring for their threads |
//! | [`reactor_turn`] | what a reactor's task does, and the expiry thread in its place |
//! | [`expiry_thread`] | the loop of the thread that expires for foreign threads |

mod expire;
pub(crate) mod expiry_thread;
pub(crate) mod housekeeping;
pub(crate) mod publish;
#[cfg_attr(
    not(feature = "tokio"),
    expect(dead_code, reason = "no runtime is ever attached")
)]
pub(crate) mod reactor_turn;
#[cfg_attr(
    not(feature = "tokio"),
    expect(dead_code, reason = "no runtime is ever attached")
)]
pub(crate) mod reactors;
pub(super) mod state;
mod stuck;
pub(crate) mod trees;
