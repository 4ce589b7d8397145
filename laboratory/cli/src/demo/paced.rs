//! The paced sender, which sends a small datagram at a fixed rate and records how late each one was.

use std::net::UdpSocket;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::subject::Timers;
use super::tally::Tally;

/// The times at which the sender sends, and the part of them that counts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Schedule {
    pub(crate) start: Instant,
    /// The time from which on ticks count.
    pub(crate) counts: Instant,
    pub(crate) end: Instant,
    pub(crate) period: Duration,
}

/// Sends until the end of the schedule.
///
/// Missed ticks are made up for in a burst. Each of them is late by its own time, so a stall counts as many late ticks.
pub(crate) async fn send<T: Timers>(schedule: Schedule, socket: UdpSocket, tally: Arc<Tally>) {
    let mut interval = T::interval_at(schedule.start, schedule.period);
    let mut number = 0_u64;
    loop {
        let due = T::tick(&mut interval).await;
        let now = Instant::now();
        if due >= schedule.end {
            break;
        }
        // A full buffer loses a datagram, as on any network.
        let _lost = socket.send(&number.to_le_bytes());
        number += 1;
        if due >= schedule.counts {
            tally.part().paced.record(due, now);
        }
    }
}
