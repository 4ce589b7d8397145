//! Measures the speed of the simulator: `cargo laboratory -p tickless-sim --example speed`, for all measurements, or
//! with `-- operations`, `-- scale` or `-- CPUS` for a part of them. Everything runs on one core.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "printing is what it is for"
)]

use std::process::ExitCode;
use std::time::{Duration, Instant};

use tickless_sim::{Outcome, Scenario, run};

const NETWORK: &str = include_str!("../scenarios/network.toml");
const ENQUEUE: &str = include_str!("../scenarios/enqueue.toml");
/// Sizes of a machine of whole sockets.
const SIZES: [u32; 4] = [64, 256, 1_024, 4_096];
const RUNS: u32 = 5;

/// Returns the CPU time of this thread, if the operating system has it. Other programs may use the core too.
fn executed() -> Option<Duration> {
    let text = std::fs::read_to_string("/proc/self/schedstat").ok()?;
    let nanos = text.split_whitespace().next()?.parse().ok()?;
    Some(Duration::from_nanos(nanos))
}

/// Runs `scenario`, and returns its time and its outcome.
fn timed(scenario: &Scenario, seed: u64) -> (Duration, Outcome) {
    let (start, before) = (Instant::now(), executed());
    let outcome = run(scenario, seed);
    let executed = executed().zip(before).map(|(after, before)| after - before);
    (executed.unwrap_or_else(|| start.elapsed()), outcome)
}

fn nanos_each(took: Duration, count: u64) -> u64 {
    u64::try_from(took.as_nanos() / u128::from(count.max(1))).unwrap_or(u64::MAX)
}

/// The most memory that this process ever had, in MiB.
fn memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM"))?;
    let kib: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kib / 1_024)
}

fn resized(text: &str, cpus: u32, duration: &str) -> Scenario {
    let text = text.replacen("duration = ", &format!("cpus = {cpus}\n#"), 1);
    let text = text.replacen("\n#", &format!("\nduration = \"{duration}\"\n# "), 1);
    Scenario::from_toml(&text, "speed").expect("the embedded scenarios are right")
}

fn operations() {
    let enqueue = Scenario::from_toml(ENQUEUE, "enqueue.toml").expect("it is right");
    let network = resized(NETWORK, 8, "2 s");
    for (name, scenario) in [("enqueue", enqueue), ("network on 8 CPUs", network)] {
        let mut rates: Vec<u64> = (1..=u64::from(RUNS))
            .map(|seed| {
                let (took, outcome) = timed(&scenario, seed);
                1_000_000_000 / nanos_each(took, outcome.counts.timer_operations()).max(1)
            })
            .collect();
        rates.sort_unstable();
        println!(
            "{name}: {} timer operations a second ({} to {}, {RUNS} runs)",
            rates[rates.len() / 2],
            rates[0],
            rates[rates.len() - 1],
        );
    }
}

fn size(cpus: u32, duration: &str) {
    let scenario = resized(NETWORK, cpus, duration);
    let (took, outcome) = timed(&scenario, 1);
    println!(
        "network, {cpus} CPUs, {duration}: {:.2} s, {} events, {} ns each, {} timer operations, {} MiB at most, \
         promises {}",
        took.as_secs_f64(),
        outcome.counts.events,
        nanos_each(took, outcome.counts.events),
        outcome.counts.timer_operations(),
        memory().unwrap_or(0),
        if outcome.holds() { "kept" } else { "broken" },
    );
}

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    match (arguments.next().as_deref(), arguments.next()) {
        (None, _) => {
            operations();
            for cpus in SIZES {
                size(cpus, "1 s");
            }
        }
        (Some("operations"), None) => operations(),
        (Some("scale"), None) => {
            // As many events in each.
            for (cpus, duration) in SIZES.into_iter().zip(["64 s", "16 s", "4 s", "1 s"]) {
                size(cpus, duration);
            }
        }
        (Some(text), None) => match text.parse() {
            Ok(cpus) if cpus > 0 && cpus <= 4_096 => size(cpus, "1 s"),
            _ => {
                eprintln!("error: write operations, scale, or a number of CPUs from 64 to 4096");
                return ExitCode::from(2);
            }
        },
        _ => return ExitCode::from(2),
    }
    ExitCode::SUCCESS
}
