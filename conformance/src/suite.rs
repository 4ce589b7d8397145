//! Helper functions that the core's conformance tests and the regressions share.

use core::ops::Div;

use tickless_core::hrtimer::Start;
use tickless_core::time::{ClockId, Instant, Monotonic};
use tickless_core::trace::Event;

use crate::prelude::*;
use crate::surroundings;

/// Makes tests out of functions that are generic over a [`Host`](crate::Host): one test for each of the rig's own
/// hosts, so that every rule is tested under both rearm policies (spec REARM-13).
///
/// ```
/// use tickless_conformance::{Host, Rig, all_configs};
///
/// fn a_new_cpu_has_nothing_armed<H: Host>() {
///     assert!(Rig::<H>::new(1).armed(0).is_forever());
/// }
///
/// all_configs!(a_new_cpu_has_nothing_armed);
/// ```
#[macro_export]
macro_rules! all_configs {
    ($($test:ident),+ $(,)?) => {$(
        mod $test {
            #[test]
            fn deferred() {
                super::$test::<$crate::Deferred>();
            }
            #[test]
            fn immediate() {
                super::$test::<$crate::Immediate>();
            }
            #[test]
            fn preemptible() {
                super::$test::<$crate::Preemptible>();
            }
        }
    )+};
}

/// Returns a start at `nanos` on the monotonic clock.
pub const fn at(nanos: i64) -> Start {
    Start::at(Instant::<Monotonic>::from_nanos(nanos))
}

/// Returns a start at `nanos` on the clock `T`.
pub const fn at_on<T: ClockId>(nanos: i64) -> Start<T> {
    Start::at(Instant::from_nanos(nanos))
}

/// Returns the message with which `body` panics; `None` if it returns.
pub fn panic_of(body: impl FnOnce()) -> Option<String> {
    let payload = surroundings::catch(body)?;
    let text = payload
        .downcast_ref::<String>()
        .cloned()
        .or_else(|| payload.downcast_ref::<&str>().map(ToString::to_string));
    Some(text.unwrap_or_else(|| "no text".to_owned()))
}

/// Returns the device writes in a trace: the CPU of each, and the time for which it programs the device.
#[must_use]
pub fn rearms(trace: &[Event]) -> Vec<(u32, i64)> {
    let rearm = |event: &Event| match *event {
        Event::Rearm { cpu, next, .. } => Some((cpu.0, next.as_nanos())),
        _ => None,
    };
    trace.iter().filter_map(rearm).collect()
}

/// Returns the CPUs that were kicked in a trace.
#[must_use]
pub fn kicks(trace: &[Event]) -> Vec<u32> {
    let kick = |event: &Event| match *event {
        Event::Kick { cpu } => Some(cpu.0),
        _ => None,
    };
    trace.iter().filter_map(kick).collect()
}

/// Returns the moves in a trace: the old and the new CPU of each.
#[must_use]
pub fn moves(trace: &[Event]) -> Vec<(u32, u32)> {
    let moved = |event: &Event| match *event {
        Event::Move { from, to, .. } => Some((from.0, to.0)),
        _ => None,
    };
    trace.iter().filter_map(moved).collect()
}

/// Scales the number of seeds that a case draws, or of finds that it needs. Optimised code takes all of them; with
/// debug assertions it is a third, because each seed then takes several times as long.
pub(crate) fn drawn<N: Div<Output = N> + From<u8>>(all: N) -> N {
    if cfg!(debug_assertions) {
        all / N::from(3)
    } else {
        all
    }
}
