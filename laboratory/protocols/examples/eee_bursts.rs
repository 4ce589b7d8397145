//! An example of Energy Efficient Ethernet on a real worker: bursts of packets, and a port that sleeps between the
//! bursts.
//!
//! ```sh
//! cargo laboratory -p tickless-protocols --example eee_bursts
//! ```
//!
//! The MAC exists in memory only. The example takes two seconds, of which the first is the deferral of the standard.
#![expect(clippy::print_stdout, reason = "it shows what happens")]

use std::time::Duration;

use tickless::Worker;
use tickless::time::{interval, sleep};
use tickless_core::time::{Instant, Span};
use tickless_protocols::eee::{Port, Settings, VirtualMac, WAKE_TIME};
use tickless_protocols::host::{Host, UserSpace};

const IDLE: Span = Span::from_millis(20);
const BURSTS: u32 = 8;
const PACKETS: u32 = 300;

type BurstPort = Port<UserSpace, VirtualMac>;

fn millis(span: Span) -> f64 {
    Duration::from(span).as_secs_f64() * 1e3
}

/// Sends a packet every 100 µs, and records when each packet was drained.
async fn burst(port: &BurstPort, drains: &mut Vec<Instant>) {
    let mut pace = interval(Duration::from_micros(100));
    for _ in 0..PACKETS {
        pace.tick().await;
        port.send(0);
        drains.push(UserSpace.now());
        port.drained(0, 1);
    }
}

async fn show(port: &BurstPort, start: Instant) {
    let mut drains = Vec::new();
    sleep(Duration::from_millis(1_010)).await;
    for _ in 0..BURSTS {
        burst(port, &mut drains).await;
        sleep(Duration::from_millis(80)).await;
    }
    for transition in port.mac().transitions() {
        let at = millis(transition.at.saturating_since(start));
        let drain = drains.iter().rfind(|drain| **drain < transition.at);
        match (transition.lpi, drain) {
            (true, Some(drain)) => {
                let since = millis(transition.at.saturating_since(*drain));
                println!("{at:10.3} ms  asleep, {since:.3} ms after the last packet");
            }
            (true, None) => println!("{at:10.3} ms  asleep for the first time"),
            (false, _) => println!("{at:10.3} ms  awake"),
        }
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let worker = Worker::new()?;
    let port = Port::new(UserSpace, VirtualMac::new(WAKE_TIME), 1);
    port.set(Settings {
        enabled: true,
        idle_time: IDLE,
    });
    let before = tickless::stats();
    let start = UserSpace.now();
    port.link_up();
    println!(
        "{BURSTS} bursts of {PACKETS} packets, idle time {} ms",
        millis(IDLE)
    );
    worker.block_on(show(&port, start));
    let transitions = port.mac().transitions();
    let stats = tickless::stats();
    println!(
        "{} packets; asleep {} times; {} writes of the bit, {} packets in low power",
        port.mac().transmissions(),
        transitions.iter().filter(|one| one.lpi).count(),
        transitions.len(),
        port.mac().violations(),
    );
    println!(
        "{} timers started, {} of them in place (the pace of the packets among them)",
        stats.starts - before.starts,
        stats.kept() - before.kept(),
    );
    Ok(())
}
