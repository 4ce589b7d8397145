//! The paced sender: a small datagram at a fixed rate, and how late each was.

use std::net::UdpSocket;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::subject::Timers;
use super::tally::Tally;

/// The times at which the sender sends, and the part of them that counts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Schedule {
    pub(crate) start: Instant,
    /// Ticks that are due from then on count.
    pub(crate) counts: Instant,
    pub(crate) end: Instant,
    pub(crate) period: Duration,
}

/// Sends until the end of the schedule.
///
/// Ticks that were missed are made up for in a burst: each is late by its own time, so a stall is not counted as one
/// late tick.
pub(crate) async fn send<T: Timers>(schedule: Schedule, socket: UdpSocket, tally: Arc<Tally>) {
    let mut interval = T::interval_at(schedule.start, schedule.period);
    let mut number = 0_u64;
    loop {
        let due = T::tick(&mut interval).await;
        let now = Instant::now();
        if due >= schedule.end {
            break;
        }
        // A full buffer at the other end loses a datagram, as on any network.
        let sent = socket.send(&number.to_le_bytes()).is_ok();
        number += 1;
        if due >= schedule.counts {
            tally.paced.record(due, now);
            tally.sent.add(u64::from(sent));
        }
    }
}
