//! The count of ticks, the CPU that has the duty of counting, and the reaction of the other CPUs if that CPU does not
//! count (spec C-7.2).

use core::fmt;

use tickless_link::lock::{Lock, RawLock};
use tickless_link::seqlock::{SeqCell, Writer};
use tickless_link::sync::{AtomicBool, AtomicI64, AtomicU64, Ordering};

use crate::cpu::CpuId;
use crate::slots::geometry::Tick;
use crate::time::{Instant, Span};
use crate::wheel::idle::TickTime;

/// The number of successive ticks at which a CPU sees the same count before it counts itself (spec C-7.2, R34).
pub const STALL_TICKS: u32 = 5;

/// The CPU that has the duty of counting ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Duty {
    /// No CPU has the duty. The next CPU that runs a tick takes it.
    Free {
        /// The CPU that last had the duty. It still wakes up at intervals, so that the clock's counter does not wrap
        /// unseen.
        last: Option<CpuId>,
    },
    /// One CPU has the duty, and counts at each of its ticks.
    Taken {
        /// The CPU that has the duty.
        by: CpuId,
    },
}

/// The position of the kind in a duty's word, above the number of the CPU.
const KIND_SHIFT: u32 = 32;
const NEVER_HELD: u64 = 0;
const FREE: u64 = 1;
const HELD: u64 = 2;

impl Duty {
    const fn word(self) -> u64 {
        match self {
            Self::Free { last: None } => NEVER_HELD,
            Self::Free { last: Some(cpu) } => FREE << KIND_SHIFT | cpu.0 as u64,
            Self::Taken { by } => HELD << KIND_SHIFT | by.0 as u64,
        }
    }

    const fn of(word: u64) -> Self {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "the lower half is the number"
        )]
        let cpu = CpuId(word as u32);
        match word >> KIND_SHIFT {
            NEVER_HELD => Self::Free { last: None },
            FREE => Self::Free { last: Some(cpu) },
            _ => Self::Taken { by: cpu },
        }
    }

    /// Returns true if `cpu` has the duty, or had the duty last while no CPU has it. If no CPU ever had it, any CPU may
    /// read the clock, because all may become idle before the first tick.
    #[must_use]
    pub fn concerns(self, cpu: CpuId) -> bool {
        match self {
            Self::Free { last } => last.is_none_or(|last| last == cpu),
            Self::Taken { by } => by == cpu,
        }
    }
}

/// The counts that a CPU saw at its own ticks.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SeenCounts {
    seen: Tick,
    equal: u32,
}

impl SeenCounts {
    /// Notes the count that the CPU sees at a tick. Returns true if the count has been the same for [`STALL_TICKS`]
    /// ticks.
    const fn sees(&mut self, tick: Tick) -> bool {
        if tick.0 == self.seen.0 {
            self.equal = self.equal.saturating_add(1);
        } else {
            self.seen = tick;
            self.equal = 1;
        }
        self.equal >= STALL_TICKS
    }

    /// Notes the count after this CPU counted. If the CPU sees the same count at the next tick, no other CPU has
    /// counted meanwhile.
    const fn left(&mut self, tick: Tick) {
        self.seen = tick;
    }
}

/// The count of ticks of a machine, with the instant at which the present tick began.
///
/// `L` is the lock of the CPUs that count. If timer interrupts can arrive while it is held, it MUST mask them: a reader
/// that interrupted the writer would wait for ever.
///
/// # Cost
///
/// A reading takes four loads, and waits while a CPU writes three words. [`update`](TickCount::update) takes one load
/// if no tick has to be counted.
pub struct TickCount<L: RawLock> {
    period: Span,
    /// The count, and the instant at which the present tick began.
    pair: SeqCell<2>,
    /// Begin of the next tick, in nanoseconds.
    next_period: AtomicI64,
    /// True while a CPU without the duty counts (R41).
    contender: AtomicBool,
    /// The duty, encoded by [`Duty::word`].
    duty: AtomicU64,
    /// True if tasks run without a tick and rely on the CPU that has the duty (spec C-5.5).
    kept_for_tasks: AtomicBool,
    overdue: AtomicU64,
    writer: Lock<L, Writer>,
}

impl<L: RawLock + Default> TickCount<L> {
    /// Makes a count of zero. The present tick began at `began`, and no CPU has the duty.
    ///
    /// # Panics
    ///
    /// When `period` is zero.
    #[must_use]
    pub fn new(period: Span, began: Instant) -> Self {
        assert!(!period.is_zero(), "a tick takes time");
        let (pair, writer) = SeqCell::new([0, began.as_nanos().cast_unsigned()]);
        Self {
            period,
            pair,
            next_period: AtomicI64::new(began.saturating_add(period).as_nanos()),
            contender: AtomicBool::new(false),
            duty: AtomicU64::new(Duty::Free { last: None }.word()),
            kept_for_tasks: AtomicBool::new(false),
            overdue: AtomicU64::new(0),
            writer: Lock::new(L::default(), writer),
        }
    }
}

impl<L: RawLock> TickCount<L> {
    /// Returns the length of a tick.
    #[inline]
    #[must_use]
    pub const fn period(&self) -> Span {
        self.period
    }

    /// Returns the last counted tick and the instant at which it began, as one consistent pair.
    #[must_use]
    pub fn now(&self) -> TickTime {
        let [tick, began] = self.pair.read();
        TickTime {
            tick: Tick(tick),
            began: Instant::from_nanos(began.cast_signed()),
            period: self.period,
        }
    }

