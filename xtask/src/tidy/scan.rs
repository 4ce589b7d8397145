//! The scanner that blanks all that is not code in Rust source.
//!
//! A rule about words must know whether a word is code, comment or text. The scanner distinguishes these by the lexical
//! rules of the language alone, and makes a copy of the code in which everything else is blank. Offsets and lines do
//! not change, so a place in the copy is the same place in the file.

/// The code of a Rust source file.
#[derive(Debug)]
pub(crate) struct Scan {
    /// The source, in which spaces replace the comments and the contents of literals, byte for byte.
    pub(crate) code: String,
}

impl Scan {
    pub(crate) fn new(source: &str) -> Self {
        let mut scanner = Scanner {
            source,
            at: 0,
            code: source.as_bytes().to_vec(),
        };
        scanner.scan();
        Self {
            code: String::from_utf8(scanner.code).expect("only whole characters are blanked"),
        }
    }

    /// Returns the line of an offset into the code, counted from one.
    pub(crate) fn line_of(&self, offset: usize) -> usize {
        1 + count_lines(&self.code[..offset])
    }
}

struct Scanner<'s> {
    source: &'s str,
    at: usize,
    code: Vec<u8>,
}

impl Scanner<'_> {
    fn scan(&mut self) {
        while let Some(first) = self.rest().chars().next() {
            let rest = self.rest();
            if rest.starts_with("//") {
                self.line_comment();
            } else if rest.starts_with("/*") {
                self.block_comment();
            } else if let Some(hashes) = raw_string(rest).filter(|_| !self.inside_word()) {
                self.raw_string(hashes);
            } else if first == '"' {
                self.quoted('"');
            } else if first == '\'' && is_character(rest) {
                self.quoted('\'');
            } else {
                self.at += first.len_utf8();
            }
        }
    }

    fn rest(&self) -> &str {
        &self.source[self.at..]
    }

    /// Returns true if the previous character is part of a word, so that an `r` here begins no raw string.
    fn inside_word(&self) -> bool {
        self.source[..self.at].ends_with(is_word)
    }

    fn line_comment(&mut self) {
        let rest = self.rest();
        let length = rest.find('\n').unwrap_or(rest.len());
        self.comment(length);
    }

    /// Scans a block comment. Block comments nest.
    fn block_comment(&mut self) {
        let rest = self.rest();
        let mut depth = 0_usize;
        let mut length = 0;
        loop {
            let tail = &rest[length..];
            if tail.starts_with("/*") {
                depth += 1;
                length += 2;
            } else if tail.starts_with("*/") {
                depth -= 1;
                length += 2;
            } else {
                length += tail.chars().next().map_or(0, char::len_utf8);
            }
            if depth == 0 || length == rest.len() {
                break;
            }
        }
        self.comment(length);
    }

    fn comment(&mut self, length: usize) {
        self.blank(self.at, self.at + length);
        self.at += length;
    }

    fn raw_string(&mut self, (prefix, hashes): (usize, usize)) {
        let start = self.at + prefix + hashes + 1;
        let end_mark = format!("\"{}", "#".repeat(hashes));
        let length = self.source[start..].find(&end_mark);
        let end = length.map_or(self.source.len(), |length| start + length);
        self.blank(start, end);
        self.at = (end + end_mark.len()).min(self.source.len());
    }

    /// Scans a string or a character, with escapes.
    fn quoted(&mut self, quote: char) {
        let start = self.at + 1;
        let mut end = self.source.len();
        let mut escaped = false;
        for (index, letter) in self.source[start..].char_indices() {
            if letter == quote && !escaped {
                end = start + index;
                break;
            }
            escaped = letter == '\\' && !escaped;
        }
        self.blank(start, end);
        self.at = (end + 1).min(self.source.len());
    }

    fn blank(&mut self, start: usize, end: usize) {
        for byte in &mut self.code[start..end] {
            if *byte != b'\n' {
                *byte = b' ';
            }
        }
    }
}

/// Returns true if `letter` can be part of an identifier.
pub(crate) fn is_word(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

fn count_lines(text: &str) -> usize {
    text.bytes().filter(|&byte| byte == b'\n').count()
}

/// Returns the lengths of the prefix and of the hashes if a raw string begins here.
fn raw_string(rest: &str) -> Option<(usize, usize)> {
    let prefix = ["r", "br", "cr"]
        .into_iter()
        .find(|prefix| rest.starts_with(prefix))?;
    let after = &rest[prefix.len()..];
    let hashes = after.len() - after.trim_start_matches('#').len();
    after[hashes..]
        .starts_with('"')
        .then_some((prefix.len(), hashes))
}

/// Returns true if the apostrophe here begins a character, and not a lifetime.
fn is_character(rest: &str) -> bool {
    let mut letters = rest.chars().skip(1);
    match letters.next() {
        Some('\\') => true,
        Some(_) => letters.next() == Some('\''),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::Scan;

    fn code(source: &str) -> String {
        let scan = Scan::new(source);
        assert_eq!(scan.code.len(), source.len());
        scan.code
    }

    #[test]
    fn literals_are_blanked_and_their_quotes_stay() {
        assert_eq!(code(r#"a("x\"y", 'z')"#), r#"a("    ", ' ')"#);
        assert_eq!(code(r##"b(r#"x"y"#)"##), r##"b(r#"   "#)"##);
        assert_eq!(code(r#"c(b"x", br"y")"#), r#"c(b" ", br" ")"#);
        assert_eq!(code(r"d('\'', b'\\')"), "d('  ', b'  ')");
        assert_eq!(code("\"unclosed"), "\"        ");
    }

    #[test]
    fn lifetimes_and_raw_words_are_code() {
        let source = "fn f<'a>(r: &'a str) -> &'static str { r#try(for_r) }";
        assert_eq!(code(source), source);
    }

    #[test]
    fn comments_are_taken_out_line_by_line() {
        let scan = Scan::new("//! Doc.\nlet a = 1; // Note.\n/* one\n * two /* nested */\n */ b\n");
        let bare: Vec<&str> = scan.code.lines().map(str::trim).collect();
        assert_eq!(bare, ["", "let a = 1;", "", "", "b"]);
    }

    #[test]
    fn a_comment_mark_in_a_string_begins_no_comment() {
        let scan = Scan::new("let url = \"scheme://host\"; let b = 1;");
        assert!(scan.code.ends_with("let b = 1;"));
    }

    #[test]
    fn offsets_become_lines() {
        let scan = Scan::new("a\nb\nc");
        assert_eq!((scan.line_of(0), scan.line_of(4)), (1, 3));
    }
}
