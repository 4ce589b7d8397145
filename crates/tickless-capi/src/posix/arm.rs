//! The setting of the last `settime`, which is replaced as a whole without a lock.
//!
//! A timer has four records and a word that names the current record. A writer claims a free record, fills it, and
//! publishes it by a compare-and-exchange of the word. The replaced record is free again after the writer has read it.
//! A reader reads the record and then checks that the word has not changed. The word counts its changes, so it never
//! has the same value twice.
//!
//! A signal handler that interrupts a writer claims another record. If four writers work on one timer at the same time,
//! no record is free for one of them, and this writer fails (`EAGAIN`). It does not wait, because it may have
//! interrupted the writer for which it would wait.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

use tickless::hrtimer::Clock;

use crate::clock::number_of;
use crate::errno::Errno;

/// The start of a timer that is disarmed.
pub(super) const NEVER: u64 = u64::MAX;

/// The expirations of a timer: its start, and the times that are whole intervals after the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Arm {
    pub(super) start: u64,
    /// The interval of the expirations; zero for a single expiration.
    pub(super) interval: u64,
    pub(super) clock: Clock,
}

impl Arm {
    pub(super) const DISARMED: Self = Self {
        start: NEVER,
        interval: 0,
        clock: Clock::Monotonic,
    };

    /// Returns the number of expirations up to and including `now`.
    pub(super) fn expirations(&self, now: u64) -> u64 {
        if self.start == NEVER || now < self.start {
            return 0;
        }
        let behind = now - self.start;
        // Rounded down: intervals that are over.
        behind
            .checked_div(self.interval)
            .map_or(1, |passed| passed.saturating_add(1))
    }

    /// Returns the first expiration after `now`.
    pub(super) fn next(&self, now: u64) -> Option<u64> {
        if self.start == NEVER {
            return None;
        }
        if now < self.start {
            return Some(self.start);
        }
        if self.interval == 0 {
            return None;
        }
        let into = (now - self.start) % self.interval;
        now.checked_add(self.interval - into)
    }
}

#[derive(Debug)]
struct Record {
    start: AtomicU64,
    interval: AtomicU64,
    clock: AtomicU32,
}

/// The records of one timer.
#[derive(Debug)]
pub(super) struct Arms {
    /// The version, with the index of the current record in the lowest bits.
    current: AtomicU64,
    /// A bit for each record that is current or claimed.
    taken: AtomicU32,
    records: [Record; RECORDS],
}

const RECORDS: usize = 4;
/// The mask of the record's index in `Arms::current`.
const INDEX: u64 = 3;

/// A value of `Arms::current`: the version of the timer, and the record that was current.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Version(u64);

impl Version {
    /// Returns the lower half of the generation, to tag counts with.
    pub(super) fn tag(self) -> u64 {
        (self.0 >> 2) << 32
    }
}

impl Arms {
    pub(super) fn new() -> Self {
        Self {
            current: AtomicU64::new(0),
            taken: AtomicU32::new(1),
            records: std::array::from_fn(|_| Record {
                start: AtomicU64::new(NEVER),
                interval: AtomicU64::new(0),
                clock: AtomicU32::new(crate::clock::TICKLESS_CLOCK_MONOTONIC),
            }),
        }
    }

    /// Returns the version without reading the record.
    pub(super) fn version(&self) -> Version {
        // Sequentially consistent: the re-reading of the delivery rule.
        Version(self.current.load(Ordering::SeqCst))
    }

    /// Returns the current record and its version. Reads again if a writer publishes meanwhile.
    pub(super) fn load(&self) -> (Version, Arm) {
        loop {
            // Acquire: pairs with the publication; the record was filled before.
            let current = self.current.load(Ordering::Acquire);
            let arm = self.read(current);
            // Acquire: a value of the next use of the record comes with the release fence of its writer, after which
            // the word below differs.
            fence(Ordering::Acquire);
            // Relaxed: ordered by the fence.
            if self.current.load(Ordering::Relaxed) == current {
                return (Version(current), arm);
            }
        }
    }

