//! The tests of published crates, with this library in the place of tokio's time.
//!
//! This repository contains no source of these crates. Cargo fetches each crate, as for any program that depends on it;
//! if it cannot, the step names the crate as skipped. The step copies sources and tests to `target/moved`, replaces
//! their imports, and runs the tests. They pause the clock, which needs the feature `tokio-test-util`.

use std::fs;
use std::path::{Path, PathBuf};

use super::run::Run;
use crate::files;
use crate::invocation::Invocation;
use crate::workspace::Workspace;

/// The crate whose sources and tests both move, and the least number of files that have to change: a suite in which
/// nothing is replaced would prove nothing.
const TOWER: (&str, &str, usize) = ("tower", "0.5.3", 10);

/// Moves tower, sources and tests, and runs its tests.
pub(super) fn tower(run: &mut Run<'_>) -> Result<(), String> {
    let (package, version, least) = TOWER;
    let Some(source) = fetched(run, package, version)? else {
        return Ok(());
    };
    let library = run.root().join("crates/tickless");
    let source = source.display();
    run.shell(&format!(
        "rm -rf target/moved/{package} && cp -r {source} target/moved/{package} && cd target/moved/{package} \
         && chmod -R u+w . && rm -rf Cargo.lock Cargo.toml.orig examples \
         && files=$(grep -rl tokio::time src tests) && test $(echo $files | wc -w) -ge {least} \
         && sed -i s/tokio::time/tickless::time/g $files && printf '\\n[workspace]\\n\\n[dependencies.tickless]\\n\
         path = {library:?}\\nfeatures = [\"tokio-test-util\"]\\n' >> Cargo.toml"
    ))?;
    run.shell(&format!(
        "cargo test --all-features --lib --tests --manifest-path target/moved/{package}/Cargo.toml --target-dir target"
    ))
}

/// The crates of tokio whose time tests move: package, version, features, and files in the directory `tests`.
const FAMILY: [(&str, &str, &[&str], &str); 3] = [
    (
        "tokio",
        "1.54.1",
        &["full", "test-util"],
        "time_interval time_panic time_pause time_rt time_sleep time_timeout",
    ),
    ("tokio-util", "0.7.20", &["time"], "time_delay_queue"),
    (
        "tokio-stream",
        "0.1.19",
        &["time"],
        "chunks_timeout stream_chunks_timeout stream_timeout time_throttle",
    ),
];

/// Tests of behaviour that differs on purpose, each with the difference.
const DIFFERS: [(&str, &str); 6] = [
    ("creating_sleep_outside_of_context", NO_RUNTIME),
    ("timeout_panic_caller", NO_RUNTIME),
    ("timeout_at_panic_caller", NO_RUNTIME),
    ("reset_later_after_slot_starts", NO_WAKE),
    ("reset_earlier_after_slot_starts", NO_WAKE),
    (
        "compact_remove_remapped_keys",
        "no value moves when room is given back",
    ),
];
const NO_RUNTIME: &str = "time needs no runtime here";
const NO_WAKE: &str = "a queue does not wake its task when nothing is due";

/// Tests that need tokio itself: its reactor, its budget of polls, or a runtime of several threads.
const OF_TOKIO_ALONE: [&str; 6] = [
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

/// Moves the time tests of tokio, tokio-util and tokio-stream, and runs them twice: in a runtime of tokio, and on our
/// own executor, by `#[tickless::test]`.
pub(super) fn tokio_family(run: &mut Run<'_>) -> Result<(), String> {
    let place = run.root().join("target/moved/tokio-family");
    let library = run.root().join("crates/tickless");
    let own = ["macros", "stream", "tokio-test-util"];
    let mut manifest =
        format!("{MANIFEST}tickless = {{ path = {library:?}, features = {own:?} }}\n");
    // What an earlier version had stays nowhere.
    let _absent = fs::remove_dir_all(place.join("tests"));
    write(&place.join("src/lib.rs"), "")?;
    for (package, version, features, files) in FAMILY {
        let Some(source) = fetched(run, package, version)? else {
            return Ok(());
        };
        manifest +=
            &format!("{package} = {{ version = \"={version}\", features = {features:?} }}\n");
        if let Ok(support) = fs::read_to_string(source.join("tests/support/panic.rs")) {
            write(&place.join("tests/support/panic.rs"), &support)?;
        }
        for name in files.split(' ') {
            let path = source.join("tests").join(name).with_extension("rs");
            let text = fs::read_to_string(&path)
                .map_err(|error| format!("{}: {error}", path.display()))?;
            let in_tokio = replaced(&text, &REPLACED);
            if in_tokio == text {
                return Err(format!("{} has nothing to move", path.display()));
            }
            let own = replaced(&in_tokio, &ON_OUR_EXECUTOR);
            for (kind, text) in [("in_tokio", in_tokio), ("own", own)] {
                write(&place.join(format!("tests/{kind}_{name}.rs")), &text)?;
            }
        }
    }
    write(&place.join("Cargo.toml"), &manifest)?;
    for (test, why) in DIFFERS {
        run.note(&format!("left out: {test}, because {why}"));
    }
    let manifest = place.join("Cargo.toml").display().to_string();
    let target = files::target(run.root()).display().to_string();
    for (tests, alone) in [("in_tokio_*", &[][..]), ("own_*", &OF_TOKIO_ALONE)] {
        let line = Invocation::cargo(&["test", "--no-fail-fast", "--manifest-path", &manifest]);
        let line = line.args(&["--target-dir", &target, "--test", tests, "--"]);
        let skipped = DIFFERS.iter().map(|(test, _)| test).chain(alone);
        run.invoke(&skipped.fold(line, |line, test| line.args(&["--skip", test])))?;
    }
    Ok(())
}

fn replaced(text: &str, pairs: &[(&str, &str)]) -> String {
    let one = |text: String, (old, new): &(&str, &str)| text.replace(old, new);
    pairs.iter().fold(text.to_owned(), one)
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    let directory = path.parent().unwrap_or(path);
    let written = fs::create_dir_all(directory).and_then(|()| fs::write(path, text));
    written.map_err(|error| format!("{}: {error}", path.display()))
}

/// Fetches `package` by cargo, and returns its directory; `None` with a skip if it cannot be fetched.
fn fetched(run: &mut Run<'_>, package: &str, version: &str) -> Result<Option<PathBuf>, String> {
    let wanting = run
        .root()
        .join("target/moved")
        .join(format!("wants-{package}"));
    let manifest = format!(
        "[package]\nname = \"wants\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n[workspace]\n\n[dependencies]\n\
         {package} = \"={version}\"\n"
    );
    write(&wanting.join("Cargo.toml"), &manifest)?;
    write(&wanting.join("src/lib.rs"), "")?;
    let metadata = Invocation::cargo(&["metadata", "--format-version", "1"]);
    let captured = metadata.capture(&wanting)?;
    if captured.result.is_err() {
        let reason = format!("cargo cannot fetch it: {}", captured.last_complaint());
        run.skip(&format!("the tests of {package} {version}"), &reason);
        return Ok(None);
    }
    let workspace = Workspace::parse(&captured.stdout)?;
    let found = workspace
        .packages
        .iter()
        .find(|found| found.name == package);
    let found = found.ok_or_else(|| format!("cargo does not know {package}"))?;
    Ok(Some(found.directory().to_owned()))
}
