//! W3, H2: words that do not belong in comments and code.

use syn::{Expr, Stmt};

use super::Report;
use super::rust::{attributes, closing, places, words};
use super::tree::Tree;

/// Words that promise work for later, each in two halves so that this file does not contain them.
const PROMISES: [&str; 3] = [
    concat!("XX", "X"),
    concat!("FIX", "ME"),
    concat!("HA", "CK"),
];
/// A promise that is allowed if it cites an issue.
const PROMISE_WITH_ISSUE: &str = concat!("TO", "DO");
/// Macros that take the place of missing code.
const STANDINS: [&str; 3] = ["todo", "unimplemented", "dbg"];

const DO_IT: &str = "do it now, or open an issue and cite it";

pub(super) fn banned(tree: &Tree, report: &mut Report<'_>) {
    for (file, scan) in tree.rust() {
        for (line, text) in (1..).zip(scan.code.lines()) {
            check_promises(&file.path, line, text, report);
        }
        for comment in &scan.comments {
            check_promises(&file.path, comment.line, &comment.text, report);
        }
        for standin in STANDINS {
            for offset in places(&scan.code, standin) {
                if scan.code[offset + standin.len()..].starts_with('!') {
                    report.error(
                        &file.path,
                        scan.line_of(offset),
                        format!("{standin}! stands in for code"),
                        "write the code, or return an error",
                    );
                }
            }
        }
    }
    for file in tree.with_extension("toml") {
        for (line, text) in file.lines() {
            check_promises(&file.path, line, text, report);
        }
    }
}

fn check_promises(path: &str, line: usize, text: &str, report: &mut Report<'_>) {
    for (offset, word) in words(text) {
        let rest = &text[offset + word.len()..];
        if PROMISES.contains(&word) || (word == PROMISE_WITH_ISSUE && !cites_issue(rest)) {
            report.error(path, line, format!("the word {word}"), DO_IT);
        }
    }
}

/// Returns true if `rest` begins with a citation such as `(#12)`.
fn cites_issue(rest: &str) -> bool {
    rest.strip_prefix("(#")
        .and_then(|rest| rest.split_once(')'))
        .is_some_and(|(number, _)| !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()))
}

pub(super) fn commented_out_code(tree: &Tree, report: &mut Report<'_>) {
    for (file, scan) in tree.rust() {
        let ordinary = scan.comments.iter().filter(|comment| !comment.is_doc);
        for comment in ordinary.filter(|comment| is_code(&comment.text)) {
            report.error(
                &file.path,
                comment.line,
                "code in a comment",
                "delete it; the history keeps it",
            );
        }
    }
}

/// Returns true if a line of a comment is a statement, or the beginning of a block.
///
/// A line is a statement if the language's parser accepts it as a statement. A single word or name with a semicolon is
/// allowed, because the end of a sentence can look the same.
fn is_code(text: &str) -> bool {
    let text = text.trim();
    let whole = if text.ends_with('{') {
        format!("{text}}}")
    } else if text.ends_with(';') {
        text.to_owned()
    } else {
        return false;
    };
    match syn::parse_str::<Stmt>(&whole) {
        Ok(Stmt::Expr(Expr::Path(_) | Expr::Lit(_) | Expr::Paren(_) | Expr::Tuple(_), _)) => false,
        Ok(_) => true,
        Err(_) => false,
    }
}

