//! What ties the instants of the standard library to numbers.

use std::time::Instant as StdInstant;

use tickless_core::time::Instant;

use super::kernel::kernel_clock;

/// The anchor of the timeline.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Anchor {
    instant: StdInstant,
    nanos: i64,
}

impl Anchor {
    /// Ties the two timelines together.
    pub(crate) fn take() -> Self {
        let mut best: Option<(i64, Self)> = None;
        // The narrowest of a few sandwiches: a preemption in between would make the anchor late for ever.
        for _ in 0..10 {
            let before = kernel_clock();
            let instant = StdInstant::now();
            let nanos = kernel_clock();
            let width = nanos - before;
            if best.is_none_or(|(narrowest, _)| width < narrowest) {
                best = Some((width, Self { instant, nanos }));
            }
        }
        best.map_or_else(
            || Self {
                instant: StdInstant::now(),
                nanos: kernel_clock(),
            },
            |(_, anchor)| anchor,
        )
    }

    /// The core's instant for an instant of the standard library; saturates.
    #[inline]
    pub(crate) fn to_core(self, instant: StdInstant) -> Instant {
        let nanos = match instant.checked_duration_since(self.instant) {
            Some(after) => self.nanos.saturating_add(nanos_of(after)),
            None => self
                .nanos
                .saturating_sub(nanos_of(self.instant.duration_since(instant))),
        };
        Instant::from_nanos(nanos)
    }

    /// The standard library's instant for one of the core's; the exact inverse. `None` before its origin.
    pub(crate) fn to_std(self, instant: Instant) -> Option<StdInstant> {
        let nanos = instant.as_nanos();
        let distance = std::time::Duration::from_nanos(nanos.abs_diff(self.nanos));
        if nanos >= self.nanos {
            self.instant.checked_add(distance)
        } else {
            self.instant.checked_sub(distance)
        }
    }
}

#[inline]
fn nanos_of(duration: std::time::Duration) -> i64 {
    let seconds = i64::try_from(duration.as_secs()).unwrap_or(i64::MAX);
    seconds
        .saturating_mul(1_000_000_000)
        .saturating_add(i64::from(duration.subsec_nanos()))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_two_timelines_are_inverse() {
        let anchor = Anchor::take();
        for offset in [0, 1, 999_999_999, 5_000_000_000_000] {
            let instant = anchor.instant + Duration::from_nanos(offset);
            assert_eq!(anchor.to_std(anchor.to_core(instant)), Some(instant));
            let earlier = anchor.instant - Duration::from_nanos(offset.min(1_000_000));
            assert_eq!(anchor.to_std(anchor.to_core(earlier)), Some(earlier));
        }
    }
}
