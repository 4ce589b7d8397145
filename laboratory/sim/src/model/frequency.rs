//! The text form of frequencies in files.

/// Parses a number and a unit, such as `14.318 MHz`. Returns the frequency in whole hertz.
pub(crate) fn parse(text: &str) -> Option<u64> {
    let text = text.trim();
    let split = text.find(|letter: char| letter.is_ascii_alphabetic())?;
    let (number, unit) = (text[..split].trim_end(), &text[split..]);
    let places = match unit {
        "Hz" => 0,
        "kHz" => 3,
        "MHz" => 6,
        "GHz" => 9,
        _ => return None,
    };
    let (whole, part) = number.split_once('.').unwrap_or((number, "0"));
    let is_number =
        |digits: &str| !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit());
    let part = part.trim_end_matches('0');
    if !is_number(whole) || !(part.is_empty() || is_number(part)) || part.len() > places {
        return None;
    }
    format!("{whole}{part:0<places$}").parse().ok()
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn frequencies_are_read_with_their_unit() {
        for (text, hertz) in [
            ("14.318 MHz", Some(14_318_000)),
            ("2.5GHz", Some(2_500_000_000)),
            ("1.193182 MHz", Some(1_193_182)),
            ("3579 kHz", Some(3_579_000)),
            ("1.50 kHz", Some(1_500)),
            (" 25 Hz ", Some(25)),
            ("1.0 Hz", Some(1)),
            ("1.5 Hz", None),
            ("1.1931825 MHz", None),
            ("14 mhz", None),
            ("14", None),
            ("MHz", None),
            (".5 MHz", None),
            ("-1 MHz", None),
            ("1e3 Hz", None),
            ("1.x MHz", None),
            ("99999999999 GHz", None),
            ("", None),
        ] {
            assert_eq!(parse(text), hertz, "{text}");
        }
    }
}
