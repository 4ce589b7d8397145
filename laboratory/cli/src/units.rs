//! Times and counts, in the forms that people type and read.

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

/// The longest time that is accepted: a century. No run takes longer, and arithmetic with such times cannot overflow.
const LONGEST: Duration = Duration::from_secs(36_500 * 24 * 60 * 60);

/// Parses a time with a unit, such as `200us` or `1.5s`. The result is never zero.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    parse(text, None)
}

/// Parses like [`duration`], but a number without a unit is seconds, as in cyclictest's `-D`.
pub(crate) fn duration_or_seconds(text: &str) -> Result<Duration, String> {
    parse(text, Some(1_000_000_000))
}

/// Parses like [`duration_or_seconds`], with 0 for a run without an end.
pub(crate) fn seconds_or_endless(text: &str) -> Result<Duration, String> {
    if text.trim() == "0" {
        return Ok(Duration::ZERO);
    }
    duration_or_seconds(text)
}

fn parse(text: &str, default: Option<u64>) -> Result<Duration, String> {
    let text = text.trim();
    if text.starts_with('-') {
        return Err(format!("{text:?} is negative: a time is longer than zero"));
    }
    let digits = text.find(|letter: char| !letter.is_ascii_digit() && letter != '.');
    let (number, unit) = text.split_at(digits.unwrap_or(text.len()));
    let unit = unit.trim();
    let scale = match (unit, default) {
        ("", Some(scale)) => scale,
        // With a unit it would be refused as well.
        ("", None) if number.parse() == Ok(0.0) => return Err(no_time(text)),
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
        return Err(no_time(text));
    }
    Ok(time)
}

fn no_time(text: &str) -> String {
    format!("{text:?} is no time at all: it has to be longer than zero")
}

/// Parses a number of bytes: `4096`, `4K`, `1M`, `2G`.
pub(crate) fn size(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let scale: u64 = match text[digits.len()..].to_ascii_uppercase().as_str() {
        "" => 1,
        "K" => 1 << 10,
        "M" => 1 << 20,
        "G" => 1 << 30,
        unit => return Err(format!("{unit:?} is no unit of memory: K, M and G are")),
    };
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(format!(
            "{text:?} is no size: write a number, or one with K, M or G, such as 64K"
        ));
    }
    if digits.bytes().all(|byte| byte == b'0') {
        return Err("nothing is that small: a size is larger than zero".to_owned());
    }
    // Only digits: what cannot be parsed is more than any machine has.
    let bytes = digits.parse::<u64>().unwrap_or(u64::MAX);
    Ok(bytes.saturating_mul(scale))
}

/// Formats a size for people: `531 bytes`, `38.2 KiB`, `7.11 GiB`.
pub(crate) fn bytes(bytes: u64) -> String {
    let scaled = [(1_u64 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    let scaled = scaled.iter().find(|(scale, _)| bytes >= *scale);
    match scaled {
        Some((scale, unit)) => format!("{} {unit}", digits(bytes as f64 / *scale as f64)),
        None => counted(bytes, "byte"),
    }
}

/// Formats the progress of a run; the shown time never exceeds the length of the run.
pub(crate) fn progress(passed: Duration, whole: Duration) -> String {
    let seconds = |time: Duration| {
        // Whole seconds, unless there are only a few of them.
        let decimals = usize::from(whole < Duration::from_secs(10));
        format!("{:.decimals$} s", time.as_secs_f64())
    };
    let ending = if passed > whole { ", ending" } else { "" };
    format!(
        "{} of {}{ending}",
        seconds(passed.min(whole)),
        seconds(whole)
    )
}

/// Formats nanoseconds in the unit that gives few digits: `531 µs`, `38.2 µs`, `6.21 µs`.
pub(crate) fn nanos(nanos: f64) -> String {
    let scaled = [(1e9, "s"), (1e6, "ms"), (1e3, "µs")]
        .iter()
        .find(|(scale, _)| nanos.abs() >= *scale * 0.9995);
    match scaled {
        Some((scale, unit)) => format!("{} {unit}", digits(nanos / scale)),
        None => format!("{} ns", digits(nanos)),
    }
}

/// Formats a time like [`nanos`].
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

/// Formats a value with three digits, or all digits of a larger value: `1,234`, `531`, `38.2`, `6.21`.
pub(crate) fn digits(value: f64) -> String {
    let decimals = match value.abs() {
        size if size >= 99.95 => 0,
        size if size >= 9.995 => 1,
        _ => 2,
    };
    let text = format!("{value:.decimals$}");
    if decimals == 0 { grouped(&text) } else { text }
}

/// Formats a ratio with two decimals, or with three digits from 10 on.
pub(crate) fn ratio(value: f64) -> String {
    match value {
        value if value > 0.0 && value < 0.005 => "<0.01".to_owned(),
        _ => digits(value),
    }
}

/// Formats a count with commas between thousands.
pub(crate) fn count(count: u64) -> String {
    grouped(&count.to_string())
}

/// Formats a count with the name of the counted thing: `1 round`, `5 rounds`.
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
    use super::{
        bytes, count, counted, digits, duration, duration_or_seconds, nanos, progress, size, time,
    };
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
            ("0", "it has to be longer than zero"),
            ("0.0", "it has to be longer than zero"),
            ("10 parsecs", "\"parsecs\" is no unit of time"),
            ("s", "write a number and a unit"),
            ("1.2.3s", "write a number and a unit"),
            ("-1s", "is negative: a time is longer than zero"),
            ("0s", "longer than zero"),
            ("99999999999999999999999d", "too long"),
            ("36501d", "36500d is the longest"),
        ] {
            let error = duration(text).expect_err(text);
            assert!(error.contains(says), "{error}");
        }
    }

    #[test]
    fn progress_is_never_further_than_the_end() {
        let seconds = Duration::from_secs;
        assert_eq!(progress(seconds(2), seconds(4)), "2.0 s of 4.0 s");
        assert_eq!(progress(seconds(5), seconds(4)), "4.0 s of 4.0 s, ending");
        assert_eq!(progress(seconds(31), seconds(60)), "31 s of 60 s");
    }

    #[test]
    fn sizes_have_units() {
        assert_eq!(size("4096"), Ok(4096));
        assert_eq!(size("4k"), Ok(4096));
        assert_eq!(size("2G"), Ok(2 << 30));
        assert_eq!(size("99999999999G"), Ok(u64::MAX));
        for text in ["", "K", "1X", "-1", "0", "0K"] {
            assert!(size(text).is_err(), "{text}");
        }
        assert_eq!(bytes(1), "1 byte");
        assert_eq!(bytes(1_536), "1.50 KiB");
        assert_eq!(bytes(7_634_000_000), "7.11 GiB");
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
