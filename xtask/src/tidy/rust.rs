//! The search for functions, parameters, fields and attributes in scanned code, by words and braces.

use std::ops::Range;

use super::scan::is_word;

/// A function, with or without a body.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Function<'c> {
    pub(super) name: &'c str,
    /// The offset of the word `fn`.
    pub(super) start: usize,
    /// The text between the parentheses.
    pub(super) parameters: Range<usize>,
    /// The offset of the last brace, if the function has a body.
    pub(super) end: Option<usize>,
}

/// A parameter or field with its type.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Typed<'c> {
    pub(super) offset: usize,
    pub(super) name: &'c str,
    pub(super) kind: &'c str,
}

/// Returns the words of `code` with their offsets.
pub(super) fn words(code: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let start = at + code[at..].find(is_word)?;
        let length = code[start..].find(|letter| !is_word(letter));
        at = length.map_or(code.len(), |length| start + length);
        Some((start, &code[start..at]))
    })
}

/// Returns the offsets at which `word` is a whole word.
pub(super) fn places<'c>(code: &'c str, word: &'c str) -> impl Iterator<Item = usize> + 'c {
    words(code)
        .filter(move |(_, found)| *found == word)
        .map(|(offset, _)| offset)
}

/// Returns the offset of the bracket that closes the bracket at `open`.
pub(super) fn closing(code: &str, open: usize) -> Option<usize> {
    let mut depth = 0_usize;
    for (index, letter) in code[open..].char_indices() {
        match letter {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return Some(open + index);
                }
            }
            _ => {}
        }
    }
    None
}

/// Returns all functions, including functions in macros.
pub(super) fn functions(code: &str) -> Vec<Function<'_>> {
    places(code, "fn")
        .filter_map(|start| function(code, start))
        .collect()
}

fn function(code: &str, start: usize) -> Option<Function<'_>> {
    let (name_start, name) = word_after(code, start + "fn".len())?;
    let open = after_generics(code, name_start + name.len())?;
    if !code[open..].starts_with('(') {
        return None;
    }
    let close = closing(code, open)?;
    Some(Function {
        name,
        start,
        parameters: open + 1..close,
        end: body(code, close + 1).and_then(|body| closing(code, body)),
    })
}

/// Returns the word that follows directly, with its offset.
fn word_after(code: &str, from: usize) -> Option<(usize, &str)> {
    let start = skip_space(code, from);
    let (offset, word) = words(&code[start..]).next()?;
    (offset == 0).then_some((start, word))
}

fn skip_space(code: &str, from: usize) -> usize {
    code.len() - code[from..].trim_start().len()
}

/// Returns the offset after the generic parameters, if there are any.
fn after_generics(code: &str, from: usize) -> Option<usize> {
    let start = skip_space(code, from);
    if !code[start..].starts_with('<') {
        return Some(start);
    }
    let mut depth = 0_usize;
    let mut previous = ' ';
    for (index, letter) in code[start..].char_indices() {
        match letter {
            '<' => depth += 1,
            // The arrows of `Fn() -> T` close nothing.
            '>' if previous != '-' && previous != '=' => depth -= 1,
            _ => {}
        }
        previous = letter;
        if depth == 0 {
            return Some(skip_space(code, start + index + 1));
        }
    }
    None
}

/// Returns the beginning of the body that follows a list of parameters or a name, if the item has one.
fn body(code: &str, from: usize) -> Option<usize> {
    let mut at = from;
    loop {
        let found = at + code[at..].find(['{', ';', '(', '['])?;
        match code.as_bytes()[found] {
            b'{' => return Some(found),
            b';' => return None,
            _ => at = closing(code, found)? + 1,
        }
    }
}

/// Returns the parameters of all functions and the named fields of all structures, enumerations and unions.
pub(super) fn typed(code: &str) -> Vec<Typed<'_>> {
    let mut found: Vec<Typed<'_>> = functions(code)
        .into_iter()
        .flat_map(|function| typed_in(code, function.parameters))
        .collect();
    for keyword in ["struct", "enum", "union"] {
        for start in places(code, keyword) {
            let name = word_after(code, start + keyword.len());
            let open = name.and_then(|(offset, name)| body(code, offset + name.len()));
            let close = open.and_then(|open| closing(code, open));
            if let (Some(open), Some(close)) = (open, close) {
                found.extend(typed_in(code, open + 1..close));
            }
        }
    }
    found
}

/// Returns every `name: type` in `range`, however deep it is nested.
fn typed_in(code: &str, range: Range<usize>) -> impl Iterator<Item = Typed<'_>> {
    let part = &code[range.clone()];
    words(part).filter_map(move |(offset, name)| {
        let after = part[offset + name.len()..].trim_start();
        let after = after.strip_prefix(':')?;
        if after.starts_with(':') {
            return None;
        }
        let length = after.find([',', ')', '}', '=']).unwrap_or(after.len());
        Some(Typed {
            offset: range.start + offset,
            name,
            kind: after[..length].trim(),
        })
    })
}

