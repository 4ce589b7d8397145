//! Text from a file, escaped so that it can be shown safely.
//!
//! A name in a scenario, a profile or a trace can hold any characters. A terminal obeys some of them, some make a page
//! show text in another order, and a line break makes a line that the command never printed. All shown text passes
//! through [`text`] in [`output`](crate::output) and in the pages. Text that belongs on one line also passes through
//! [`line`] where the line is made: names, cells of tables, the error at the end. JSON has an escaping of its own.

use std::borrow::Cow;

/// Returns the command line of this process, for reports.
pub(crate) fn command_line() -> String {
    let arguments = std::env::args_os().skip(1).map(|argument| {
        let argument = argument.to_string_lossy().into_owned();
        let plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./:=,%+@".contains(letter);
        if !argument.is_empty() && argument.chars().all(plain) {
            argument
        } else {
            format!("'{}'", argument.replace('\'', r"'\''"))
        }
    });
    let mut words = vec!["tickless".to_owned()];
    words.extend(arguments);
    words.join(" ")
}

/// Escapes all characters that a terminal or a page would obey rather than show. Line breaks and tabs stay.
pub(crate) fn text(text: &str) -> Cow<'_, str> {
    escaped(text, |letter| {
        is_obeyed(letter) && !matches!(letter, '\n' | '\t')
    })
}

/// Escapes line breaks and tabs as well.
pub(crate) fn line(text: &str) -> Cow<'_, str> {
    escaped(text, is_obeyed)
}

fn escaped(text: &str, is_escaped: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(&is_escaped) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 8);
    for letter in text.chars() {
        if is_escaped(letter) {
            out.extend(letter.escape_default());
        } else {
            out.push(letter);
        }
    }
    Cow::Owned(out)
}

/// Returns true for control characters, for other breaks of lines and paragraphs, and for characters that change the
/// direction of text.
fn is_obeyed(letter: char) -> bool {
    letter.is_control()
        || matches!(
            letter,
            '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
        )
}

#[cfg(test)]
mod tests {
    use super::{line, text};
    use std::borrow::Cow;

    #[test]
    fn what_is_only_shown_stays_as_it_is() {
        for plain in ["", "200 µs ± 3 % × 2", "a\tb\nc"] {
            assert!(matches!(text(plain), Cow::Borrowed(same) if same == plain));
        }
    }

    #[test]
    fn what_would_be_obeyed_is_shown() {
        for (given, shown) in [
            ("\x1b[2J", "\\u{1b}[2J"),
            ("a\u{9b}31m", "a\\u{9b}31m"),
            ("bell\x07\x7f", "bell\\u{7}\\u{7f}"),
            ("a\rb", "a\\rb"),
            ("\u{202e}txt", "\\u{202e}txt"),
        ] {
            assert_eq!(text(given), shown);
            assert_eq!(line(given), shown);
        }
        assert_eq!(line("a\nb\t"), "a\\nb\\t");
    }
}
