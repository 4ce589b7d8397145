//! How a worker that does not sleep passes the time until something is due: a poll that compares cycles, and where the
//! processor has them the instructions that wait for a store to a line of memory.
//!
//! A worker that [spins](crate::Parking::Spin) looks again and again at its deadline and at the word into which a waker
//! writes. It converts its deadline to cycles once ([`Aim`]), so that a look is the loads that say what is due, one
//! reading of the counter, and one comparison. On most processors it executes `pause` in between. Newer ones of Intel
//! (WAITPKG: CPUID leaf 7, ECX bit 5) have `umonitor`, which names a line of memory, and `umwait`, which puts the
//! hardware thread into a light sleep until a store to that line, an interrupt, or a value of the time-stamp counter.
//! The sibling thread has the core to itself meanwhile, and the core draws less.
//!
//! # Never executed on hardware
//!
//! **No machine that this was built or tested on has these instructions.** What is tested is the protocol around them,
//! by a fake, and that the detection says no where the processor does not say yes. The two lines of assembly were
//! assembled, and have never run. [`Parking::waits_on_memory`](crate::Parking::waits_on_memory) says whether they would
//! here.
//!
//! # Mechanism
//!
//! 1. Look: due, or notified? Then the wait is over.
//! 2. `umonitor` the word that a waker writes.
//! 3. Look again. A waker that wrote between 1 and 2 wrote too early for the monitor, and would be missed: `model.rs`
//!    has the case.
//! 4. `umwait` until the deadline in cycles, and not longer than [`LONGEST`].
//!
//! What another thread changes without a store to the word is seen after [`LONGEST`] at the latest: a kick and an
//! earlier deadline do write it. The kernel bounds each wait too (100,000 cycles by default), which ends one early and
//! harms nothing.
//!
//! # C0.1 and not C0.2
//!
//! `umwait` knows two sleeps. C0.2 saves more and takes longer to leave, and the kernel may forbid it. A worker spins
//! because it would rather burn a CPU than be late, so C0.1 is asked for.
//!
//! `tpause`, the third instruction of the set, waits for the counter alone. It is not used: a waker could not end it,
//! and every processor that has it has `umwait`.

use std::cell::Cell;

use tickless_core::time::Instant;
use tickless_link::sync::AtomicU32;

#[cfg(all(test, loom))]
mod model;

/// The longest wait between two looks, in nanoseconds. What no store tells of is seen that late; a look costs some tens
/// of nanoseconds, so longer waits would gain a thousandth.
#[cfg_attr(
    not(any(all(target_arch = "x86_64", not(miri)), test)),
    expect(dead_code, reason = "only `umwait` takes it")
)]
pub(crate) const LONGEST: u64 = 20_000;

/// A deadline in cycles, converted when it changes and when the clock has to be asked anew.
///
/// It is for one wait of one thread: the counter value holds for the line that the clock followed when it was
/// converted, which ends there or before.
#[derive(Debug)]
pub(crate) struct Aim {
    due: Cell<Instant>,
    until: Cell<u64>,
}

impl Aim {
    /// Nothing is known yet.
    pub(crate) const fn new() -> Self {
        Self {
            due: Cell::new(Instant::FOREVER),
            until: Cell::new(0),
        }
    }

    /// Whether `due`, which is what the thread waits for now, is certainly to come where the counter reads `cycles`.
    #[inline]
    pub(crate) fn is_ahead(&self, due: Instant, cycles: impl FnOnce() -> u64) -> bool {
        due == self.due.get() && cycles() < self.until.get()
    }

    /// Notes that `due` is to come before the counter reads `until`; zero where that is not known.
    pub(crate) fn take(&self, due: Instant, until: u64) {
        self.due.set(due);
        self.until.set(until);
    }

    /// The counter value that was noted.
    pub(crate) fn until(&self) -> u64 {
        self.until.get()
    }
}

/// What waits between two looks.
pub(crate) trait Instructions {
    /// The counter now, and how far it counts in [`LONGEST`].
    fn now_and_longest(&self) -> (u64, u64);

    /// Has the next [`wait`](Self::wait) end at a store to `word`.
    fn monitor(&self, word: &AtomicU32);

    /// Waits until a store to `word`, which was [monitored](Self::monitor), since it was, or until the counter reads
    /// `end`, or for less.
    fn wait(&self, word: &AtomicU32, end: u64);
}

