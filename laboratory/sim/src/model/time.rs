//! Virtual time in whole picoseconds, because the cheapest operations of a CPU take less than two nanoseconds.

use std::fmt;
use std::ops::{Add, AddAssign, Mul, Sub};

use serde::{Serialize, Serializer};
use tickless_core::time::Instant;

/// A time in picoseconds: an instant counted from the start of the run, or a duration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Picos(pub u64);

/// The units that a file may use, each with its number of picoseconds.
const UNITS: [(&str, u64); 5] = [
    ("ps", 1),
    ("ns", 1_000),
    ("us", 1_000_000),
    ("ms", 1_000_000_000),
    ("s", 1_000_000_000_000),
];

/// The description of a time in a file, for messages.
pub(crate) const EXAMPLE: &str = "a number and a unit, ps, ns, us, ms or s, such as \"1.5 us\"";

impl Picos {
    /// The time zero.
    pub const ZERO: Self = Self(0);
    /// A time later than all others.
    pub const FOREVER: Self = Self(u64::MAX);

    /// Makes a time of `nanos` nanoseconds.
    #[must_use]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos.saturating_mul(1_000))
    }

    /// Makes a time of `micros` microseconds.
    #[must_use]
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros.saturating_mul(1_000_000))
    }

    /// Makes a time of `millis` milliseconds.
    #[must_use]
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis.saturating_mul(1_000_000_000))
    }

    /// Returns the whole nanoseconds, rounded down.
    #[must_use]
    pub const fn as_nanos(self) -> u64 {
        self.0 / 1_000
    }

    /// Returns this time on the monotonic clock, rounded down to nanoseconds, so that the clock is never ahead.
    #[must_use]
    pub fn instant(self) -> Instant {
        Instant::from_nanos(i64::try_from(self.as_nanos()).unwrap_or(i64::MAX))
    }

    /// Returns the time at which the monotonic clock reaches `instant`.
    #[must_use]
    pub fn of_instant(instant: Instant) -> Self {
        if instant.is_forever() {
            return Self::FOREVER;
        }
        Self(u64::try_from(instant.as_nanos()).map_or(0, |nanos| nanos.saturating_mul(1_000)))
    }

    /// Subtracts `other`; zero if `other` is larger.
    #[must_use]
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// Returns the sum, [`FOREVER`](Self::FOREVER) if it is out of range.
    #[must_use]
    pub const fn saturating_add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// Returns `multiplier / divisor` of the time, rounded down.
    #[must_use]
    pub fn scaled(self, multiplier: u64, divisor: u64) -> Self {
        let scaled = u128::from(self.0) * u128::from(multiplier) / u128::from(divisor.max(1));
        Self(u64::try_from(scaled).unwrap_or(u64::MAX))
    }

    /// Reads a time such as `1.5 us`. Returns `None` for any other text, for fractions of a picosecond, and for times
    /// out of range.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let split = text.find(|letter: char| letter.is_ascii_alphabetic())?;
        let (number, unit) = (text[..split].trim_end(), &text[split..]);
        let (_, size) = UNITS.into_iter().find(|(name, _)| *name == unit)?;
        let (whole, part) = number.split_once('.').unwrap_or((number, "0"));
        let is_number =
            |digits: &str| !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit());
        if !is_number(whole) || !is_number(part) {
            return None;
        }
        let mut picos = whole.parse::<u64>().ok()?.checked_mul(size)?;
        let mut place = size;
        for digit in part.bytes() {
            place /= 10;
            let value = u64::from(digit - b'0');
            if place == 0 && value != 0 {
                return None;
            }
            picos = picos.checked_add(value * place)?;
        }
        Some(Self(picos))
    }
}

impl Add for Picos {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        self.saturating_add(other)
    }
}

impl AddAssign for Picos {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sub for Picos {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        self.saturating_sub(other)
    }
}

impl Mul<u64> for Picos {
    type Output = Self;
    fn mul(self, times: u64) -> Self {
        Self(self.0.saturating_mul(times))
    }
}

/// Writes the time in the largest unit that leaves a whole part: `1.5 us`.
impl fmt::Display for Picos {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::FOREVER {
            return formatter.write_str("forever");
        }
        let (unit, size) = UNITS
            .into_iter()
            .rev()
            .find(|(_, size)| self.0 >= *size)
            .unwrap_or(UNITS[0]);
        let (whole, rest) = (self.0 / size, self.0 % size);
        let digits = usize::try_from(size.ilog10()).unwrap_or(0);
        let part = format!("{rest:0digits$}");
        let part = part.trim_end_matches('0');
        if rest == 0 {
            write!(formatter, "{whole} {unit}")
        } else {
            write!(formatter, "{whole}.{part} {unit}")
        }
    }
}

/// Writes the time as a number of picoseconds.
impl Serialize for Picos {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::Picos;
    use tickless_conformance::random::Random;

    #[test]
    fn times_are_read_with_their_unit() {
        for (text, picos) in [
            ("1.4 ns", 1_400),
            ("133us", 133_000_000),
            ("0.5 ps", u64::MAX),
            ("62 s", 62_000_000_000_000),
            ("1 ms", 1_000_000_000),
            ("1.0005 ns", u64::MAX),
            ("1.500 ns", 1_500),
        ] {
            let expected = (picos != u64::MAX).then_some(Picos(picos));
            assert_eq!(Picos::parse(text), expected, "{text}");
        }
        for wrong in [
            "", "1", "ns", "1.4 MB", "-1 ns", "1,4 ns", "1e3 ns", ". ns", "9e9 s",
        ] {
            assert_eq!(Picos::parse(wrong), None, "{wrong}");
        }
        assert_eq!(Picos::parse("99999999999 s"), None, "out of range");
    }

    #[test]
    fn what_is_shown_is_read_back() {
        let mut random = Random::new(1);
        for bits in 1..63 {
            let picos = Picos(random.bits() >> bits);
            assert_eq!(Picos::parse(&picos.to_string()), Some(picos));
        }
    }

    #[test]
    fn a_clock_is_never_ahead() {
        assert_eq!(Picos(1_999).instant().as_nanos(), 1);
        assert_eq!(Picos::of_instant(Picos(1_999).instant()), Picos(1_000));
        assert_eq!(
            Picos::of_instant(tickless_core::time::Instant::FOREVER),
            Picos::FOREVER
        );
    }
}
