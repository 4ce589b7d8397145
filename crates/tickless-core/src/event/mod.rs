//! Clock event devices, which make an interrupt happen at a given time.
//!
//! Each CPU has one device. The core decides for which time the device is programmed. The [`EventDevice`] record holds
//! the form of a write for this device, the last write, and the writes that must not be repeated. The host's
//! [`EventDriver`] writes to the device.
//!
//! # Kinds of devices (spec)
//!
//! | kind | what is written | can it be missed? |
//! |---|---|---|
//! | countdown | ticks from now | no, but each write needs a reading of the clock |
//! | comparator, equality | ticks from now; the driver adds the counter | yes: the driver re-reads the counter after the write and reports [`InPast`] when the counter is **at or** past the target |
//! | comparator, less-or-equal | like the above | no: a value in the past fires at once |
//! | coupled: less-or-equal on the counter that drives the time | the counter value itself | no, and no reading of the clock is needed |
//! | software | the instant itself | depends on the driver |
//!
//! # The forced minimum (spec DEV-9)
//!
//! A deadline that has passed is programmed as the shortest delay that the device accepts. A user that keeps starting
//! expired timers would renew that delay for ever, and the interrupt would never happen. So the record remembers that a
//! forced minimum is pending ([`Programmed::ForcedMinimum`]) and does not write it again until the interrupt, a normal
//! programming, a refused programming or a change of state ends it. Kernels that forgot one of these ends froze for
//! seconds (B12), so all transitions are in one function, `transition`.

use core::fmt;

use crate::clock::CounterId;
use crate::time::convert::{Cycles, Rounding, Scale, Ticks};
use crate::time::{Instant, Span};

pub(crate) mod flush;
mod program;

pub use flush::Flush;
pub use program::{Force, program};

/// The state of a device (spec ).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceState {
    /// No CPU uses it.
    Detached,
    /// The device is switched off, and ignores writes.
    Shutdown,
    /// The device fires at a fixed rate by itself.
    Periodic,
    /// The device fires once for each programming.
    Oneshot,
    /// The device is one-shot, as [`Oneshot`](DeviceState::Oneshot), with nothing programmed.
    OneshotStopped,
}

/// The way in which a device is programmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceKind {
    /// The device is programmed by a number of ticks from now.
    Relative,
    /// The device is programmed by the value of this counter while this counter drives the time, and by a number of
    /// ticks from now otherwise.
    Coupled(CounterId),
    /// The device is programmed by the instant, without any hardware.
    Software,
}

/// The way in which a minimum delay grows while the device refuses it (spec DEV-7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MinimumPolicy {
    /// The device is tried ten times, with 1 to 10 times the minimum.
    Fixed,
    /// The device is tried three times with each length. The length grows to 5 µs and then by half, up to one tick
    /// period.
    Adaptive {
        /// The largest length.
        limit: Span,
    },
}

/// The abilities of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceConfig {
    /// The name of the device, for people.
    pub name: &'static str,
    /// The way in which the device is programmed.
    pub kind: DeviceKind,
    /// The frequency in hertz.
    pub hertz: u32,
    /// The shortest delay that the device accepts, in ticks of the device.
    pub min_ticks: Ticks,
    /// The longest delay that the device accepts, in ticks of the device.
    pub max_ticks: Ticks,
    /// True if the device can be stopped. If false, the last programmed event stays pending when no event is needed.
    pub can_stop: bool,
    /// The reaction to a device that refuses the shortest delay.
    pub minimum: MinimumPolicy,
}

impl DeviceConfig {
    /// Returns the configuration of a device that takes an instant. It is meant for hosts that pass the deadline to the
    /// operating system instead of programming hardware.
    #[must_use]
    pub const fn software(name: &'static str) -> Self {
        Self {
            name,
            kind: DeviceKind::Software,
            hertz: 1_000_000_000,
            min_ticks: Ticks(1),
            max_ticks: Ticks(i64::MAX.unsigned_abs()),
            can_stop: true,
            minimum: MinimumPolicy::Fixed,
        }
    }
}

/// The error of a device that was programmed for an instant in the past: it will not fire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InPast;

