//! Tests of `tickless record` and `tickless top`. Where the kernel's events may not be recorded, those that do are
//! skipped.

mod support;

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use support::{Place, end, json, text, words};

const TRACEFS: &str = "/sys/kernel/tracing";

/// Returns the instances that the command has made.
fn instances() -> Vec<String> {
    let entries = fs::read_dir(format!("{TRACEFS}/instances")).expect("it can be read");
    let names = entries.map(|entry| {
        entry
            .expect("it can be read")
            .file_name()
            .to_string_lossy()
            .into_owned()
    });
    names.filter(|name| name.starts_with("tickless-")).collect()
}

/// Returns true, and says so, if the kernel's events cannot be recorded here.
fn is_skipped() -> bool {
    let place = Place::new();
    let (code, error) = end(&place.run(&words("record --for 1ms")));
    if code == Some(3) {
        let _best_effort = std::io::stderr().write_all(format!("\nskipped: {error}").as_bytes());
        assert!(place.files().is_empty());
    }
    code == Some(3)
}

#[test]
fn without_tracefs_the_error_says_how_to_mount_it() {
    let place = Place::new();
    for command in ["record", "top"] {
        let output = place.run(&[command, "--for", "1", "--tracefs", "."]);
        let (code, error) = end(&output);
        assert_eq!(code, Some(3), "{error}");
        assert!(
            error.contains("there is no tracefs at .; mount it as root: mount -t tracefs"),
            "{error}"
        );
        assert!(output.stdout.is_empty() && place.files().is_empty());
    }
}

#[test]
fn nonsense_is_refused() {
    let place = Place::new();
    place.refuses(
        &["record"],
        &[
            (&["--for", "0"], "has to be longer than zero"),
            (&["--size", "0"], "is larger than zero"),
            (&["--size", "much"], "is no unit of memory"),
            (&["--out", "a.zst"], "is no way to compress"),
            (&["--out", "no/a.txt"], "there is no directory no"),
            (&["--out", "-", "--json", "-"], "would share one place"),
            (&["--out", "a", "--json", "./a"], "would share one place"),
        ],
    );
    place.refuses(
        &["top"],
        &[
            (&["--trace", "none.txt"], "cannot read none.txt"),
            (&["--trace", "a", "--for", "1"], "cannot be used with"),
            (&["--interval", "1", "--json", "-"], "cannot be used with"),
        ],
    );
    for nonsense in [
        &b""[..],
        b"\x7fELF\x00\xff\n\n",
        b"total 4\n-rw 1 root [1]: x: y\n",
        b"{\"format\":1}\n",
    ] {
        let output = place.fed(&["top", "--trace", "-"], nonsense);
        let (code, error) = end(&output);
        assert_eq!(code, Some(2), "{error}");
        assert!(error.contains("a trace begins with"), "{error}");
    }
}

#[test]
fn a_recording_is_verified_and_counted() {
    if is_skipped() {
        return;
    }
    let place = Place::new();
    let output = place.run(&words("record --out nap.gz --json - -- sh -c"));
    assert_eq!(output.status.code(), Some(1), "sh lacks its word");
    let private = fs::Permissions::from_mode(0o600);
    fs::set_permissions(place.path("nap.gz"), private).expect("it is ours");
    let output = place.run(&words("record --out nap.gz --json - -- sleep 0.2"));
    assert_eq!(end(&output), (Some(0), String::new()));
    let written = json(&output.stdout);
    support::assert_has(&written, "seconds bytes command");
    assert!(
        written["events"].as_u64() > Some(0) && written["lost"] == 0,
        "{written}"
    );
    let mode = fs::metadata(place.path("nap.gz")).map(|data| data.permissions().mode());
    assert_eq!(mode.expect("it is there") & 0o777, 0o600);
    // What is broken is Linux's, or the host's.
    let output = place.run(&words("verify nap.gz --late-max 1h"));
    assert!(
        text(&output.stdout)
            .contains("text of tracefs; its time stamps are those of the monotonic clock")
    );
    let output = place.run(&words("top --trace nap.gz --slack 1ms"));
    assert_eq!(end(&output), (Some(0), String::new()));
    let said = text(&output.stdout);
    assert!(
        said.contains("sleep  ") && said.contains("computed from the deadlines"),
        "{said}"
    );
    let output = place.run(&words("top -- false"));
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stdout).ends_with("the command failed: exit status: 1\n"));
    let output = place.run(&words("top --json - -- sleep 0.2"));
    let rows = json(&output.stdout)["rows"].clone();
    let rows = rows.as_array().expect("a list");
    assert!(
        rows.iter()
            .all(|row| row["task"] == "sleep" || row["task"] == "tickless"),
        "{rows:?}"
    );
    let output = place.run(&words("top --interval 10 -- sleep 0.2"));
    assert!(text(&output.stdout).contains("sleep  "), "the last part");
    // The line that ends a recording is its last.
    let output = place.run(&words("record --size 1 --for 9 --out cut.txt"));
    assert_eq!(end(&output), (Some(0), String::new()));
    let cut = fs::read_to_string(place.path("cut.txt")).expect("it was written");
    assert_eq!(cut.lines().filter(|line| line.starts_with(' ')).count(), 1);
    assert_eq!(place.files(), ["cut.txt", "nap.gz"]);
}

#[test]
fn no_instance_stays_behind() {
    if is_skipped() {
        return;
    }
    let place = Place::new();
    let (code, error) = end(&place.run(&words("record --out a.txt -- no-such-program")));
    assert_eq!(code, Some(2), "{error}");
    assert!(error.contains("cannot start no-such-program"), "{error}");
    let mut child =
        support::running(&mut place.command(&words("record -q --out a.txt -- sleep 1000")));
    support::until_signals_are_caught(&child);
    let path = format!("{TRACEFS}/instances/tickless-{}", child.id());
    while !Path::new(&path)
        .join("events/msr/write_msr/enable")
        .exists()
    {
        std::thread::yield_now();
    }
    support::terminate(&child);
    // A second signal makes it no more hurried.
    support::terminate(&child);
    assert_eq!(child.wait().expect("it ends").code(), Some(0));
    assert!(!Path::new(&path).exists());
    // The instance of a process that was killed goes with the next one.
    let mut child = support::running(&mut place.command(&words("record -q --out b.txt")));
    let path = format!("{TRACEFS}/instances/tickless-{}", child.id());
    while !Path::new(&path).exists() {
        std::thread::yield_now();
    }
    child.kill().expect("it runs");
    child.wait().expect("it ends");
    assert!(!is_skipped());
    assert!(!instances().contains(&format!("tickless-{}", child.id())));
    assert!(!place.files().contains(&"b.txt".to_owned()));
}
