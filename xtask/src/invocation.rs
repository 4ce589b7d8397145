//! Command lines: built once, shown in a form that can be typed, and run.
//!
//! The output of a command goes to our own output, so that a long build is visible while it runs. The output is
//! captured only for questions, such as whether a component is installed. The output is read as it arrives only where
//! its lines are counted.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::fmt;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};

/// A program with its arguments and the environment variables that differ from ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Invocation {
    program: Cow<'static, str>,
    arguments: Vec<String>,
    variables: Vec<(&'static str, String)>,
    /// The exit code of a successful run.
    passes: i32,
}

/// The output of a captured invocation, and the error of one that failed.
#[derive(Debug)]
pub(crate) struct Captured {
    pub(crate) result: Result<(), String>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Invocation {
    pub(crate) fn new(program: impl Into<Cow<'static, str>>) -> Self {
        Self {
            program: program.into(),
            arguments: Vec::new(),
            variables: Vec::new(),
            passes: 0,
        }
    }

    /// Returns a command line for cargo of the toolchain in use.
    pub(crate) fn cargo(arguments: &[&str]) -> Self {
        Self::new("cargo").args(arguments)
    }

    /// Returns cargo with its command, and with the workspace of the laboratory as what the command is about.
    pub(crate) fn laboratory(arguments: &[&str]) -> Self {
        let (command, rest) = arguments.split_at(1);
        Self::cargo(command)
            .args(&["--manifest-path", "laboratory/Cargo.toml"])
            .args(&["--target-dir", "target"])
            .args(rest)
    }

    pub(crate) fn arg(mut self, argument: impl Into<String>) -> Self {
        self.arguments.push(argument.into());
        self
    }

    pub(crate) fn args<S: AsRef<str>>(mut self, arguments: &[S]) -> Self {
        self.arguments
            .extend(arguments.iter().map(|argument| argument.as_ref().into()));
        self
    }

    /// Makes every lint warning of a line of `cargo clippy` an error. The arguments at the end are for the compiler.
    pub(crate) fn deny_warnings(self) -> Self {
        self.args(&["--", "-D", "warnings"])
    }

    /// Selects packages, as `-p NAME` each.
    pub(crate) fn packages<S: AsRef<str>>(mut self, names: &[S]) -> Self {
        for name in names {
            self = self.arg("-p").arg(name.as_ref());
        }
        self
    }

    /// Has another program start this one; the arguments of the other program come first.
    pub(crate) fn behind(mut self, program: &'static str, arguments: &[&str]) -> Self {
        let before = arguments.iter().map(|&argument| argument.to_owned());
        let own = std::iter::once(self.program.into_owned()).chain(self.arguments);
        self.arguments = before.chain(own).collect();
        self.program = program.into();
        self
    }

    /// Has an emulator end after this number of seconds. An emulator that counts instructions runs on one processor of
    /// the host, because on two processors its own threads race for its timers and some interrupts come late. `lane`
    /// selects the processor.
    pub(crate) fn emulated(self, seconds: &str, counts: bool, lane: usize) -> Self {
        // One whose CPUs all wait may not heed the first signal.
        let run = self.behind("timeout", &["-k", "5", seconds]);
        if counts && is_installed("taskset") {
            run.behind("taskset", &["--cpu-list", &usable_cpu(lane)])
        } else {
            run
        }
    }

    pub(crate) fn passes_with(mut self, code: i32) -> Self {
        self.passes = code;
        self
    }

    pub(crate) fn variable(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.variables.push((name, value.into()));
        self
    }

    /// Runs the program in `directory` with our output; fails with the way in which the program ended.
    pub(crate) fn run(&self, directory: &Path) -> Result<(), String> {
        let status = self
            .command(directory)
            .status()
            .map_err(|error| self.not_started(&error))?;
        self.judge(status)
    }

    /// Runs the program in `directory`, and passes each line of both its outputs to `watch` and to the user.
    pub(crate) fn run_watched(
        &self,
        directory: &Path,
        mut watch: impl FnMut(&str),
    ) -> Result<(), String> {
        let cannot = |error| format!("cannot watch `{self}`: {error}");
        let (reader, writer) = std::io::pipe().map_err(cannot)?;
        let mut command = self.command(directory);
        command.stdout(writer.try_clone().map_err(cannot)?);
        command.stderr(writer);
        let child = command.spawn();
        let mut child = child.map_err(|error| self.not_started(&error))?;
        // It holds the ends for writing: with them open the reader would wait for ever.
        drop(command);
        for line in BufReader::new(reader).lines() {
            let line = line.map_err(|error| format!("cannot read from `{self}`: {error}"))?;
            println!("{line}");
            watch(&line);
        }
        let status = child.wait();
        self.judge(status.map_err(|error| format!("cannot wait for `{self}`: {error}"))?)
    }

    fn judge(&self, status: ExitStatus) -> Result<(), String> {
        if status.code() == Some(self.passes) {
            Ok(())
        } else {
            Err(format!("`{self}` failed: {status}"))
        }
    }

    /// Runs the program in `directory`, and returns both outputs without showing them.
    pub(crate) fn capture(&self, directory: &Path) -> Result<Captured, String> {
        let output = self
            .command(directory)
            .stdin(Stdio::null())
            .output()
            .map_err(|error| self.not_started(&error))?;
        Ok(Captured {
            result: self.judge(output.status),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        })
    }

    fn command(&self, directory: &Path) -> Command {
        let mut command = Command::new(&*self.program);
        command.args(&self.arguments).current_dir(directory);
        // All features are built here, and what is checked must not depend on which libraries of C a system has.
        command.env("TICKLESS_C_PEERS", "none");
        for (name, value) in &self.variables {
            command.env(name, value);
            // The encoded form would win over the plain one, and hide it.
            match *name {
                "RUSTFLAGS" => command.env_remove("CARGO_ENCODED_RUSTFLAGS"),
                "RUSTDOCFLAGS" => command.env_remove("CARGO_ENCODED_RUSTDOCFLAGS"),
                _ => &mut command,
            };
        }
        command
    }

    fn not_started(&self, error: &std::io::Error) -> String {
        format!("cannot start `{}`: {error}", self.program)
    }
}

impl Captured {
    /// Returns the last line of the program's standard error, as a reason in one line.
    pub(crate) fn last_complaint(&self) -> &str {
        self.stderr
            .lines()
            .map(str::trim)
            .rfind(|line| !line.is_empty())
            .unwrap_or("it gave no reason")
    }
}

/// Formats the invocation as a line for a shell.
impl fmt::Display for Invocation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, value) in &self.variables {
            write!(formatter, "{name}={} ", quoted(value))?;
        }
        formatter.write_str(&self.program)?;
        for argument in &self.arguments {
            write!(formatter, " {}", quoted(argument))?;
        }
        Ok(())
    }
}

