//! Tests of `tickless sim`: scenarios, claims and draws, as a user or a script runs them.

mod support;

use std::fs;
use std::io::Read;
use std::process::Output;

use serde_json::Value;
use support::pages::block;
use support::{Place, assert_has, end, interrupt, json, json_file, started, words};
use tickless_sim::headline::CLAIMS;

/// A scenario with two CPUs for a twentieth of a second.
const SMALL: &str = r#"name = "small"
profile = "skl-112"
cpus = 2
duration = "50 ms"
isolated = "1"

[[workload]]
kind = "cyclictest"
cpus = "isolated"
period = "1 ms"

[[workload]]
kind = "daemons"
cpus = "housekeeping"
tasks = 2
period = "5 ms"
work = "20 us"
"#;

/// Returns a directory with `small.toml`.
fn place() -> Place {
    let place = Place::new();
    fs::write(place.path("small.toml"), SMALL).expect("it can be written");
    place
}

/// Runs `tickless sim` with `input` on standard input.
fn fed(place: &Place, arguments: &[&str], input: &[u8]) -> Output {
    place.fed(&[&["sim"], arguments].concat(), input)
}

fn sim(place: &Place, arguments: &str) -> (Option<i32>, String, String) {
    place.says(&["sim"], arguments)
}

#[test]
fn scenarios_that_ship_run_by_name() {
    let place = Place::new();
    let (code, out, error) = sim(&place, "run --list");
    assert_eq!((code, error.as_str()), (Some(0), ""));
    let listed = out.lines().find(|line| line.starts_with("network "));
    assert!(
        listed.is_some_and(|line| line.contains("A server")),
        "{out}"
    );
    let (code, out, error) = sim(&place, "run start-cost");
    assert_eq!((code, error.as_str()), (Some(0), ""));
    assert!(
        out.contains(": start-cost, 20 ms on 2 CPUs of skl-112"),
        "{out}"
    );
    let (code, _, error) = sim(&place, "run start-costs");
    assert_eq!(code, Some(2));
    for part in [
        "cannot read start-costs: ",
        "comes with the command: compute, coupled-steering, deep-idle,",
    ] {
        assert!(error.contains(part), "{error}");
    }
    let (code, _, error) = sim(&place, "run start-costs.toml");
    assert_eq!(code, Some(2));
    assert!(!error.contains("deep-idle"), "{error}");
    let (code, _, error) = sim(&place, "run");
    assert_eq!(code, Some(2), "{error}");
}

#[test]
fn a_run_says_who_did_what() {
    let place = place();
    let (code, out, error) = sim(&place, "run small.toml --twice --json out.json");
    assert_eq!((code, error.as_str()), (Some(0), ""), "{out}");
    for part in [
        "small, 50 ms on 2 CPUs of skl-112",
        "0 cyclictest  1     latency",
        "1 isolated",
        "All 15 promises were kept",
        "Both runs were identical.",
    ] {
        assert!(out.contains(part), "{part} is missing in\n{out}");
    }
    let document = json_file(&place.path("out.json"));
    assert_eq!(document["holds"], true);
    assert_eq!(document["outcome"]["seed"], 1);
    let groups = document["outcome"]["groups"].as_array().expect("groups");
    assert_eq!(groups.len(), 2);
    assert!(groups[1]["tally"]["wakes"].as_u64() > Some(40));
    assert_eq!(place.files(), ["out.json", "small.toml"]);
}

#[test]
fn standard_input_is_a_scenario_too_and_the_same_one() {
    let place = place();
    let named = sim(&place, "run small.toml --seed 9 --json -");
    let output = fed(
        &place,
        &["run", "-", "--seed", "9", "--json", "-"],
        SMALL.as_bytes(),
    );
    assert_eq!(end(&output), (Some(0), String::new()));
    assert_eq!(json(&output.stdout), json(named.1.as_bytes()));
    let other = sim(&place, "run small.toml --seed 10 --json -");
    let digest = |text: &str| json(text.as_bytes())["outcome"]["digest"].clone();
    assert_ne!(digest(&other.1), digest(&named.1));
}