/// Waits until `is_over`, which a store to `word` may bring about at any time, and the counter from the value `until`
/// on.
pub(crate) fn wait(
    instructions: &impl Instructions,
    word: &AtomicU32,
    is_over: impl Fn() -> bool,
    until: impl Fn() -> u64,
) {
    while !is_over() {
        instructions.monitor(word);
        if is_over() {
            return;
        }
        let (now, longest) = instructions.now_and_longest();
        instructions.wait(word, until().min(now.saturating_add(longest)));
    }
}

/// `pause`: the worker looks again at once.
pub(crate) struct Pause;

impl Instructions for Pause {
    #[inline]
    fn now_and_longest(&self) -> (u64, u64) {
        (0, 0)
    }

    #[inline]
    fn monitor(&self, _word: &AtomicU32) {}

    #[inline]
    fn wait(&self, _word: &AtomicU32, _end: u64) {
        tickless_link::sync::spin_loop();
    }
}

#[cfg(all(target_arch = "x86_64", not(miri), not(loom)))]
pub(crate) use waitpkg::Umwait;

#[cfg(all(target_arch = "x86_64", not(miri), not(loom)))]
mod waitpkg {
    use core::arch::asm;
    use core::arch::x86_64::{__cpuid, __cpuid_count};
    use std::sync::OnceLock;

    use tickless_link::sync::AtomicU32;

    use super::{Instructions, LONGEST};
    use crate::host::clock;

    /// The bit of the register that asks for the lighter sleep.
    const C0_1: u32 = 1;

    /// `umonitor` and `umwait`. To have one is to know that the processor has both, and how fast its counter counts.
    #[derive(Clone, Copy, Debug)]
    pub(crate) struct Umwait {
        /// What the counter counts in `LONGEST`.
        longest: u64,
    }

    impl Umwait {
        /// The instructions, if the processor has them and the counter is trusted.
        pub(crate) fn get() -> Option<Self> {
            if !Self::exists() {
                return None;
            }
            let hertz = clock::time_stamp_counter().ok()?;
            // Rounded down: the product is in billionths of a cycle.
            let longest = u128::from(hertz) * u128::from(LONGEST) / 1_000_000_000;
            let longest = u64::try_from(longest).ok()?;
            Some(Self { longest })
        }

        /// Whether the processor has them.
        pub(crate) fn exists() -> bool {
            static EXISTS: OnceLock<bool> = OnceLock::new();
            // Once: in virtual machines the instruction that asks takes microseconds.
            *EXISTS.get_or_init(|| is_announced(leaf))
        }
    }

    impl Instructions for Umwait {
        #[inline]
        fn now_and_longest(&self) -> (u64, u64) {
            (clock::counter::read(), self.longest)
        }

        #[inline]
        fn monitor(&self, word: &AtomicU32) {
            // SAFETY: the processor has the instruction, as the existence of `self` proves. It reads nothing and writes
            // nothing: it notes the line of an address that is valid.
            unsafe {
                asm!("umonitor {}", in(reg) word.as_ptr(), options(nostack, preserves_flags));
            }
        }

        #[inline]
        fn wait(&self, _word: &AtomicU32, end: u64) {
            #[expect(
                clippy::cast_possible_truncation,
                reason = "the two halves of the register pair"
            )]
            let (low, high) = (end as u32, (end >> 32) as u32);
            // SAFETY: as in `monitor`. No bit of the operand but the lowest is set, as the instruction demands. It
            // touches no memory.
            unsafe {
                asm!(
                    "umwait {0:e}",
                    in(reg) C0_1,
                    in("eax") low,
                    in("edx") high,
                    options(nostack)
                );
            }
        }
    }

    /// Whether CPUID announces WAITPKG. `leaf` gives ECX of a leaf, and the highest leaf for `None`.
    pub(super) fn is_announced(leaf: impl Fn(Option<u32>) -> u32) -> bool {
        const FEATURES: u32 = 7;
        const WAITPKG: u32 = 1 << 5;
        leaf(None) >= FEATURES && leaf(Some(FEATURES)) & WAITPKG != 0
    }

    #[allow(
        unused_unsafe,
        clippy::allow_attributes,
        reason = "newer compilers know that the intrinsics are safe"
    )]
    fn leaf(number: Option<u32>) -> u32 {
        match number {
            // SAFETY: the instruction exists on every x86-64 processor and touches no memory.
            None => unsafe { __cpuid(0) }.eax,
            // SAFETY: as above.
            Some(number) => unsafe { __cpuid_count(number, 0) }.ecx,
        }
    }
}

#[cfg(not(any(all(target_arch = "x86_64", not(miri)), loom)))]
pub(crate) use none::Umwait;

#[cfg(not(any(all(target_arch = "x86_64", not(miri)), loom)))]
mod none {
    use tickless_link::sync::AtomicU32;

