//! Pages about simulations: one file that needs nothing else.

use std::ffi::OsStr;
use std::path::PathBuf;

use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::failure::Failure;
use crate::output::{OutFile, Place};
use crate::page::STYLE;

/// Prepares the file of `--report`, if it was given.
pub(super) fn prepare(report: Option<&PathBuf>) -> Result<Option<OutFile>, Failure> {
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
pub(super) fn page(title: &str, body: &Markup) -> String {
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
                p.note {
                    "tickless " (env!("CARGO_PKG_VERSION")) ". The same seed gives the same figures, to the byte."
                }
            }
        }
    };
    page.into_string()
}

/// A plot with what to say about it.
pub(super) fn figure(svg: String, caption: &Markup) -> Markup {
    html! { figure { (PreEscaped(svg)) figcaption { (caption) } } }
}
