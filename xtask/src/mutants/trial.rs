//! The trial of one test program against one mutant.
//!
//! The program runs its tests one by one, so its output distinguishes three failures: a test that failed (its line says
//! so), a test that hung, and a test that ended the process (in both cases the last line has a name and no result). The
//! program is stopped at the first failure, because the number of further failures is of no interest. Several mutants
//! run in parallel instead.

use std::io::Read;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use crate::workspace::Program;

/// The time limit of the host's own waits, in seconds. It is far more than any test of the host needs, and less than
/// the limit of the host by itself.
const HOST_PATIENCE: &str = "15";

/// The environment variable that names the switch to arm.
const VARIABLE: &str = "TICKLESS_MUTANT";

/// Runs a suite with this switch armed, or with none, as one of the trials that run at the same time.
pub(super) type Trial<'r> = Box<dyn Fn(Option<&str>, usize) -> Result<Outcome, String> + Sync + 'r>;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// A test failed: its name, and the way in which it failed.
    Killed(String),
    Survived,
}

/// The options for running a test program.
#[derive(Debug)]
pub(super) struct Settings<'s> {
    pub(super) mutant: Option<&'s str>,
    /// The time limit of one test.
    pub(super) patience: Duration,
}

/// The end of a watched program.
#[derive(Debug, PartialEq, Eq)]
enum Watched {
    /// The output of the program ended.
    Ended,
    Failed,
    /// The program printed nothing for longer than the limit.
    Hung,
}

/// Runs `program` up to its first failing test.
pub(super) fn try_program(program: &Program, settings: &Settings<'_>) -> Result<Outcome, String> {
    let mut child = start(program, settings)?;
    let chunks = read_in_background(&mut child)?;
    let mut transcript = String::new();
    let watched = watch(&chunks, &mut transcript, settings.patience);
    if watched != Watched::Ended {
        // It may just have ended by itself, which is as good.
        let _already_gone = child.kill();
    }
    let status = child
        .wait()
        .map_err(|error| format!("cannot wait for {}: {error}", program.name))?;
    let outcome = judge(&transcript, &watched, status);
    Ok(match outcome {
        Outcome::Killed(by) => Outcome::Killed(format!("{}: {by}", program.name)),
        Outcome::Survived => Outcome::Survived,
    })
}

fn start(program: &Program, settings: &Settings<'_>) -> Result<Child, String> {
    let mut command = Command::new(&program.executable);
    command
        .arg("--test-threads=1")
        .current_dir(&program.directory)
        .env("CARGO_MANIFEST_DIR", &program.directory)
        // What a broken rule makes fail is no seed to remember.
        .env("PROPTEST_DISABLE_FAILURE_PERSISTENCE", "true")
        // Tests that wait for real time give up after so many seconds.
        .env("TICKLESS_PATIENCE", HOST_PATIENCE)
        .env_remove(VARIABLE)
        .stdin(Stdio::null())
        .stdout(Stdio::piped());
    if let Some(mutant) = settings.mutant {
        command.env(VARIABLE, mutant).stderr(Stdio::null());
    }
    command
        .spawn()
        .map_err(|error| format!("cannot start {}: {error}", program.executable.display()))
}

/// Reads the output of the program in a thread of its own, so that the caller can wait for output with a limit.
///
/// The thread ends with the output. After a kill this can be late, if the program left a child that keeps the pipe
/// open; no thread waits for the reading thread.
fn read_in_background(child: &mut Child) -> Result<Receiver<Vec<u8>>, String> {
    const CHUNK: usize = 4096;
    let mut stdout = child.stdout.take().ok_or("the output was not piped")?;
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let mut buffer = [0; CHUNK];
        while let Ok(length @ 1..) = stdout.read(&mut buffer) {
            if sender.send(buffer[..length].to_vec()).is_err() {
                return;
            }
        }
    });
    Ok(receiver)
}

/// Collects the output until it ends, shows a failure, or shows no new result for `patience`.
fn watch(chunks: &Receiver<Vec<u8>>, transcript: &mut String, patience: Duration) -> Watched {
    let mut results = 0;
    let mut last_result = Instant::now();
    loop {
        match chunks.recv_timeout(patience.saturating_sub(last_result.elapsed())) {
            Ok(chunk) => *transcript += &String::from_utf8_lossy(&chunk),
            Err(RecvTimeoutError::Disconnected) => return Watched::Ended,
            Err(RecvTimeoutError::Timeout) => return Watched::Hung,
        }
        if first_failure(transcript).is_some() {
            return Watched::Failed;
        }
        let results_now = transcript.lines().count();
        if results_now > results {
            results = results_now;
            last_result = Instant::now();
        }
    }
}

