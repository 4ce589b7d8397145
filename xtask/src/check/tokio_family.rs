//! The check of the time tests of tokio, tokio-util and tokio-stream, with this library in the place of their time.
//!
//! This repository contains no source of these crates. Cargo fetches the crates. The step copies their tests to
//! `target/moved`, replaces their imports, and runs them twice: once in a runtime of tokio, whose clock they pause, and
//! once on our own executor, by `#[tickless::test]`. Tests of behaviour that differs on purpose are left out by name.

use std::fs;
use std::path::Path;

use super::moved::fetched;
use super::run::Run;
use crate::files;
use crate::invocation::Invocation;

/// The tests of one crate.
struct Suite {
    package: &'static str,
    version: &'static str,
    /// The features of the crate that its tests need.
    features: &'static [&'static str],
    /// The names of test files in the crate's directory `tests`.
    files: &'static [&'static str],
    /// The tests of behaviour that differs on purpose, each with the difference.
    differs: &'static [(&'static str, &'static str)],
}

const SUITES: [Suite; 3] = [
    Suite {
        package: "tokio",
        version: "1.54.1",
        features: &["full", "test-util"],
        files: &[
            "time_interval",
            "time_panic",
            "time_pause",
            "time_rt",
            "time_sleep",
            "time_timeout",
        ],
        differs: &[
            ("creating_sleep_outside_of_context", NO_RUNTIME),
            ("timeout_panic_caller", NO_RUNTIME),
            ("timeout_at_panic_caller", NO_RUNTIME),
        ],
    },
    Suite {
        package: "tokio-util",
        version: "0.7.20",
        features: &["time"],
        files: &["time_delay_queue"],
        differs: &[
            ("reset_later_after_slot_starts", NO_WAKE),
            ("reset_earlier_after_slot_starts", NO_WAKE),
            (
                "compact_remove_remapped_keys",
                "no value moves when room is given back",
            ),
        ],
    },
    Suite {
        package: "tokio-stream",
        version: "0.1.19",
        features: &["time"],
        files: &[
            "chunks_timeout",
            "stream_chunks_timeout",
            "stream_timeout",
            "time_throttle",
        ],
        differs: &[],
    },
];

const NO_RUNTIME: &str = "time needs no runtime here";
const NO_WAKE: &str = "a queue does not wake its task when nothing is due";

/// Tests that need tokio itself: its reactor, its budget of polls, or a runtime of several threads.
const OF_TOKIO_ALONE: &[&str] = &[
    "long_wait_sleep_does_not",
    "pause_time_in_task",
    "paused_time_join_unix_datagram_and_sleep",
    "paused_time_spawn_unix_datagram_and_sleep",
    "stream_with_interval_poll_tick",
    "timeout_is_not_exhausted_by_future",
];

/// Pairs of texts: the second one replaces the first.
const REPLACED: [(&str, &str); 4] = [
    ("tokio::time", "tickless::time"),
    ("tokio_util::time", "tickless::time"),
    (
        "use tokio_stream::StreamExt;",
        "use futures::StreamExt as _; use tickless::time::StreamExt as _;",
    ),
    (
        "use tokio_stream::{self as stream, StreamExt};",
        "use futures::StreamExt as _; use tickless::time::StreamExt as _; use tokio_stream as stream;",
    ),
];

/// Pairs of texts that are replaced in addition for our own executor. Tests of several threads keep their runtime.
const ON_OUR_EXECUTOR: [(&str, &str); 2] = [
    ("#[tokio::test", "#[tickless::test"),
    ("#[tickless::test(flavor", "#[tokio::test(flavor"),
];

/// The manifest of the crate that contains the tests. Its features are those by which the tests select themselves.
const MANIFEST: &str = r#"[package]
name = "tokio-family"
version = "0.0.0"
edition = "2021"

[workspace]

[features]
default = ["full", "io-util", "macros", "rt", "sync", "test-util", "time"]
full = []
io-util = []
macros = []
rt = []
rt-multi-thread = []
sync = []
test-util = []
time = []

