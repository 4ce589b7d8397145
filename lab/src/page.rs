//! The look of every page.

/// The style sheet: one column, tables that scroll, dark or light as the reader has it, and print.
pub(crate) const STYLE: &str = include_str!("page.css");
