//! The manual pages of the C interface, in section 3, made from the comments in its headers.
//!
//! A comment and the prototypes after it make one page. Lines of the comment that begin with `name:` describe one of
//! those functions. The comment at the beginning of the header is `tickless(3)`. Each function also gets a link of its
//! own name to the page that describes it. `cargo run -p tickless-capi --example manual -- target/man` writes them.
#![expect(clippy::print_stdout, reason = "it says what it wrote")]

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

const HEADERS: [&str; 2] = ["tickless.h", "tickless-posix.h"];
const INCLUDE: &str = "crates/tickless-capi/include";
/// The date of the last change of the interface that the pages describe.
const DATE: &str = "2026-11-27";

/// Each page, with the prefix of its functions, and the line in which the page gives its name.
const PAGES: [Subject; 9] = [
    Subject::new(
        "tickless_abi_version",
        "the version of the C interface of Tickless",
    ),
    Subject::new("tickless_clock_now", "read a clock of Tickless"),
    Subject::new(
        "tickless_clock_nanosleep",
        "sleep without the slack of the system",
    ),
    Subject::new("tickless_loop", "timers in an event loop"),
    Subject::new("tickless_worker", "a thread that waits for its timers"),
    Subject::new("tickless_timeout", "coarse timers"),
    Subject::new("tickless_timer", "exact timers"),
    Subject::new("tickless_posix", "POSIX timers in user space"),
    Subject::new("tickless", "exact and coarse timers for C and C++"),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Subject {
    name: &'static str,
    line: &'static str,
}

impl Subject {
    const fn new(name: &'static str, line: &'static str) -> Self {
        Self { name, line }
    }
}

fn main() -> Result<(), String> {
    let place = std::env::args_os()
        .nth(1)
        .ok_or("name the directory for the pages, as in: manual share/man")?;
    let place = Path::new(&place);
    let count = install(&root(), place, env!("CARGO_PKG_VERSION"))?;
    println!("{count} manual pages are in {}", place.display());
    Ok(())
}

/// Returns the root of the checkout.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Writes all pages below `place`; returns the number of pages.
fn install(root: &Path, place: &Path, version: &str) -> Result<usize, String> {
    let section = place.join("man3");
    fs::create_dir_all(&section).map_err(|error| format!("{}: {error}", section.display()))?;
    let pages = pages(root, version)?;
    for (name, page) in &pages {
        let path = section.join(format!("{name}.3"));
        let _there_was_none = fs::remove_file(&path);
        let put = match page {
            Page::Text(text) => fs::write(&path, text),
            Page::SameAs(other) => symlink(format!("{other}.3"), &path),
        };
        put.map_err(|error| format!("{}: {error}", path.display()))?;
    }
    Ok(pages.len())
}

/// The text of a page, or a link from the name of a function to the page that describes it.
#[derive(Debug, PartialEq, Eq)]
enum Page {
    Text(String),
    SameAs(String),
}

/// Returns each page and its text.
fn pages(root: &Path, version: &str) -> Result<Vec<(String, Page)>, String> {
    let mut pages: Vec<(String, Page)> = Vec::new();
    for header in HEADERS {
        let path = root.join(INCLUDE).join(header);
        let text =
            fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        for part in parts(header, &text)? {
            let name = part.subject.name;
            if pages.iter().any(|(other, _)| other == name) {
                return Err(format!("{header}: two comments are the page {name}"));
            }
            for function in part.functions().filter(|function| *function != name) {
                pages.push((function.to_owned(), Page::SameAs(name.to_owned())));
            }
            pages.push((name.to_owned(), Page::Text(part.page(version))));
        }
    }
    Ok(pages)
}

/// A comment, and the declarations after it.
#[derive(Debug)]
struct Part {
    subject: Subject,
    header: &'static str,
    comment: Vec<String>,
    prototypes: Vec<String>,
    /// The definitions of structures that callers fill, word by word.
    structures: Vec<String>,
}

/// Splits a header into its parts.
fn parts(header: &'static str, text: &str) -> Result<Vec<Part>, String> {
    let mut parts: Vec<Part> = Vec::new();
    let mut structures = Vec::new();
    let mut comment: Vec<String> = Vec::new();
    let mut lines = text.lines().peekable();
    let mut is_first = true;
    while let Some(line) = lines.next() {
        if line.starts_with("/*") {
            comment = comment_of(line, &mut lines);
            if is_first {
                is_first = false;
                let name = if header == "tickless.h" {
                    "tickless"
                } else {
                    "tickless_posix"
                };
                let part = Part::new(subject_of(name)?, header, std::mem::take(&mut comment));
                parts.push(part);
            }
        } else if line.starts_with("struct ") && line.ends_with("config {") {
            let mut whole = vec![line.to_owned()];
            whole.extend(
                lines
                    .by_ref()
                    .take_while(|line| !line.is_empty())
                    .map(str::to_owned),
            );
            structures.append(&mut whole);
            comment.clear();
        } else if line.ends_with(");") && !line.starts_with("typedef") && line.contains("tickless_")
        {
            if comment.is_empty() {
                let last = parts.last_mut().ok_or("a prototype before all comments")?;
                last.prototypes.push(line.to_owned());
                continue;
            }
            let function = function_of(line);
            let subject = if header == "tickless-posix.h" && function != "tickless_clock_nanosleep"
            {
                // They are the page of the header itself.
                let part = parts.first_mut().ok_or("a header without a comment")?;
                part.comment.push(String::new());
                part.comment.append(&mut comment);
                part.prototypes.push(line.to_owned());
                continue;
            } else {
                subject_of(function)?
            };
            let mut part = Part::new(subject, header, std::mem::take(&mut comment));
            part.prototypes.push(line.to_owned());
            if subject.name == "tickless_timer" {
                part.structures.append(&mut structures);
            }
            parts.push(part);
        }
    }
    Ok(parts)
}

/// Returns the page whose prefix is the longest with which the function begins.
fn subject_of(function: &str) -> Result<Subject, String> {
    let mut fits: Vec<_> = { PAGES.iter().copied() }
        .filter(|subject| {
            function == subject.name || function.starts_with(&format!("{}_", subject.name))
        })
        .collect();
    fits.sort_by_key(|subject| subject.name.len());
    fits.pop()
        .ok_or_else(|| format!("no page is for {function}"))
}

/// Returns the name of the function that a prototype declares.
fn function_of(prototype: &str) -> &str {
    let before = prototype.split('(').next().unwrap_or_default();
    before.rsplit([' ', '*']).next().unwrap_or_default()
}

/// Returns the lines of a comment, without its stars.
fn comment_of<'a>(first: &str, lines: &mut impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut comment = Vec::new();
    let mut line = first;
    loop {
        let is_last = line.contains("*/");
        let text = line
            .trim_start_matches("/*")
            .trim_end_matches("*/")
            .trim_end();
        let text = text.strip_prefix(" *").unwrap_or(text);
        let text = text.strip_prefix(' ').unwrap_or(text);
        if !(text.is_empty() && comment.is_empty()) {
            comment.push(text.to_owned());
        }
        if is_last {
            break;
        }
        match lines.next() {
            Some(next) if next.trim() != "*/" => line = next,
            _ => break,
        }
    }
    comment
}

