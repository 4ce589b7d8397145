//! The classes of clock event devices that the core knows (spec ), and their reaction to a write.

use tickless_core::clock::CounterId;
use tickless_core::event::{DeviceConfig, DeviceKind, DeviceWrite, InPast, MinimumPolicy};
use tickless_core::time::Span;
use tickless_core::time::convert::Ticks;

/// The classes of event devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "kebab-case")
)]
pub enum DeviceClass {
    /// The device counts down from the written value.
    Countdown,
    /// The device compares its counter for equality: a value that has passed is lost.
    Equality,
    /// The device compares for less-or-equal: a value that has passed fires at once.
    LessOrEqual,
    /// The device compares as in [`LessOrEqual`](DeviceClass::LessOrEqual), with the same counter that drives the
    /// clock.
    Coupled,
    /// The device is programmed with the exact instant.
    Software,
}

/// The frequency of a device, and its shortest and longest delay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// The number of ticks in a second.
    pub hertz: u32,
    /// The shortest delay.
    pub shortest: Ticks,
    /// The longest delay.
    pub longest: Ticks,
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

    /// Returns the core's description of a device of this class. A coupled device compares with `counter`. The shortest
    /// delay grows up to `limit` if the device refuses it.
    pub fn config(self, range: Range, counter: CounterId, limit: Span) -> DeviceConfig {
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
                DeviceKind::Coupled(counter)
            } else {
                DeviceKind::Relative
            },
            hertz: range.hertz,
            min_ticks: range.shortest,
            max_ticks: range.longest,
            can_stop: true,
            minimum: MinimumPolicy::Adaptive { limit },
        }
    }

    /// Returns the time at which a device fires after a `write` for the time `target` that was done at the time `done`.
    ///
    /// # Errors
    ///
    /// When the device is an equality comparator whose counter has reached or passed the target at the second read: the
    /// two will not be equal before the counter wraps (B13).
    pub fn fires<T: Ord>(self, write: DeviceWrite, target: T, done: T) -> Result<T, InPast> {
        let is_missed = done >= target;
        match (self, write) {
            (Self::Equality, DeviceWrite::Relative(_)) if is_missed => Err(InPast),
            // What is over fires at once, that is, after the write itself.
            _ => Ok(target.max(done)),
        }
    }
}
