//! The negotiated state of a link, and the settings of a port.

use std::fmt;

use tickless_core::time::Span;

use super::IDLE_TIME_DEFAULT;

/// The speed of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Speed {
    /// 10 Mbit/s.
    Mbit10,
    /// 100 Mbit/s.
    Mbit100,
    /// 1,000 Mbit/s.
    Mbit1000,
    /// 2,500 Mbit/s.
    Mbit2500,
}

impl Speed {
    /// The speed in Mbit/s.
    #[must_use]
    pub const fn mbit_per_second(self) -> u32 {
        match self {
            Self::Mbit10 => 10,
            Self::Mbit100 => 100,
            Self::Mbit1000 => 1_000,
            Self::Mbit2500 => 2_500,
        }
    }
}

/// The duplex mode of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Duplex {
    /// Only one end may send at a time.
    Half,
    /// Both ends may send at the same time.
    Full,
}

/// A link that is up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// Its speed.
    pub speed: Speed,
    /// Its duplex mode.
    pub duplex: Duplex,
    /// True if the link partner advertises EEE for this mode (clause 45.2.7.14).
    pub partner_agrees: bool,
}

impl Link {
    /// A full-duplex link of `speed` whose partner agrees to EEE.
    #[must_use]
    pub const fn full(speed: Speed) -> Self {
        Self {
            speed,
            duplex: Duplex::Full,
            partner_agrees: true,
        }
    }

    /// Checks that this kind of link has EEE (clause 78.1.2, as far as this MAC goes).
    ///
    /// # Errors
    ///
    /// [`NotSupported`] at half duplex, and at other speeds than 100 and 1,000 Mbit/s.
    pub const fn check(self) -> Result<(), NotSupported> {
        match (self.duplex, self.speed) {
            (Duplex::Full, Speed::Mbit100 | Speed::Mbit1000) => Ok(()),
            _ => Err(NotSupported {
                speed: self.speed,
                duplex: self.duplex,
            }),
        }
    }
}

/// The link has no Energy Efficient Ethernet. True until the link changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NotSupported {
    /// The speed of the link.
    pub speed: Speed,
    /// Its duplex mode.
    pub duplex: Duplex,
}

impl fmt::Display for NotSupported {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let duplex = match self.duplex {
            Duplex::Half => "half",
            Duplex::Full => "full",
        };
        write!(
            formatter,
            "no Energy Efficient Ethernet at {} Mbit/s and {duplex} duplex: 100 and 1000 Mbit/s at full duplex have it",
            self.speed.mbit_per_second()
        )
    }
}

impl std::error::Error for NotSupported {}

/// The settings of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// True if the port's transmitter may sleep.
    pub enabled: bool,
    /// The time without a transmission after which the transmitter sleeps.
    pub idle_time: Span,
}

impl Default for Settings {
    /// Enabled, after 250 ms.
    fn default() -> Self {
        Self {
            enabled: true,
            idle_time: IDLE_TIME_DEFAULT,
        }
    }
}

/// The answer of [`Port::status`](super::Port::status).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    /// The settings of the port.
    pub settings: Settings,
    /// True if EEE is negotiated and enabled on a link that is up.
    pub active: bool,
}
