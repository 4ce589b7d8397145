//! The files that the rules check, and what is code in them.

use std::collections::BTreeSet;
use std::path::Path;

use crate::files;

/// The text files of a checkout, read once for all rules.
pub(super) struct Tree {
    pub(super) files: Vec<File>,
    /// All paths, including those of files that are not text.
    paths: BTreeSet<String>,
}

/// One text file.
pub(crate) struct File {
    /// The path of the file, relative to the root, with `/` between the parts.
    pub(super) path: String,
    pub(super) text: String,
    /// The code, if it is Rust (see [`code_of`]).
    pub(super) code: Option<String>,
}

/// The receiver of a rule's findings.
pub(super) struct Report<'r> {
    pub(super) rule: &'static str,
    pub(super) findings: &'r mut Vec<(String, usize, String)>,
}

impl Report<'_> {
    pub(super) fn error(&mut self, path: &str, line: usize, message: impl AsRef<str>, hint: &str) {
        let text = format!("[{}] {}: {hint}", self.rule, message.as_ref());
        self.findings.push((path.to_owned(), line, text));
    }
}

impl Tree {
    pub(super) fn load(root: &Path) -> Result<Self, String> {
        let paths = files::list(root)?;
        let mut found = Vec::new();
        for path in &paths {
            let bytes = std::fs::read(root.join(path))
                .map_err(|error| format!("cannot read {path}: {error}"))?;
            // What is not text has no style.
            if let Ok(text) = String::from_utf8(bytes) {
                found.push(File::new(path, text));
            }
        }
        let paths = paths.into_iter().collect();
        Ok(Self {
            files: found,
            paths,
        })
    }

    #[cfg(test)]
    pub(super) fn of(files: &[(&str, &str)]) -> Self {
        Self {
            files: files
                .iter()
                .map(|(path, text)| File::new(path, (*text).into()))
                .collect(),
            paths: files.iter().map(|(path, _)| (*path).into()).collect(),
        }
    }

    pub(super) fn file(&self, path: &str) -> Option<&File> {
        self.files.iter().find(|file| file.path == path)
    }

    /// Returns the files whose names end in `end`.
    pub(super) fn ending<'t>(&'t self, end: &'t str) -> impl Iterator<Item = &'t File> {
        self.files
            .iter()
            .filter(move |file| file.path.ends_with(end))
    }

    /// Returns true if `path` is a file, or a directory that contains files.
    pub(super) fn contains(&self, path: &str) -> bool {
        let inside = format!("{path}/");
        let mut below = self.paths.range(inside.clone()..);
        path.is_empty()
            || self.paths.contains(path)
            || below.next().is_some_and(|first| first.starts_with(&inside))
    }
}

impl File {
    pub(crate) fn new(path: &str, text: String) -> Self {
        let code = path.ends_with(".rs").then(|| code_of(&text));
        Self {
            path: path.into(),
            text,
            code,
        }
    }

    /// Returns the lines, counted from one.
    pub(super) fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        (1..).zip(self.text.lines())
    }

    /// Returns what is written for people, at its place: a page, or the comments and texts of a program.
    pub(super) fn prose(&self) -> String {
        let Some(code) = &self.code else {
            return self.text.clone();
        };
        let pairs = self.text.bytes().zip(code.bytes());
        let prose = pairs.map(|(byte, code)| {
            if [b' ', b'\n'].contains(&code) {
                byte
            } else {
                b' '
            }
        });
        String::from_utf8(prose.collect()).expect("whole characters are code")
    }

    /// Returns the offset after which everything is tests: the end of the file, the beginning of the tests at its end,
    /// or the beginning of the file.
    pub(crate) fn tests_from(&self) -> usize {
        let path = format!("/{}", self.path);
        if path.ends_with("/tests.rs") || path.ends_with("/model.rs") || path.contains("/tests/") {
            return 0;
        }
        let (mut from, mut attribute) = (0, None);
        for line in self.code.iter().flat_map(|code| code.split_inclusive('\n')) {
            if line.starts_with("#[cfg(") && line.contains("test") {
                attribute = attribute.or(Some(from));
            } else if !line.starts_with('#')
                && let Some(attribute) = attribute.take()
                && line.contains("mod ")
                && line.contains('{')
            {
                return attribute;
            }
            from += line.len();
        }
        self.text.len()
    }
}

