//! An emulated slow counter that all threads share, read by each for itself or combined, with the check of the values
//! that they read.
//!
//! # The emulation
//!
//! A device on a bus serves one read at a time, each for [`ACCESS`], in the order in which they came, and goes on with
//! the next one whether or not the thread that asked still has its CPU. So a read books the next free place in the
//! queue of the bus, and is busy until that is over. A lock would be held by threads that lost their CPU, which no bus
//! does, and would punish direct reads for it.
//!
//! # The check
//!
//! A [`Record`] has the moments before and behind a read, by the kernel's clock, and what it returned. A read that
//! began after another one had returned must not have returned less (spec C-6.3). That is checked offline: in the order
//! of their beginnings each read is compared with the greatest that had ended before.

use std::io::{self, Write};
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

use tickless_core::clock::combined::{ATTEMPTS_MAX, Combined, Patience, SlowCounter};
use tickless_core::time::convert::Cycles;

/// The time that the bus is busy with a read, in nanoseconds.
const ACCESS: u64 = 1_500;

/// A counter that is read.
pub(crate) trait Read: Sync {
    /// A value of 32 bits.
    fn read(&self) -> u32;
}

/// The counter behind the bus. It counts a hundred nanoseconds, and wraps after seven minutes.
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

/// Each thread reads it itself.
pub(crate) struct Direct<'a>(pub(crate) &'a SlowRegister);

impl Read for Direct<'_> {
    fn read(&self) -> u32 {
        low(self.0.sample())
    }
}

/// Reads are combined.
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

    /// The holder may have lost its CPU, perhaps to this very thread: it gets it back before it is replaced.
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

/// One read: from when to when, in nanoseconds, and what it returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Record {
    begin: u64,
    end: u64,
    value: u32,
}

/// A read that returned less than one that had ended before it began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Backwards {
    before: Record,
    after: Record,
}

/// Checks records of reads, batch after batch, of which none overlaps the next.
#[derive(Debug, Default)]
struct Checker {
    /// The greatest value of all batches so far.
    greatest: Option<Record>,
    checked: u64,
    /// Pairs of neighbours, by their beginnings, of which the second began before the first had ended.
    overlapping: u64,
}

/// Returns true if `one` is behind `other`, of a counter that wraps.
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

/// Reads `each` times on each of `threads`, all at once.
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

/// Reads that are held in memory at a time.
const BATCH: u64 = 1_000_000;
const THREADS: [u32; 3] = [2, 4, 8];

/// `--check`: `reads` combined reads in all, by 2, 4 and 8 threads in turns, checked; `false` if one went back.
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
