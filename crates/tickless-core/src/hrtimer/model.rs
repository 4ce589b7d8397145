//! Loom cases of the exact timers, on the tiny host of [`base::model`](crate::base::model), and with its limits.

mod cancel;
mod hotplug;
mod sleeper;
mod start;
