//! A clock that approximates another one by a line over a counter, which is cheaper to read.
//!
//! In user space the kernel keeps the time. Asking it takes 20 to 30 ns, and a process that asks all the time for what
//! it could compute pays that each time. So a [`Follower`] reads a counter, and computes by a straight line what the
//! kernel's clock shows: the kernel steers, and we follow. The line is good for [`WINDOW`]; the reading that comes
//! after its end asks the reference, and lays the next.
//!
//! # Why it never runs backwards
//!
//! A line says what the clock shows from one counter value to another, and is decided upon *before* a reading is
//! answered by it: by one exchange of a word that names it. The next one begins where no reading was answered yet, at
//! what the one before showed at its end or later. So all of them together are one function of the counter that never
//! falls (invariant *line*, `line.rs`), and two readings that are ordered, on one thread or by synchronisation between
//! two, are answered in that order:
//!
//! - the later one sees the line of the earlier one or a later line, because the word that names it is an atomic;
//! - on one line the later one has read the counter later, if that was [ordered](Reference::cycles) and the counters of
//!   all CPUs agree.
//!
//! No reader waits for another: a thread that is preempted while it lays a line has decided nothing, and the next
//! reader lays its own.
//!
//! # How close it is
//!
//! The reference is read between two readings of the counter, so each reading leaves an interval open. A line that goes
//! through the interval goes on; another is moved to its nearer end. A reading during which the thread was preempted
//! has a wide interval, which says nothing and moves nothing. So at the beginning of a line its error is the width of a
//! narrow interval, [`WIDTH`] at most, and it grows by what the reference can be steered by within a window. The sum is
//! [`ERROR`] at most; where it would be more, each reading asks the reference.
//!
//! # Cost
//!
//! A reading: nine loads, the counter, one multiplication; no store. By a line that the thread has [kept](Kept): six
//! loads. Once in a window: the reference, three readings of the counter, and two atomic exchanges.

use tickless_link::const_unless_loom;
use tickless_link::sync::{AtomicBool, AtomicU64, CachePadded, Ordering, fence, spin_loop};

use crate::time::Instant;

mod kept;
mod line;
#[cfg(all(test, loom))]
mod model;

pub use kept::Kept;
pub use line::{ERROR, WIDTH, WINDOW};
use line::{Line, LineCheck, LinePosition};

/// The clocks that a [`Follower`] reads.
pub trait Reference {
    /// Reads the counter in order: not before the thread's earlier instructions are over, nor after its later ones. The
    /// counters of all CPUs MUST agree.
    fn cycles(&self) -> u64;

    /// Reads the reference clock, in nanoseconds. MUST NOT run backwards.
    fn nanos(&self) -> i64;

    /// Pauses a thread that finds all places taken; `attempt` counts from 0.
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
    /// The reading of the reference, if there was one.
    pub asked: Option<Asked>,
}

/// The result of a reading of the reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    /// The readings.
    pub taken: Sandwich,
    /// True if the reference is off the line by more than any steering explains.
    pub is_misfit: bool,
    /// True if no attempt was narrow: the thread was interrupted in each, or the reference is slow.
    pub is_wide: bool,
}

/// Number of readings of the reference in search of a narrow interval. A second interruption in a row is rare.
const TRIES: u32 = 3;

#[cfg(not(loom))]
const SLOTS: usize = 8;
#[cfg(loom)]
const SLOTS: usize = 2;
const SLOT_BITS: u32 = 8;

/// A place for a line.
#[derive(Debug)]
#[repr(align(128))]
struct LineSlot {
    words: [AtomicU64; Line::WORDS],
    /// A thread writes here, or decides whether what it wrote counts.
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

/// The reasons why a line was not laid.
enum NotLaid {
    /// Another thread laid a line.
    Outdated,
    /// Threads that lay lines have all places.
    Full,
}

/// A clock that approximates a reference by a line over a counter.
#[derive(Debug)]
pub struct Follower {
    /// The slot that holds the line, below [`SLOT_BITS`], and the number of lines before it.
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
    /// Makes a follower, as the constructor without loom does.
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

    /// Copies the first `N` words of the line, and which one it is.
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

    /// Publishes `line` as the successor of the one that `seen` names, unless another thread published one.
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

    /// Returns the time, comparable with that of any other thread. `cycles` reads the counter,
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
    /// before `when`, returns its end, at which the caller has to call this again. [`None`] if no line is followed.
    ///
    /// It is for threads that poll, which then need one reading of the counter and a comparison.
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
    /// measured. Times that were returned before are not ahead of times that will be.
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

    /// Forgets other threads that are about to publish a line, in a process in which only the calling thread is left,
    /// as after a fork.
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

/// The narrowest of a few readings, and whether it is wide.
fn narrowest(line: &Line, reference: &impl Reference) -> (Sandwich, bool) {
    let width = |taken: &Sandwich| line.nanos_of(taken.behind.wrapping_sub(taken.before));
    let mut best = Sandwich::take(reference);
    for _ in 1..TRIES {
        if width(&best) <= WIDTH {
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