/// Returns true if `letter` can be part of an identifier.
pub(crate) fn is_word(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

/// Returns the source with spaces in place of comments and of the contents of literals, byte for byte: a place in the
/// copy is the same place in the file.
pub(crate) fn code_of(source: &str) -> String {
    let mut code = source.as_bytes().to_vec();
    let mut at = 0;
    while let Some(first) = source[at..].chars().next() {
        let Some((blank, length)) = no_code(&source[at..], source[..at].ends_with(is_word)) else {
            at += first.len_utf8();
            continue;
        };
        for byte in &mut code[at + blank.start..at + blank.end] {
            if *byte != b'\n' {
                *byte = b' ';
            }
        }
        at += length;
    }
    String::from_utf8(code).expect("only whole characters are blanked")
}

/// Returns the part to be blanked, and the length, of the comment or the literal with which `rest` begins.
fn no_code(rest: &str, in_word: bool) -> Option<(std::ops::Range<usize>, usize)> {
    let whole = |end: usize| Some((0..end, end));
    if rest.starts_with("//") {
        return whole(rest.find('\n').unwrap_or(rest.len()));
    }
    if rest.starts_with("/*") {
        // They nest.
        let marks = rest.match_indices("/*").chain(rest.match_indices("*/"));
        let mut marks: Vec<_> = marks.collect();
        marks.sort_unstable();
        let mut depth = 0;
        for (at, mark) in marks {
            depth += if mark == "/*" { 1 } else { -1 };
            if depth == 0 {
                return whole(at + 2);
            }
        }
        return whole(rest.len());
    }
    let raw = ["r", "br", "cr"]
        .into_iter()
        .filter(|_| !in_word)
        .find_map(|prefix| {
            let after = rest.strip_prefix(prefix)?;
            let hashes = after.len() - after.trim_start_matches('#').len();
            after[hashes..]
                .starts_with('"')
                .then_some((prefix.len() + hashes + 1, hashes))
        });
    if let Some((start, hashes)) = raw {
        let mark = format!("\"{}", "#".repeat(hashes));
        let end = rest[start..]
            .find(&mark)
            .map_or(rest.len(), |at| start + at);
        return Some((start..end, (end + mark.len()).min(rest.len())));
    }
    let quote = rest.chars().next()?;
    let mut letters = rest.chars().skip(1);
    let is_character = letters.next() == Some('\\') || letters.next() == Some('\'');
    if quote != '"' && !(quote == '\'' && is_character) {
        return None;
    }
    let mut escaped = false;
    let end = rest.char_indices().skip(1).find(|&(_, letter)| {
        let is_end = letter == quote && !escaped;
        escaped = letter == '\\' && !escaped;
        is_end
    });
    let end = end.map_or(rest.len(), |(at, _)| at);
    Some((1..end, (end + 1).min(rest.len())))
}

#[cfg(test)]
mod tests {
    use super::{File, code_of};

    #[test]
    fn comments_and_contents_of_literals_are_no_code() {
        for (source, code) in [
            (r#"a("x\"y", 'z')"#, r#"a("    ", ' ')"#),
            (r##"b(r#"x"y"#)"##, r##"b(r#"   "#)"##),
            (r#"c(b"x", br"y")"#, r#"c(b" ", br" ")"#),
            (r"d('\'', b'\\')", "d('  ', b'  ')"),
            ("\"unclosed", "\"        "),
            (
                "fn f<'a>(r: &'a str) { r#try(for_r) }",
                "fn f<'a>(r: &'a str) { r#try(for_r) }",
            ),
            ("a // b\nc", "a     \nc"),
            ("a /* b /* c */ d */ e", "a                   e"),
            ("let url = \"x://y\"; b", "let url = \"     \"; b"),
        ] {
            assert_eq!(code_of(source), code, "{source}");
        }
    }

    #[test]
    fn tests_are_told_from_the_rest_by_path_and_by_module() {
        let from = |path, text: &str| File::new(path, text.into()).tests_from();
        assert_eq!(
            from("src/a.rs", "fn a() {}\n#[cfg(test)]\nmod tests {}\n"),
            10
        );
        assert_eq!(from("src/a.rs", "fn a() {}\n"), 10);
        for path in [
            "src/a/tests.rs",
            "src/a/model.rs",
            "tests/a.rs",
            "src/a/tests/b.rs",
        ] {
            assert_eq!(from(path, "fn a() {}\n"), 0, "{path}");
        }
    }
}
