//! Times and counts, as people type and read them.

use std::time::Duration;

/// Units of time, with the nanoseconds in each.
const UNITS: [(&str, u64); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
    ("d", 86_400_000_000_000),
];

/// A century: more than any run takes, and far from where arithmetic with times ends.
const LONGEST: Duration = Duration::from_secs(36_500 * 24 * 60 * 60);

/// Reads a time with a unit, such as `200us` or `1.5s`. Never zero.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    parse(text, None)
}

/// As [`duration`], but a number without a unit is seconds, as in cyclictest's `-D`.
pub(crate) fn duration_or_seconds(text: &str) -> Result<Duration, String> {
    parse(text, Some(1_000_000_000))
}

fn parse(text: &str, default: Option<u64>) -> Result<Duration, String> {
    let text = text.trim();
    let digits = text.find(|letter: char| !letter.is_ascii_digit() && letter != '.');
    let (number, unit) = text.split_at(digits.unwrap_or(text.len()));
    let unit = unit.trim();
    let scale = match (unit, default) {
        ("", Some(scale)) => scale,
        ("", None) => {
            return Err(format!(
                "{text:?} has no unit: write {text}s, {text}ms or {text}us"
            ));
        }
        _ => UNITS
            .iter()
            .find_map(|&(name, scale)| (name == unit).then_some(scale))
            .ok_or_else(|| format!("{unit:?} is no unit of time: ns, us, ms, s, m, h and d are"))?,
    };
    let count: f64 = number
        .parse()
        .map_err(|_| format!("{text:?} is no time: write a number and a unit, such as 200us"))?;
    // Rounded to a nanosecond.
    let time = Duration::try_from_secs_f64(count * scale as f64 / 1e9)
        .ok()
        .filter(|time| *time <= LONGEST)
        .ok_or_else(|| format!("{text:?} is too long: 36500d is the longest time"))?;
    if time.is_zero() {
        return Err(format!(
            "{text:?} is no time at all: it has to be longer than zero"
        ));
    }
    Ok(time)
}

/// Nanoseconds with the unit that gives few digits: `531 µs`, `38.2 µs`, `6.21 µs`.
pub(crate) fn nanos(nanos: f64) -> String {
    let scaled = [(1e9, "s"), (1e6, "ms"), (1e3, "µs")]
        .iter()
        .find(|(scale, _)| nanos.abs() >= *scale * 0.9995);
    match scaled {
        Some((scale, unit)) => format!("{} {unit}", digits(nanos / scale)),
        None => format!("{} ns", digits(nanos)),
    }
}

/// A time as [`nanos`] writes it.
pub(crate) fn time(time: Duration) -> String {
    let text = nanos(time.as_nanos() as f64);
    // "300 ms" rather than "300.0 ms" comes out by itself; whole numbers below 100 need help.
    match text.split_once(' ') {
        Some((number, unit)) if number.contains('.') => {
            let number = number.trim_end_matches('0').trim_end_matches('.');
            format!("{number} {unit}")
        }
        _ => text,
    }
}

/// Three digits, as far as there are any: `1,234`, `531`, `38.2`, `6.21`.
pub(crate) fn digits(value: f64) -> String {
    let decimals = match value.abs() {
        size if size >= 99.95 => 0,
        size if size >= 9.995 => 1,
        _ => 2,
    };
    let text = format!("{value:.decimals$}");
    if decimals == 0 { grouped(&text) } else { text }
}

/// A count with commas between thousands.
pub(crate) fn count(count: u64) -> String {
    grouped(&count.to_string())
}

/// A count with what is counted: `1 round`, `5 rounds`.
pub(crate) fn counted(number: u64, what: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{} {what}{plural}", count(number))
}

fn grouped(digits: &str) -> String {
    let (sign, digits) = match digits.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", digits),
    };
    let mut text = sign.to_owned();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{count, counted, digits, duration, duration_or_seconds, nanos, time};
    use std::time::Duration;

    #[test]
    fn times_have_units() {
        assert_eq!(duration("200us"), Ok(Duration::from_micros(200)));
        assert_eq!(duration("200 µs"), Ok(Duration::from_micros(200)));
        assert_eq!(duration("1.5s"), Ok(Duration::from_millis(1_500)));
        assert_eq!(duration("2m"), Ok(Duration::from_secs(120)));
        assert_eq!(duration("1ns"), Ok(Duration::from_nanos(1)));
        assert_eq!(duration_or_seconds("10"), Ok(Duration::from_secs(10)));
        assert_eq!(duration_or_seconds("1d"), Ok(Duration::from_secs(86_400)));
    }

    #[test]
    fn wrong_times_say_what_would_be_right() {
        for (text, says) in [
            ("10", "has no unit: write 10s"),
            ("10 parsecs", "\"parsecs\" is no unit of time"),
            ("s", "write a number and a unit"),
            ("1.2.3s", "write a number and a unit"),
            ("-1s", "\"-1s\" is no unit of time"),
            ("0s", "longer than zero"),
            ("99999999999999999999999d", "too long"),
            ("36501d", "36500d is the longest"),
        ] {
            let error = duration(text).expect_err(text);
            assert!(error.contains(says), "{error}");
        }
    }

    #[test]
    fn figures_have_three_digits() {
        assert_eq!(nanos(531_000.0), "531 µs");
        assert_eq!(nanos(38_249.0), "38.2 µs");
        assert_eq!(nanos(6_210.0), "6.21 µs");
        assert_eq!(nanos(999_900.0), "1.00 ms");
        assert_eq!(nanos(12.3), "12.3 ns");
        assert_eq!(digits(1_234.5), "1,234");
        assert_eq!(count(1_234_567), "1,234,567");
        assert_eq!(count(12), "12");
        assert_eq!(counted(1, "round"), "1 round");
        assert_eq!(counted(2_000, "round"), "2,000 rounds");
        assert_eq!(time(Duration::from_millis(300)), "300 ms");
        assert_eq!(time(Duration::from_secs(10)), "10 s");
        assert_eq!(time(Duration::from_millis(1_500)), "1.5 s");
    }
}