impl Part {
    fn new(subject: Subject, header: &'static str, comment: Vec<String>) -> Self {
        Self {
            subject,
            header,
            comment,
            prototypes: Vec::new(),
            structures: Vec::new(),
        }
    }

    fn functions(&self) -> impl Iterator<Item = &str> {
        self.prototypes
            .iter()
            .map(|prototype| function_of(prototype))
    }

    fn page(&self, version: &str) -> String {
        let Subject { name, line } = self.subject;
        let mut page = String::new();
        let mut put = |text: &str| {
            // Writing to a string succeeds.
            let _written = writeln!(page, "{text}");
        };
        put(&format!(
            ".TH {} 3 {DATE} \"tickless {version}\" \"Tickless\"",
            name.to_uppercase()
        ));
        put(".SH NAME");
        let names: Vec<&str> = self
            .functions()
            .filter(|function| *function != name)
            .collect();
        let mut all = vec![name];
        all.extend(names);
        put(&format!("{} \\- {line}", all.join(",\n")));
        put(".SH LIBRARY");
        put("Tickless (\\-ltickless, or pkg\\-config tickless)");
        put(".SH SYNOPSIS");
        put(".nf");
        put(&format!("#include <{}>", escaped(self.header)));
        for prototype in self.structures.iter().chain(&self.prototypes) {
            put(&escaped(prototype));
        }
        put(".fi");
        put(".SH DESCRIPTION");
        for line in described(&self.comment) {
            put(&line);
        }
        put(".SH \"RETURN VALUE\"");
        put("A number that is not negative, or a negative number of");
        put(".BR errno (3),");
        put("but for");
        put(".BR tickless_abi_version (3).");
        put(".SH \"SEE ALSO\"");
        let others: Vec<_> = PAGES.iter().filter(|page| page.name != name).collect();
        for (index, other) in others.iter().enumerate() {
            let comma = if index + 1 < others.len() { "," } else { "" };
            put(&format!(".BR {} (3){comma}", other.name));
        }
        page
    }
}