impl fmt::Display for InPast {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("the event is in the past, and the device cannot fire for it any more")
    }
}

impl core::error::Error for InPast {}

/// A write to a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceWrite {
    /// The device has to fire after this number of ticks.
    Relative(Ticks),
    /// The device has to fire when the counter reaches this value.
    Coupled(Cycles),
    /// The device has to fire at this instant, or not at all if it is [`Instant::FOREVER`].
    Absolute(Instant),
}

/// The host's side of a device. Each driver serves the device of one CPU.
pub trait EventDriver {
    /// Returns the monotonic time, to compute delays. MUST NOT run ahead.
    fn now(&self) -> Instant;

    /// Returns the value that `counter` will have at `when`, if `counter` drives the time at present. Reads no counter.
    ///
    /// Hosts without coupled devices answer `None`.
    fn cycles_at(&self, counter: CounterId, when: Instant) -> Option<Cycles>;

    /// Writes to the device.
    ///
    /// After `Ok` the device fires at the time written, or at once if that time is in the past.
    ///
    /// # Errors
    ///
    /// [`InPast`] when the device will not fire. [`DeviceWrite::Coupled`] MUST NOT fail. An equality comparator MUST be
    /// compared with its counter after the write, and MUST report a counter that is *at* the target too (B13).
    /// [`DeviceWrite::Absolute`] SHOULD NOT fail: the core does not try again, and the device stays unarmed until the
    /// queue changes.
    fn write(&self, write: DeviceWrite) -> Result<(), InPast>;

    /// Puts the device into `state`.
    fn set_state(&self, state: DeviceState);
}

/// The event that was programmed last (spec DEV-10).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Programmed {
    /// The device did nothing since the last interrupt or change of state.
    Idle,
    /// The device was programmed for this instant.
    Normal(Instant),
    /// The device was programmed for the shortest delay, which ends at about this time, because the event had passed.
    ForcedMinimum(Instant),
}

/// The reasons why [`Programmed`] changes.
#[derive(Clone, Copy, Debug)]
enum Transition {
    Interrupt,
    StateChange,
    BroadcastTookOver,
    Refused,
    Normal(Instant),
    Minimum(Instant),
}

/// The record of one device: its abilities, its state and its last programmed event.
#[derive(Debug)]
pub struct EventDevice {
    config: DeviceConfig,
    scale: Scale,
    min_delay: Span,
    max_delay: Span,
    state: DeviceState,
    programmed: Programmed,
    /// The instant requested last, `FOREVER` after it fired (spec DEV-5).
    next_event: Instant,
    /// Number of failed attempts to program the minimum.
    retries: u64,
    /// Number of programmings whose event had already passed.
    late: u64,
}

/// The lower bound of the shortest delay, which also holds if the device claims to accept less (spec DEV-2).
const SHORTEST_DELAY: Span = Span::from_nanos(1_000);
/// The longest delay for which the conversion factor of a device is computed (spec DEV-1).
const LONGEST_RANGE_SECS: u64 = 600;

impl EventDevice {
    /// Makes the record of a device that is put to use.
    ///
    /// # Panics
    ///
    /// When the frequency of the device is 0, or its longest delay is below its shortest.
    #[must_use]
    pub const fn new(config: DeviceConfig) -> Self {
        assert!(config.hertz != 0, "a device that stands still never fires");
        assert!(
            config.min_ticks.0 <= config.max_ticks.0,
            "a device has a shortest and a longest delay"
        );
        let seconds = config.max_ticks.0 / config.hertz as u64;
        let range = if seconds == 0 {
            1
        } else if seconds > LONGEST_RANGE_SECS {
            LONGEST_RANGE_SECS
        } else {
            seconds
        };
        // Rounded up, unlike the original: a wait may not be shorter than asked for (STYLE T2).
        let scale = Scale::for_range(1_000_000_000, config.hertz, range, Rounding::Up);
        Self {
            scale,
            min_delay: at_least(
                config
                    .min_ticks
                    .0
                    .saturating_mul(1_000_000_000)
                    .div_ceil(config.hertz as u64),
            ),
            max_delay: at_least(longest(scale, config.max_ticks)),
            config,
            state: DeviceState::Detached,
            programmed: Programmed::Idle,
            next_event: Instant::FOREVER,
            retries: 0,
            late: 0,
        }
    }

