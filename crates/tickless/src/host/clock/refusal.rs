//! The reasons why the processor's counter is not used.

use std::fmt;

use tickless_core::clock::follow::WIDTH;

/// The permitted difference of two measurements of the rate, in parts per million.
pub(super) const AGREEMENT_PPM: u64 = 200;
/// The number of times that two measurements may differ by more.
pub(super) const ATTEMPTS: u32 = 50;

/// The reasons why the processor's counter is not used.
///
/// The counter is measured again 10 s after it was found to be [`Unsteady`](Self::Unsteady), to have
/// [`Drifted`](Self::Drifted) or to be [`Slow`](Self::Slow), and after twice as long each time that such a reason is
/// found again, up to 80 s. The other reasons are final.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// The processor has no counter that this library supports.
    NoCounter,
    /// The host uses only the standard library, also for the time: on systems other than Linux, and with the feature
    /// `portable`.
    PortableHost,
    /// The processor does not promise a constant rate of the counter.
    NotInvariant,
    /// The kernel keeps its time by another clock source, which is named here: the kernel does not trust the counter,
    /// or cannot use it.
    KernelUses(String),
    /// The kernel's clock source could not be read from `/sys`, which needs a free file descriptor. So the kernel may
    /// not trust the counter.
    KernelDoesNotTell,
    /// Two measurements of the rate differ, however often they are made.
    Unsteady {
        /// The difference of the rates, in parts per million.
        ppm: u64,
    },
    /// The kernel's clock and the time by the counter differed repeatedly, by more than any steering explains.
    Drifted {
        /// The number of times that they differed.
        times: u64,
    },
    /// The kernel's clock cannot be read between two readings of the counter that are close enough, however often the
    /// library tries: all of a number of readings in a row for a second took longer than 1 µs.
    Slow {
        /// The number of readings.
        readings: u64,
    },
    /// The rate is not known yet; it is measured over the first 20 ms of use.
    Calibrating,
}

impl Refusal {
    /// Returns whether a later measurement may find the counter steady: the machine may have been busy, or the kernel's
    /// clock may have been corrected fast. A refusal by the processor or the kernel is final.
    pub(super) const fn is_passing(&self) -> bool {
        matches!(
            self,
            Self::Unsteady { .. } | Self::Drifted { .. } | Self::Slow { .. }
        )
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoCounter => {
                formatter.write_str("this processor has no counter that is known here")
            }
            Self::PortableHost => {
                formatter.write_str("the portable host asks the standard library for the time")
            }
            Self::NotInvariant => formatter.write_str(
                "the processor does not promise that its counter runs at a constant rate",
            ),
            Self::KernelUses(name) => {
                write!(
                    formatter,
                    "the kernel's clock source is {name:?}, so it does not trust the counter either"
                )
            }
            Self::KernelDoesNotTell => formatter.write_str(
                "the kernel's clock source could not be read, so it may not trust the counter",
            ),
            Self::Unsteady { ppm } => {
                write!(
                    formatter,
                    "its rate over two periods of 10 ms differs by {ppm} ppm, more than {AGREEMENT_PPM}, and did so \
                     {ATTEMPTS} times"
                )
            }
            Self::Drifted { times } => write!(
                formatter,
                "the kernel's clock was {times} times elsewhere than the counter says, by more than it is ever steered"
            ),
            Self::Slow { readings } => write!(
                formatter,
                "{readings} readings of the kernel's clock in a row took longer than {WIDTH} ns, so none says exactly \
                 what the counter showed then"
            ),
            Self::Calibrating => formatter.write_str("its rate is still being measured"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_say_why() {
        let texts = [
            Refusal::KernelUses("hpet".to_owned()).to_string(),
            Refusal::Unsteady { ppm: 512 }.to_string(),
            Refusal::Slow { readings: 77 }.to_string(),
        ];
        assert!(texts[0].contains("hpet"));
        assert!(texts[1].contains("512 ppm"));
        assert!(texts[2].contains("77 readings"));
    }
}