pub(super) fn reasons(tree: &Tree, report: &mut Report<'_>) {
    for (file, scan) in tree.rust() {
        let code = &scan.code;
        for attribute in attributes(code) {
            let content = &code[attribute.clone()];
            for (offset, word) in words(content) {
                let open = offset + word.len();
                let is_level = ["allow", "expect"].contains(&word);
                if !is_level || !content[open..].starts_with('(') {
                    continue;
                }
                let close = closing(content, open).unwrap_or(content.len());
                if places(&content[open..close], "reason").next().is_none() {
                    report.error(
                        &file.path,
                        scan.line_of(attribute.start + offset),
                        format!("{word} without a reason"),
                        "add reason = \"...\"",
                    );
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{PROMISE_WITH_ISSUE, PROMISES, banned, commented_out_code, reasons};
    use crate::tidy::samples::{CLEAN, lines};

    #[test]
    fn promises_are_found_in_comments_and_code_but_not_in_text() {
        for word in PROMISES.into_iter().chain([PROMISE_WITH_ISSUE]) {
            let comment = format!("fn a() {{}}\n// {word}: later.\n");
            assert_eq!(lines(banned, "a.rs", &comment), [2], "{word}");
            let code = format!("const {word}: u8 = 1;\n");
            assert_eq!(lines(banned, "a.rs", &code), [1], "{word}");
            let text = format!("const A: &str = \"{word}\";\n");
            assert_eq!(lines(banned, "a.rs", &text), CLEAN, "{word}");
            let longer = format!("// The {word}S are many, and {word}_A too.\n");
            assert_eq!(lines(banned, "a.rs", &longer), CLEAN, "{word}");
            let manifest = format!("[package]\n# {word}\n");
            assert_eq!(lines(banned, "Cargo.toml", &manifest), [2], "{word}");
        }
    }

    #[test]
    fn a_promise_that_cites_an_issue_is_let_pass() {
        let comment = |rest: &str| format!("// {PROMISE_WITH_ISSUE}{rest}: later.\n");
        assert_eq!(lines(banned, "a.rs", &comment("(#12)")), CLEAN);
        assert_eq!(lines(banned, "a.rs", &comment("(me)")), [1]);
        assert_eq!(lines(banned, "a.rs", &comment("(#)")), [1]);
    }

    #[test]
    fn standins_are_found_as_macros_only() {
        let text = "fn todo() {}\nfn a() {\n    todo!();\n    dbg!(1);\n    unimplemented!()\n}\n";
        let mut found = lines(banned, "a.rs", text);
        found.sort_unstable();
        assert_eq!(found, [3, 4, 5]);
    }

    #[test]
    fn code_in_comments_is_found() {
        for text in [
            "let a = 1;",
            "queue.insert(entry);",
            "self.len += 1;",
            "return;",
            "if queued {",
            "for entry in queue {",
            "fn old(a: u8) -> u8 {",
            "use core::fmt;",
            "println!(\"{a}\");",
        ] {
            assert_eq!(
                lines(commented_out_code, "a.rs", &format!("// {text}\n")),
                [1],
                "{text}"
            );
            assert_eq!(
                lines(commented_out_code, "a.rs", &format!("/// {text}\n")),
                CLEAN,
                "{text}"
            );
        }
    }

    #[test]
    fn prose_with_a_semicolon_is_let_pass() {
        for text in [
            "Relaxed;",
            "It is linked in exactly one queue;",
            "the owner's store, compiler fence, load;",
            "(see above);",
            "SAFETY: the tree owns no entry;",
            "one of {",
            "if the owner waits {",
            "`a.b();`",
            "let it be",
        ] {
            assert_eq!(
                lines(commented_out_code, "a.rs", &format!("// {text}\n")),
                CLEAN,
                "{text}"
            );
        }
    }

    #[test]
    fn levels_without_a_reason_are_found() {
        let good = "#[expect(unused, reason = \"x\")]\n#![allow(dead_code, reason = \"y\")]\n\
                    #[should_panic(expected = \"z\")]\nfn a() { b.expect(\"c\"); }\n";
        assert_eq!(lines(reasons, "a.rs", good), CLEAN);
        let bad = "#[allow(unused)]\n#![expect(\n    dead_code,\n)]\n\
                   #[cfg_attr(loom, allow(unused))]\nfn a() {}\n";
        assert_eq!(lines(reasons, "a.rs", bad), [1, 2, 5]);
    }
}
