//! Futures and instants on the clocks other than the monotonic one: time of day, suspended time, atomic time.
//!
//! | module | contents |
//! |---|---|
//! | [`point`] | a point in time on one of these clocks |
//! | [`clock_timer`] | the state machine of a future that waits for such a point |
//! | [`wake_alarm`] | a timer that wakes a suspended machine |
//! | [`realtime`], [`boottime`], [`tai`] | the public modules |

pub mod boottime;
pub(crate) mod clock_timer;
pub(crate) mod point;
pub mod realtime;
pub mod tai;
mod wake_alarm;