#[test]
fn a_machine_of_ones_own_replaces_the_one_of_the_scenario() {
    let place = place();
    let profile = include_str!("../../sim/profiles/vm-64.toml");
    let mine = profile.replace("name = \"vm-64\"", "name = \"mine\"");
    fs::write(place.path("mine.toml"), &mine).expect("it can be written");
    let (code, out, error) = sim(&place, "run small.toml --profile mine.toml");
    assert_eq!((code, error.as_str()), (Some(0), ""));
    assert!(out.contains("2 CPUs of mine"), "{out}");
    fs::write(place.path("mine.toml"), mine.replace("\"3", "\"three")).expect("it can be written");
    let (code, _, error) = sim(&place, "run small.toml --profile mine.toml");
    assert_eq!(code, Some(2));
    assert!(
        error.starts_with("error: mine.toml:") && error.contains("is not a time"),
        "{error}"
    );
}

#[test]
fn wrong_scenarios_are_refused_with_their_place() {
    let place = place();
    for (from, to, said) in [
        (
            "cpus = 2",
            "cpu = 2",
            "<stdin>:3: cpu: unknown field `cpu`; expected",
        ),
        (
            "\"50 ms\"",
            "\"50 m\"",
            "<stdin>:4: duration: \"50 m\" is not a time; write a number",
        ),
        (
            "cpus = 2",
            "cpus = 57",
            "<stdin>:3: cpus: there is no such machine with 57 CPUs; whole",
        ),
        (
            "period = \"1 ms\"",
            "",
            "<stdin>:8: kind: the workload cyclictest needs the field period",
        ),
        (
            "work = \"20 us\"\n",
            "work = \"20",
            "<stdin>:17: work: invalid basic string",
        ),
    ] {
        assert!(SMALL.contains(from), "{from}");
        let output = fed(
            &place,
            &["run", "-"],
            SMALL.replacen(from, to, 1).as_bytes(),
        );
        let (code, error) = end(&output);
        assert_eq!((code, output.stdout.len()), (Some(2), 0), "{error}");
        let said = format!("error: {said}");
        assert!(error.starts_with(&said), "{error}\nis not\n{said}");
    }
    let (code, _, error) = sim(&place, "run nothing.toml");
    assert_eq!(code, Some(2));
    assert!(
        error.contains("cannot read nothing.toml: No such file"),
        "{error}"
    );
    let output = fed(&place, &["run", "-"], b"name = \"\xff\"");
    assert!(end(&output).1.contains("<stdin>:1: it is not UTF-8"));
}

#[test]
fn a_broken_promise_is_named_and_ends_with_one() {
    let place = place();
    // Nothing can be as punctual as that.
    let text = SMALL.replace("duration", "late_max = \"1 ns\"\nduration");
    let output = fed(&place, &["run", "-"], text.as_bytes());
    let (code, error) = end(&output);
    assert_eq!((code, error.as_str()), (Some(1), ""));
    let out = support::text(&output.stdout);
    assert!(
        out.contains("BROKEN") && out.contains(": bounded_late\n"),
        "{out}"
    );
    let output = fed(&place, &["run", "-", "--json", "-"], text.as_bytes());
    let document = json(&output.stdout);
    assert_eq!(
        (end(&output).0, &document["holds"]),
        (Some(1), &Value::Bool(false))
    );
}

#[test]
fn claims_are_written_in_the_shape_of_the_design() {
    let place = Place::new();
    // All but the three that take long.
    let ids: Vec<&str> = CLAIMS
        .iter()
        .map(|claim| claim.id)
        .filter(|id| !["enqueue", "isolation-noise", "isolation-noise-all"].contains(id))
        .collect();
    let line = format!("headline --quick --seed 3 --json - {}", ids.join(" "));
    let (code, out, error) = sim(&place, &line);
    assert_eq!((code, error.as_str()), (Some(0), ""));
    let document = json(out.as_bytes());
    let headlines = document["headlines"].as_array().expect("a list");
    let listed: Vec<&str> = { headlines.iter() }
        .filter_map(|one| one["id"].as_str())
        .collect();
    assert_eq!(listed, ids);
    for headline in headlines {
        assert_has(
            headline,
            "scenario seed source measured source_ratio verdict",
        );
        let holds = headline["holds"] == true;
        assert_eq!(holds, headline.get("why").is_none(), "{headline}");
        // Below 1 is better, and none is less than every number.
        let [measured, source] =
            ["measured_ratio", "source_ratio"].map(|name| headline[name].as_f64());
        assert!(
            !holds || measured.is_some() && measured <= source,
            "{headline}"
        );
        let control = headline["control_ratio"].as_f64();
        assert!(
            !holds || control.is_none_or(|control| Some(control) >= source),
            "{headline}"
        );
        let without = headline["verdict"] == "says-nothing";
        assert!(!without || control <= source, "{headline}");
    }
}