    /// Returns the abilities of the device.
    #[must_use]
    pub const fn config(&self) -> &DeviceConfig {
        &self.config
    }

    /// Returns the state of the device.
    #[must_use]
    pub const fn state(&self) -> DeviceState {
        self.state
    }

    /// Returns the event that was programmed last.
    #[must_use]
    pub const fn programmed(&self) -> Programmed {
        self.programmed
    }

    /// Returns the instant that was requested last; `FOREVER` if the device has fired since, or if no instant was
    /// requested.
    #[must_use]
    pub const fn next_event(&self) -> Instant {
        self.next_event
    }

    /// Returns the shortest delay.
    #[must_use]
    pub const fn min_delay(&self) -> Span {
        self.min_delay
    }

    /// Returns the longest delay.
    #[must_use]
    pub const fn max_delay(&self) -> Span {
        self.max_delay
    }

    /// Returns the scale from nanoseconds to ticks.
    #[must_use]
    pub const fn scale(&self) -> Scale {
        self.scale
    }

    /// Returns the number of failed attempts to program the minimum.
    #[must_use]
    pub const fn retries(&self) -> u64 {
        self.retries
    }

    /// Returns the number of events that had passed when they were programmed, so that the shortest delay was written.
    /// For devices that take an instant or a counter value such events are not counted.
    #[must_use]
    pub const fn late(&self) -> u64 {
        self.late
    }

    /// Notes that the device fired (spec DEV-5): no event is programmed any more.
    pub fn interrupted(&mut self) {
        self.next_event = Instant::FOREVER;
        self.transition(Transition::Interrupt);
    }

    /// Notes that a broadcast device fired in place of this device (spec BC-4).
    pub fn broadcast_took_over(&mut self) {
        self.next_event = Instant::FOREVER;
        self.transition(Transition::BroadcastTookOver);
    }

    /// Puts the device into `state`.
    pub fn set_state(&mut self, driver: &impl EventDriver, state: DeviceState) {
        if self.state == state {
            return;
        }
        driver.set_state(state);
        self.state = state;
        self.transition(Transition::StateChange);
    }

    /// Notes that the device lost its programming, over a suspend or with its CPU (spec TIM-41).
    pub fn forget(&mut self) {
        self.next_event = Instant::FOREVER;
        self.transition(Transition::StateChange);
    }

    /// Applies a transition. This is the only place that decides whether a forced minimum ends.
    fn transition(&mut self, transition: Transition) {
        self.programmed = match transition {
            Transition::Interrupt
            | Transition::StateChange
            | Transition::BroadcastTookOver
            | Transition::Refused => Programmed::Idle,
            Transition::Normal(when) => Programmed::Normal(when),
            Transition::Minimum(when) => Programmed::ForcedMinimum(when),
        };
    }
}

const fn at_least(nanos: u64) -> Span {
    // One span of a chosen number, not one of two spans: `rustc` 1.88 to 1.97 loses that comparison at the optimisation
    // levels 1, "s" and "z" (`delays_have_limits` notices, as the tests of this crate are built with level 1).
    let shortest = SHORTEST_DELAY.as_nanos();
    Span::from_nanos(if nanos < shortest { shortest } else { nanos })
}

/// Returns the longest delay, in nanoseconds, whose ticks do not exceed `max_ticks` (spec DEV-2).
const fn longest(scale: Scale, max_ticks: Ticks) -> u64 {
    let mult = if scale.mult() == 0 {
        1
    } else {
        scale.mult() as u128
    };
    // `wait` divides by 2^shift and rounds up: this is the largest span for which the result is at most `max_ticks`.
    let nanos = ((max_ticks.0 as u128) << scale.shift()) / mult;
    let limit = LONGEST_RANGE_SECS as u128 * 1_000_000_000;
    let nanos = if nanos > limit { limit } else { nanos };
    #[expect(
        clippy::cast_possible_truncation,
        reason = "limited to ten minutes above"
    )]
    {
        nanos as u64
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
