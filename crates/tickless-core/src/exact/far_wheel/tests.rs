//! Tests of the far wheel alone: the bucket of a timer, and the time at which the timer leaves the bucket.

use tickless_link::emplace;
use tickless_link::id::Realm;

use super::*;
use crate::slots::moment::ByHand;
use crate::time::Monotonic;

const UNITS: i64 = 1 << UNIT;

fn far() -> FarWheel {
    let [key] = Realm::new().keys();
    emplace::moved(|slot| FarWheel::emplace(slot, key))
}

/// Returns true if the fast path places a far timer, whatever the clock of the wheel.
fn places_fast(far: &mut FarWheel, host: &ByHand) -> bool {
    let far_away = Deadline::new(Instant::<Monotonic>::from_nanos(1_000_000 * UNITS));
    far.try_place_fast(ExpiryRange::new(far_away, far_away), host)
        .is_some()
}

#[test]
#[cfg(feature = "far-wheel")]
fn the_clock_catches_up_once_in_a_moment() {
    let (mut far, host) = (far(), ByHand::default());
    host.is_numbered.set(true);
    for (moment, now, is_fast, clock) in [
        (1, 10, false, 10),
        (1, 20, true, 10),
        (2, 20, false, 20),
        (2, 30, true, 20),
        // An older time moves nothing.
        (3, 15, false, 20),
    ] {
        host.moment.set(Some(moment));
        host.now.set(now * UNITS);
        assert_eq!(places_fast(&mut far, &host), is_fast);
        far.catch_up(&host);
        assert_eq!(far.pending_map.clock(), FarTick(clock));
        assert!(places_fast(&mut far, &host));
    }
}

/// A host has no moments, or has none at present: its clock is read each time.
#[test]
#[cfg(feature = "far-wheel")]
fn without_moments_the_clock_always_catches_up() {
    for moment in [None, Some(1)] {
        let (mut far, host) = (far(), ByHand::default());
        host.moment.set(moment);
        for now in [10, 20, 30_u32] {
            host.now.set(i64::from(now) * UNITS);
            assert_eq!(places_fast(&mut far, &host), moment.is_none());
            far.catch_up(&host);
            assert_eq!(far.pending_map.clock(), FarTick(now.into()));
        }
    }
}
