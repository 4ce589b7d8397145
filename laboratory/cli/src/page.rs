//! HTML pages about measurements and simulations: each is one file without dependencies, usable with a mouse, a
//! keyboard or a screen reader.

use std::ffi::OsStr;
use std::path::PathBuf;

use clap::builder::{PathBufValueParser, TypedValueParser};
use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::hash::Hash;
use crate::plot::Drawn;
use crate::shown;

/// The style sheet: one column, tables that scroll, dark or light as the reader has it, and print.
pub(crate) const STYLE_SHEET: &str = include_str!("page.css");

/// Returns the parser for the value of `--report`. A wrong value is refused before the command does any work.
pub(crate) fn file() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().try_map(|path| {
        if path == OsStr::new("-") {
            return Err("it would mix the page with the table; give it a file name");
        }
        Ok(path)
    })
}

/// Returns a page with its headings.
pub(crate) fn page(title: &str, body: &Markup) -> String {
    let title = &*shown::line(title);
    let body = html! {
        h1 { (title) }
        (body)
        h2 { "The same again" }
        pre { @for (place, word) in shown::command_line().split(' ').enumerate() {
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
                style { (PreEscaped(STYLE_SHEET)) }
            }
            body { (body) }
        }
    };
    // The escaping of HTML leaves control characters alone.
    shown::text(&page.into_string()).into_owned()
}

pub(crate) fn figure(drawn: Drawn, caption: &str) -> Markup {
    let name = html! { (caption) }.into_string();
    html! {
        figure {
            div.for-wide { (PreEscaped(named(&drawn.wide, &name, "wide"))) }
            div.for-narrow { (PreEscaped(named(&drawn.narrow, &name, "narrow"))) }
            figcaption { (caption) }
            details { summary { "The figures" } (drawn.data) }
        }
    }
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
    use crate::plot::{Curve, TOKIO, tails, times};

    #[test]
    fn drawings_have_names_and_their_figures_in_words() {
        let curve = Curve {
            name: "one".to_owned(),
            ink: TOKIO,
            points: vec![(1e3, 1.0), (2e6, 0.5)],
        };
        let curves = [curve];
        let drawn = tails(&curves, &times(&curves)).expect("it can be drawn");
        let page = figure(drawn, "Wakes & sleeps").into_string();
        let (_, id) = page
            .split_once("<svg role=\"img\" aria-labelledby=\"")
            .expect("a role");
        let (id, _) = id.split_once('"').expect("an id");
        let title = format!("<title id=\"{id}\">Wakes &amp; sleeps</title>");
        assert!(page.contains(&title), "{page}");
        assert!(page.contains("one") && page.contains("2.00 ms"), "{page}");
    }
}
