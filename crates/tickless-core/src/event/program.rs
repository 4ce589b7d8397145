//! Programming a device for an instant (spec ).

use super::{
    DeviceKind, DeviceState, DeviceWrite, EventDevice, EventDriver, InPast, MinimumPolicy,
    Transition,
};
use crate::time::{Instant, Span};

/// The treatment of an instant that has passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Force {
    /// The device is not programmed, and the caller gets an error.
    No,
    /// The device fires as soon as it can.
    Yes,
}

/// Number of attempts at one length before an adaptive minimum grows (spec DEV-7).
const ADAPTIVE_ATTEMPTS: u32 = 3;
/// Number of attempts at a fixed minimum, and its largest multiple (spec DEV-7).
const FIXED_ATTEMPTS: u64 = 10;
/// The first length to which an adaptive minimum grows (spec DEV-7).
const ADAPTIVE_FIRST: Span = Span::from_micros(5);

/// Makes the device fire at `when`, or not at all if `when` is [`Instant::FOREVER`].
///
/// Afterwards the device fires at `when`, or earlier if `when` is beyond its range, never later. A device that is
/// switched off stays off, which is no error.
///
/// # Errors
///
/// [`InPast`] when `when` has passed and `force` is [`Force::No`], or when the device refuses even its longest minimum.
/// The device does not fire then.
#[inline]
pub fn program(
    device: &mut EventDevice,
    driver: &impl EventDriver,
    when: Instant,
    force: Force,
) -> Result<(), InPast> {
    debug_assert!(
        when >= Instant::ZERO,
        "an armed value is clamped (spec TIM-3)"
    );
    if matches!(device.state, DeviceState::Detached | DeviceState::Shutdown) {
        device.next_event = when;
        return Ok(());
    }
    if when.is_forever() {
        if device.config.can_stop {
            device.set_state(driver, DeviceState::OneshotStopped);
        }
        device.next_event = when;
        return Ok(());
    }
    device.set_state(driver, DeviceState::Oneshot);
    device.next_event = when;
    match device.config.kind {
        DeviceKind::Software => return driver.write(DeviceWrite::Absolute(when)),
        DeviceKind::Coupled(counter) => {
            // Spec CPL-5: cannot fail, needs no clock, and knows neither minimum nor maximum.
            if let Some(cycles) = driver.cycles_at(counter, when) {
                device.transition(Transition::Normal(when));
                return driver.write(DeviceWrite::Coupled(cycles));
            }
        }
        DeviceKind::Relative => {}
    }
    program_relative(device, driver, when, force)
}

fn program_relative(
    device: &mut EventDevice,
    driver: &impl EventDriver,
    when: Instant,
    force: Force,
) -> Result<(), InPast> {
    let now = driver.now();
    if when <= now && force == Force::No {
        return Err(InPast);
    }
    device.late += u64::from(when <= now);
    let delay = when.saturating_since(now);
    if delay > device.min_delay {
        let ticks = device.scale.wait(delay.min(device.max_delay), 0);
        if driver.write(DeviceWrite::Relative(ticks)).is_ok() {
            device.transition(Transition::Normal(when));
            return Ok(());
        }
        // By contract the device will not fire now, not even for a minimum that was under way.
        device.transition(Transition::Refused);
    }
    if let super::Programmed::ForcedMinimum(_) = device.programmed {
        // A minimum is under way. Writing it again would push it out (spec DEV-9).
        return Ok(());
    }
    if driver
        .write(DeviceWrite::Relative(device.config.min_ticks))
        .is_err()
    {
        if force == Force::No {
            return Err(InPast);
        }
        program_minimum(device, driver)?;
    }
    // Spec DEV-11: a reader of the device finds when it will really fire.
    let fires = now.saturating_add(device.min_delay);
    device.next_event = fires;
    device.transition(Transition::Minimum(fires));
    Ok(())
}

/// Programs the shortest delay that the device accepts (spec DEV-7).
fn program_minimum(device: &mut EventDevice, driver: &impl EventDriver) -> Result<(), InPast> {
    match device.config.minimum {
        MinimumPolicy::Fixed => {
            for factor in 1..=FIXED_ATTEMPTS {
                let delay = Span::from_nanos(device.min_delay.as_nanos() * factor);
                if write_delay(device, driver, delay).is_ok() {
                    return Ok(());
                }
            }
        }
        MinimumPolicy::Adaptive { limit } => loop {
            for _ in 0..ADAPTIVE_ATTEMPTS {
                if write_delay(device, driver, device.min_delay).is_ok() {
                    return Ok(());
                }
            }
            if device.min_delay >= limit {
                break;
            }
            let grown = if device.min_delay < ADAPTIVE_FIRST {
                ADAPTIVE_FIRST
            } else {
                Span::from_nanos(device.min_delay.as_nanos() / 2 * 3)
            };
            device.min_delay = grown.min(limit);
        },
    }
    // B27: give up with an error rather than try for ever.
    device.next_event = Instant::FOREVER;
    Err(InPast)
}

fn write_delay(
    device: &mut EventDevice,
    driver: &impl EventDriver,
    delay: Span,
) -> Result<(), InPast> {
    let written = driver.write(DeviceWrite::Relative(device.scale.wait(delay, 0)));
    device.retries += u64::from(written.is_err());
    written
}
