//! The clock event device of a machine's CPUs: its description, the cost of writing it, and the time at which it fires.
//!
//! A [class](DeviceClass) describes the effect of a write if no operation takes time. What a write takes in virtual
//! time: `laboratory/docs/simulator.md`, "Devices". Stopping a device that is not software costs the exit from a virtual
//! machine, too.

use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};
use tickless_conformance::device_class::{DeviceClass, Range};
use tickless_core::clock::CounterId;
use tickless_core::event::{DeviceConfig, DeviceWrite, InPast};
use tickless_core::time::convert::{Cycles, Ticks};
use tickless_core::time::{Instant, Span};
use toml::Spanned;

use crate::clock::COUNTER;
use crate::model::costs::Charges;
use crate::model::input::{InputError, Source};
use crate::model::mark::Mark;
use crate::model::time::Picos;
use crate::model::{current_cpu, frequency};

/// The limit for the shortest delay of a device: the core lets the delay grow up to this limit when a device refuses
/// it.
const GROWS_TO: Span = Span::from_millis(4);
/// The shortest delay that the core requests (spec DEV-2).
const SHORTEST: Picos = Picos::from_micros(1);
/// The smallest allowed value of the longest delay: a device with a smaller range would fire all the time.
const LEAST_RANGE: Picos = Picos::from_micros(100);
/// The resolution of the clock, which shows whole nanoseconds.
const CLOCK_STEP: Picos = Picos::from_nanos(1);
/// Picoseconds of a second.
const SECOND: u128 = 1_000_000_000_000;

/// A clock event device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Device {
    /// The class of the device.
    pub kind: DeviceClass,
    /// The frequency, in Hz.
    pub hertz: u32,
    /// The shortest delay that the device accepts.
    pub shortest: Picos,
    /// The longest delay that the device accepts.
    pub longest: Picos,
    /// The time of the exit from a virtual machine at a write.
    pub exit: Picos,
    /// The confidence in `exit`.
    pub mark: Mark,
    /// The source of `exit`.
    pub source: String,
}

impl Default for Device {
    /// Returns a device that is programmed with the exact instant, as the device of a process is.
    fn default() -> Self {
        Self {
            kind: DeviceClass::Software,
            hertz: 1_000_000_000,
            shortest: SHORTEST,
            longest: Picos::from_millis(600_000),
            exit: Picos::ZERO,
            mark: Mark::C,
            source: "the deadline of a call that sleeps".to_owned(),
        }
    }
}

/// The result of a write.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Written {
    /// The time at which the device fires.
    pub(crate) fires: Picos,
    /// The largest delay of the interrupt after the requested time.
    pub(crate) late: Picos,
    /// True if the device may fire before the requested time, because that time is beyond the device's range, or nearer
    /// than the core's shortest delay.
    pub(crate) may_be_early: bool,
    pub(crate) delay: Picos,
}

impl Device {
    pub(crate) fn config(&self) -> DeviceConfig {
        self.kind.config(self.range(), COUNTER, GROWS_TO)
    }

    fn range(&self) -> Range {
        let ticks = |time: Picos| u128::from(time.0) * u128::from(self.hertz) / SECOND;
        let ticks = |time| Ticks(u64::try_from(ticks(time)).unwrap_or(u64::MAX));
        Range {
            hertz: self.hertz,
            shortest: ticks(self.shortest).max(Ticks(1)),
            longest: ticks(self.longest).max(Ticks(1)),
        }
    }

    /// Returns the duration of so many ticks, rounded up.
    fn time_of(&self, ticks: u64) -> Picos {
        let picos = (u128::from(ticks) * SECOND).div_ceil(u128::from(self.hertz.max(1)));
        Picos(u64::try_from(picos).unwrap_or(u64::MAX))
    }

    /// Returns true if the device takes a delay, which passes at the device's own rate whatever happens to the clock.
    pub(crate) const fn is_told_delays(&self, slow_counter: bool) -> bool {
        match self.kind {
            DeviceClass::Software => false,
            DeviceClass::Coupled => slow_counter,
            DeviceClass::Countdown | DeviceClass::LessOrEqual | DeviceClass::Equality => true,
        }
    }

