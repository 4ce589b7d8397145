//! The prose of a file: all of a page, and the comments and texts of a program.

use super::tree::{File, Tree};

/// A run of letters, digits and the characters `-`, `.` and `_`, without those at its ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Token<'t> {
    /// The number of the line, counted from one.
    pub(super) line: usize,
    /// The offset of the word in the file.
    pub(super) offset: usize,
    pub(super) text: &'t str,
}

/// Returns the files that are written for people, entirely or in part: pages and programs.
pub(super) fn written(tree: &Tree) -> impl Iterator<Item = &File> {
    tree.files()
        .iter()
        .filter(|file| matches!(file.extension(), Some("rs" | "md")))
}

/// Returns the words of the prose in `file`.
pub(super) fn tokens(file: &File) -> Vec<Token<'_>> {
    let code = file.scan().map(|scan| scan.code.as_bytes());
    // A character that the scanner left is code.
    let is_prose =
        |offset: usize, letter: char| letter != ' ' && code.is_none_or(|code| code[offset] == b' ');
    let is_part = |letter: char| letter.is_alphanumeric() || ['-', '.', '_'].contains(&letter);
    let mut found = Vec::new();
    let mut start = 0;
    for (line, text) in (1..).zip(file.text.split_inclusive('\n')) {
        let mut from = None;
        for (index, letter) in text.char_indices() {
            if is_part(letter) && is_prose(start + index, letter) {
                from.get_or_insert(index);
            } else if let Some(from) = from.take() {
                push(&mut found, line, start, text, from..index);
            }
        }
        if let Some(from) = from {
            push(&mut found, line, start, text, from..text.len());
        }
        start += text.len();
    }
    found
}

fn push<'t>(
    found: &mut Vec<Token<'t>>,
    line: usize,
    start: usize,
    text: &'t str,
    range: std::ops::Range<usize>,
) {
    let at_ends = ['-', '.', '_'];
    let whole = &text[range.clone()];
    let cut = whole.trim_start_matches(at_ends);
    let offset = start + range.start + (whole.len() - cut.len());
    let cut = cut.trim_end_matches(at_ends);
    if !cut.is_empty() {
        found.push(Token {
            line,
            offset,
            text: cut,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::tokens;
    use crate::tidy::tree::Tree;

    fn words(path: &str, text: &str) -> Vec<(usize, String)> {
        let tree = Tree::of(&[(path, text)]);
        tokens(&tree.files()[0])
            .into_iter()
            .map(|token| {
                assert!(text[token.offset..].starts_with(token.text));
                (token.line, token.text.to_owned())
            })
            .collect()
    }

    #[test]
    fn a_program_says_what_its_comments_and_texts_say() {
        let text = "/// Spec X-4.5, `INV-1`.\nlet a_b = \"lost: R36\"; // end-of-line\n";
        assert_eq!(
            words("a.rs", text),
            [
                (1, "Spec".into()),
                (1, "X-4.5".into()),
                (1, "INV-1".into()),
                (2, "lost".into()),
                (2, "R36".into()),
                (2, "end-of-line".into()),
            ]
        );
    }

    #[test]
    fn a_page_says_all_of_it() {
        assert_eq!(
            words("a.md", "# A\n\n(b.rs)."),
            [(1, "A".into()), (3, "b.rs".into())]
        );
    }
}