fn judge(transcript: &str, watched: &Watched, status: ExitStatus) -> Outcome {
    let unfinished = || unfinished(transcript).unwrap_or("outside of any test");
    if let Some(test) = first_failure(transcript) {
        Outcome::Killed(test.into())
    } else if *watched == Watched::Hung {
        Outcome::Killed(format!("{} (hang)", unfinished()))
    } else if status.success() {
        Outcome::Survived
    } else {
        Outcome::Killed(format!("{} ({status})", unfinished()))
    }
}

/// Returns the first test that failed according to the transcript.
fn first_failure(transcript: &str) -> Option<&str> {
    transcript.lines().find_map(|line| match test_line(line)? {
        (name, "FAILED") => Some(name),
        _ => None,
    })
}

/// Returns the test that had begun and not ended when the transcript ended.
fn unfinished(transcript: &str) -> Option<&str> {
    match test_line(transcript.lines().next_back()?)? {
        (name, "") => Some(name),
        _ => None,
    }
}

/// Returns the name and the result in a line like `test a::b ... ok`.
fn test_line(line: &str) -> Option<(&str, &str)> {
    let (name, result) = line.strip_prefix("test ")?.split_once(" ... ")?;
    let name = name.strip_suffix(" - should panic").unwrap_or(name);
    Some((name, result.trim()))
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::process::Command;
    use std::time::Duration;

    use super::{Outcome, Program, Settings, try_program};

    /// A shell script that takes the place of a test program.
    struct Script(PathBuf);

    impl Script {
        /// Lets the shell write the file. If this process wrote the file, a fork in another test could keep the file
        /// open for writing, and the script could not be started.
        fn new(name: &str, text: &str) -> Self {
            let file = format!("xtask-{}-{name}", std::process::id());
            let path = std::env::temp_dir().join(file);
            let written = Command::new("sh")
                .args([
                    "-c",
                    r#"printf '#!/bin/sh\n%s\n' "$2" > "$1" && chmod +x "$1""#,
                    "sh",
                ])
                .arg(&path)
                .arg(text)
                .status();
            assert!(written.unwrap().success());
            Self(path)
        }

        fn outcome(&self) -> Outcome {
            self.outcome_within(Duration::from_secs(60))
        }

        fn outcome_within(&self, patience: Duration) -> Outcome {
            let program = Program {
                name: "suite".into(),
                executable: self.0.clone(),
                directory: std::env::temp_dir(),
            };
            let settings = Settings {
                mutant: Some("some-switch"),
                patience,
            };
            try_program(&program, &settings).unwrap()
        }
    }

    impl Drop for Script {
        fn drop(&mut self) {
            let _left_behind = std::fs::remove_file(&self.0);
        }
    }

    fn killed(by: &str) -> Outcome {
        Outcome::Killed(format!("suite: {by}"))
    }

    #[test]
    fn a_suite_that_passes_lets_the_mutant_survive() {
        let script = Script::new("pass", "echo 'test a ... ok'");
        assert_eq!(script.outcome(), Outcome::Survived);
    }

    #[test]
    fn the_first_failing_test_kills_and_nothing_more_is_run() {
        let script = Script::new("fail", "echo 'test a ... FAILED'; exec sleep 100");
        assert_eq!(script.outcome(), killed("a"));
    }

    #[test]
    fn a_test_that_hangs_kills() {
        let script = Script::new(
            "hang",
            "printf 'test a ... ok\\ntest b ... '; exec sleep 100",
        );
        let outcome = script.outcome_within(Duration::from_millis(500));
        assert_eq!(outcome, killed("b (hang)"));
    }

    #[test]
    fn a_test_that_ends_the_process_kills() {
        let script = Script::new("abort", "printf 'test a ... '; kill -ABRT $$");
        let Outcome::Killed(by) = script.outcome() else {
            panic!("the mutant survived");
        };
        assert!(by.starts_with("suite: a (signal: 6"), "{by}");
    }

    #[test]
    fn the_program_is_told_which_switch_to_arm() {
        let script = Script::new("name", "echo \"test $TICKLESS_MUTANT ... FAILED\"");
        assert_eq!(script.outcome(), killed("some-switch"));
    }
}