    /// Returns the value of `counter` when the clock shows `when`, if the clock is driven by `counter`.
    pub(crate) fn cycles_at(&self, counter: CounterId, when: Instant) -> Option<Cycles> {
        if counter != COUNTER {
            return None;
        }
        let nanos = u128::try_from(when.as_nanos()).unwrap_or(0);
        // Rounded up: not early (spec CPL-9).
        let cycles = (nanos * u128::from(self.hertz)).div_ceil(1_000_000_000);
        Some(Cycles(u64::try_from(cycles).unwrap_or(u64::MAX)))
    }

    /// Stops the device on the CPU that executes.
    pub(crate) fn stop(&self, charges: &Charges) {
        if self.kind != DeviceClass::Software {
            current_cpu::charge(charges.device_write + self.exit);
        }
    }

    /// Writes the device on the CPU that executes. The clock advances by `step` and shows the time `when`. A delay
    /// below `shortest` is raised to `shortest`, also for a deadline that has passed.
    pub(crate) fn write(
        &self,
        charges: &Charges,
        write: DeviceWrite,
        shortest: Picos,
        (step, when): (Picos, impl Fn(Picos) -> Picos),
    ) -> Result<Written, InPast> {
        let begins = current_cpu::cursor();
        let is_relative = matches!(write, DeviceWrite::Relative(_));
        let compares = is_relative && self.kind != DeviceClass::Countdown;
        if compares {
            current_cpu::charge(charges.counter);
        }
        let read = current_cpu::cursor();
        current_cpu::charge(charges.device_write + self.exit);
        if self.kind == DeviceClass::Equality {
            current_cpu::charge(charges.counter);
        }
        let done = current_cpu::cursor();
        let tick = self.time_of(1);
        let (target, late, delay) = match write {
            DeviceWrite::Relative(ticks) => {
                let delay = self.time_of(ticks.0);
                let counts_from = if compares { read } else { done };
                // The clock was read before, in whole nanoseconds, and the scale from time to ticks is not exact.
                let mut late = (counts_from - begins) + CLOCK_STEP + tick + Picos(delay.0 >> 20);
                if delay <= shortest {
                    late += delay;
                }
                (counts_from + delay, late, delay)
            }
            DeviceWrite::Coupled(cycles) => (
                when(self.time_of(cycles.0)),
                late_if_coupled(tick, step),
                Picos::ZERO,
            ),
            DeviceWrite::Absolute(instant) => {
                (when(Picos::of_instant(instant)), Picos::ZERO, Picos::ZERO)
            }
        };
        let fires = self.kind.fires(write, target, done)?;
        // The core reckons in whole nanoseconds, too.
        let furthest = self.longest - Picos(self.longest.0 >> 20) - tick - CLOCK_STEP;
        Ok(Written {
            fires,
            late,
            // Within a microsecond the core writes the shortest delay, even if that is over before (spec ).
            may_be_early: is_relative && (delay >= furthest || delay < SHORTEST),
            delay,
        })
    }
}

/// Returns the largest delay of a device that compares every `tick`, by a clock that advances by `step`.
///
/// The device compares with the first of its ticks at or after the instant, so in the time that the clock shows, it is
/// late by less than a tick. The clock shows the time of its last step: the number of steps that begin within less than
/// a tick is the tick in steps, rounded up. So the device is late by `tick + step` at most; a single tick would be the
/// limit only for a clock that advances continuously. Both the tick and the step are measured by a clock that is wrong
/// and is steered, by 500 ppm each. The core calculates in whole nanoseconds.
fn late_if_coupled(tick: Picos, step: Picos) -> Picos {
    let late = tick + step;
    late + Picos(late.0 >> 10) + CLOCK_STEP
}

/// The last write of a CPU's device.
#[derive(Debug, Default)]
pub(crate) struct Told {
    /// The time of the write.
    pub(crate) at: std::cell::Cell<Picos>,
    /// The largest delay of the interrupt.
    pub(crate) late: std::cell::Cell<Picos>,
    /// True if the device may fire before its time, because that time is beyond the device's range, or nearer than the
    /// core's shortest delay.
    pub(crate) may_be_early: std::cell::Cell<bool>,
    /// The shortest delay that the device has accepted after it refused one.
    grown: std::cell::Cell<Picos>,
    is_refused: std::cell::Cell<bool>,
    /// True if the last write was the shortest delay, for a deadline that had passed or was too near.
    is_minimum: std::cell::Cell<bool>,
}

