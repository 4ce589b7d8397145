//! The wake-up time of a CPU that goes to sleep, and the time of the timers that it leaves to other CPUs (spec C-3.2).

use crate::slots::geometry::Tick;
use crate::slots::pending_map::FAR;
use crate::time::{Instant, Span};

/// The first due ticks of a CPU's wheels; `None` for an empty wheel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NextDue {
    /// The first due tick of timers that no other CPU can fire.
    pub local: Option<Tick>,
    /// The first due tick of timers that other CPUs can fire too.
    pub global: Option<Tick>,
}

impl NextDue {
    pub(crate) const NOTHING: Self = Self {
        local: None,
        global: None,
    };
}

/// A tick and the instant at which it began, as one consistent pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TickTime {
    /// The tick in progress.
    pub tick: Tick,
    /// The instant at which the tick began.
    pub began: Instant,
    /// The length of a tick.
    pub period: Span,
}

impl TickTime {
    /// Returns the instant at which `tick` begins. The tick must not have passed.
    #[must_use]
    pub fn instant_of(self, tick: Tick) -> Instant {
        let ahead = tick.0.saturating_sub(self.tick.0);
        let nanos = self.period.as_nanos().saturating_mul(ahead);
        self.began.saturating_add(Span::from_nanos(nanos))
    }
}

/// The times until which a CPU may sleep: for the timers that only it can fire, and for the timers that other CPUs
/// could fire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WakeTimes {
    /// The time at which the CPU itself has to wake up, independently of the other CPUs; [`Instant::FOREVER`] if it
    /// need not.
    pub local: Instant,
    /// The time at which any CPU has to expire the global wheel; [`Instant::FOREVER`] if the wheel is empty, or if this
    /// CPU will be awake before and expires the wheel itself.
    pub global: Instant,
    /// True if the first timer is more than a tick ahead, so that a sleep is worthwhile.
    pub may_idle: bool,
}

/// Returns the times until which a CPU may sleep if its wheels are due at `next`.
///
/// If both wheels are due at the same tick, the local wheel counts as the first, because the CPU is awake at that tick
/// in any case.
#[must_use]
pub fn wake_times(next: NextDue, at: TickTime) -> WakeTimes {
    let far = Tick(at.tick.0.saturating_add(FAR));
    let (local, global) = (next.local.unwrap_or(far), next.global.unwrap_or(far));
    let local_is_first = local <= global;
    let first = local.min(global);
    if first.0 <= at.tick.0.saturating_add(1) {
        // What was missed is due now, not before now.
        let now = at.instant_of(first.max(at.tick));
        return WakeTimes {
            local: now,
            // Filled in: a CPU that ran this wheel from afar looks at nothing else, and would lose what is due.
            global: if local_is_first {
                Instant::FOREVER
            } else {
                now
            },
            may_idle: false,
        };
    }
    let instant = |due: Option<Tick>| due.map_or(Instant::FOREVER, |due| at.instant_of(due));
    WakeTimes {
        local: instant(next.local),
        global: if local_is_first {
            Instant::FOREVER
        } else {
            instant(next.global)
        },
        may_idle: true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: TickTime = TickTime {
        tick: Tick(1_000),
        began: Instant::from_nanos(0),
        period: Span::from_millis(1),
    };

    #[test]
    fn cpus_wake_when_appendix_a3_says() {
        let never = Instant::<crate::time::Monotonic>::FOREVER.as_nanos();
        let ms = |count: i64| count * 1_000_000;
        let rows = [
            (None, None, never, never, true),
            (Some(1_050), None, ms(50), never, true),
            (None, Some(1_050), never, ms(50), true),
            (Some(1_050), Some(1_050), ms(50), never, true),
            (Some(1_060), Some(1_050), ms(60), ms(50), true),
            (Some(1_040), Some(1_050), ms(40), never, true),
            (Some(1_001), Some(1_050), ms(1), never, false),
            (Some(1_050), Some(1_001), ms(1), ms(1), false),
            (Some(1_050), Some(990), 0, 0, false),
        ];
        for (local, global, wakes, hands_over, may_idle) in rows {
            let next = NextDue {
                local: local.map(Tick),
                global: global.map(Tick),
            };
            let times = wake_times(next, AT);
            assert_eq!(
                (
                    times.local.as_nanos(),
                    times.global.as_nanos(),
                    times.may_idle
                ),
                (wakes, hands_over, may_idle),
                "{next:?}"
            );
        }
    }

    #[test]
    fn the_end_of_time_is_not_passed() {
        let next = NextDue {
            local: Some(Tick(u64::MAX)),
            global: None,
        };
        let at = TickTime {
            tick: Tick(u64::MAX - 100),
            ..AT
        };
        assert!(wake_times(next, at).may_idle);
        let years = 250 * 365 * 86_400 * 1_000_000_000;
        assert!(wake_times(next, AT).local.as_nanos() > years);
    }
}
