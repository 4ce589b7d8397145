//! The load that the simulator predicts and the kernel then runs: the run of the kernel judges the prediction.
//!
//! First the simulator executes `kernel/foretold/hackbench.toml` on `kernel/foretold/aarch64.toml`. The task prints the
//! simulator's counts together with those of the kernel. No figure is fitted: each figure outside the range of the
//! kernel's runs is reported.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::Value;

use super::{Settings, built, explained};
use crate::files;
use crate::invocation::Invocation;

const SCENARIO: &str = "kernel/foretold/hackbench.toml";
const PROFILE: &str = "kernel/foretold/aarch64.toml";
/// The numbers of bytes of a message.
const BYTES: [u64; 6] = [8, 16, 32, 64, 128, 256];
/// The number of runs of each way and size; each run has another number of messages.
const ROUNDS: u64 = 7;
/// The instructions that a message takes on each side, in addition to those for each byte. The figure is a fit to the
/// run without a tick.
const WORK: u64 = 100;
const WORK_OF_BYTE: u64 = 4;
/// The ways in which the kernel runs, and the policies of the simulator for each: rearm, tree, hrtick.
const WAYS: [(&str, [&str; 3]); 3] = [
    (ALL, ["deferred", "linked", "on"]),
    (NONE, ["eager", "plain", "unfiltered"]),
    (NO_TICK, ["deferred", "linked", "off"]),
];
const ALL: &str = "all of them";
const NONE: &str = "none of them";
const NO_TICK: &str = "no hrtick";
/// The names of the figures of a run.
const FIGURES: [&str; 7] = [
    "decisions",
    "starts",
    "kept",
    "writes",
    "interrupts",
    "spurious",
    "us",
];

/// The indices of the figures for starts, for starts that kept their place, and for device writes.
const OF_TICK: [usize; 3] = [1, 2, 3];

