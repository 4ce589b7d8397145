//! A clock that approximates a reference clock by a linear function of a counter, which is cheaper to read.
//!
//! In user space the kernel keeps the time. To read the kernel's clock takes 20 to 30 ns, and a process that reads it
//! often pays this cost each time. So a [`Follower`] reads a counter, and computes the time of the kernel's clock by a
//! line: the kernel steers its clock, and the follower follows. A line is valid for [`WINDOW`]. The first reading after
//! the end of a line reads the reference, and makes the next line.
//!
//! # Why it never runs backwards
//!
//! A line defines the time that the clock shows from one counter value to another. It is published *before* a reading
//! uses it, by one exchange of a word that names the line. The next line begins at a counter value for which no reading
//! used the previous line, and at the time that the previous line showed at its end or later. So all lines together are
//! one function of the counter that never falls (invariant *line*, `line.rs`). Two readings that are ordered, on one
//! thread or by synchronisation between two threads, return times in that order, for two reasons:
//!
//! - The later reading uses the line of the earlier reading or a later line, because the word that names the line is an
//!   atomic.
//! - On the same line the later reading has read the counter later, if the reads of the counter were
//!   [ordered](Reference::cycles) and the counters of all CPUs agree.
//!
//! No reader waits for another reader. A thread that is preempted while it makes a line has not published the line, and
//! the next reader makes its own line.
//!
//! # Accuracy
//!
//! The reference is read between two readings of the counter, so each reading gives an interval for the time. If the
//! line passes through the interval, the next line continues it; otherwise the next line begins at the nearer end of
//! the interval. If the thread was interrupted during the reading, the interval is wide, so the reference is read again,
//! a few times. An interval that is wider than [`WIDTH`] even then does not move the line. So the error at the beginning
//! of a line is the width of an interval, 55 ns usually and [`WIDTH`] at most. Within a window the error grows by the
//! distance by which the reference can be steered. The sum is [`ERROR`] at most; if it would be more, each reading reads
//! the reference.
//!
//! # Cost
//!
//! A reading takes nine loads, a reading of the counter and one multiplication, but no store. With a line that the
//! thread has [kept](Kept) it takes six loads. One reading in each window takes a reading of the reference, three
//! readings of the counter, and two atomic exchanges.

use tickless_link::const_unless_loom;
use tickless_link::sync::{AtomicBool, AtomicU64, CachePadded, Ordering, fence, spin_loop};

use crate::time::Instant;

mod kept;
mod line;
#[cfg(all(test, loom))]
mod model;

pub use kept::Kept;
pub use line::{ERROR, WIDTH, WINDOW};
use line::{Line, LineCheck, LinePosition, NARROW};

/// The counter and the reference clock that a [`Follower`] reads.
pub trait Reference {
    /// Reads the counter in order: after the thread's earlier instructions have finished, and before its later
    /// instructions. The counters of all CPUs MUST agree.
    fn cycles(&self) -> u64;

    /// Reads the reference clock, in nanoseconds. MUST NOT run backwards.
    fn nanos(&self) -> i64;

    /// Pauses a thread that finds all slots for lines taken; `attempt` counts from 0.
    fn relax(&self, attempt: u32);
}

/// A reading of the reference between two readings of the counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sandwich {
    /// The counter before the reference was read.
    pub before: u64,
    /// The reference, in nanoseconds.
    pub nanos: i64,
    /// The counter after the reference was read.
    pub behind: u64,
}

impl Sandwich {
    /// Reads the counter, the reference, and the counter again.
    #[inline]
    pub fn take(reference: &impl Reference) -> Self {
        let before = reference.cycles();
        let nanos = reference.nanos();
        let behind = reference.cycles();
        Self {
            before,
            nanos,
            behind,
        }
    }
}

/// A time, with bounds of its error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    /// The time that the clock shows.
    pub now: Instant,
    /// A time that the reference had reached before the reading.
    pub earliest: Instant,
    /// A time that the reference had not reached when the reading began.
    pub latest: Instant,
    /// The result of reading the reference; `None` if the reference was not read.
    pub asked: Option<Asked>,
}

