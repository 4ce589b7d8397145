//! Futures and instants on the clocks besides the monotonic one: time of day, suspended time, atomic time.
//!
//! | room | holds |
//! |---|---|
//! | [`point`] | a point in time on one of them |
//! | [`clock_timer`] | the state machine of a future that waits for one |
//! | [`interval`] | ticks on one of them |
//! | [`realtime`], [`boottime`], [`tai`] | the faces |

pub mod boottime;
pub(crate) mod clock_timer;
pub(crate) mod interval;
pub(crate) mod point;
pub mod realtime;
pub mod tai;
