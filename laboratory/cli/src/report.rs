//! A report: the findings of a command, formatted for each kind of reader.
//!
//! The report is lines on a terminal and a page in a browser, in the same order. For scripts, each command has a JSON
//! document of its own.

use std::borrow::Cow;
use std::fmt::Write as _;

use maud::{Markup, html};

use crate::page::{self, Number};
use crate::table::Grid;

/// The warning of a build without optimisation.
pub(crate) const UNOPTIMISED: &str =
    "Built without optimisation: the figures are not those of the library.";

/// The findings of a command. A part without content is left out.
#[derive(Debug, Default)]
pub(crate) struct Report {
    /// The heading of the page.
    pub(crate) heading: &'static str,
    /// A sentence about the run, without its full stop.
    pub(crate) lead: String,
    /// The machine in a line.
    pub(crate) machine: String,
    /// Sentences about subjects that did not run, or not as requested, without their full stops.
    pub(crate) complaints: Vec<String>,
    /// Each table with its heading.
    pub(crate) tables: Vec<(Cow<'static, str>, Grid)>,
    /// The conclusions that follow from the figures by rule.
    pub(crate) conclusions: Vec<String>,
    /// The subjects of the measurement, each with an explanation.
    pub(crate) subjects: Vec<(String, String)>,
    pub(crate) graphic: Graphic,
}

/// The parts of a report that only an HTML page has.
#[derive(Debug, Default)]
pub(crate) struct Graphic {
    /// The figures at the top of the page.
    pub(crate) numbers: Vec<Number>,
    /// Plots, with their headings.
    pub(crate) plots: Option<Markup>,
    /// Figures in addition to those of the tables.
    pub(crate) figures: Option<Markup>,
    /// Explanations of words and figures.
    pub(crate) reading: Option<Markup>,
}

impl Report {
    /// Formats the report for a terminal.
    pub(crate) fn text(&self) -> String {
        let mut text = format!("{}\n{}\n", self.lead, self.machine);
        let mut line = |line: &str| {
            // Writing to a string cannot fail.
            let _infallible = writeln!(text, "{line}");
        };
        if cfg!(debug_assertions) {
            line(UNOPTIMISED);
        }
        line("");
        for (heading, grid) in &self.tables {
            if !heading.is_empty() {
                line(heading);
            }
            line(&grid.text());
        }
        let widths = self.subjects.iter().map(|(name, _)| name.chars().count());
        let width = widths.max().unwrap_or(0);
        for (name, explanation) in &self.subjects {
            line(&format!("{name:width$}  {explanation}"));
        }
        if width > 0 {
            line("");
        }
        self.complaints.iter().for_each(|complaint| line(complaint));
        self.conclusions.iter().for_each(|sentence| line(sentence));
        text
    }

    /// Formats the report as a page: figures and plots first, then the conclusions, and then all figures.
    pub(crate) fn page(&self) -> String {
        let graphic = &self.graphic;
        let has_figures = !self.tables.is_empty() || graphic.figures.is_some();
        let body = html! {
            p.lead { (self.lead) "." }
            (page::numbers(&graphic.numbers))
            @for complaint in &self.complaints { p.note { (complaint) "." } }
            @if let Some(plots) = &graphic.plots { (plots) }
            @if !self.conclusions.is_empty() {
                h2 { "What it says" }
                ul { @for sentence in &self.conclusions { li { (sentence) } } }
            }
            @if has_figures { (page::all_figures(&self.all_figures())) }
            @if let Some(reading) = &graphic.reading {
                h2 { "How to read it" }
                (reading)
            }
            h2 { "What ran" }
            @if !self.subjects.is_empty() { table.facts { tbody {
                @for (name, explanation) in &self.subjects {
                    tr { th scope="row" { (name) } td { (explanation) } }
                }
            } } }
            p { (self.machine) }
            @if cfg!(debug_assertions) { p { (UNOPTIMISED) } }
        };
        page::page(self.heading, &body)
    }

    fn all_figures(&self) -> Markup {
        html! {
            @for (heading, grid) in &self.tables {
                @if !heading.is_empty() { p { (heading) "." } }
                (grid.html())
            }
            @if let Some(figures) = &self.graphic.figures { (figures) }
        }
    }
}

#[cfg(test)]
mod tests {
    use maud::html;

    use super::{Graphic, Report, UNOPTIMISED};
    use crate::table::Grid;

    fn report() -> Report {
        let grid = Grid {
            head: vec!["name", "n"],
            left: 1,
            rows: vec![vec!["one".to_owned(), "1".to_owned()]],
            note: "A note.",
        };
        Report {
            heading: "Runs",
            lead: "tickless try: 1 <run>".to_owned(),
            machine: "this one, 2 CPUs".to_owned(),
            complaints: vec!["missing: two".to_owned()],
            tables: vec![("How many".into(), grid)],
            conclusions: vec!["One is one.".to_owned()],
            subjects: vec![("one".to_owned(), "the first".to_owned())],
            graphic: Graphic {
                plots: Some(html! { h2 { "Plotted" } }),
                ..Graphic::default()
            },
        }
    }

    #[test]
    fn a_terminal_gets_lines_in_the_order_of_what_they_rest_on() {
        let text = report().text();
        let text = text.replace(&format!("{UNOPTIMISED}\n"), "");
        let expected = "tickless try: 1 <run>\nthis one, 2 CPUs\n\nHow many\nname  n\none   1\nA note.\n\n\
                        one  the first\n\nmissing: two\nOne is one.\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn a_page_has_the_plots_in_front_of_the_figures() {
        let page = report().page();
        let places = [
            "1 &lt;run&gt;.",
            "missing: two.",
            "Plotted",
            "What it says",
            "One is one.",
            "All figures",
            "How many.",
            "A note.",
            "What ran",
            "the first",
            "this one, 2 CPUs",
        ]
        .map(|part| page.find(part).unwrap_or_else(|| panic!("{part}: {page}")));
        assert!(places.is_sorted(), "{places:?}: {page}");
        assert!(!page.contains("How to read it"), "{page}");
    }
}