    /// Publishes `arm` unless `alive` returns false, and returns the setting that `arm` replaced.
    pub(super) fn replace(&self, arm: &Arm, alive: impl Fn() -> bool) -> Result<Arm, Errno> {
        let index = self.claim()?;
        // Release: pairs with the acquire fence of `load`.
        fence(Ordering::Release);
        if let Some(record) = self.records.get(index) {
            // Relaxed, all three: ordered by the fence above for readers of the former use, and published below.
            record.start.store(arm.start, Ordering::Relaxed);
            record.interval.store(arm.interval, Ordering::Relaxed);
            record.clock.store(number_of(arm.clock), Ordering::Relaxed);
        }
        loop {
            // Acquire: pairs with the publication of the record that is replaced.
            let current = self.current.load(Ordering::Acquire);
            if !alive() {
                self.release(index);
                return Err(Errno::INVAL);
            }
            let next = ((current | INDEX) + 1) | index as u64;
            // Sequentially consistent: the replacement of the delivery rule.
            if self
                .current
                .compare_exchange(current, next, Ordering::SeqCst, Ordering::Relaxed)
                .is_ok()
            {
                let former = self.read(current);
                self.release(index_of(current));
                return Ok(former);
            }
        }
    }

    fn claim(&self) -> Result<usize, Errno> {
        for _ in 0..RECORDS * RECORDS {
            // Relaxed: a guess, checked by the exchange.
            let taken = self.taken.load(Ordering::Relaxed);
            let index = taken.trailing_ones() as usize;
            if index >= RECORDS {
                return Err(Errno::AGAIN);
            }
            // Acquire: pairs with `release`, so that the former reader of the record is done.
            if self.taken.fetch_or(1 << index, Ordering::Acquire) & (1 << index) == 0 {
                return Ok(index);
            }
        }
        Err(Errno::AGAIN)
    }

    fn release(&self, index: usize) {
        // Release: pairs with `claim`.
        self.taken.fetch_and(!(1 << index), Ordering::Release);
    }

    fn read(&self, current: u64) -> Arm {
        let Some(record) = self.records.get(index_of(current)) else {
            return Arm::DISARMED;
        };
        // Relaxed, all three: the callers say how they are ordered.
        Arm {
            start: record.start.load(Ordering::Relaxed),
            interval: record.interval.load(Ordering::Relaxed),
            clock: crate::clock::clock_of(record.clock.load(Ordering::Relaxed))
                .unwrap_or(Clock::Monotonic),
        }
    }
}

fn index_of(current: u64) -> usize {
    usize::try_from(current & INDEX).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use tickless::hrtimer::Clock;

    use super::{Arm, Arms};

    fn arm(start: u64, interval: u64) -> Arm {
        Arm {
            start,
            interval,
            clock: Clock::Monotonic,
        }
    }

    #[test]
    fn expirations_are_counted_by_arithmetic() {
        assert_eq!(arm(100, 0).expirations(99), 0);
        assert_eq!(arm(100, 0).expirations(u64::MAX), 1);
        assert_eq!(arm(100, 10).expirations(100), 1);
        assert_eq!(arm(100, 10).expirations(119), 2);
        assert_eq!(arm(0, 1).expirations(u64::MAX), u64::MAX);
        assert_eq!(Arm::DISARMED.expirations(u64::MAX), 0);
        assert_eq!(arm(100, 10).next(99), Some(100));
        assert_eq!(arm(100, 10).next(100), Some(110));
        assert_eq!(arm(100, 10).next(119), Some(120));
        assert_eq!(arm(100, 0).next(100), None);
        assert_eq!(arm(0, 2).next(u64::MAX), None);
    }

    #[test]
    fn readers_never_see_half_a_record() {
        let arms = Arms::new();
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for writer in 1..=2_u64 {
                let (arms, over) = (&arms, &over);
                scope.spawn(move || {
                    for round in 0..20_000 {
                        let start = writer * 1_000_000 + round;
                        let _former = arms.replace(&arm(start, start), || true);
                    }
                    over.store(true, Ordering::Relaxed);
                });
            }
            while !over.load(Ordering::Relaxed) {
                let (_, seen) = arms.load();
                assert!(
                    seen == Arm::DISARMED || seen.start == seen.interval,
                    "{seen:?}"
                );
            }
        });
    }

    #[test]
    fn a_fifth_writer_is_refused() {
        let arms = Arms::new();
        for _ in 0..3 {
            arms.claim().unwrap();
        }
        assert!(arms.replace(&arm(1, 0), || true).is_err());
        arms.release(2);
        assert_eq!(arms.replace(&arm(1, 0), || true), Ok(Arm::DISARMED));
        assert_eq!(arms.replace(&arm(2, 0), || true), Ok(arm(1, 0)));
        assert!(arms.replace(&arm(3, 0), || false).is_err());
        assert_eq!(arms.load().1, arm(2, 0));
    }
}