/// Returns the contents of all attributes, as ranges.
pub(super) fn attributes(code: &str) -> impl Iterator<Item = Range<usize>> + '_ {
    code.match_indices('#').filter_map(|(offset, _)| {
        let rest = code[offset + 1..].strip_prefix('!');
        let open = if rest.is_some() {
            offset + 2
        } else {
            offset + 1
        };
        if !code[open..].starts_with('[') {
            return None;
        }
        Some(open + 1..closing(code, open)?)
    })
}

/// Returns the beginning of the tests at the end of the file, if they are inline: a `mod` with a body under
/// `cfg(test)`.
pub(super) fn inline_tests(code: &str) -> Option<usize> {
    attributes(code)
        .filter(|range| {
            let mut words = words(&code[range.clone()]).map(|(_, word)| word);
            words.next() == Some("cfg") && words.any(|word| word == "test")
        })
        .find(|range| opens_module(code, range.end + 1))
        .map(|range| range.start - "#[".len())
}

/// Returns true if `mod name {` follows, after other attributes and a visibility.
fn opens_module(code: &str, from: usize) -> bool {
    let mut at = skip_space(code, from);
    while code[at..].starts_with("#[") {
        let Some(close) = closing(code, at + 1) else {
            return false;
        };
        at = skip_space(code, close + 1);
    }
    let Some(end) = code[at..].find(['{', ';']) else {
        return false;
    };
    code[at + end..].starts_with('{') && words(&code[at..at + end]).any(|(_, word)| word == "mod")
}

#[cfg(test)]
mod tests {
    use super::{attributes, functions, inline_tests, places, typed};

    #[test]
    fn functions_are_found_with_generics_and_without_bodies() {
        let code = "fn a<F: Fn(u8) -> [u8; 2]>(f: F) -> [u8; 2] { f(1) }\n\
                    trait T { fn b(&self); }\n\
                    type P = fn(u8) -> u8;\n\
                    macro_rules! m { ($n:ident) => { fn $n() {} } }\n\
                    wrap! { pub const fn c() where [u8; 1]: Sized { { } } }";
        let found = functions(code);
        let shown: Vec<(&str, &str, Option<&str>)> = found
            .iter()
            .map(|function| {
                let from_body = function.end.map(|end| &code[end - 1..=end]);
                (function.name, &code[function.parameters.clone()], from_body)
            })
            .collect();
        assert_eq!(
            shown,
            [
                ("a", "f: F", Some(" }")),
                ("b", "&self", None),
                ("c", "", Some(" }"))
            ]
        );
    }

    #[test]
    fn parameters_and_fields_are_found_with_their_types() {
        let code = "fn a(mut timeout: u64, f: &dyn Fn(u8)) { let local: u64 = 1; }\n\
                    pub struct S<T> { pub(crate) slack_ns: i64, inner: std::vec::Vec<T> }\n\
                    enum E { V { delay_ms: u128 }, W(u64) }\n\
                    struct Unit;\n\
                    struct Tuple(u64);\n\
                    fn later(x: u8) {}";
        let shown: Vec<(&str, &str)> = typed(code)
            .into_iter()
            .map(|typed| (typed.name, typed.kind))
            .collect();
        assert_eq!(
            shown,
            [
                ("timeout", "u64"),
                ("f", "&dyn Fn(u8"),
                ("x", "u8"),
                ("slack_ns", "i64"),
                ("inner", "std::vec::Vec<T>"),
                ("delay_ms", "u128"),
            ]
        );
    }

    #[test]
    fn attributes_are_found_whole() {
        let code = "#![a(b[c])]\n#[d]\nfn e() { x[0] }";
        let shown: Vec<&str> = attributes(code).map(|range| &code[range]).collect();
        assert_eq!(shown, ["a(b[c])", "d"]);
    }

    #[test]
    fn only_tests_inside_the_file_are_inline() {
        let start =
            |code: &str| inline_tests(code).map(|offset| 1 + code[..offset].matches('\n').count());
        assert_eq!(start("a\n#[cfg(test)]\nmod tests;\nb"), None);
        assert_eq!(start("a\n#[cfg(test)]\nmod tests {\n}"), Some(2));
        assert_eq!(
            start("#[cfg(all(test, not(loom)))]\n#[x]\npub(crate) mod samples {}"),
            Some(1)
        );
        assert_eq!(start("#[cfg(test)]\nuse a::{b};\n"), None);
        assert_eq!(start("#[cfg(loom)]\nmod model {}"), None);
    }

    #[test]
    fn a_word_stands_alone_or_not_at_all() {
        let found: Vec<usize> = places("unsafe_code unsafe {} not_unsafe", "unsafe").collect();
        assert_eq!(found, [12]);
    }
}
