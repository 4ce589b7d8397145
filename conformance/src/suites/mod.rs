//! The suites: the promises of the core on every host, sorted by subject. Each case is a function that is generic over
//! the host.

pub mod cancel;
pub mod checked_start;
pub mod clocks;
pub mod counter;
pub mod devices;
pub mod dump;
pub mod equivalence;
pub mod evaluate;
pub mod exactness;
pub mod far;
pub mod filed;
pub mod flush_points;
pub mod forward;
pub mod hotplug;
pub mod interrupt;
pub mod lazy;
pub mod locality;
pub mod nohz_random;
pub mod nohz_restart;
pub mod order;
pub mod random;
pub mod rearm;
pub mod slack;
pub mod sleeper;
pub mod soft;
pub mod start;
pub mod suspend;
pub mod trace;
pub mod wheel;
pub mod wheel_random;

crate::kit::suites!(($)
    cancel, checked_start, clocks, counter, devices, dump, equivalence, evaluate, exactness, far, filed, flush_points,
    forward, hotplug, interrupt, lazy, locality, nohz_random, nohz_restart, order, random, rearm, slack, sleeper, soft,
    start, suspend, trace, wheel, wheel_random,
);
