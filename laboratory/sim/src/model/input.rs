//! The errors in a file. Each error has a place, and describes the correct input.

use std::fmt;
use std::ops::Range;

use serde::de::DeserializeOwned;

use crate::model::time::{EXAMPLE, Picos};

/// An error in a profile or scenario.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct InputError {
    /// The name of the file.
    pub file: String,
    /// The number of the line, from 1 on.
    pub line: usize,
    /// The key of that line; empty if there is none.
    pub key: String,
    /// The error.
    pub wrong: String,
    /// The correct input; empty if that is clear.
    pub right: String,
}

impl fmt::Display for InputError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}: ", self.file, self.line)?;
        if !self.key.is_empty() {
            write!(formatter, "{}: ", self.key)?;
        }
        formatter.write_str(&self.wrong)?;
        if !self.right.is_empty() {
            write!(formatter, "; {}", self.right)?;
        }
        Ok(())
    }
}

impl std::error::Error for InputError {}

/// A file that is being read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Source<'a> {
    pub(crate) file: &'a str,
    pub(crate) text: &'a str,
}

impl Source<'_> {
    /// Reads the whole file.
    pub(crate) fn read<T: DeserializeOwned>(&self) -> Result<T, InputError> {
        toml::from_str(self.text).map_err(|error| {
            let message = error.message();
            // "unknown field `x`, expected one of ..." has both halves in one.
            let (wrong, right) = message.split_once(", expected").map_or_else(
                || (message.to_owned(), String::new()),
                |(wrong, right)| (wrong.to_owned(), format!("expected{right}")),
            );
            self.error(error.span().unwrap_or(0..0), wrong, right)
        })
    }

    /// Makes an error at `span`.
    pub(crate) fn error(
        &self,
        span: Range<usize>,
        wrong: impl Into<String>,
        right: impl Into<String>,
    ) -> InputError {
        let start = span.start.min(self.text.len());
        let before = &self.text.as_bytes()[..start];
        let line_start = before
            .iter()
            .rposition(|byte| *byte == b'\n')
            .map_or(0, |position| position + 1);
        let line = 1 + before.iter().filter(|byte| **byte == b'\n').count();
        let whole = self.text[line_start..].lines().next().unwrap_or("");
        let key = whole.split_once('=').map_or("", |(key, _)| key.trim());
        InputError {
            file: self.file.to_owned(),
            line,
            key: key.to_owned(),
            wrong: wrong.into(),
            right: right.into(),
        }
    }

    pub(crate) fn time(&self, text: &toml::Spanned<String>) -> Result<Picos, InputError> {
        Picos::parse(text.get_ref()).ok_or_else(|| {
            let wrong = format!("\"{}\" is not a time", text.get_ref());
            self.error(text.span(), wrong, format!("write {EXAMPLE}"))
        })
    }
}
