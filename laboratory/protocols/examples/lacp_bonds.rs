//! A thousand bonds of four ports on one worker: the wake-ups that slack on the periodic timers saves.
//!
//! ```sh
//! cargo laboratory -p tickless-protocols --example lacp_bonds
//! ```
//!
//! The worker is CPU 0 of a virtual machine; all partners are on CPU 1, without slack. The links come up one by one
//! within a period, so that the periodic timers are spread. The example counts only the timer interrupts of CPU 0:
//! LACPDUs that arrive cause wake-ups by the network, not by timers. The output depends only on the constants.
#![expect(clippy::print_stdout, reason = "it shows what happens")]

use tickless_conformance::random::Random;
use tickless_core::time::{Instant, Span};
use tickless_protocols::lacp::{
    BondConfig, End, FAST_PERIODIC_TIME, Network, Port, Rate, SLOW_PERIODIC_TIME,
};

const SECONDS: u64 = 60;
const BONDS: u16 = 1_000;
const SEED: u64 = 1;
const PORTS: u16 = 4;
/// The slacks of the periodic timers, in milliseconds; the standard tolerates at most the last one.
const SLACKS_MS: [u64; 4] = [0, 10, 100, 250];
/// The time that the machines need after the last link came up.
const SETTLE: Span = Span::from_secs(10);

fn config(bond: u16, side: u8, rate: Rate) -> BondConfig {
    let [high, low] = bond.to_be_bytes();
    BondConfig {
        system: [2, 0, 0, side, high, low],
        ports: PORTS,
        rate,
    }
}

/// Returns a network in which all links are up and all ports carry frames.
fn settled(rate: Rate, slack: Span) -> Network {
    let mut network = Network::new(&[slack, Span::ZERO]);
    let period = match rate {
        Rate::Fast => FAST_PERIODIC_TIME,
        Rate::Slow => SLOW_PERIODIC_TIME,
    };
    let mut random = Random::new(SEED);
    let mut links = Vec::new();
    for bond in 0..BONDS {
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
        .all(Port::is_distributing);
    assert!(is_whole, "every port of every bond carries frames");
    network
}

fn measure(rate: Rate, slack_ms: u64) {
    let mut network = settled(rate, Span::from_millis(slack_ms));
    let before = network.rig().stats(0);
    network.run_for(Span::from_secs(SECONDS));
    let after = network.rig().stats(0);
    // Tenths, rounded down.
    let per_second = |after: u64, before: u64| {
        let tenths = (after - before) * 10 / SECONDS;
        format!("{}.{}", tenths / 10, tenths % 10)
    };
    println!(
        "{:6}{:>8}{:>12}{:>12}{:>12}{:>12}{:>12}",
        format!("{rate:?}").to_lowercase(),
        format!("{slack_ms} ms"),
        per_second(after.interrupts, before.interrupts),
        per_second(after.expired, before.expired),
        per_second(after.starts, before.starts),
        per_second(after.kept(), before.kept()),
        per_second(after.device_writes, before.device_writes),
    );
}

fn main() {
    println!(
        "{BONDS} bonds of {PORTS} ports on one worker, {SECONDS} s of virtual time, seed {SEED}; a second:"
    );
    println!(
        "{:6}{:>8}{:>12}{:>12}{:>12}{:>12}{:>12}",
        "rate", "slack", "wake-ups", "timers", "starts", "in place", "writes"
    );
    for rate in [Rate::Fast, Rate::Slow] {
        for slack_ms in SLACKS_MS {
            measure(rate, slack_ms);
        }
    }
}