#[test]
fn the_table_of_claims_says_why() {
    let place = Place::new();
    let (code, out, error) = sim(&place, "headline start-cost hackbench --quick");
    assert_eq!((code, error.as_str()), (Some(0), ""));
    for part in [
        "start-cost  no     ns     - -> 50.0   1.00    211 -> 121   2.42",
        "hackbench   no     ms    840 -> 481   0.57",
        "  The figures of the source are of a run",
    ] {
        assert!(out.contains(part), "{part} is missing in\n{out}");
    }
    let (code, _, error) = sim(&place, "headline start-coast");
    assert_eq!(code, Some(2));
    let known = CLAIMS.iter().map(|claim| claim.id).collect::<Vec<_>>();
    let known = known.join(", ");
    assert_eq!(
        error,
        format!("error: there is no claim \"start-coast\"; one of {known}\n")
    );
}

/// Only the claims that are quick to try.
#[test]
fn the_page_has_the_figures_of_the_command() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/simulator.md");
    let page = fs::read_to_string(page).expect("the page");
    let (_, page) = page.split_once("\n## Claims\n").expect("the section");
    let place = Place::new();
    let (code, out, error) = sim(&place, "headline softirq-latency start-cost hackbench");
    assert_eq!((code, error.as_str()), (Some(0), ""));
    for id in ["softirq-latency", "start-cost", "hackbench"] {
        let of_id = |line: &&str| line.split("  ").next() == Some(id);
        let line = out.lines().find(of_id).expect(id);
        let cells = line.split("  ").map(str::trim);
        let cells: Vec<&str> = cells.filter(|cell| !cell.is_empty()).collect();
        let [_, holds, unit, .., here, ratio] = cells[..] else {
            panic!("{line}");
        };
        let here = here.replace("->", "to");
        let row = page
            .lines()
            .find(|row| row.starts_with(&format!("| `{id}` |")));
        let row = row.expect(id);
        for cell in [
            format!("| {here} {unit}"),
            format!(" and {ratio}"),
            format!("| {holds} |"),
        ] {
            assert!(row.contains(&cell), "{cell} is missing in\n{row}");
        }
    }
}

/// Returns the text below `title`, without the indent.
fn indented_below(out: &str, title: &str) -> String {
    let (_, rest) = out
        .split_once(title)
        .unwrap_or_else(|| panic!("no {title:?} in\n{out}"));
    let lines = rest.trim_start_matches('\n').lines();
    let lines = lines.take_while(|line| line.is_empty() || line.starts_with("  "));
    lines
        .map(|line| format!("{}\n", line.strip_prefix("  ").unwrap_or(line)))
        .collect()
}

#[test]
fn drawn_scenarios_keep_every_promise() {
    let place = Place::new();
    let (code, out, error) = sim(&place, "fuzz --seeds 20 --from 7 --twice --json found.json");
    assert_eq!((code, error.as_str()), (Some(0), ""), "{out}");
    assert!(
        out.contains("seeds 7 to 26, each twice\n")
            && out.ends_with("\n20 seeds tried from 7: every promise was kept\n"),
        "{out}"
    );
    let found = json_file(&place.path("found.json"));
    assert_eq!(found["seeds"], 20);
    assert_eq!(
        (&found["holds"], &found["failures"]),
        (&true.into(), &serde_json::json!([]))
    );
    // What was drawn is told, and adds up.
    let drawn = found["drawn"].as_array().expect("a list");
    let of_profiles = drawn.iter().filter(|row| row["what"] == "profile");
    let seeds: u64 = of_profiles.filter_map(|row| row["drawn"].as_u64()).sum();
    assert_eq!(seeds, 20);
    assert!(out.contains("\ndevice, what stands in  "), "{out}");
}

