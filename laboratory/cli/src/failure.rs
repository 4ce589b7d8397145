//! The exit code and message of a command that fails.

use std::fmt;
use std::process::ExitCode;

/// The verdict of a command that checks something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CheckVerdict {
    Passed,
    /// A check did not pass; the output says which.
    Failed,
}

impl CheckVerdict {
    pub(crate) fn from_passed(passed: bool) -> Self {
        if passed { Self::Passed } else { Self::Failed }
    }

    pub(crate) fn exit_code(self) -> ExitCode {
        match self {
            Self::Passed => ExitCode::SUCCESS,
            Self::Failed => ExitCode::from(1),
        }
    }
}

/// The reasons why a command could not do its work. The message says what is wrong, where, and what would be right.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Bad arguments or bad input.
    Input(String),
    /// The machine lacks something that the command needs, or the user lacks a permission.
    Machine(String),
}

impl Failure {
    pub(crate) fn exit_code(&self) -> ExitCode {
        match self {
            Self::Input(_) => ExitCode::from(2),
            Self::Machine(_) => ExitCode::from(3),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Input(message) | Self::Machine(message)) = self;
        formatter.write_str(message)
    }
}