    use super::Instructions;

    /// There is none.
    #[derive(Clone, Copy, Debug)]
    pub(crate) enum Umwait {}

    impl Umwait {
        pub(crate) fn get() -> Option<Self> {
            None
        }

        #[cfg(test)]
        pub(crate) fn exists() -> bool {
            false
        }
    }

    impl Instructions for Umwait {
        fn now_and_longest(&self) -> (u64, u64) {
            match *self {}
        }

        fn monitor(&self, _word: &AtomicU32) {
            match *self {}
        }

        fn wait(&self, _word: &AtomicU32, _end: u64) {
            match *self {}
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::cell::{Cell, RefCell};
    use std::sync::atomic::Ordering;

    use super::*;

    /// Instructions that wait for nothing but tell what they were asked, on a clock that moves by that.
    #[derive(Default)]
    struct Fake {
        now: Cell<u64>,
        monitored: Cell<bool>,
        waits: RefCell<Vec<u64>>,
        /// What a waker writes behind the first look.
        on_monitor: Cell<Option<u32>>,
    }

    impl Instructions for Fake {
        fn now_and_longest(&self) -> (u64, u64) {
            (self.now.get(), LONGEST)
        }

        fn monitor(&self, word: &AtomicU32) {
            if let Some(value) = self.on_monitor.take() {
                // Relaxed: one thread.
                word.store(value, Ordering::Relaxed);
            }
            self.monitored.set(true);
        }

        fn wait(&self, _word: &AtomicU32, end: u64) {
            assert!(self.monitored.take(), "monitored before each wait");
            self.waits.borrow_mut().push(end);
            self.now.set(end.max(self.now.get() + 1));
        }
    }

    fn wait_until(fake: &Fake, word: &AtomicU32, deadline: u64) {
        wait(
            fake,
            word,
            // Relaxed: one thread.
            || word.load(Ordering::Relaxed) != 0 || fake.now.get() >= deadline,
            || deadline,
        );
    }

    #[test]
    fn a_wait_ends_at_its_deadline_in_bounded_steps() {
        let fake = Fake::default();
        wait_until(&fake, &AtomicU32::new(0), 2 * LONGEST + 700);
        assert_eq!(
            *fake.waits.borrow(),
            [LONGEST, 2 * LONGEST, 2 * LONGEST + 700]
        );
    }

    #[test]
    fn what_is_over_is_not_waited_for() {
        let fake = Fake::default();
        wait_until(&fake, &AtomicU32::new(1), u64::MAX);
        wait_until(&fake, &AtomicU32::new(0), 0);
        assert!(fake.waits.borrow().is_empty() && !fake.monitored.get());
    }

    /// A waker that writes between the look and the monitor is not missed.
    #[test]
    fn a_notification_before_the_monitor_is_seen() {
        let fake = Fake::default();
        fake.on_monitor.set(Some(1));
        wait_until(&fake, &AtomicU32::new(0), u64::MAX);
        assert!(fake.waits.borrow().is_empty());
    }

    /// A deadline is converted once: while it stays, and the counter is before it, a look reads the counter alone.
    #[test]
    fn an_aim_holds_for_one_deadline_until_its_cycles() {
        let aim = Aim::new();
        let (due, earlier) = (Instant::from_nanos(100), Instant::from_nanos(50));
        assert!(!aim.is_ahead(Instant::FOREVER, || 0), "nothing is known");
        aim.take(due, 1_000);
        assert!(aim.is_ahead(due, || 999) && !aim.is_ahead(due, || 1_000));
        assert!(!aim.is_ahead(earlier, || unreachable!("another deadline")));
        assert_eq!(aim.until(), 1_000);
        aim.take(due, 0);
        assert!(!aim.is_ahead(due, || 0));
    }

    #[cfg(all(target_arch = "x86_64", not(miri)))]
    #[test]
    fn the_instructions_are_used_where_the_processor_announces_them() {
        let cpu = |highest, features| {
            waitpkg::is_announced(move |leaf| match leaf {
                None => highest,
                Some(7) => features,
                Some(_) => 0,
            })
        };
        assert!(cpu(7, 1 << 5) && cpu(0x20, u32::MAX));
        assert!(!cpu(6, 1 << 5) && !cpu(7, !(1 << 5)));
        let flags = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        if let Some(line) = flags.lines().find(|line| line.starts_with("flags")) {
            let is_listed = line.split_whitespace().any(|flag| flag == "waitpkg");
            assert!(Umwait::exists() || !is_listed);
        }
    }
}
