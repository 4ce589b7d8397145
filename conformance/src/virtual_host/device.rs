//! The clock event devices of a virtual host, and the faults that tests can set in them.

use core::cell::Cell;

use tickless_core::event::{DeviceConfig, DeviceState, DeviceWrite, InPast};
use tickless_core::time::Span;
use tickless_core::time::convert::Ticks;

use super::COUNTER;
use crate::device_class::{DeviceClass, Range};

/// Returns the core's description of a virtual host's devices.
pub(crate) fn config(class: DeviceClass) -> DeviceConfig {
    let range = Range {
        hertz: 1_000_000_000,
        shortest: Ticks(1_000),
        longest: Ticks(60_000_000_000),
    };
    class.config(range, COUNTER.id, Span::from_millis(4))
}

/// The time from the beginning of a write until the device can fire for it, in nanoseconds. It must not be zero: a
/// coupled deadline is converted from the base of the time record, so its last digits can be early, and stay early when
/// it is written again (spec CPL-9). On real machines this loop ends because writing takes time.
const WRITE_TAKES: i64 = 20;

#[derive(Debug)]
pub(crate) struct Device {
    pub(crate) class: DeviceClass,
    pub(crate) state: Cell<DeviceState>,
    /// The true time at which the device fires, in nanoseconds.
    pub(crate) fires_at: Cell<Option<i64>>,
    /// The true time of the last write.
    pub(crate) written_at: Cell<i64>,
    pub(crate) writes: Cell<u64>,
    /// True if the device drops the next write: broken hardware (B13, B28).
    pub(crate) loses_next: Cell<bool>,
    /// The number of relative writes that the device still refuses.
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

    /// Takes a write at the true time `now`. `true_time_of` converts a counter value to true time, and `when_shows`
    /// converts an instant.
    pub(crate) fn write(
        &self,
        now: i64,
        write: DeviceWrite,
        true_time_of: impl Fn(u64) -> i64,
        when_shows: impl Fn(i64) -> i64,
    ) -> Result<(), InPast> {
        self.writes.set(self.writes.get() + 1);
        self.written_at.set(now);
        let target = match write {
            DeviceWrite::Relative(ticks) => {
                let distance = i64::try_from(ticks.0).expect("the core keeps to the longest delay");
                now + distance
            }
            DeviceWrite::Coupled(cycles) => true_time_of(cycles.0),
            DeviceWrite::Absolute(when) if when.is_forever() => {
                self.fires_at.set(None);
                return Ok(());
            }
            DeviceWrite::Absolute(when) => when_shows(when.as_nanos()),
        };
        let is_relative = matches!(write, DeviceWrite::Relative(_));
        let refused = is_relative && self.refuses.get() > 0;
        if is_relative {
            self.refuses.set(self.refuses.get().saturating_sub(1));
        }
        let done = self.done(now, target);
        let fires_at = self.class.fires(write, target, done);
        if fires_at.is_err() {
            // It was noticed.
            self.loses_next.set(false);
        }
        let (Ok(fires_at), false) = (fires_at, refused) else {
            // What it was told before is overwritten all the same.
            self.fires_at.set(None);
            return Err(InPast);
        };
        self.fires_at.set(Some(fires_at));
        if self.loses_next.take() {
            self.fires_at.set(None);
        }
        Ok(())
    }

    /// Returns the time at which a write is done. From the computation of an equality comparator's target to the write,
    /// as much time may pass as the shortest delay. The counter then stands at the target, not behind it (B13).
    fn done(&self, now: i64, target: i64) -> i64 {
        match self.class {
            DeviceClass::Equality if self.loses_next.get() => target,
            DeviceClass::Equality => now,
            _ => now + WRITE_TAKES,
        }
    }

    /// Returns the nanoseconds by which the device may fire later than programmed: its rounding, its shortest delay,
    /// and the steering of the clock since the write, which is 500 ppm at most in each direction.
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
