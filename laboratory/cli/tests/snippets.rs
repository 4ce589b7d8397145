//! Tests of the code blocks in the documentation: the command that reads or writes such data checks those in TOML and
//! JSON.
//!
//! Rustdoc compiles the blocks in Rust, the tests of the C interface compile those in C and C++, and the unit tests of
//! the command parse the shell lines. `sim.rs` runs the loop over many runs that the documentation shows.

mod support;

use std::fs;
use std::process::Command;

use serde_json::Value;
use support::pages::{Block, block, blocks, root};
use support::{Place, end, json, text};

const SIMULATOR: &str = "laboratory/docs/simulator.md";
const TRACE: &str = "docs/trace.md";

/// A scenario to which the pages' fragments are added: whole tables, and keys of `[device]`.
const BASE: &str = "name = \"fragment\"\nprofile = \"skl-112\"\ncpus = 4\nduration = \"60 ms\"\n";
const WORK: &str = "\n[[workload]]\nkind = \"cyclictest\"\ncpus = \"all\"\nperiod = \"1 ms\"\n";

/// Returns the blocks in `language` for which `is_meant` is true.
fn blocks_of(language: &str, is_meant: impl Fn(&Block) -> bool) -> Vec<Block> {
    let found: Vec<Block> = blocks()
        .into_iter()
        .filter(|block| block.language == language && is_meant(block))
        .collect();
    assert!(!found.is_empty(), "{language}");
    found
}

fn is_manifest(block: &Block) -> bool {
    block.text.starts_with("[dependencies]")
}

#[test]
fn cargo_reads_the_dependencies_of_the_pages() {
    let manifest = fs::read_to_string(root().join("crates/tickless/Cargo.toml")).expect("it");
    let manifest: toml::Table = manifest.parse().expect("TOML");
    let workspace = fs::read_to_string(root().join("Cargo.toml")).expect("the manifest");
    let workspace: toml::Table = workspace.parse().expect("TOML");
    let version = workspace["workspace"]["package"]["version"].as_str();
    let version = version.expect("a version");
    let features = manifest["features"].as_table().expect("a table");
    for block in blocks_of("toml", is_manifest) {
        let (page, line) = (&block.page, block.line);
        let place = Place::new();
        let package = "[package]\nname = \"user\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n";
        fs::create_dir(place.path("src")).expect("it can be made");
        fs::write(place.path("src/lib.rs"), "").expect("it can be written");
        fs::write(place.path("Cargo.toml"), package.to_owned() + &block.text).expect("it");
        let output = Command::new(env!("CARGO"))
            .args(["read-manifest", "--offline"])
            .current_dir(place.path("."))
            .output()
            .expect("cargo starts");
        let (code, error) = end(&output);
        assert_eq!(code, Some(0), "{page}:{line}: {error}");
        for dependency in json(&output.stdout)["dependencies"]
            .as_array()
            .expect("a list")
        {
            if dependency["name"] != "tickless" {
                continue;
            }
            let wanted = dependency["req"].as_str().expect("a requirement");
            let wanted = wanted.trim_start_matches('^');
            assert!(
                version.starts_with(wanted),
                "{page}:{line}: {version} is not {wanted}"
            );
            for feature in dependency["features"].as_array().expect("a list") {
                let name = feature.as_str().expect("a name");
                assert!(
                    features.contains_key(name),
                    "{page}:{line}: no feature {name}"
                );
            }
        }
    }
}

/// Returns the scenario of a block, which is a whole scenario or a part of one.
fn scenario(block: &str) -> String {
    let begins = |with: &str| block.starts_with(with);
    if block.contains("\nname = ") {
        block.to_owned()
    } else if begins("[") {
        format!("{BASE}{WORK}\n{block}")
    } else if begins("stops_in") {
        let keys: Vec<&str> = block.lines().collect();
        format!("{BASE}{}\n{WORK}", keys.join("\n"))
    } else {
        panic!("no scenario and no table: {block}")
    }
}

#[test]
fn the_simulator_reads_the_scenarios_of_its_page() {
    for block in blocks_of("toml", |block| {
        block.page == SIMULATOR && !is_manifest(block)
    }) {
        let place = Place::new();
        let scenario = scenario(&block.text);
        fs::write(place.path("my.toml"), &scenario).expect("it can be written");
        let (code, out, error) = place.says(&["sim"], "run my.toml --quiet");
        assert_eq!(code, Some(0), "{}:{}: {out}{error}", block.page, block.line);
    }
}

/// Returns the one JSON value of a block. The pages break the value into several lines.
fn one_value(block: &Block) -> Value {
    let value = serde_json::from_str(&block.text);
    value.unwrap_or_else(|error| panic!("{}:{}: {error}", block.page, block.line))
}

/// Returns the keys of `value` in order, each with the type of its value.
fn shape(value: &Value) -> Vec<(String, std::mem::Discriminant<Value>)> {
    let fields = value.as_object().expect("an object").iter();
    fields
        .map(|(key, value)| (key.clone(), std::mem::discriminant(value)))
        .collect()
}

/// Writes the trace of `docs/trace.md` with the commands of that page.
fn documented_trace() -> Place {
    let place = Place::new();
    let commands = block(TRACE, "sh", "tickless sim run").text;
    for line in commands.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        assert_eq!(words[0], "tickless", "{line}");
        let output = place.run(&words[1..]);
        assert_eq!(end(&output).0, Some(0), "{line}: {}", text(&output.stdout));
    }
    place
}

#[test]
fn the_command_writes_and_reads_the_lines_of_the_page_of_traces() {
    let place = documented_trace();
    let written = fs::read_to_string(place.path("my.jsonl")).expect("it was written");
    let written: Vec<Value> = written.lines().map(|line| json(line.as_bytes())).collect();
    let mut small = Vec::new();
    for block in blocks_of("json", |block| block.page == TRACE) {
        let documented = one_value(&block);
        let mut like = written
            .iter()
            .filter(|line| line["event"] == documented["event"]);
        let is_written = like.any(|line| shape(line) == shape(&documented));
        assert!(
            is_written,
            "{}:{}: `sim run --trace` writes no line with these keys",
            block.page, block.line
        );
        small.push(documented);
    }
    // The three lines are a trace for the reader if it ends, with other numbers, at the deadline of its one timer.
    let deadline = small[1]["expires"].clone();
    let last = small
        .last_mut()
        .and_then(Value::as_object_mut)
        .expect("the end");
    assert_eq!(last["event"], "end");
    assert!(
        last.remove("digest")
            .is_some_and(|digest| digest.is_string())
    );
    last["time"] = deadline;
    last["lines"] = 3.into();
    last["queued"] = 1.into();
    let lines: String = small.iter().map(|line| format!("{line}\n")).collect();
    fs::write(place.path("small.jsonl"), lines).expect("it can be written");
    let (code, out, error) = place.says(&["verify"], "small.jsonl");
    assert_eq!(code, Some(0), "{out}{error}");
    assert!(out.starts_with("3 lines\n"), "{out}");
}
