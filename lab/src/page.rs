//! Pages about what was measured or simulated: one file that needs nothing else, for eyes, keyboards and readers.

use std::ffi::OsStr;
use std::path::PathBuf;

use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::failure::Failure;
use crate::hash::Hash;
use crate::output::{OutFile, Place};
use crate::plot::Drawn;

/// The style sheet: one column, tables that scroll, dark or light as the reader has it, and print.
pub(crate) const STYLE: &str = include_str!("page.css");

/// Prepares the file of `--report`, if it was given.
pub(crate) fn prepare(report: Option<&PathBuf>) -> Result<Option<OutFile>, Failure> {
    let Some(path) = report else {
        return Ok(None);
    };
    if path == OsStr::new("-") {
        return Err(Failure::Input(
            "--report - would mix the page with the table; give it a file name".to_owned(),
        ));
    }
    OutFile::prepare(&Place::File(path.clone())).map(Some)
}

/// The whole page.
pub(crate) fn page(title: &str, body: &Markup) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (title) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                h1 { (title) }
                (body)
                h2 { "The same again" }
                pre { (crate::command_line()) }
                p.note { "tickless " (env!("CARGO_PKG_VERSION")) "." }
            }
        }
    };
    page.into_string()
}

/// A plot with what to say about it, and its figures.
pub(crate) fn figure(drawn: Drawn, caption: &Markup) -> Markup {
    let name = plain(&caption.0);
    let is_large = drawn.narrow.is_some();
    html! {
        figure {
            @if let Some(narrow) = &drawn.narrow {
                div.for-wide { (PreEscaped(named(&drawn.wide, &name, "wide"))) }
                div.for-narrow { (PreEscaped(named(narrow, &name, "narrow"))) }
            } @else {
                (PreEscaped(named(&drawn.wide, &name, "any")))
            }
            figcaption { (caption) }
            @if is_large {
                details { summary { "The figures" } (drawn.data) }
            } @else {
                // Beside each bar already, for those who see it.
                div.unseen { (drawn.data) }
            }
        }
    }
}

/// The words of a caption.
fn plain(markup: &str) -> String {
    let mut text = String::new();
    let mut is_inside = true;
    for letter in markup.chars() {
        match letter {
            '<' => is_inside = false,
            '>' => is_inside = true,
            _ if is_inside => text.push(letter),
            _ => {}
        }
    }
    text
}

/// A drawing with a name for those who do not see it. `name` is escaped already.
fn named(svg: &str, name: &str, kind: &str) -> String {
    let mut hash = Hash::new();
    hash.add(svg);
    hash.add(kind);
    let id = format!("plot-{}", hash.text());
    let root = format!("<svg role=\"img\" aria-labelledby=\"{id}\" ");
    let svg = svg.replacen("<svg ", &root, 1);
    let title = format!("><title id=\"{id}\">{name}</title>");
    svg.replacen('>', &title, 1)
}

/// Columns beyond which a page has room for small letters only.
const MANY: usize = 8;
/// Columns that a narrow page has room for.
const FEW: usize = 4;

/// A table that scrolls sideways where there is no room, says so, and can be scrolled with keys. The first `left`
/// columns are names.
pub(crate) fn table<H: AsRef<str>>(head: &[H], left: usize, rows: &[Vec<String>]) -> Markup {
    html! {
        div.wide.many[head.len() > FEW] tabindex="0" role="region" aria-label="Table, which scrolls sideways" {
            table style=[(head.len() > MANY).then_some("font-size:.85rem")] {
                thead { tr { @for (place, cell) in head.iter().enumerate() {
                    th scope="col" style=[(place < left).then_some("text-align:left")] { (cell.as_ref()) }
                } } }
                tbody { @for row in rows { tr { @for (place, cell) in row.iter().enumerate() {
                    @if place < left { th scope="row" { (cell) } } @else { td { (cell) } }
                } } } }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{figure, table};
    use crate::plot::{Bar, COLOURS, bars};
    use maud::html;

    #[test]
    fn drawings_have_names_and_their_figures_in_words() {
        let bar = Bar {
            colour: COLOURS[0],
            name: "one".to_owned(),
            value: 1.0,
            text: "1 a second".to_owned(),
        };
        let drawn = bars(&[bar]).expect("it can be drawn");
        let page = figure(drawn, &html! { "Wakes & " b { "sleeps" } }).into_string();
        let (_, id) = page
            .split_once("<svg role=\"img\" aria-labelledby=\"")
            .expect("a role");
        let (id, _) = id.split_once('"').expect("an id");
        let title = format!("<title id=\"{id}\">Wakes &amp; sleeps</title>");
        assert!(page.contains(&title), "{page}");
        assert!(page.contains("<li>one: 1 a second</li>"), "{page}");
    }

    #[test]
    fn tables_that_may_scroll_say_so_and_can_be_reached_with_keys() {
        let row = vec!["a".to_owned(), "1".to_owned()];
        let few = table(&["name", "n"], 1, &[row]).into_string();
        assert!(few.contains("tabindex=\"0\" role=\"region\""), "{few}");
        assert!(!few.contains("class=\"wide many\""), "{few}");
        let many = table(&["a", "b", "c", "d", "e"], 1, &[]).into_string();
        assert!(many.contains("class=\"wide many\""), "{many}");
    }
}
