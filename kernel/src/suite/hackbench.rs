//! The measurement of hackbench's load in the kernel, which `cargo xtask kernel --hackbench` compares with the
//! prediction of the simulator.
//!
//! Each printed line is one run of the load: the bytes of a message, the set of mechanisms, and the counts. The command
//! takes medians.

use tickless_core::time::Span;
use tickless_sched::Request;

use super::fixture::Verdict;
use super::switches::{Did, Shape, WAYS, Wakes, run};
use crate::console::say;
use crate::machine::Machine;
use crate::parameters::Parameters;

/// The number of runs of each set of mechanisms and size.
const ROUNDS: u32 = 7;
/// Bytes of a message: a round of a loop for each, on each side.
const BYTES: [u32; 6] = [8, 16, 32, 64, 128, 256];
/// The sets of mechanisms that are measured: all, none, and no tick.
const CHOSEN: [usize; 3] = [0, 4, 5];

/// Runs each set of mechanisms with messages of each size, in rotation.
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
