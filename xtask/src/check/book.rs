//! The check of the book of the pages: mdbook builds the book, and the step follows each link in it to its file and its
//! heading.
//!
//! `tidy` compares the links of the sources with the files that git tracks. It does not see the result: a page that the
//! table of contents lacks, a heading whose anchor mdbook spells in another way, an image that is not copied.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

use super::run::Run;
use crate::files;
use crate::invocation::{Invocation, is_installed};

/// The program that builds the book of the pages.
const BOOK: &str = "mdbook";
/// Pages that repeat the links of other pages, or whose links begin at the root of a server.
const COPIES: [&str; 3] = ["print.html", "404.html", "toc.html"];

/// Builds the book if the machine has mdbook, and refuses links that lead nowhere in it.
pub(super) fn build(run: &mut Run<'_>) -> Result<(), String> {
    if !is_installed(BOOK) {
        run.skip("the book of the pages", "there is no mdbook");
        return Ok(());
    }
    let directory = files::target(run.root()).join("book");
    let shown = directory.display().to_string();
    run.invoke(&Invocation::new(BOOK).args(&["build", "--dest-dir", &shown]))?;
    let broken = broken_links(&read(&directory)?);
    if broken.is_empty() {
        return Ok(());
    }
    Err(format!(
        "links of the book that lead nowhere:\n{}",
        broken.join("\n")
    ))
}

/// The files of a book by their paths relative to the book. Pages have their text, and other files have none.
type Book = BTreeMap<PathBuf, Option<String>>;

fn read(directory: &Path) -> Result<Book, String> {
    let mut found = Book::new();
    let mut waiting = vec![directory.to_owned()];
    let fails =
        |path: &Path, error: std::io::Error| format!("cannot read {}: {error}", path.display());
    while let Some(inner) = waiting.pop() {
        for entry in std::fs::read_dir(&inner).map_err(|error| fails(&inner, error))? {
            let path = entry.map_err(|error| fails(&inner, error))?.path();
            if path.is_dir() {
                waiting.push(path);
                continue;
            }
            let is_page = path.extension().is_some_and(|end| end == "html");
            let text = is_page.then(|| std::fs::read_to_string(&path)).transpose();
            let text = text.map_err(|error| fails(&path, error))?;
            let below = path.strip_prefix(directory).unwrap_or(&path);
            found.insert(below.to_owned(), text);
        }
    }
    Ok(found)
}

/// Returns a line for each link of a page to a file or a heading that the book lacks.
fn broken_links(book: &Book) -> Vec<String> {
    let ids: BTreeMap<&Path, BTreeSet<&str>> = book
        .iter()
        .filter_map(|(path, text)| Some((path.as_path(), values(text.as_ref()?, "id").collect())))
        .collect();
    let mut broken = BTreeSet::new();
    for (page, text) in book {
        let is_copy = COPIES.iter().any(|copy| page == Path::new(copy));
        let Some(text) = text.as_ref().filter(|_| !is_copy) else {
            continue;
        };
        for link in values(text, "href").chain(values(text, "src")) {
            if link.contains(':') || link.is_empty() {
                continue;
            }
            let (file, heading) = link.split_once('#').unwrap_or((link, ""));
            let target = resolved(page, file);
            let is_there = target.as_ref().is_some_and(|target| {
                let is_known = || {
                    ids.get(target.as_path())
                        .is_some_and(|ids| ids.contains(heading))
                };
                book.contains_key(target) && (heading.is_empty() || is_known())
            });
            if !is_there {
                broken.insert(format!("{}: {link}", page.display()));
            }
        }
    }
    broken.into_iter().collect()
}

/// Returns the values of `attribute` in the tags of `page`. Text and code have their quotes or brackets escaped, so
/// they match no tag.
fn values<'p>(page: &'p str, attribute: &str) -> impl Iterator<Item = &'p str> {
    let begin = format!(" {attribute}=\"");
    let tags = page.split('<').skip(1);
    tags.filter_map(move |tag| {
        let (tag, _) = tag.split_once('>')?;
        let (_, value) = tag.split_once(&begin)?;
        Some(value.split_once('"')?.0)
    })
}

/// Returns the path, relative to the book, of the file that `page` names as `file`; `None` if it is outside the book.
fn resolved(page: &Path, file: &str) -> Option<PathBuf> {
    if file.is_empty() {
        return Some(page.to_owned());
    }
    let mut path = page.parent()?.to_owned();
    for part in Path::new(file).components() {
        match part {
            Component::Normal(name) => path.push(name),
            Component::CurDir => {}
            Component::ParentDir if path.pop() => {}
            _ => return None,
        }
    }
    Some(path)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::{Book, broken_links};

    fn book(pages: &[(&str, &str)]) -> Book {
        let files = pages.iter().map(|(path, text)| {
            let is_page = path.ends_with(".html");
            (PathBuf::from(path), is_page.then(|| (*text).to_owned()))
        });
        files.collect()
    }

    #[test]
    fn links_to_files_and_headings_of_the_book_are_followed() {
        let guide = "<h2 id=\"cost\"><a class=\"header\" href=\"#cost\">Cost</a></h2><a href=\"spec/a.html#b\">b</a>\
                     <img src=\"picture.svg\"><a href=\"https://tokio.rs/#x\">t</a>&lt;a href=\"code\"";
        let spec = "<h1 id=\"b\">B</h1><a href=\"../guide.html\">guide</a>";
        let whole = [
            ("guide.html", guide),
            ("spec/a.html", spec),
            ("picture.svg", ""),
            ("print.html", "<a href=\"#lost\">"),
        ];
        assert_eq!(broken_links(&book(&whole)), [""; 0]);
        let lost =
            "<a href=\"lost.html\"><a href=\"a.html#c\"><a href=\"../../out.html\"><a href=\"#d\">";
        let broken = [
            ("guide.html", "<a href=\"spec/a.html#b\">"),
            ("spec/a.html", lost),
        ];
        assert_eq!(
            broken_links(&book(&broken)),
            [
                "guide.html: spec/a.html#b",
                "spec/a.html: #d",
                "spec/a.html: ../../out.html",
                "spec/a.html: a.html#c",
                "spec/a.html: lost.html",
            ]
        );
    }
}
