//! Loom cases of the exact timers, on the tiny host of [`base::model`](crate::base::model), and with the limits of that
//! host.

mod cancel;
mod hotplug;
mod sleeper;
mod start;
