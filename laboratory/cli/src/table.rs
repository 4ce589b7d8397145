//! Tables of text, for terminals and pages.

use maud::{Markup, html};

use crate::shown;

/// A table in which the first columns are names and the other columns are figures.
#[derive(Clone, Debug)]
pub(crate) struct Grid {
    pub(crate) head: Vec<&'static str>,
    /// The number of columns that hold names.
    pub(crate) left: usize,
    pub(crate) rows: Vec<Vec<String>>,
    /// A sentence below the table; empty for none.
    pub(crate) note: &'static str,
}

impl Grid {
    /// Formats the table; empty if it has no rows.
    pub(crate) fn text(&self) -> String {
        if self.rows.is_empty() {
            return String::new();
        }
        let aligns = vec![Align::Left; self.left];
        let mut text = table(&self.head, &aligns, self.rows.clone());
        if !self.note.is_empty() {
            text.push_str(self.note);
            text.push('\n');
        }
        text
    }

    /// Formats the table for a page.
    pub(crate) fn html(&self) -> Markup {
        html! {
            (html(&self.head, self.left, &self.rows))
            @if !self.note.is_empty() { p.note { (self.note) } }
        }
    }
}

/// The alignment of a cell in its column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Align {
    Left,
    Right,
}

/// Formats a table with a head. Columns without an alignment of their own hold figures, which are aligned to the right.
pub(crate) fn table(head: &[&str], aligns: &[Align], rows: Vec<Vec<String>>) -> String {
    let head: Vec<String> = head.iter().map(ToString::to_string).collect();
    let rows = std::iter::once(head).chain(rows);
    let one_line = |row: Vec<String>| {
        row.iter()
            .map(|cell| shown::line(cell).into_owned())
            .collect()
    };
    let rows: Vec<Vec<String>> = rows.map(one_line).collect();
    let mut widths: Vec<usize> = Vec::new();
    for row in &rows {
        widths.resize(widths.len().max(row.len()), 0);
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut out = String::new();
    for row in &rows {
        let cells = row.iter().zip(&widths).enumerate();
        let cells = cells.map(|(place, (cell, &width))| {
            match aligns.get(place).copied().unwrap_or(Align::Right) {
                Align::Left => format!("{cell:width$}"),
                Align::Right => format!("{cell:>width$}"),
            }
        });
        let cells: Vec<String> = cells.collect();
        out.push_str(cells.join("  ").trim_end());
        out.push('\n');
    }
    out
}

/// The number of columns above which a page needs small letters.
const MANY: usize = 8;
/// The number of columns that fit a narrow page.
const FEW: usize = 4;

/// Formats a table that scrolls sideways where the page is too narrow. The table says that it scrolls, and keys can
/// scroll it. The first `left` columns are names.
pub(crate) fn html<H: AsRef<str>>(head: &[H], left: usize, rows: &[Vec<String>]) -> Markup {
    html! {
        div.wide.many[head.len() > FEW].dense[head.len() > MANY] tabindex="0" role="region"
            aria-label="Table, which scrolls sideways" {
            table {
                thead { tr { @for (place, cell) in head.iter().enumerate() {
                    th scope="col" style=[(place < left).then_some("text-align:left")] { (shown::line(cell.as_ref())) }
                } } }
                tbody { @for row in rows { tr { @for (place, cell) in row.iter().enumerate() {
                    @if place < left { th scope="row" { (shown::line(cell)) } } @else { td { (shown::line(cell)) } }
                } } } }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Align, html, table};

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let row = |cells: [&str; 2]| cells.map(str::to_owned).to_vec();
        let text = table(
            &["name", "n"],
            &[Align::Left],
            vec![row(["a µ", "1"]), row(["longer", "1,000"])],
        );
        assert_eq!(text, "name        n\na µ         1\nlonger  1,000\n");
    }

    #[test]
    fn tables_that_may_scroll_say_so_and_can_be_reached_with_keys() {
        let row = vec!["a".to_owned(), "1".to_owned()];
        let few = html(&["name", "n"], 1, &[row]).into_string();
        assert!(few.contains("tabindex=\"0\" role=\"region\""), "{few}");
        assert!(!few.contains("class=\"wide many\""), "{few}");
        let many = html(&["a", "b", "c", "d", "e"], 1, &[]).into_string();
        assert!(many.contains("class=\"wide many\""), "{many}");
    }
}