impl Told {
    /// Notes that the CPU requests another instant, and writes the device next if needed.
    ///
    /// While a shortest delay is in progress, and the instant is not after its end, the core writes nothing (spec
    /// DEV-9): the device fires at the end of the delay, which may be before the instant.
    pub(crate) fn is_asked_again(&self) {
        if self.is_minimum.get() {
            self.may_be_early.set(true);
        }
    }

    /// Writes `device`, which belongs to the CPU that executes, by a `clock` as in [`Device::write`]. Returns the time
    /// at which the device fires.
    pub(crate) fn write(
        &self,
        device: &Device,
        charges: &Charges,
        write: DeviceWrite,
        clock: (Picos, impl Fn(Picos) -> Picos),
    ) -> Result<Picos, InPast> {
        let shortest = device.shortest.max(SHORTEST).max(self.grown.get());
        let written = device.write(charges, write, shortest, clock);
        let was_refused = self.is_refused.replace(written.is_err());
        let mut written = written?;
        let is_relative = matches!(write, DeviceWrite::Relative(_));
        self.is_minimum
            .set(is_relative && (was_refused || written.delay <= shortest));
        if was_refused && written.delay > shortest {
            self.grown.set(written.delay);
            written.late += written.delay;
        }
        self.at.set(current_cpu::cursor());
        self.late.set(written.late);
        self.may_be_early.set(written.may_be_early);
        Ok(written.fires)
    }
}

/// A device in the form that a file has.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawDevice {
    kind: Option<Spanned<DeviceClass>>,
    frequency: Option<Spanned<String>>,
    shortest: Option<Spanned<String>>,
    longest: Option<Spanned<String>>,
    exit: Option<Spanned<String>>,
    mark: Option<Mark>,
    source: Option<String>,
}

/// Reads a device. Fields that are missing in the file have the values of `known`.
pub(crate) fn read(
    source: &Source<'_>,
    raw: &Spanned<RawDevice>,
    known: &Device,
) -> Result<Device, InputError> {
    let fields = raw.get_ref();
    let time = |field: &Option<Spanned<String>>, known| {
        field.as_ref().map_or(Ok(known), |field| source.time(field))
    };
    let hertz = match &fields.frequency {
        None => known.hertz,
        Some(field) => hertz(field.get_ref()).ok_or_else(|| {
            let wrong = format!("\"{}\" is not a frequency of a device", field.get_ref());
            let right = "1 kHz to 4 GHz, as a number and a unit, such as \"25 MHz\"";
            source.error(field.span(), wrong, right)
        })?,
    };
    let device = Device {
        kind: fields
            .kind
            .as_ref()
            .map_or(known.kind, |kind| *kind.get_ref()),
        hertz,
        shortest: time(&fields.shortest, known.shortest)?,
        longest: time(&fields.longest, known.longest)?,
        exit: time(&fields.exit, known.exit)?,
        mark: fields.mark.unwrap_or(known.mark),
        source: fields
            .source
            .clone()
            .unwrap_or_else(|| known.source.clone()),
    };
    let at = |field: &Option<Spanned<String>>| field.as_ref().map_or(raw.span(), Spanned::span);
    if device.longest < LEAST_RANGE.max(device.shortest * 2) {
        let wrong = format!("a device that counts {} at most", device.longest);
        let right = format!("{LEAST_RANGE}, and twice the shortest delay, at least");
        return Err(source.error(at(&fields.longest), wrong, right));
    }
    if device.shortest > GROWN {
        let wrong = format!("nothing sooner than {}", device.shortest);
        return Err(source.error(at(&fields.shortest), wrong, format!("{GROWN} at most")));
    }
    if device.exit > GROWN {
        let wrong = format!("{} to leave the guest", device.exit);
        return Err(source.error(at(&fields.exit), wrong, format!("{GROWN} at most")));
    }
    Ok(device)
}

/// The largest allowed shortest delay: a device with a longer one cannot serve exact timers.
const GROWN: Picos = Picos::from_millis(1);

/// The frequencies that a device may have, in Hz.
const HERTZ: RangeInclusive<u32> = 1_000..=4_000_000_000;

fn hertz(text: &str) -> Option<u32> {
    let hertz = u32::try_from(frequency::parse(text)?).ok();
    hertz.filter(|hertz| HERTZ.contains(hertz))
}

#[cfg(test)]
mod tests;
