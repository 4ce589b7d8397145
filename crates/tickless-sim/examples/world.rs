//! Runs a scenario file and prints the outcome: `cargo run --release -p tickless-sim --example world -- FILE [SEED]`.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "printing is what it is for"
)]

use std::process::ExitCode;

use tickless_sim::{Scenario, run};

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let seed = |text: Option<String>| text.map_or(Some(1), |text| text.parse().ok());
    let (Some(file), Some(seed)) = (arguments.next(), seed(arguments.next())) else {
        eprintln!("error: write the name of a scenario file, and a seed if it is not to be 1");
        return ExitCode::from(2);
    };
    let text = match std::fs::read_to_string(&file) {
        Ok(text) => text,
        Err(error) => {
            eprintln!("error: {file}: {error}");
            return ExitCode::from(2);
        }
    };
    let scenario = match Scenario::from_toml(&text, &file) {
        Ok(scenario) => scenario,
        Err(error) => {
            eprintln!("error: {error}");
            return ExitCode::from(2);
        }
    };
    let outcome = run(&scenario, seed);
    println!("{:#?}", outcome.counts);
    println!("series {:#?}", outcome.series);
    println!("late, own    {:?}", outcome.late_own);
    println!("late, remote {:?}", outcome.late_remote);
    println!("late, exact  {:?}", outcome.late_exact);
    println!("deep idle    {} of 1000", outcome.deep_idle_permille());
    println!("idle power   {} mW", outcome.idle_milliwatts);
    println!("digest       {:016x}", outcome.digest);
    for (promise, times) in &outcome.broken {
        println!("broken {times} times: {}", promise.name());
    }
    for violation in &outcome.violations {
        println!(
            "  {} CPU {}: {}",
            violation.at, violation.cpu, violation.what
        );
    }
    if outcome.holds() {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(1)
    }
}
