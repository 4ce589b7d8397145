//! The load that the simulator foretells: what `cargo xtask kernel --hackbench` compares.
//!
//! One line is one run of the load: the bytes of a message, the way, and the counts. The command takes medians.

use tickless_core::time::Span;
use tickless_sched::Request;

use super::Verdict;
use super::switches::{Did, Shape, WAYS, Wakes, run};
use crate::console::say;
use crate::machine::Machine;
use crate::parameters::Parameters;

/// Runs of each way and size.
const ROUNDS: u32 = 7;
/// Bytes of a message: a round of a loop for each, on each side.
const BYTES: [u32; 6] = [8, 16, 32, 64, 128, 256];
/// The ways: all mechanisms, none of them, and no tick.
const CHOSEN: [usize; 3] = [0, 4, 5];

/// Runs each way with messages of each size, by turns.
pub(super) fn hackbench(machine: &'static Machine, _parameters: &Parameters) -> Verdict {
    say!("  bytes, way, decisions, starts, kept, writes, interrupts, spurious, us");
    for bytes in BYTES {
        for round in 0..ROUNDS {
            for way in CHOSEN.map(|place| &WAYS[place]) {
                let shape = Shape {
                    room: 16,
                    request: Request::clamped(Span::from_millis(3)),
                    // Nothing is drawn: another number of messages makes it another run.
                    messages: 1_000 + round,
                    work: bytes,
                    wakes: Wakes::AtOnce,
                };
                let Did {
                    switches,
                    starts,
                    kept,
                    spurious,
                    writes,
                    interrupts,
                    micros,
                    ..
                } = run(machine, way, &shape)?;
                say!(
                    "hackbench: {bytes}, {}, {switches}, {starts}, {kept}, {writes}, {interrupts}, {spurious}, \
                     {micros}",
                    way.name
                );
            }
        }
    }
    Ok(())
}
