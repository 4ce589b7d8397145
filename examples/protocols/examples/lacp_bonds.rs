//! A thousand bonds of four ports on one worker: the wake-ups that slack on the periodic timers saves.
//!
//! ```sh
//! cargo run --release -p tickless-protocols --example lacp_bonds
//! cargo run --release -p tickless-protocols --example lacp_bonds -- 300 1000 7    # seconds, bonds, seed
//! ```
//!
//! The worker is CPU 0 of a virtual machine; all partners are on CPU 1, without slack. The links come up one by one
//! within a period, so that the periodic timers are spread. It counts the timer interrupts of CPU 0: wake-ups by
//! LACPDUs that come in are those of the network. Everything printed is a function of the arguments.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "printing is what it is for"
)]

use std::process::ExitCode;

use tickless_core::time::{Instant, Span};
use tickless_protocols::lacp::{
    Activity, BondConfig, End, FAST_PERIODIC_TIME, Network, Rate, SLOW_PERIODIC_TIME, SystemId,
};
use tickless_rig::Deferred;
use tickless_sim::random::Random;

const PORTS: u16 = 4;
/// The last is what the standard tolerates.
const SLACKS_MS: [u64; 4] = [0, 10, 100, 250];
/// The time that the machines need after the last link came up.
const SETTLE: Span = Span::from_secs(10);

struct Arguments {
    seconds: u64,
    bonds: u16,
    seed: u64,
}

impl Arguments {
    fn parse(mut words: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut number = |name: &str, default: u64| {
            words.next().map_or(Ok(default), |word| {
                word.parse()
                    .map_err(|error| format!("{name} is `{word}`: {error}"))
            })
        };
        let found = Self {
            seconds: number("SECONDS", 60)?,
            bonds: u16::try_from(number("BONDS", 1_000)?)
                .map_err(|error| format!("BONDS: {error}"))?,
            seed: number("SEED", 1)?,
        };
        match words.next() {
            Some(word) => Err(format!("`{word}` is one argument too many")),
            None if found.seconds == 0 || found.bonds == 0 => {
                Err("SECONDS and BONDS must be at least 1".into())
            }
            None => Ok(found),
        }
    }
}

fn config(bond: u16, side: u8, rate: Rate) -> BondConfig {
    let [high, low] = bond.to_be_bytes();
    BondConfig {
        system: SystemId {
            priority: 0x8000,
            address: [2, 0, 0, side, high, low],
        },
        key: 1,
        ports: PORTS,
        rate,
        activity: Activity::Active,
    }
}

/// All links up and all ports carrying frames.
fn settled(arguments: &Arguments, rate: Rate, slack: Span) -> Network<Deferred> {
    let mut network = Network::new(&[slack, Span::ZERO]);
    let period = match rate {
        Rate::Fast => FAST_PERIODIC_TIME,
        Rate::Slow => SLOW_PERIODIC_TIME,
    };
    let mut random = Random::new(arguments.seed);
    let mut links = Vec::new();
    for bond in 0..arguments.bonds {
        let number = network.add(0, &config(bond, 1, rate));
        network.add(1, &config(bond, 2, rate));
        for port in 0..usize::from(PORTS) {
            let end = End::new(0, number, port);
            network.connect(end, End::new(1, number, port));
            let up_at = i64::try_from(random.below(period.as_nanos())).unwrap_or(0);
            links.push((Instant::from_nanos(up_at), end));
        }
    }
    links.sort();
    for (up_at, end) in links {
        network.run_until(up_at);
        network.set_link(end, true);
    }
    network.run_for(SETTLE);
    let is_whole = network
        .bonds(0)
        .flat_map(|bond| bond.ports())
        .all(|port| port.is_distributing());
    assert!(is_whole, "every port of every bond carries frames");
    network
}

/// The counts of the worker so far.
struct Work {
    wakeups: u64,
    fired: u64,
    starts: u64,
    in_place: u64,
    writes: u64,
    sent: u64,
    received: u64,
}

impl Work {
    fn of(network: &Network<Deferred>) -> Self {
        let stats = network.rig().stats(0);
        let ports = || network.bonds(0).flat_map(|bond| bond.ports());
        Self {
            wakeups: stats.interrupts,
            fired: stats.expired,
            starts: stats.starts,
            in_place: stats.kept(),
            writes: stats.device_writes,
            sent: ports().map(|port| port.counters().sent).sum(),
            received: ports().map(|port| port.counters().received).sum(),
        }
    }
}

fn measure(arguments: &Arguments, rate: Rate, slack_ms: u64) {
    let mut network = settled(arguments, rate, Span::from_millis(slack_ms));
    let before = Work::of(&network);
    network.run_for(Span::from_secs(arguments.seconds));
    let after = Work::of(&network);
    // Tenths, rounded down.
    let per_second = |after: u64, before: u64| {
        let tenths = (after - before) * 10 / arguments.seconds;
        format!("{}.{}", tenths / 10, tenths % 10)
    };
    println!(
        "{:6}{:>8}{:>12}{:>12}{:>12}{:>12}{:>12}{:>12}{:>12}",
        format!("{rate:?}").to_lowercase(),
        format!("{slack_ms} ms"),
        per_second(after.wakeups, before.wakeups),
        per_second(after.fired, before.fired),
        per_second(after.sent, before.sent),
        per_second(after.received, before.received),
        per_second(after.starts, before.starts),
        per_second(after.in_place, before.in_place),
        per_second(after.writes, before.writes),
    );
}

fn main() -> ExitCode {
    let arguments = match Arguments::parse(std::env::args().skip(1)) {
        Ok(arguments) => arguments,
        Err(message) => {
            eprintln!("{message}\nusage: lacp_bonds [SECONDS [BONDS [SEED]]]");
            return ExitCode::from(2);
        }
    };
    println!(
        "{} bonds of {PORTS} ports on one worker, {} s of virtual time, seed {}; a second:",
        arguments.bonds, arguments.seconds, arguments.seed
    );
    println!(
        "{:6}{:>8}{:>12}{:>12}{:>12}{:>12}{:>12}{:>12}{:>12}",
        "rate", "slack", "wake-ups", "timers", "sent", "received", "starts", "in place", "writes"
    );
    for rate in [Rate::Fast, Rate::Slow] {
        for slack_ms in SLACKS_MS {
            measure(&arguments, rate, slack_ms);
        }
    }
    ExitCode::SUCCESS
}