#[test]
fn what_breaks_a_promise_is_shown_made_smaller_and_can_be_run_again() {
    let place = Place::new();
    let line = "fuzz --seeds 12 --canary covered";
    let (code, out, error) = sim(&place, &format!("{line} --json found.json"));
    assert_eq!((code, error.as_str()), (Some(1), ""), "{out}");
    let found = json_file(&place.path("found.json"));
    let failures = found["failures"].as_array().expect("a list");
    assert!(!failures.is_empty(), "{out}");
    let first = &failures[0];
    let seed = &first["seed"];
    assert_eq!(first["wrong"], "covered");
    assert!(out.contains(&format!("Seed {seed}: covered\n")), "{out}");
    assert_eq!(first["workloads"], 1, "one is enough");
    // On one CPU no other could look after anything; how few show it depends on what was drawn.
    assert!(first["cpus"].as_u64() <= Some(8), "{first}");
    assert_ne!(first["smallest"], first["scenario"]);
    let lines = |key: &str| first[key].as_str().map_or(0, |text| text.lines().count());
    assert!(lines("smallest") <= lines("scenario"));

    let smallest = indented_below(&out, "The least that shows it:");
    assert!(
        smallest.starts_with(first["smallest"].as_str().expect("a file")),
        "{smallest}"
    );
    let replay = format!("tickless sim fuzz --seeds 1 --from {seed} --canary covered\n");
    assert!(out.contains(&replay), "{out}");
    let again = sim(&place, &replay["tickless sim ".len()..]);
    assert_eq!(again.0, Some(1));
    assert_eq!(
        indented_below(&again.1, "The least that shows it:"),
        smallest
    );

    // Without the canary nothing is wrong with it.
    let scenario = first["smallest"].as_str().expect("a file");
    fs::write(place.path("smallest.toml"), scenario).expect("it can be written");
    let (code, out, error) = sim(&place, &format!("run smallest.toml --seed {seed}"));
    assert_eq!((code, error.as_str()), (Some(0), ""), "{out}");
}

#[test]
fn running_twice_finds_what_running_once_cannot() {
    let place = Place::new();
    let line = "fuzz --seeds 1 --from 3 --canary deterministic";
    let (code, out, _) = sim(&place, line);
    assert_eq!(code, Some(0), "{out}");
    let (code, out, error) = sim(&place, &format!("{line} --twice"));
    assert_eq!((code, error.as_str()), (Some(1), ""), "{out}");
    assert!(out.contains("Seed 3: deterministic\n"), "{out}");
    assert!(
        out.contains("--from 3 --twice --canary deterministic\n"),
        "{out}"
    );
}

#[test]
fn ctrl_c_ends_the_drawing_early_with_what_was_found() {
    let place = Place::new();
    let line = words("sim fuzz --seeds 1000000000 --json found.json");
    let (child, mut out, head) = started(&mut place.command(&line));
    assert!(head.contains("seeds 0 to 999999999"), "{head}");
    interrupt(&child);
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(end(&output), (Some(0), String::new()));
    let mut rest = String::new();
    out.read_to_string(&mut rest).expect("it is text");
    assert!(
        rest.contains("ended early: every promise was kept"),
        "{rest}"
    );
    let found = json_file(&place.path("found.json"));
    assert!(found["seeds"].as_u64() < Some(1_000_000_000), "{found}");
}

