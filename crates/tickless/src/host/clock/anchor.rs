//! The anchor that converts between instants of the standard library and the core's instants.

use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant as StdInstant};

use tickless_core::time::Instant;

use super::kernel::kernel_clock;

/// The anchor of the timeline. All accesses are Relaxed, because the child of a fork [shifts](Anchor::shift) the values
/// while it has one thread.
#[derive(Debug)]
pub(crate) struct Anchor {
    instant: StdInstant,
    nanos: AtomicI64,
    /// The core's nanoseconds at which [`parts`] returns zero; `None` if a test found that `parts` does not return the
    /// time.
    origin: Option<AtomicI64>,
}

impl Anchor {
    /// Ties the two timelines together.
    pub(crate) fn take() -> Self {
        let mut best: Option<(i64, (StdInstant, i64))> = None;
        // The narrowest of a few sandwiches: a preemption in between would make the anchor late for ever.
        for _ in 0..10 {
            let before = kernel_clock();
            let instant = StdInstant::now();
            let nanos = kernel_clock();
            let width = nanos - before;
            if best.is_none_or(|(narrowest, _)| width < narrowest) {
                best = Some((width, (instant, nanos)));
            }
        }
        let (instant, nanos) =
            best.map_or_else(|| (StdInstant::now(), kernel_clock()), |(_, both)| both);
        Self::at(instant, nanos, parts)
    }

    /// Shifts the anchor in the child of a fork, if the core's timeline is ahead of the clock of the standard library
    /// by `by` more than in the parent.
    pub(super) fn shift(&self, by: i64) {
        for shifted in [Some(&self.nanos), self.origin.as_ref()]
            .into_iter()
            .flatten()
        {
            let nanos = shifted.load(Ordering::Relaxed);
            shifted.store(nanos.saturating_add(by), Ordering::Relaxed);
        }
    }

    /// Ties `instant` to `nanos`, and tests whether `parts` returns the time.
    fn at(instant: StdInstant, nanos: i64, parts: impl Fn(StdInstant) -> Option<i64>) -> Self {
        let mut anchor = Self {
            instant,
            nanos: AtomicI64::new(nanos),
            origin: None,
        };
        let origin = parts(instant).and_then(|own| nanos.checked_sub(own));
        let says_the_time = TRIED.iter().all(|distance| {
            let both = [
                instant.checked_add(*distance),
                instant.checked_sub(*distance),
            ];
            both.into_iter().flatten().all(|other| {
                let said = origin.and_then(|origin| origin.checked_add(parts(other)?));
                said.map(Instant::from_nanos) == Some(anchor.measured(other))
            })
        });
        anchor.origin = origin.filter(|_| says_the_time).map(AtomicI64::new);
        anchor
    }

    /// Returns the core's instant for an instant of the standard library; saturates.
    // In the caller: programs that keep the standard library's deadlines push a timeout out with each packet.
    #[inline(always)]
    pub(crate) fn core_of(&self, instant: StdInstant) -> Instant {
        let said = self.origin.as_ref().and_then(|origin| {
            let origin = origin.load(Ordering::Relaxed);
            origin.checked_add(parts(instant)?)
        });
        said.map_or_else(|| self.measured(instant), Instant::from_nanos)
    }

    /// Returns [`core_of`](Self::core_of), calculated by the distance to the anchor.
    #[cold]
    #[inline(never)]
    fn measured(&self, instant: StdInstant) -> Instant {
        let anchored = self.nanos.load(Ordering::Relaxed);
        let nanos = match instant.checked_duration_since(self.instant) {
            Some(after) => anchored.saturating_add(nanos_of(after)),
            None => anchored.saturating_sub(nanos_of(self.instant.duration_since(instant))),
        };
        Instant::from_nanos(nanos)
    }

    /// Returns the standard library's instant for an instant of the core; the exact inverse. `None` before the origin
    /// of the standard library's clock.
    pub(crate) fn std_of(&self, instant: Instant) -> Option<StdInstant> {
        let (nanos, anchored) = (instant.as_nanos(), self.nanos.load(Ordering::Relaxed));
        let distance = Duration::from_nanos(nanos.abs_diff(anchored));
        if nanos >= anchored {
            self.instant.checked_add(distance)
        } else {
            self.instant.checked_sub(distance)
        }
    }
}

/// The distances at which [`Anchor::at`] tests whether [`parts`] returns the time: carries of each part, and long
/// times.
const TRIED: [Duration; 6] = [
    Duration::from_nanos(1),
    Duration::from_millis(500),
    Duration::from_nanos(999_999_999),
    Duration::from_secs(1),
    Duration::from_nanos(7_000_000_000_000_000_003),
    Duration::from_secs(86_400 * 365),
];

