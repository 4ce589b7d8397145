//! HTML pages about measurements and simulations: each is one file without dependencies, usable with a mouse, a
//! keyboard or a screen reader.

use std::ffi::OsStr;
use std::path::PathBuf;

use clap::builder::{PathBufValueParser, TypedValueParser};
use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::failure::Failure;
use crate::hash::Hash;
use crate::output::{OutFile, Place};
use crate::plot::{Drawn, Ink};
use crate::shown;

/// The style sheet: one column, tables that scroll, dark or light as the reader has it, and print.
pub(crate) const STYLE: &str = include_str!("page.css");

/// Returns the legend of a plot: the name of each series next to a piece of its line.
pub(crate) fn legend<'n>(entries: impl IntoIterator<Item = (Ink, &'n str)>) -> Markup {
    html! {
        p.legend { @for (ink, name) in entries { span class=(ink.class) { (name) } } }
    }
}

/// A figure at the top of a page, with its description.
#[derive(Clone, Debug)]
pub(crate) struct Number {
    pub(crate) figure: String,
    pub(crate) what: String,
}

/// Returns the few figures at the top of a page.
pub(crate) fn numbers(numbers: &[Number]) -> Markup {
    html! {
        div.numbers { @for number in numbers { p { b { (number.figure) } span { (number.what) } } } }
    }
}

/// Wraps the part of a page that follows the plot at its top.
pub(crate) fn all_figures(body: &Markup) -> Markup {
    html! { details.all { summary { "All figures" } (body) } }
}

/// Returns the parser for the value of `--report`. A wrong value is refused before the command does any work.
pub(crate) fn file() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().try_map(|path| {
        if path == OsStr::new("-") {
            return Err("it would mix the page with the table; give it a file name");
        }
        Ok(path)
    })
}

/// Prepares the file of `--report`, if it was given.
pub(crate) fn prepare(report: Option<&PathBuf>) -> Result<Option<OutFile>, Failure> {
    report
        .map(|path| OutFile::prepare(&Place::File(path.clone())))
        .transpose()
}

/// Returns a page with its headings.
pub(crate) fn page(title: &str, body: &Markup) -> String {
    let title = &*shown::line(title);
    let body = html! {
        h1 { (title) }
        (body)
        h2 { "The same again" }
        pre { @for (place, word) in crate::command_line().split(' ').enumerate() {
            @if place > 0 { " " } span.word { (word) }
        } }
        p.note { "tickless " (env!("CARGO_PKG_VERSION")) "." }
    };
    whole(title, &body)
}

/// Returns the whole page around `body`.
pub(crate) fn whole(title: &str, body: &Markup) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (title) }
                style { (PreEscaped(STYLE)) }
            }
            body { (body) }
        }
    };
    // The escaping of HTML leaves control characters alone.
    shown::text(&page.into_string()).into_owned()
}

/// Returns a plot with its caption and its figures.
pub(crate) fn figure(drawn: Drawn, caption: &Markup) -> Markup {
    let name = plain(&caption.0);
    let is_large = drawn.narrow.is_some();
    html! {
        figure {
            @if let Some(narrow) = &drawn.narrow {
                div.for-wide { (PreEscaped(named(&drawn.wide, &name, "wide"))) }
                div.for-narrow { (PreEscaped(named(narrow, &name, "narrow"))) }
            } @else {
                div.small { (PreEscaped(named(&drawn.wide, &name, "any"))) }
            }
            figcaption { (caption) }
            @if is_large {
                details { summary { "The figures" } (drawn.data) }
            } @else {
                // Beside each bar already, for readers who see it.
                div.unseen { (drawn.data) }
            }
        }
    }
}

/// Returns the words of a caption without markup.
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

/// Returns a drawing with a name for readers who do not see it. `name` must be escaped already.
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

#[cfg(test)]
mod tests {
    use super::figure;
    use crate::plot::{Bar, TICKLESS, bars};
    use maud::html;

    #[test]
    fn drawings_have_names_and_their_figures_in_words() {
        let bar = Bar {
            ink: TICKLESS[0],
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
}