/// The result of a reading of the reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    /// The reading of the reference, with the readings of the counter around it.
    pub taken: Sandwich,
    /// True if the distance of the reference from the line is larger than any steering explains.
    pub is_misfit: bool,
    /// True if no attempt gave an interval of at most [`WIDTH`]: the thread was interrupted in each attempt, or the
    /// reference is slow.
    pub is_wide: bool,
}

/// The greatest number of readings of the reference to get a narrow interval. A second interruption in a row is rare.
const TRIES: u32 = 3;

#[cfg(not(loom))]
const SLOTS: usize = 8;
#[cfg(loom)]
const SLOTS: usize = 2;
const SLOT_BITS: u32 = 8;

#[derive(Debug)]
#[repr(align(128))]
struct LineSlot {
    words: [AtomicU64; Line::WORDS],
    /// True while a thread writes a line into this slot and tries to publish the line.
    is_taken: AtomicBool,
}

impl LineSlot {
    const_unless_loom! {
        const fn new(line: Line) -> Self {
            let [a, b, c, d, e, f, g, h, i] = line.words();
            Self {
                words: [
                    AtomicU64::new(a),
                    AtomicU64::new(b),
                    AtomicU64::new(c),
                    AtomicU64::new(d),
                    AtomicU64::new(e),
                    AtomicU64::new(f),
                    AtomicU64::new(g),
                    AtomicU64::new(h),
                    AtomicU64::new(i),
                ],
                is_taken: AtomicBool::new(false),
            }
        }
    }
}

/// The reasons why a line was not published.
enum NotLaid {
    /// Another thread published a line first.
    Outdated,
    /// Other threads that publish lines have taken all slots.
    Full,
}

/// A clock that approximates a reference by a line over a counter.
#[derive(Debug)]
pub struct Follower {
    /// The slot of the current line, in the lowest [`SLOT_BITS`] bits, and above them the number of earlier lines.
    current: CachePadded<AtomicU64>,
    slots: [LineSlot; SLOTS],
}

impl Default for Follower {
    fn default() -> Self {
        Self::new()
    }
}

impl Follower {
    #[cfg(not(loom))]
    /// Makes a clock that reads the reference each time, until a call of [`follow`](Self::follow).
    #[must_use]
    pub const fn new() -> Self {
        Self {
            current: CachePadded(AtomicU64::new(0)),
            slots: [const { LineSlot::new(Line::ask(i64::MIN)) }; SLOTS],
        }
    }

    #[cfg(loom)]
    /// Makes the same clock as the constructor without loom.
    #[must_use]
    pub fn new() -> Self {
        Self {
            current: CachePadded(AtomicU64::new(0)),
            slots: core::array::from_fn(|_| LineSlot::new(Line::ask(i64::MIN))),
        }
    }

    #[inline]
    fn slot(&self, current: u64) -> &LineSlot {
        let mask = (SLOTS - 1) as u64;
        #[expect(clippy::cast_possible_truncation, reason = "below the number of slots")]
        &self.slots[(current & mask) as usize]
    }

    /// Returns the value of `current`, which identifies the line, and a copy of the first `N` words of the line.
    #[inline]
    fn read<const N: usize>(&self) -> (u64, [u64; N]) {
        loop {
            // Acquire: pairs with the Release of the exchange in `lay`, so that the words of that line are seen.
            let before = self.current.load(Ordering::Acquire);
            let slot = self.slot(before);
            // Relaxed: words of a line that was written over are found out below.
            let words = core::array::from_fn(|word| slot.words[word].load(Ordering::Relaxed));
            // Pairs with the Release fence in `lay`: a reader that read a word of a later line there sees that the slot
            // was not the current one any more.
            fence(Ordering::Acquire);
            if self.current.load(Ordering::Relaxed) == before {
                return (before, words);
            }
            spin_loop();
        }
    }