/// Returns the nanoseconds of an instant of the standard library, from an arbitrary zero, on systems where an instant
/// consists of seconds and nanoseconds and passes both to a hasher. Returns `None` on other systems, and beyond 292
/// years.
///
/// The standard library promises only the distance to another instant, and to compute it takes a call, which lasts
/// longer than to push out a timer. The standard library does not promise that the hash shows the same time, so
/// [`Anchor::at`] tests it.
#[inline(always)]
fn parts(instant: StdInstant) -> Option<i64> {
    let mut parts = Parts::default();
    instant.hash(&mut parts);
    let seconds = parts.seconds?.checked_mul(1_000_000_000)?;
    if parts.has_more {
        return None;
    }
    seconds.checked_add(i64::from(parts.nanos?))
}

/// A hasher that keeps the values that it is given to hash.
#[derive(Default)]
struct Parts {
    seconds: Option<i64>,
    nanos: Option<u32>,
    has_more: bool,
}

impl Hasher for Parts {
    #[inline(always)]
    fn write(&mut self, _: &[u8]) {
        self.has_more = true;
    }

    #[inline(always)]
    fn write_i64(&mut self, seconds: i64) {
        self.has_more |= self.seconds.replace(seconds).is_some();
    }

    #[inline(always)]
    fn write_u32(&mut self, nanos: u32) {
        self.has_more |= self.nanos.replace(nanos).is_some();
    }

    fn finish(&self) -> u64 {
        0
    }
}

#[inline]
fn nanos_of(duration: Duration) -> i64 {
    let seconds = i64::try_from(duration.as_secs()).unwrap_or(i64::MAX);
    seconds
        .saturating_mul(1_000_000_000)
        .saturating_add(i64::from(duration.subsec_nanos()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_two_timelines_are_inverse() {
        let anchor = Anchor::take();
        for offset in [0, 1, 999_999_999, 5_000_000_000_000] {
            let instant = anchor.instant + Duration::from_nanos(offset);
            assert_eq!(anchor.std_of(anchor.core_of(instant)), Some(instant));
            // On Windows an instant up to 100 ns before another one is none before it to the standard library.
            let step = if cfg!(windows) { 1_000 } else { 1 };
            let earlier = anchor.instant - Duration::from_nanos(offset.min(1_000_000) * step);
            assert_eq!(anchor.std_of(anchor.core_of(earlier)), Some(earlier));
        }
    }

    /// The child of a fork is in a time namespace whose clock is behind by 3 s.
    #[test]
    fn a_shifted_anchor_ties_what_both_clocks_show_then() {
        let anchor = Anchor::take();
        let (before, now) = (anchor.core_of(anchor.instant), anchor.instant);
        let there = now - Duration::from_secs(3);
        anchor.shift(3_000_000_000);
        assert_eq!(anchor.core_of(there), before);
        assert_eq!(anchor.measured(there), before);
        assert_eq!(anchor.std_of(before), Some(there));
    }

    /// Instants far beyond the range of either timeline become its ends, and nothing wraps.
    #[test]
    fn what_is_too_far_saturates() {
        let anchor = Anchor::take();
        let far = anchor.instant + Duration::from_secs(300 * 86_400 * 365);
        assert_eq!(anchor.core_of(far), Instant::from_nanos(i64::MAX));
        assert_eq!(anchor.core_of(far), anchor.measured(far));
    }

    #[test]
    fn parts_are_used_only_where_they_say_the_time() {
        let (now, nanos) = (StdInstant::now(), 12_345);
        let wrong: [fn(StdInstant) -> Option<i64>; 4] = [
            |_| None,
            |_| Some(7),
            // A system that counts other units, and one that hashes the parts the other way round.
            |instant| parts(instant).map(|nanos| nanos / 100),
            |instant| {
                parts(instant)
                    .map(|nanos| nanos % 1_000_000_000 * 1_000_000_000 + nanos / 1_000_000_000)
            },
        ];
        for parts in wrong {
            let anchor = Anchor::at(now, nanos, parts);
            assert!(anchor.origin.is_none());
            let later = now + Duration::from_secs(5);
            assert_eq!(
                anchor.core_of(later),
                Instant::from_nanos(nanos + 5_000_000_000)
            );
        }
        assert_eq!(
            Anchor::at(now, nanos, parts).origin.is_some(),
            cfg!(target_os = "linux")
        );
    }
}