#[test]
fn the_hunt_goes_on_groups_what_it_finds_and_keeps_the_scenarios() {
    let place = Place::new();
    let line = "fuzz --seeds 100 --canary covered --save found/here --json found.json";
    let (code, out, error) = sim(&place, line);
    assert_eq!((code, error.as_str()), (Some(1), ""), "{out}");
    let found = json_file(&place.path("found.json"));
    let failures = found["failures"].as_array().expect("a list");
    assert!(failures.len() > 10, "it does not stop at ten: {out}");
    assert_eq!(found["seeds"], 100);
    let groups = found["groups"].as_array().expect("a list");
    assert!(groups.len() > 1 && groups.len() < failures.len(), "{out}");
    let seeds_of = |group: &Value| group["seeds"].as_array().map_or(0, Vec::len);
    assert_eq!(groups.iter().map(seeds_of).sum::<usize>(), failures.len());
    let smaller = failures.iter().filter(|one| one["smallest"].is_string());
    assert_eq!(smaller.count(), groups.len(), "the first of each");
    for failure in failures {
        let (wrong, seed) = (failure["wrong"].as_str().expect("a name"), &failure["seed"]);
        let path = |ending: &str| place.path(&format!("found/here/{wrong}-{seed}{ending}.toml"));
        let kept = fs::read_to_string(path("")).expect("it is kept");
        assert_eq!(failure["scenario"], kept.as_str());
        assert_eq!(path(".least").exists(), failure["smallest"].is_string());
    }
    for group in groups {
        let machine = group["machine"].as_str().expect("a name");
        assert!(out.contains(machine), "{machine}: {out}");
    }
}

#[test]
fn the_hunt_ends_when_its_time_is_over_and_begins_where_no_hunt_was() {
    let place = Place::new();
    let line = "fuzz --for 1ms --from fresh --json found.json";
    let (code, out, _) = sim(&place, line);
    let found = json_file(&place.path("found.json"));
    // A real find is not this test's business.
    assert_eq!(code, Some(i32::from(found["holds"] == false)), "{out}");
    let (from, seeds) = (found["from"].as_u64(), found["seeds"].as_u64());
    assert!(from > Some(1_700_000_000_000_000), "{from:?}");
    assert!(Some(0) < seeds, "one lot at least: {seeds:?}");
    assert!(
        out.contains(&format!("tried from {}", found["from"])),
        "{out}"
    );
}

#[test]
fn wrong_seeds_are_refused() {
    Place::new().refuses(
        &["sim", "fuzz"],
        &[
            (&[], "--seeds <N>"),
            (&["--seeds", "0"], "invalid value '0'"),
            (
                &["--seeds", "2", "--from", "18446744073709551615"],
                "beyond the last seed",
            ),
            (
                &["--seeds", "2", "--canary", "punctual"],
                "there is no promise \"punctual\"; one of never_early",
            ),
        ],
    );
}

/// Runs the loop of the page, unchanged but for jq.
#[test]
fn the_documented_loop_makes_a_file_of_each_run() {
    let place = place();
    let scenario = format!("{SMALL}\n[policy]\ntarget = \"TARGET\"\n");
    fs::write(place.path("timeouts.toml"), scenario).expect("it can be written");
    let block = block("laboratory/docs/simulator.md", "sh", "sed \"s/TARGET/").text;
    let (script, _) = block.split_once("jq -s").expect("a summary below the loop");
    let binary = std::path::Path::new(env!("CARGO_BIN_EXE_tickless"));
    let directory = binary.parent().expect("it is in one").display();
    let output = std::process::Command::new("sh")
        .args(["-e", "-c", script])
        .current_dir(place.path("."))
        .env("PATH", format!("{directory}:/usr/bin:/bin"))
        .output();
    assert_eq!(
        end(&output.expect("there is a shell")),
        (Some(0), String::new())
    );
    for target in ["local", "search"] {
        for seed in 1..=3 {
            let run = json_file(&place.path(&format!("{target}-{seed}.json")));
            assert_eq!(run["outcome"]["seed"], seed);
            assert!(run["outcome"]["late_remote"].get("p99").is_some(), "{run}");
        }
    }
}

#[test]
fn a_profile_that_is_not_there_is_told_which_there_are() {
    let place = place();
    let (code, _, error) = sim(&place, "run small.toml --profile nosuch");
    assert_eq!(code, Some(2));
    let says = "nor is it the name of a profile that comes with the command: ";
    assert!(error.contains(says) && error.contains("skl-112"), "{error}");
    assert!(!error.contains("hackbench"), "{error}");
}
