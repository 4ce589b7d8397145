//! An emulated slow counter that all threads share, with a check of the values that the threads read. Each thread reads
//! the counter itself, or the reads are combined.
//!
//! # The emulation
//!
//! A device on a bus serves one read at a time, in the order of their arrival. Each read takes [`ACCESS`]. The bus
//! continues with the next read even if the thread of the current read has lost its CPU. So the emulation books the
//! next free interval of the bus for a read, and the thread spins until this interval is over. A lock would not be a
//! fair emulation: a thread that lost its CPU would hold the lock, which no bus does, and direct reads would be slower
//! for that reason.
//!
//! # The check
//!
//! A [`Record`] has the times before and after a read, by the kernel's clock, and the value that the read returned. A
//! read that began after another read had ended must not return a smaller value (spec C-6.3). The check runs offline:
//! in the order of their beginnings, each read is compared with the greatest value of the reads that ended before it
//! began.

use std::io::{self, Write};
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

use tickless_core::clock::combined::{ATTEMPTS_MAX, Combined, Patience, SlowCounter};
use tickless_core::time::convert::Cycles;

/// The time that the bus is busy with a read, in nanoseconds.
const ACCESS: u64 = 1_500;

/// A counter that threads read.
pub(crate) trait Read: Sync {
    /// Returns the lower 32 bits of the counter.
    fn read(&self) -> u32;
}

/// The counter on the bus. It counts units of a hundred nanoseconds, and wraps after seven minutes.
#[derive(Debug)]
pub(crate) struct SlowRegister {
    start: Instant,
    /// The time until which the bus is booked, in nanoseconds.
    booked: AtomicU64,
}

impl SlowRegister {
    pub(crate) fn new() -> Self {
        Self {
            start: Instant::now(),
            booked: AtomicU64::new(0),
        }
    }

    fn nanos(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    fn sample(&self) -> u64 {
        let now = self.nanos();
        let book = |booked: u64| Some(booked.max(now) + ACCESS);
        // Relaxed: the value is all there is, and bookings have one order.
        let before = self
            .booked
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, book);
        let (Ok(before) | Err(before)) = before;
        let end = before.max(now) + ACCESS;
        while self.nanos() < end {
            std::hint::spin_loop();
        }
        // What it showed at the end of the access.
        end / 100
    }
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "it wraps, as a counter of 32 bits does"
)]
const fn low(value: u64) -> u32 {
    value as u32
}

/// A counter that each thread reads itself.
pub(crate) struct Direct<'a>(pub(crate) &'a SlowRegister);

impl Read for Direct<'_> {
    fn read(&self) -> u32 {
        low(self.0.sample())
    }
}

/// A counter whose reads are combined.
pub(crate) struct Joined<'a>(Combined<Shared<'a>>);

impl<'a> Joined<'a> {
    pub(crate) fn new(register: &'a SlowRegister) -> Self {
        Self(Combined::new(Shared(register)))
    }
}

impl Read for Joined<'_> {
    fn read(&self) -> u32 {
        low(self.0.read_joined().0)
    }
}

struct Shared<'a>(&'a SlowRegister);

impl SlowCounter for Shared<'_> {
    type Sample = Cycles;
    type Masked = ();

    fn sample(&self) -> Cycles {
        Cycles(self.0.sample())
    }
    fn mask(&self) {}
    fn unmask(&self, (): ()) {}

    /// Spins first, and then yields. The holder may have lost its CPU, perhaps to this thread; the yields let the
    /// holder run before it is replaced.
    fn relax(&self, attempt: u32) -> Patience {
        if attempt < ATTEMPTS_MAX {
            std::hint::spin_loop();
            return Patience::Lasts;
        }
        thread::yield_now();
        if attempt < ATTEMPTS_MAX + YIELDS {
            Patience::Lasts
        } else {
            Patience::Ends
        }
    }
}

/// The number of times that a waiter yields before it replaces the holder.
const YIELDS: u32 = 4;

/// One read: its beginning and end, in nanoseconds, and the value that it returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Record {
    begin: u64,
    end: u64,
    value: u32,
}