/// Returns the lines of a comment in the language of manual pages.
fn described(comment: &[String]) -> Vec<String> {
    let mut lines = Vec::new();
    let mut is_item = false;
    for line in comment {
        let name = line.split_once(':').filter(|(name, text)| {
            let letters = |letter: char| letter.is_ascii_lowercase() || letter == '_';
            !name.is_empty() && name.chars().all(letters) && text.starts_with(' ')
        });
        if line.is_empty() {
            if lines
                .last()
                .is_some_and(|last: &String| !last.starts_with('.'))
            {
                lines.push(".PP".to_owned());
            }
            is_item = false;
        } else if let Some((name, text)) = name {
            if lines.last().is_some_and(|last| last == ".PP") {
                lines.pop();
            }
            lines.push(".TP".to_owned());
            lines.push(format!(".B {name}"));
            lines.push(escaped(text.trim()));
            is_item = true;
        } else if is_item && !line.starts_with(' ') {
            lines.push(".PP".to_owned());
            lines.push(escaped(line));
            is_item = false;
        } else {
            lines.push(escaped(line.trim()));
        }
    }
    while lines.last().is_some_and(|last| last == ".PP") {
        lines.pop();
    }
    lines
}

/// Escapes a line so that its beginning has no special meaning, and its hyphens stay hyphens.
fn escaped(line: &str) -> String {
    let line = line.replace('\\', "\\e").replace('-', "\\-");
    if line.starts_with(['.', '\'']) {
        format!("\\&{line}")
    } else {
        line
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::{Page, escaped, function_of, pages, root, subject_of};

    fn all() -> Vec<(String, Page)> {
        pages(&root(), "1.2.3").unwrap()
    }

    fn page(name: &str) -> String {
        match all().into_iter().find(|(other, _)| other == name) {
            Some((_, Page::Text(text))) => text,
            other => panic!("{name} is {other:?}"),
        }
    }

    #[test]
    fn each_function_of_the_headers_has_a_page() {
        let all = all();
        let mut functions = 0;
        for header in super::HEADERS {
            let text = std::fs::read_to_string(root().join(super::INCLUDE).join(header)).unwrap();
            for line in text
                .lines()
                .filter(|line| line.ends_with(");") && !line.starts_with("typedef"))
            {
                let function = function_of(line);
                assert!(all.iter().any(|(name, _)| name == function), "{function}");
                functions += 1;
            }
        }
        assert!(functions > 30, "{functions}");
    }

    #[test]
    fn a_page_has_the_prototypes_and_what_the_comment_says_of_each() {
        let text = page("tickless_loop");
        assert!(
            text.contains("int tickless_loop_turn(struct tickless_loop *loop);\n"),
            "{text}"
        );
        assert!(
            text.contains(".TP\n.B turn\ncalls the callbacks of what is due"),
            "{text}"
        );
        assert!(text.contains("\\-EDEADLK"), "{text}");
        let same = Page::SameAs("tickless_loop".to_owned());
        assert!(all().contains(&("tickless_loop_turn".to_owned(), same)));
        assert!(page("tickless_timer").contains("size_t size;"));
        assert!(page("tickless_posix").contains(".B getoverrun"));
    }

    #[test]
    fn the_pages_are_as_the_programs_that_show_them_want_them() {
        let place = std::env::temp_dir().join(format!("tickless-man-{}", std::process::id()));
        super::install(&root(), &place, "1.2.3").unwrap();
        let mut paths: Vec<_> = std::fs::read_dir(place.join("man3"))
            .unwrap()
            .map(|entry| format!("man3/{}", entry.unwrap().file_name().display()))
            .collect();
        paths.sort();
        let mut complaints = String::new();
        for (program, options) in [
            ("mandoc", ["-T", "lint", "-W", "warning"].as_slice()),
            ("man", &["--warnings", "--local-file"]),
        ] {
            for path in &paths {
                let shown = Command::new(program)
                    .args(options)
                    .arg(path)
                    .current_dir(&place)
                    .output();
                match shown {
                    Ok(shown) if shown.status.success() && shown.stderr.is_empty() => {}
                    Ok(shown) => complaints += &format!("{program} {path}: {shown:?}\n"),
                    Err(_) => {
                        println!("skipped: the check by {program}, because there is no {program}");
                        break;
                    }
                }
            }
        }
        std::fs::remove_dir_all(&place).unwrap();
        assert_eq!(complaints, "");
    }

    #[test]
    fn functions_belong_to_the_page_with_the_longest_name() {
        assert_eq!(
            subject_of("tickless_timeout_start").unwrap().name,
            "tickless_timeout"
        );
        assert_eq!(
            subject_of("tickless_clock_now").unwrap().name,
            "tickless_clock_now"
        );
        assert!(subject_of("other").is_err());
    }

    #[test]
    fn what_is_special_is_escaped() {
        assert_eq!(escaped(".x \\ -1"), "\\&.x \\e \\-1");
    }
}