    /// Publishes `line` as the successor of the line that `seen` names, unless another thread has published a line
    /// meanwhile.
    fn lay(&self, seen: u64, line: &Line) -> Result<(), NotLaid> {
        for (number, slot) in (0_u64..).zip(&self.slots) {
            // Acquire: pairs with the Release below, so that writers of one slot follow each other.
            if slot.is_taken.load(Ordering::Relaxed) || slot.is_taken.swap(true, Ordering::Acquire)
            {
                continue;
            }
            // Acquire: with the fence below, see `read`. Only the thread that has taken a slot makes it the current
            // one: what is not now will not be.
            let current = self.current.load(Ordering::Acquire);
            let is_current = current % (1 << SLOT_BITS) == number;
            let mut laid = Err(NotLaid::Outdated);
            if current == seen && !is_current {
                fence(Ordering::Release);
                for (target, word) in slot.words.iter().zip(line.words()) {
                    target.store(word, Ordering::Relaxed);
                }
                let next = ((seen >> SLOT_BITS).wrapping_add(1) << SLOT_BITS) | number;
                // Release: pairs with the Acquire in `read`.
                laid = self
                    .current
                    .compare_exchange(seen, next, Ordering::Release, Ordering::Relaxed)
                    .map(drop)
                    .map_err(|_| NotLaid::Outdated);
            }
            // Release: pairs with the Acquire above.
            slot.is_taken.store(false, Ordering::Release);
            if is_current && current == seen {
                continue;
            }
            return laid;
        }
        Err(NotLaid::Full)
    }

    /// Returns the time, which can be compared with the times that other threads get. `cycles` reads the counter,
    /// [ordered](Reference::cycles); `slowly` is called if the reference has to be [read](Self::ask).
    #[inline]
    pub fn now(&self, cycles: impl FnOnce() -> u64, slowly: impl FnOnce() -> Reading) -> Instant {
        // The counter first: what is read of the line meanwhile is the line of any earlier reading or a later one,
        // whatever the order, and an ordered counter waits for nothing of it.
        let cycles = cycles();
        let (_, fast) = self.read::<{ Line::FAST }>();
        match Line::shows(fast, cycles) {
            Some(nanos) => Instant::from_nanos(nanos),
            None => slowly().now,
        }
    }

    /// Returns a time that has passed and a time that has not, as bounds for this thread alone. `cycles` need not be
    /// ordered.
    #[inline]
    pub fn bounds(
        &self,
        cycles: impl FnOnce() -> u64,
        slowly: impl FnOnce() -> Reading,
    ) -> (Instant, Instant) {
        let cycles = cycles();
        let (_, fast) = self.read::<{ Line::FAST }>();
        if let Some(nanos) = Line::shows(fast, cycles) {
            let error = Line::error_at(fast, nanos);
            return (
                Instant::from_nanos(nanos - error),
                Instant::from_nanos(nanos + error),
            );
        }
        let reading = slowly();
        (reading.earliest, reading.latest)
    }

    /// Returns the number of the line that is followed now. It changes with each reading of the reference.
    #[inline]
    pub fn line_number(&self) -> u64 {
        // Relaxed: the number alone is looked at.
        self.current.load(Ordering::Relaxed)
    }

    /// Returns true if a line is followed, false if each reading reads the reference.
    #[inline]
    pub fn is_following(&self) -> bool {
        let (_, [_, span]) = self.read();
        span != 0
    }

    /// Returns a time that has passed, without a reading; [`None`] if no line is followed.
    #[inline]
    pub fn recently(&self) -> Option<Instant> {
        let (_, fast) = self.read::<{ Line::FAST }>();
        let [_, span, _, _, base, _] = fast;
        (span != 0).then_some(Instant::from_nanos(base.cast_signed()))
    }

    /// Returns the counter value from which on [`bounds`](Self::bounds) place `when` in the past. If the line ends
    /// before `when`, returns the end of the line; the caller must call this function again at that value. Returns
    /// [`None`] if no line is followed.
    ///
    /// It is for threads that poll: each poll then takes one reading of the counter and a comparison.
    #[must_use]
    pub fn cycles_at(&self, when: Instant) -> Option<u64> {
        let line = self.line().1;
        (line.span != 0).then(|| line.cycles_at(when.as_nanos()))
    }

    /// Returns nanoseconds per cycle, times `2^32`; [`None`] if no line is followed.
    #[must_use]
    pub fn rate(&self) -> Option<u64> {
        let line = self.line().1;
        (!line.is_asking()).then_some(line.measured())
    }

    /// Returns the largest error of the line; [`None`] if no line is followed.
    #[must_use]
    pub fn error(&self) -> Option<u64> {
        let line = self.line().1;
        (line.span != 0).then_some(line.error)
    }

    fn line(&self) -> (u64, Line) {
        let (current, words) = self.read();
        (current, Line::from_words(words))
    }

