//! Clock event devices of every kind the core knows (spec 1.9).

use std::cell::Cell;

use tickless_core::event::{DeviceConfig, DeviceState, DeviceWrite, InPast, Kind, MinimumPolicy};
use tickless_core::time::Span;
use tickless_core::time::convert::Ticks;

use super::COUNTER;

/// What kind of device the CPUs of a machine have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceClass {
    /// Counts down from what is written.
    Countdown,
    /// Compares for equality with the counter: what is written when it is over is lost.
    Equality,
    /// Compares for less-or-equal: what is written when it is over fires at once.
    LessOrEqual,
    /// As [`LessOrEqual`](DeviceClass::LessOrEqual), on the very counter that drives the time.
    Coupled,
    /// Told the instant.
    Software,
}

impl DeviceClass {
    /// All classes.
    pub const ALL: [Self; 5] = [
        Self::Countdown,
        Self::Equality,
        Self::LessOrEqual,
        Self::Coupled,
        Self::Software,
    ];

    pub(crate) fn config(self) -> DeviceConfig {
        if self == Self::Software {
            return DeviceConfig::software("virtual-software");
        }
        DeviceConfig {
            name: match self {
                Self::Countdown => "virtual-countdown",
                Self::Equality => "virtual-equality",
                Self::LessOrEqual => "virtual-less-or-equal",
                Self::Coupled | Self::Software => "virtual-coupled",
            },
            kind: if self == Self::Coupled {
                Kind::Coupled(COUNTER.id)
            } else {
                Kind::Relative
            },
            hertz: 1_000_000_000,
            min_ticks: Ticks(1_000),
            max_ticks: Ticks(60_000_000_000),
            can_stop: true,
            minimum: MinimumPolicy::Adaptive {
                limit: Span::from_millis(4),
            },
        }
    }
}

/// How long a write takes until the device can fire for it, in nanoseconds. Not zero: a coupled deadline is converted
/// from the base of the time record, so its last digits can be early, and stay early when it is written again (spec
/// CPL-9). What ends that on real machines is that writing takes time.
const WRITE_TAKES: i64 = 20;

/// One device.
#[derive(Debug)]
pub(crate) struct Device {
    pub(crate) class: DeviceClass,
    pub(crate) state: Cell<DeviceState>,
    /// The true time at which it fires, in nanoseconds.
    pub(crate) fires_at: Cell<Option<i64>>,
    /// The true time of the last write.
    pub(crate) written_at: Cell<i64>,
    /// How often it was written.
    pub(crate) writes: Cell<u64>,
    /// It drops what is written next: broken hardware (B13, B28).
    pub(crate) loses_next: Cell<bool>,
    /// So many more writes of a delay are refused.
    pub(crate) refuses: Cell<u32>,
}

impl Device {
    pub(crate) fn new(class: DeviceClass) -> Self {
        Self {
            class,
            state: Cell::new(DeviceState::Detached),
            fires_at: Cell::new(None),
            written_at: Cell::new(0),
            writes: Cell::new(0),
            loses_next: Cell::new(false),
            refuses: Cell::new(0),
        }
    }

    /// Takes a write at the true time `now`. `true_time_of` converts a counter value, `when_shows` an instant.
    pub(crate) fn write(
        &self,
        now: i64,
        write: DeviceWrite,
        true_time_of: impl Fn(u64) -> i64,
        when_shows: impl Fn(i64) -> i64,
    ) -> Result<(), InPast> {
        self.writes.set(self.writes.get() + 1);
        self.written_at.set(now);
        let fires_at = match write {
            DeviceWrite::Relative(ticks) => {
                let distance = i64::try_from(ticks.0).expect("the core keeps to the longest delay");
                let target = now + distance;
                let refused = self.refuses.get() > 0;
                self.refuses.set(self.refuses.get().saturating_sub(1));
                if refused || (self.class == DeviceClass::Equality && self.missed(now, target)) {
                    // What it was told before is overwritten all the same.
                    self.fires_at.set(None);
                    return Err(InPast);
                }
                target
            }
            // What is over fires at once, that is, after the write itself.
            DeviceWrite::Coupled(cycles) => true_time_of(cycles.0).max(now + WRITE_TAKES),
            DeviceWrite::Absolute(when) if when.is_forever() => {
                self.fires_at.set(None);
                return Ok(());
            }
            DeviceWrite::Absolute(when) => when_shows(when.as_nanos()).max(now + WRITE_TAKES),
        };
        self.fires_at.set(Some(fires_at));
        if self.loses_next.take() {
            self.fires_at.set(None);
        }
        Ok(())
    }

    /// Whether an equality comparator can no longer match: its counter is read again after the write.
    fn missed(&self, now: i64, target: i64) -> bool {
        // Between the computation of the target and the write as much time passes as the shortest delay: the counter
        // stands at the target, not behind it, and will not be equal again before it wraps (B13).
        let counter = if self.loses_next.get() { target } else { now };
        if tickless_link::mutant!("equality-comparator-late-test") {
            return counter > target;
        }
        let missed = counter >= target;
        if missed {
            self.loses_next.set(false);
        }
        missed
    }

    /// How much later than asked the device may fire: its rounding and its shortest delay, and what the clock was
    /// steered since it was written, 500 ppm at most each way.
    pub(crate) fn tolerance(&self) -> i64 {
        let delay = self
            .fires_at
            .get()
            .map_or(0, |fires| fires - self.written_at.get());
        2_000 + delay / 1_000
    }

    pub(crate) fn set_state(&self, state: DeviceState) {
        self.state.set(state);
        if state != DeviceState::Oneshot {
            self.fires_at.set(None);
        }
    }
}
