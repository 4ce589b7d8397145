//! The idle time of a CPU, which other CPUs may read while the CPU sleeps and wakes (R43).

use core::fmt;

use tickless_link::seqlock::{SeqCell, Writer};
use tickless_link::sync::{AtomicU64, Ordering};

use crate::time::{Instant, Span};

/// The value that replaces the instant of entry while the CPU is awake. No clock shows this value, because a monotonic
/// time is not negative.
const AWAKE: u64 = u64::MAX;

/// The time for which one CPU has been idle. It never decreases from one reading to the next, even if different CPUs
/// read it.
///
/// The CPU reads the clock before it publishes that it sleeps or wakes, and a reader reads the clock before it reads
/// this record. So a reader may count an instant as idle at which the CPU was awake. Therefore the account keeps the
/// largest result so far, and returns no smaller result later.
///
/// # Cost
///
/// Entering and leaving idle write two words. A reading takes two loads, and one exchange on a cache line that readers
/// share.
pub struct IdleTime {
    /// The total idle time up to the last wake-up of the CPU, and the instant since which the CPU sleeps.
    record: SeqCell<2>,
    /// The largest result of a reading so far.
    told: AtomicU64,
}

/// The right to note when the CPU becomes idle and active.
#[derive(Debug)]
pub struct IdleWriter(Writer);

impl IdleTime {
    /// Makes the account of a CPU that is awake, and the right to change it.
    #[must_use]
    pub fn new() -> (Self, IdleWriter) {
        let (record, writer) = SeqCell::new([0, AWAKE]);
        let account = Self {
            record,
            told: AtomicU64::new(0),
        };
        (account, IdleWriter(writer))
    }

    /// Notes that the CPU became idle at `now`. Has no effect if it is idle.
    pub fn enter(&self, writer: &mut IdleWriter, now: Instant) {
        let [total, since] = self.record.read();
        if since == AWAKE {
            let since = now.not_negative().as_nanos().unsigned_abs();
            self.record.publish(&mut writer.0, [total, since]);
        }
    }

    /// Notes that the CPU stopped being idle at `now`. Has no effect if it is not idle.
    pub fn exit(&self, writer: &mut IdleWriter, now: Instant) {
        let [total, since] = self.record.read();
        let total = sum(total, since, now);
        self.record.publish(&mut writer.0, [total, AWAKE]);
    }

    /// Returns the time for which the CPU has been idle up to `now`.
    ///
    /// # Interrupt context
    ///
    /// Must not interrupt an [`enter`](Self::enter) or [`exit`](Self::exit) of the same CPU, which therefore run with
    /// interrupts masked.
    #[must_use]
    pub fn read(&self, now: Instant) -> Span {
        let [total, since] = self.record.read();
        let idle = sum(total, since, now);
        // Relaxed: the order of one word is all that counts.
        let told = self.told.fetch_max(idle, Ordering::Relaxed);
        Span::from_nanos(idle.max(told))
    }
}

fn sum(total: u64, since: u64, now: Instant) -> u64 {
    let now = now.not_negative().as_nanos().unsigned_abs();
    // Adds zero while the CPU is awake, because `since` is then `AWAKE`, the largest time.
    total.saturating_add(now.saturating_sub(since))
}

impl fmt::Debug for IdleTime {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [total, since] = self.record.read();
        formatter
            .debug_struct("IdleTime")
            .field("total", &Span::from_nanos(total))
            .field("is_idle", &(since != AWAKE))
            .finish_non_exhaustive()
    }
}