    /// Returns the time, and reads the reference if the line has ended.
    #[cold]
    pub fn ask(&self, reference: &impl Reference) -> Reading {
        let mut attempt = 0;
        loop {
            let (seen, line) = self.line();
            if line.is_asking() {
                let taken = Sandwich::take(reference);
                // The readings are over, because that of the counter is ordered. So a thread that follows the
                // reference from here on reads it later: a line begins with a reading after this one was replaced.
                // Acquire: with the Release in `lay`, as in `read`.
                if self.current.load(Ordering::Acquire) == seen {
                    return exactly(taken, taken.nanos.max(line.base), false, false);
                }
                continue;
            }
            match line.place(reference.cycles()) {
                LinePosition::On(nanos) | LinePosition::Before(nanos) => {
                    return within(nanos, line.error_for(nanos));
                }
                LinePosition::Off => {}
            }
            let (taken, is_wide) = narrowest(&line, reference);
            let (next, verdict) = line.next(&taken);
            match self.lay(seen, &next) {
                Err(NotLaid::Full) => {
                    reference.relax(attempt);
                    attempt += 1;
                }
                Err(NotLaid::Outdated) => spin_loop(),
                Ok(()) => {
                    let is_misfit = verdict == LineCheck::Misfit;
                    if next.span == 0 {
                        return exactly(taken, next.base, is_misfit, is_wide);
                    }
                    let LinePosition::On(nanos) = next.place(taken.behind) else {
                        continue;
                    };
                    return exactly(taken, nanos, is_misfit, is_wide);
                }
            }
        }
    }

    /// Follows the reference from now on by a counter that takes `rate` nanoseconds for a cycle, times `2^32`, as
    /// measured. Times that were returned before the call are not later than times that are returned after it.
    ///
    /// Has no effect if a line is followed already, or the rate is zero.
    pub fn follow(&self, rate: u64, reference: &impl Reference) {
        self.replace(reference, |line| {
            (line.is_asking() && rate != 0).then(|| Line::unknown(rate, line.base))
        });
    }

    /// Reads the reference each time from now on. The clock stands still until the reference has caught up.
    pub fn give_up(&self, reference: &impl Reference) {
        self.replace(reference, |line| {
            (!line.is_asking()).then(|| Line::ask(line.end()))
        });
    }

    /// Frees the slots of other threads that were about to publish a line, in a process in which only the calling
    /// thread is left, as after a fork.
    pub fn forget_others(&self) {
        for slot in &self.slots {
            slot.is_taken.store(false, Ordering::Relaxed);
        }
    }

    fn replace(&self, reference: &impl Reference, by: impl Fn(&Line) -> Option<Line>) {
        let mut attempt = 0;
        loop {
            let (seen, line) = self.line();
            let Some(next) = by(&line) else { return };
            match self.lay(seen, &next) {
                Ok(()) => return,
                Err(NotLaid::Outdated) => {}
                Err(NotLaid::Full) => {
                    reference.relax(attempt);
                    attempt += 1;
                }
            }
        }
    }
}

/// Returns the narrowest of a few readings, and true if even this reading is wide.
fn narrowest(line: &Line, reference: &impl Reference) -> (Sandwich, bool) {
    let width = |taken: &Sandwich| line.nanos_of(taken.behind.wrapping_sub(taken.before));
    let mut best = Sandwich::take(reference);
    for _ in 1..TRIES {
        if width(&best) <= NARROW {
            break;
        }
        let another = Sandwich::take(reference);
        if width(&another) < width(&best) {
            best = another;
        }
    }
    (best, width(&best) > WIDTH)
}

fn within(nanos: i64, error: i64) -> Reading {
    Reading {
        now: Instant::from_nanos(nanos),
        earliest: Instant::from_nanos(nanos.saturating_sub(error)),
        latest: Instant::from_nanos(nanos.saturating_add(error)),
        asked: None,
    }
}

fn exactly(taken: Sandwich, shown: i64, is_misfit: bool, is_wide: bool) -> Reading {
    Reading {
        now: Instant::from_nanos(shown),
        // A time that this clock did not show is not over.
        earliest: Instant::from_nanos(taken.nanos.min(shown)),
        latest: Instant::from_nanos(taken.nanos.max(shown)),
        asked: Some(Asked {
            taken,
            is_misfit,
            is_wide,
        }),
    }
}