[dependencies]
futures = "0.3"
rand = "0.9"
tokio-test = "0.4"
"#;

pub(super) fn step(run: &mut Run<'_>) -> Result<(), String> {
    let place = run.root().join("target/moved/tokio-family");
    let tests = place.join("tests");
    let failed = |error: std::io::Error| format!("{}: {error}", place.display());
    if tests.exists() {
        fs::remove_dir_all(&tests).map_err(failed)?;
    }
    for directory in [&tests, &place.join("src")] {
        fs::create_dir_all(directory).map_err(failed)?;
    }
    for suite in &SUITES {
        let (package, version) = (suite.package, suite.version);
        match fetched(run.root(), package, version) {
            Ok(source) => copy(suite, &source, &tests)?,
            Err(reason) => {
                run.skip(&format!("the tests of {package} {version}"), &reason);
                return Ok(());
            }
        }
        for (test, why) in suite.differs {
            run.note(&format!("left out of {package}: {test}, because {why}"));
        }
    }
    let tested = SUITES.iter().map(|suite| {
        let (package, version, features) = (suite.package, suite.version, suite.features);
        format!("{package} = {{ version = \"={version}\", features = {features:?} }}\n")
    });
    let tested = tested.collect::<String>();
    let library = run.root().join("crates/tickless");
    let features = ["macros", "stream", "tokio-test-util"];
    let own = format!("tickless = {{ path = {library:?}, features = {features:?} }}\n");
    let manifest = format!("{MANIFEST}{tested}{own}");
    fs::write(place.join("src/lib.rs"), "").map_err(failed)?;
    fs::write(place.join("Cargo.toml"), manifest).map_err(failed)?;
    for own in [false, true] {
        run.invoke(&line(run.root(), &place, own))?;
    }
    Ok(())
}

/// Returns the command line that runs the tests in a runtime of tokio, or on our own executor.
fn line(root: &Path, place: &Path, own: bool) -> Invocation {
    let manifest = place.join("Cargo.toml").display().to_string();
    let target = files::target(root).display().to_string();
    let line = Invocation::cargo(&["test", "--no-fail-fast", "--manifest-path", &manifest]);
    let line = line.args(&["--target-dir", &target, "--test", glob(own), "--"]);
    let differs = SUITES.iter().flat_map(|suite| suite.differs);
    let line = differs.fold(line, |line, (test, _)| line.args(&["--skip", test]));
    let alone = OF_TOKIO_ALONE.iter().filter(|_| own);
    alone.fold(line, |line, test| line.args(&["--skip", test]))
}

/// Returns the pattern for the names of the test programs of one of the two kinds.
const fn glob(own: bool) -> &'static str {
    if own { "own_*" } else { "in_tokio_*" }
}

/// Copies the tests of `suite` to `tests`, in both kinds. Fails if a file has nothing to replace.
fn copy(suite: &Suite, source: &Path, tests: &Path) -> Result<(), String> {
    let support = source.join("tests/support/panic.rs");
    if support.exists() {
        let there = tests.join("support");
        fs::create_dir_all(&there)
            .and_then(|()| fs::copy(&support, there.join("panic.rs")))
            .map_err(|error| format!("{}: {error}", there.display()))?;
    }
    for name in suite.files {
        let path = source.join("tests").join(name).with_extension("rs");
        let text =
            fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        let in_tokio = replaced(&text, &REPLACED);
        let own = replaced(&in_tokio, &ON_OUR_EXECUTOR);
        if in_tokio == text {
            return Err(format!("{} has nothing to move", path.display()));
        }
        for (kind, text) in [("in_tokio", in_tokio), ("own", own)] {
            let target = tests.join(format!("{kind}_{name}.rs"));
            fs::write(&target, text).map_err(|error| format!("{}: {error}", target.display()))?;
        }
    }
    Ok(())
}

fn replaced(text: &str, pairs: &[(&str, &str)]) -> String {
    pairs
        .iter()
        .fold(text.to_owned(), |text, (old, new)| text.replace(old, new))
}