fn quoted(word: &str) -> String {
    let plain = |letter: char| letter.is_alphanumeric() || "-_./=+:,@%".contains(letter);
    if !word.is_empty() && word.chars().all(plain) {
        word.into()
    } else {
        format!("\"{word}\"")
    }
}

/// Returns true if `program` answers `--version`.
pub(crate) fn is_installed(program: impl AsRef<OsStr>) -> bool {
    Command::new(program)
        .arg("--version")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// Returns the `lane`th processor that this process may use; counting starts again at the first if there are fewer.
pub(crate) fn usable_cpu(lane: usize) -> String {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let cpus = usable_cpus_in(&status);
    let cpu = cpus.get(lane % cpus.len().max(1));
    cpu.map_or_else(|| "0".to_owned(), ToString::to_string)
}

/// Returns the processors that a process may use, read from its status in `/proc`.
fn usable_cpus_in(status: &str) -> Vec<u32> {
    let list = status
        .lines()
        .find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    let ranges = list.unwrap_or_default().trim().split(',');
    let range = |range: &str| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        Some(first.parse().ok()?..=last.parse().ok()?)
    };
    ranges.filter_map(range).flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::Invocation;
    use std::path::Path;

    #[test]
    fn a_program_may_pass_with_another_code_and_then_with_no_other() {
        let ends_with = |code: &str| {
            let line = Invocation::new("sh").args(&["-c", &format!("exit {code}")]);
            line.passes_with(33).run(Path::new("."))
        };
        assert_eq!(ends_with("33"), Ok(()));
        for other in ["0", "35"] {
            assert!(ends_with(other).is_err(), "{other} passes");
        }
    }
}