/// The figures of the runs of each size and way.
type Runs = BTreeMap<(u64, &'static str), Vec<[u64; FIGURES.len()]>>;

/// Prints the predictions of the simulator together with the figures of the kernel, and the time that the kernel takes,
/// in guest time and in the host's.
pub(super) fn compare(root: &Path, settings: &Settings) -> Result<(), String> {
    let run = |icount: bool, immediate: bool| {
        let settings = Settings {
            cpus: 1,
            icount,
            immediate,
            test: Some("hackbench".to_owned()),
            ..settings.clone()
        };
        of_kernel(root, &settings)
    };
    let foretold = foretell(root)?;
    let Some(counted) = run(true, false)? else {
        return Ok(());
    };
    println!("| bytes | way | figure | foretold | the kernel | within its spread |");
    println!("|---|---|---|---|---|---|");
    let (mut within, mut all) = (0, 0);
    for (key, runs) in &counted {
        for (place, figure) in FIGURES.iter().enumerate() {
            let (said, did) = (spread(&foretold[key], place), spread(runs, place));
            if said[2] == 0 && did[2] == 0 {
                continue;
            }
            let is_within = said[1] <= did[2] && did[1] <= said[2];
            all += 1;
            within += u32::from(is_within);
            println!(
                "| {} | {} | {figure} | {} | {} | {} |",
                key.0,
                key.1,
                shown(said),
                shown(did),
                verdict(is_within, said[0], did[0]),
            );
        }
    }
    println!("{within} of {all} figures are within the spread of the kernel's {ROUNDS} runs");
    println!();
    for (time, icount) in [("guest time, counted", true), ("the host's time", false)] {
        let on = if icount {
            Some(counted.clone())
        } else {
            run(icount, false)?
        };
        let (Some(on), Some(off)) = (on, run(icount, true)?) else {
            return Ok(());
        };
        println!("| bytes | off, us of {time} | on | no tick | off / on |");
        println!("|---|---|---|---|---|");
        for bytes in BYTES {
            let of = |runs: &Runs, way| spread(&runs[&(bytes, way)], FIGURES.len() - 1);
            let (off, on, none) = (of(&off, NONE), of(&on, ALL), of(&on, NO_TICK));
            println!(
                "| {bytes} | {} | {} | {} | {:.2} |",
                shown(off),
                shown(on),
                shown(none),
                off[0] as f64 / on[0].max(1) as f64
            );
        }
        println!();
    }
    Ok(())
}

fn verdict(is_within: bool, said: u64, did: u64) -> String {
    if is_within {
        "yes".to_owned()
    } else {
        format!("no, {:.2} of it", said as f64 / did.max(1) as f64)
    }
}

/// Returns the median, the least and the greatest value of a figure.
fn spread(runs: &[[u64; FIGURES.len()]], place: usize) -> [u64; 3] {
    let mut values: Vec<u64> = runs.iter().map(|run| run[place]).collect();
    values.sort_unstable();
    [values.len() / 2, 0, values.len() - 1].map(|place| values[place])
}

fn shown([median, least, greatest]: [u64; 3]) -> String {
    format!("{median} ({least} to {greatest})")
}

/// Runs the kernel, and returns its figures; `None` if it is skipped.
fn of_kernel(root: &Path, settings: &Settings) -> Result<Option<Runs>, String> {
    let Some(run) = built(root, settings)? else {
        return Ok(None);
    };
    let mut runs = Runs::new();
    let mut wrong = None;
    let result = run.run_watched(root, |line| {
        let Some(line) = line.strip_prefix("hackbench: ") else {
            return;
        };
        match parsed(line.trim_end()) {
            Some((key, figures)) => runs.entry(key).or_default().push(figures),
            None => wrong = Some(format!("the kernel says \"{line}\"")),
        }
    });
    result.map_err(|message| explained(&message))?;
    if let Some(wrong) = wrong {
        return Err(wrong);
    }
    if runs.len() != BYTES.len() * WAYS.len() {
        return Err(format!("the kernel ran {} sizes and ways", runs.len()));
    }
    Ok(Some(runs))
}

/// Reads a line of the kernel: the bytes, the way, and the figures.
fn parsed(line: &str) -> Option<((u64, &'static str), [u64; FIGURES.len()])> {
    let (bytes, rest) = line.split_once(", ")?;
    let (way, rest) = rest.split_once(", ")?;
    let way = WAYS.iter().find(|(name, _)| *name == way)?.0;
    let figures: Result<Vec<u64>, _> = rest.split(", ").map(str::parse).collect();
    Some(((bytes.parse().ok()?, way), figures.ok()?.try_into().ok()?))
}

/// Has the simulator predict all runs.
fn foretell(root: &Path) -> Result<Runs, String> {
    let scenario =
        fs::read_to_string(root.join(SCENARIO)).map_err(|error| format!("{SCENARIO}: {error}"))?;
    Invocation::laboratory(&["build", "--quiet", "-p", "tickless-cli"]).run(root)?;
    let target = files::target(root);
    let program = target.join("debug/tickless").display().to_string();
    let file = target.join("kernel/foretold.toml");
    fs::create_dir_all(target.join("kernel")).map_err(|error| error.to_string())?;
    let mut runs = Runs::new();
    for bytes in BYTES {
        for (way, policy) in WAYS {
            for round in 0..ROUNDS {
                let text = filled(&scenario, bytes, round, policy);
                fs::write(&file, text).map_err(|error| format!("{}: {error}", file.display()))?;
                let said = Invocation::new(program.clone())
                    .args(&["sim", "run", &file.display().to_string()])
                    .args(&["--profile", PROFILE, "--json", "-"])
                    .capture(root)?;
                if said.result.is_err() {
                    return Err(format!("the simulator failed: {}", said.stderr));
                }
                let figures = figures(&said.stdout)
                    .ok_or_else(|| "the simulator's report lacks a figure".to_owned())?;
                runs.entry((bytes, way)).or_default().push(figures);
            }
        }
    }
    without_machine(&mut runs);
    Ok(runs)
}

/// Subtracts the starts and writes for the simulated machine's own tick at the beginning and the end of a run. If no
/// slice ends, these are all starts and writes of a run. Tasks of the kernel have no such tick.
fn without_machine(runs: &mut Runs) {
    for bytes in BYTES {
        let own = runs[&(bytes, NO_TICK)].clone();
        for (way, _) in WAYS {
            let runs = runs.get_mut(&(bytes, way)).into_iter().flatten();
            for (run, own) in runs.zip(&own) {
                for place in OF_TICK {
                    run[place] = run[place].saturating_sub(own[place]);
                }
            }
        }
    }
}

/// Returns the scenario of a run.
fn filled(scenario: &str, bytes: u64, round: u64, [rearm, tree, hrtick]: [&str; 3]) -> String {
    let work = WORK + WORK_OF_BYTE * bytes;
    scenario
        .replace("{rearm}", rearm)
        .replace("{tree}", tree)
        .replace("{hrtick}", hrtick)
        .replace("{messages}", &(1_000 + round).to_string())
        .replace("{work}", &work.to_string())
}

fn figures(report: &str) -> Option<[u64; FIGURES.len()]> {
    let report: Value = serde_json::from_str(report).ok()?;
    let outcome = &report["outcome"];
    let count = |name: &str| outcome["counts"][name].as_u64();
    let picos = outcome["series"]["finish"]["max"].as_u64()?;
    Some([
        count("switches")? + count("picked_again")?,
        count("exact_starts")?,
        count("exact_in_place")? + count("exact_filed_early")? + count("exact_far_in_slot")?,
        count("device_writes")?,
        count("interrupts")?,
        count("spurious")?,
        picos / 1_000_000,
    ])
}

#[cfg(test)]
mod tests {
    use super::{WAYS, filled};

    #[test]
    fn each_word_in_braces_is_replaced() {
        let scenario = include_str!("../../../kernel/foretold/hackbench.toml");
        let body = scenario.split_once("\nname").expect("it has a name").1;
        let text = filled(body, 16, 2, WAYS[1].1);
        assert!(!text.contains(['{', '}']), "{text}");
        assert!(text.contains("messages = 1002") && text.contains("work = \"164 ns\""));
    }
}