    /// Counts the ticks that have passed at `now`, and returns their number.
    ///
    /// Any CPU may call it. The CPU with the duty calls it at each tick. A CPU without a tick calls it at the entry of
    /// an interrupt, so that no handler uses an old count (R33).
    ///
    /// # Interrupt context
    ///
    /// Callable in any interrupt. An interrupt cannot preempt a holder of the lock, because the lock masks interrupts.
    pub fn update(&self, now: Instant) -> u64 {
        // Acquire: pairs with the Release below. A CPU that finds nothing to count sees all that was counted.
        // (The fences of the sequence lock would see to that, too, but do not promise it.)
        if now.as_nanos() < self.next_period.load(Ordering::Acquire) {
            return 0;
        }
        let mut writer = self.writer.lock(None);
        // Relaxed: written under the lock, which is held. Again, because several come at once.
        let next = Instant::from_nanos(self.next_period.load(Ordering::Relaxed));
        if now < next {
            return 0;
        }
        // Rounds down: periods that are over, and the one that ended at `next`.
        let over = now.saturating_since(next).as_nanos() / self.period.as_nanos();
        let ticks = over + 1;
        let at = self.now();
        let began = at.instant_of(Tick(at.tick.0.saturating_add(ticks)));
        let words = [
            at.tick.0.saturating_add(ticks),
            began.as_nanos().cast_unsigned(),
        ];
        self.pair.publish(&mut writer, words);
        // Release: after the count, see above.
        let next = began.saturating_add(self.period);
        self.next_period.store(next.as_nanos(), Ordering::Release);
        ticks
    }

    /// Returns how often a CPU that went idle found its next coarse event before the tick in progress: a pass was late.
    #[must_use]
    pub fn overdue(&self) -> u64 {
        // Relaxed: a count.
        self.overdue.load(Ordering::Relaxed)
    }

    pub(crate) fn note_overdue(&self) {
        // Relaxed: a count.
        self.overdue.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the CPU that has the duty. The duty may have moved to another CPU since, unless the calling CPU has it.
    #[must_use]
    pub fn duty(&self) -> Duty {
        // Relaxed: says only which CPU counts. What is counted is published by itself.
        Duty::of(self.duty.load(Ordering::Relaxed))
    }

    /// Sets whether tasks run without a tick. While such tasks exist, the CPU with the duty keeps its tick and may not
    /// go offline (spec C-5.5).
    pub fn set_tickless_tasks(&self, exist: bool) {
        // Relaxed: a CPU that has stopped its tick before finds out when it evaluates again.
        self.kept_for_tasks.store(exist, Ordering::Relaxed);
    }

    /// Returns true if tasks run without a tick.
    #[must_use]
    pub fn has_tickless_tasks(&self) -> bool {
        // Relaxed: see `set_tickless_tasks`.
        self.kept_for_tasks.load(Ordering::Relaxed)
    }

    /// Counts for one tick of `cpu`, if `cpu` has the duty, or if the CPU with the duty does not count. `cpu` takes the
    /// duty first if no CPU has it and `may_take` is true. Returns the number of ticks that the call counted.
    pub(super) fn tick(
        &self,
        cpu: CpuId,
        now: Instant,
        may_take: bool,
        watch: &mut SeenCounts,
    ) -> u64 {
        let has_duty = match self.duty() {
            Duty::Taken { by } => by == cpu,
            free @ Duty::Free { .. } => may_take && self.change_duty(free, Duty::Taken { by: cpu }),
        };
        if has_duty {
            return self.update(now);
        }
        if !watch.sees(self.now().tick) {
            return 0;
        }
        let ticks = self.rescue(now);
        watch.left(self.now().tick);
        ticks
    }

    /// Counts in place of the CPU with the duty, unless another CPU does so already.
    ///
    /// All CPUs notice at the same time that no CPU counts. One CPU is enough, because the others would only wait for
    /// the lock (R41).
    pub(super) fn rescue(&self, now: Instant) -> u64 {
        // Relaxed: to leave a line alone that others use; the exchange decides.
        let is_taken = self.contender.load(Ordering::Relaxed)
            || self
                .contender
                // Acquire and, below, Release: one tries at a time, each after the other.
                .compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed)
                .is_err();
        if is_taken {
            return 0;
        }
        let ticks = self.update(now);
        // Not a store: loom 0.7 would let it come between what an exchange reads and what that writes, where nothing
        // can.
        self.contender.swap(false, Ordering::Release);
        ticks
    }

    /// Gives up the duty if `cpu` has it, and records that `cpu` had it last. Returns true if `cpu` had the duty.
    pub(super) fn give_up(&self, cpu: CpuId) -> bool {
        self.change_duty(Duty::Taken { by: cpu }, Duty::Free { last: Some(cpu) })
    }

    /// Makes `heir` the CPU that wakes up for the clock, if the leaving `cpu` has or last had the duty. Returns true if
    /// so. In that case the heir MUST evaluate its wake-up again if it sleeps.
    pub(super) fn bequeath(&self, cpu: CpuId, heir: CpuId) -> bool {
        let inherited = Duty::Free { last: Some(heir) };
        self.change_duty(Duty::Taken { by: cpu }, inherited)
            || self.change_duty(Duty::Free { last: Some(cpu) }, inherited)
    }

    fn change_duty(&self, from: Duty, to: Duty) -> bool {
        // Relaxed: see `duty`.
        self.duty
            .compare_exchange(from.word(), to.word(), Ordering::Relaxed, Ordering::Relaxed)
            .is_ok()
    }
}

impl<L: RawLock> fmt::Debug for TickCount<L> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("TickCount")
            .field("now", &self.now())
            .field("duty", &self.duty())
            .finish_non_exhaustive()
    }
}
