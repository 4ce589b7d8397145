//! Expiry of timers by threads other than their owners.
//!
//! | module | holds |
//! |---|---|
//! | [`trees`] | the hierarchies through which due timers of sleeping threads are found |
//! | [`publish`] | the due time of a thread's first coarse timer, published for other threads |
//! | [`housekeeping`] | the worker to which an isolated worker's timers move |
//! | [`expire`] | turns for other threads |
//! | [`stuck`] | help for workers that take no turns |
//! | [`reactors`] | runtimes whose reactors ring for their threads |
//! | [`reactor_turn`] | the turn of a reactor's task, or of the expiry thread in its place |
//! | [`expiry_thread`] | the loop of the thread that fires the timers of foreign threads |

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