/// An error: a read returned less than another read that had ended before it began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Backwards {
    before: Record,
    after: Record,
}

/// A checker of records, batch after batch. No batch overlaps the next batch.
#[derive(Debug, Default)]
struct Checker {
    /// The record with the greatest value of all batches so far.
    greatest: Option<Record>,
    checked: u64,
    /// The number of pairs of consecutive reads, ordered by their beginnings, in which the second read began before the
    /// first had ended.
    overlapping: u64,
}

/// Returns true if `one` is an earlier value than `other`, for a counter that wraps.
const fn is_less(one: u32, other: u32) -> bool {
    one.wrapping_sub(other).cast_signed() < 0
}

impl Checker {
    fn check(&mut self, batch: &mut [Record]) -> Result<(), Backwards> {
        batch.sort_by_key(|record| record.begin);
        let mut by_end = batch.to_vec();
        by_end.sort_by_key(|record| record.end);
        let mut ended = by_end.iter().peekable();
        let mut last_end = 0;
        for record in batch.iter() {
            while let Some(over) = ended.next_if(|over| over.end < record.begin) {
                self.keep_greatest(*over);
            }
            if let Some(before) = self.greatest
                && is_less(record.value, before.value)
            {
                let after = *record;
                return Err(Backwards { before, after });
            }
            self.checked += 1;
            self.overlapping += u64::from(record.begin < last_end);
            last_end = record.end;
        }
        for over in ended {
            self.keep_greatest(*over);
        }
        Ok(())
    }

    fn keep_greatest(&mut self, record: Record) {
        if self
            .greatest
            .is_none_or(|greatest| is_less(greatest.value, record.value))
        {
            self.greatest = Some(record);
        }
    }
}

/// Reads the counter `each` times on each of `threads` threads at the same time, and returns the records.
fn record(counter: &impl Read, threads: u32, each: u64, start: Instant) -> Vec<Record> {
    let together = Barrier::new(threads as usize);
    let nanos = || u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
    thread::scope(|scope| {
        let readers = (0..threads).map(|_| {
            scope.spawn(|| {
                together.wait();
                let read = |_| {
                    let begin = nanos();
                    let value = counter.read();
                    Record {
                        begin,
                        value,
                        end: nanos(),
                    }
                };
                (0..each).map(read).collect::<Vec<_>>()
            })
        });
        let readers: Vec<_> = readers.collect();
        let records = readers.into_iter();
        records
            .flat_map(|reader| reader.join().expect("reading does not panic"))
            .collect()
    })
}

/// The number of reads whose records are in memory at a time.
const BATCH: u64 = 1_000_000;
const THREADS: [u32; 3] = [2, 4, 8];

/// Runs `--check`: makes `reads` combined reads, by 2, 4 and 8 threads in turns, and checks them. Returns false if a
/// read returned less than an earlier read.
pub(crate) fn check(reads: u64) -> io::Result<bool> {
    let register = SlowRegister::new();
    let joined = Joined::new(&register);
    let start = Instant::now();
    let mut checker = Checker::default();
    let mut turns = THREADS.into_iter().cycle();
    while checker.checked < reads {
        let threads = turns.next().unwrap_or(1);
        let batch = BATCH.min(reads - checker.checked);
        let each = batch.div_ceil(u64::from(threads));
        let mut records = record(&joined, threads, each, start);
        if let Err(Backwards { before, after }) = checker.check(&mut records) {
            writeln!(
                io::stdout(),
                "FAILED: a read from {} to {} ns returned {}, after one that ended at {} ns had returned {}",
                after.begin,
                after.end,
                after.value,
                before.end,
                before.value
            )?;
            return Ok(false);
        }
    }
    let mut out = io::stdout().lock();
    writeln!(
        out,
        "{} combined reads of an emulated counter of 1.5 us by 2, 4 and 8 threads in {:.1} s, of which {} began before \
         the one before them had ended: none returned less than one that had ended when it began",
        checker.checked,
        start.elapsed().as_secs_f64(),
        checker.overlapping
    )?;
    out.flush()?;
    Ok(true)
}

#[cfg(test)]
mod tests;
