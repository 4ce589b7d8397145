//! Functions that run the command as a user does.
#![allow(
    dead_code,
    clippy::allow_attributes,
    reason = "each test program uses a part of it"
)]

pub(crate) mod pages;

use std::io::{BufRead, BufReader, Write};
use std::ops::{Deref, DerefMut};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

/// A directory for one test, in which the command runs.
pub(crate) struct Place {
    directory: TempDir,
}

impl Place {
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory for temporary files");
        Self { directory }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tickless"));
        command.current_dir(self.directory.path()).args(arguments);
        command.stdin(Stdio::null());
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments)
            .output()
            .expect("the command starts")
    }

    /// Runs the command with `first` and the words of `line`, and returns its exit code and both of its outputs.
    pub(crate) fn says(&self, first: &[&str], line: &str) -> (Option<i32>, String, String) {
        let line: Vec<_> = line.split_whitespace().collect();
        let output = self.run(&[first, &line].concat());
        let (code, error) = end(&output);
        (code, text(&output.stdout), error)
    }

    /// Runs the command with `input` on standard input.
    pub(crate) fn fed(&self, arguments: &[&str], input: &[u8]) -> Output {
        let mut command = self.command(arguments);
        let mut child = spawn(command.stdin(Stdio::piped()));
        let mut stdin = child.stdin.take().expect("it is a pipe");
        // A command that refuses its arguments does not read.
        let _unread = stdin.write_all(input);
        drop(stdin);
        child.wait_with_output().expect("it ends")
    }

    /// Runs the command while the reader of its standard output has left, and checks that the command ends well and
    /// prints nothing.
    pub(crate) fn unread(&self, arguments: &[&str]) {
        let mut child = spawn(&mut self.command(arguments));
        drop(child.stdout.take());
        let output = child.wait_with_output().expect("it ends");
        assert_eq!(end(&output), (Some(0), String::new()));
    }

    /// Runs the command with `first` and each of the argument lists in turn. Checks that each run is refused as
    /// nonsense, that the message names the right input, and that the run writes neither to standard output nor to a
    /// file.
    pub(crate) fn refuses(&self, first: &[&str], nonsense: &[(&[&str], &str)]) {
        for (arguments, says) in nonsense {
            let output = self.run(&[first, arguments].concat());
            let (code, error) = end(&output);
            assert_eq!(code, Some(2), "{arguments:?}: {error}");
            assert!(error.contains(says), "{arguments:?}: {error}");
            assert!(output.stdout.is_empty(), "{arguments:?}");
        }
        assert!(self.files().is_empty());
    }

    /// Returns the names of the files in the directory, including temporary files that were left over.
    pub(crate) fn files(&self) -> Vec<String> {
        let entries = self.directory.path().read_dir().expect("it is a directory");
        let name = |entry: std::io::Result<std::fs::DirEntry>| {
            let name = entry.expect("it can be read").file_name();
            name.to_string_lossy().into_owned()
        };
        let mut names: Vec<String> = entries.map(name).collect();
        names.sort();
        names
    }
}

pub(crate) fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("output is text")
}

/// Returns the exit code and the text on standard error. The text leaves out the library's report of a thread that took
/// no turns: on a busy machine a thread may lose its CPU for longer than a turn may take.
pub(crate) fn end(output: &Output) -> (Option<i32>, String) {
    let error = text(&output.stderr);
    let lines = error.split_inclusive('\n');
    let said =
        lines.filter(|line| !line.starts_with("tickless: a thread that runs its own timers"));
    (output.status.code(), said.collect())
}

pub(crate) fn json(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).expect("this is JSON and nothing else")
}

/// Fails unless `value` has a field for each word of `names`.
#[track_caller]
pub(crate) fn assert_has(value: &Value, names: &str) {
    for name in names.split(' ') {
        assert!(!value[name].is_null(), "{name} is missing in {value}");
    }
}

pub(crate) fn json_file(path: &Path) -> Value {
    json(&std::fs::read(path).expect("the file was written"))
}

/// A running command. The command ends with the test that started it, even if the test fails.
pub(crate) struct Running(Option<Child>);

impl Running {
    pub(crate) fn wait_with_output(mut self) -> std::io::Result<Output> {
        let child = self.0.take().expect("it was not waited for");
        child.wait_with_output()
    }
}

impl Deref for Running {
    type Target = Child;

    fn deref(&self) -> &Child {
        self.0.as_ref().expect("it was not waited for")
    }
}

impl DerefMut for Running {
    fn deref_mut(&mut self) -> &mut Child {
        self.0.as_mut().expect("it was not waited for")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            // An error says that it is over.
            let _over = child.kill();
            let _code = child.wait();
        }
    }
}

/// Starts the command, with pipes for its outputs.
fn spawn(command: &mut Command) -> Running {
    running(command.stdout(Stdio::piped()).stderr(Stdio::piped()))
}

/// Starts the command, with its outputs as `command` configures them.
pub(crate) fn running(command: &mut Command) -> Running {
    Running(Some(command.spawn().expect("the command starts")))
}

/// Starts the command, and waits until it has printed its first line.
pub(crate) fn started(
    command: &mut Command,
) -> (Running, BufReader<std::process::ChildStdout>, String) {
    let mut child = spawn(command);
    let mut out = BufReader::new(child.stdout.take().expect("it is a pipe"));
    let mut line = String::new();
    out.read_line(&mut line).expect("the pipe can be read");
    (child, out, line)
}

/// Waits until the command catches the signals that end it, however long the system takes to start the command.
pub(crate) fn until_signals_are_caught(child: &Child) {
    let caught = || {
        let status = std::fs::read_to_string(format!("/proc/{}/status", child.id()));
        let status = status.expect("it runs");
        let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
        let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
        mask.expect("the system says so")
    };
    // The one that is caught last.
    let terminates = 1 << (Signal::TERM.as_raw() - 1);
    while caught() & terminates == 0 {
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
}

/// Sends SIGTERM, like `kill`.
pub(crate) fn terminate(child: &Child) {
    kill_process(Pid::from_child(child), Signal::TERM).expect("it runs");
}

/// Sends SIGHUP, like a terminal that closes.
pub(crate) fn hang_up(child: &Child) {
    kill_process(Pid::from_child(child), Signal::HUP).expect("it runs");
}

/// Sends SIGINT, like Ctrl-C.
pub(crate) fn interrupt(child: &Child) {
    kill_process(Pid::from_child(child), Signal::INT).expect("it runs");
}
