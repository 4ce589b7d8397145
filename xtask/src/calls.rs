//! The system calls of programs that do not use the library, alone and with the preload library.
//!
//! The programs are those of a distribution, unchanged. Each has to print the same text and end with the same code both
//! times. Only then the task compares the system calls, which strace counts.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use clap::Args;

use crate::files;
use crate::invocation::{Invocation, is_installed};

/// Counts the system calls of programs of the system, alone and with the preload library, by strace.
///
/// Programs that the machine lacks are named as skipped; this is no failure.
#[derive(Debug, Args)]
pub(crate) struct Arguments {}

/// A program whose timers the preload library replaces.
struct Program {
    name: &'static str,
    /// The arguments of the program, with which it ends by itself.
    arguments: &'static [&'static str],
    /// The work of the program, for the table.
    does: &'static str,
    /// The exit code of the program.
    ends_with: i32,
}

const PROGRAMS: &[Program] = &[
    Program {
        name: "vim",
        arguments: &[
            "-u",
            "NONE",
            "-es",
            "-c",
            "call setline(1, range(1, 500))",
            "-c",
            "let g:sum = 0",
            "-c",
            "for i in range(5000) | let g:sum += search('4' . i % 100 . '$', 'n', 0, 60000) | endfor",
            "-c",
            "call writefile([string(g:sum)], '/dev/stdout')",
            "-c",
            "qa!",
        ],
        does: "5,000 searches with a time limit",
        ends_with: 0,
    },
    Program {
        name: "timeout",
        arguments: &["0.2", "sleep", "600"],
        does: "ends a command after 0.2 s",
        ends_with: 124,
    },
];

/// Runs `cargo xtask calls`.
pub(crate) fn main(root: &Path, _arguments: &Arguments) -> Result<(), String> {
    if !is_installed("strace") {
        println!("skipped: the count of system calls, because there is no strace");
        return Ok(());
    }
    Invocation::cargo(&["build", "-p", "tickless-preload", "--lib"]).run(root)?;
    let library = files::target(root).join("debug/libtickless_preload.so");
    let library = std::path::absolute(&library).map_err(|error| error.to_string())?;
    let summary = files::target(root).join("calls");
    println!(
        "{:<44}{:>10}{:>10}",
        "calls of the system", "alone", "with it"
    );
    for program in PROGRAMS {
        if !is_installed(program.name) {
            println!("skipped: there is no {}", program.name);
            continue;
        }
        let (printed, alone) = count(program, None, &summary)?;
        let (printed_with, with) = count(program, Some(&library), &summary)?;
        if printed != printed_with {
            return Err(format!(
                "{} printed {printed:?} alone and {printed_with:?} with the library",
                program.name
            ));
        }
        let title = format!("{}, {}", program.name, program.does);
        println!("{title:<44}{alone:>10}{with:>10}");
    }
    Ok(())
}

/// Runs a program, and returns its output and the number of its system calls.
fn count(
    program: &Program,
    library: Option<&PathBuf>,
    summary: &Path,
) -> Result<(String, u64), String> {
    let mut command = Command::new("strace");
    command.args(["-f", "-c", "-o"]).arg(summary);
    if let Some(library) = library {
        // Of the program alone: strace has no timers.
        command.arg(format!("--env=LD_PRELOAD={}", library.display()));
    }
    command.arg(program.name).args(program.arguments);
    let Output {
        status,
        stdout,
        stderr,
    } = command
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("cannot start strace: {error}"))?;
    // The loader says there that it lacks the library.
    if status.code() != Some(program.ends_with) || !stderr.is_empty() {
        let complaint = String::from_utf8_lossy(&stderr);
        return Err(format!("{}: {status}: {complaint}", program.name));
    }
    let text =
        fs::read_to_string(summary).map_err(|error| format!("{}: {error}", summary.display()))?;
    let calls = total(&text).ok_or_else(|| format!("strace counted nothing: {text}"))?;
    Ok((String::from_utf8_lossy(&stdout).into_owned(), calls))
}

/// Returns the number of calls in a summary of strace, which is in the fourth column of the last line.
fn total(summary: &str) -> Option<u64> {
    let line = summary.lines().rfind(|line| line.ends_with(" total"))?;
    line.split_whitespace().nth(3)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::total;

    #[test]
    fn the_total_is_the_number_of_calls() {
        let summary = "% time     seconds  usecs/call     calls    errors syscall\n\
                       ------ ----------- ----------- --------- --------- ----------------\n \
                       99.00    0.006139           0     14999           timer_settime\n\
                       100.00    0.007261           0     15297        32 total\n";
        assert_eq!(total(summary), Some(15_297));
        assert_eq!(
            total("100.00    0.000000           0        41           total\n"),
            Some(41)
        );
        assert_eq!(total("nothing\n"), None);
    }
}
