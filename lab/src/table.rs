//! Tables of text, for terminals and pages.

use maud::{Markup, html};

use crate::page;

/// A table whose first columns are names and whose others are figures.
#[derive(Clone, Debug)]
pub(crate) struct Grid {
    pub(crate) head: Vec<&'static str>,
    /// How many columns are names.
    pub(crate) left: usize,
    pub(crate) rows: Vec<Vec<String>>,
    /// A sentence below it; or nothing.
    pub(crate) note: &'static str,
}

impl Grid {
    /// Nothing, if it has no rows.
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

    /// The same for pages.
    pub(crate) fn html(&self) -> Markup {
        html! {
            (page::table(&self.head, self.left, &self.rows))
            @if !self.note.is_empty() { p.note { (self.note) } }
        }
    }
}

/// Which side of its column a cell keeps to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Align {
    Left,
    Right,
}

/// A table with a head. Columns without an alignment of their own are figures, which keep to the right.
pub(crate) fn table(head: &[&str], aligns: &[Align], rows: Vec<Vec<String>>) -> String {
    let head: Vec<String> = head.iter().map(ToString::to_string).collect();
    let rows: Vec<Vec<String>> = std::iter::once(head).chain(rows).collect();
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

#[cfg(test)]
mod tests {
    use super::{Align, table};

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
}
