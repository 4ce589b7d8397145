//! How a worker that does not sleep passes the time until something is due: with the instructions that wait for a store
//! to a line of memory, where the processor has them.
//!
//! A worker that [spins](crate::Parking::Spin) looks again and again at its deadline and at the word into which a waker
//! writes. On most processors it executes `pause` in between. Newer ones of Intel (WAITPKG: CPUID leaf 7, ECX bit 5)
//! have `umonitor`, which names a line of memory, and `umwait`, which puts the hardware thread into a light sleep until
//! a store to that line, an interrupt, or a value of the time-stamp counter. The sibling thread has the core to itself
//! meanwhile, and the core draws less.
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

use tickless_link::sync::AtomicU32;

#[cfg(all(test, loom))]
mod model;

/// The longest wait between two looks, in nanoseconds. What no store tells of is seen that late; a look costs some tens
/// of nanoseconds, so a wait in ten thousand would gain nothing.
pub(crate) const LONGEST: u64 = 20_000;

/// What waits between two looks.
pub(crate) trait Instructions {
    /// Has the next [`wait`](Self::wait) end at a store to `word`.
    fn monitor(&self, word: &AtomicU32);

    /// Waits until a store to `word`, which was [monitored](Self::monitor), since it was, or for `left` nanoseconds, or
    /// for less.
    fn wait(&self, word: &AtomicU32, left: u64);
}

/// Waits until `is_over`. `left` says for how many nanoseconds it will not be, unless a thread writes `word`.
pub(crate) fn wait(
    instructions: &impl Instructions,
    word: &AtomicU32,
    is_over: impl Fn() -> bool,
    left: impl Fn() -> u64,
) {
    while !is_over() {
        instructions.monitor(word);
        if is_over() {
            return;
        }
        instructions.wait(word, left().min(LONGEST));
    }
}

/// `pause`: the worker looks again at once.
pub(crate) struct Pause;

impl Instructions for Pause {
    #[inline]
    fn monitor(&self, _word: &AtomicU32) {}

    #[inline]
    fn wait(&self, _word: &AtomicU32, _left: u64) {
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

    use super::Instructions;
    use crate::host::clock;

    /// The bit of the register that asks for the lighter sleep.
    const C0_1: u32 = 1;

    /// `umonitor` and `umwait`. To have one is to know that the processor has both, and how fast its counter counts.
    #[derive(Clone, Copy, Debug)]
    pub(crate) struct Umwait {
        hertz: u64,
    }

    impl Umwait {
        /// The instructions, if the processor has them and the counter is trusted.
        pub(crate) fn get() -> Option<Self> {
            if !Self::exists() {
                return None;
            }
            let hertz = clock::time_stamp_counter().ok()?;
            Some(Self { hertz })
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
        fn monitor(&self, word: &AtomicU32) {
            // SAFETY: the processor has the instruction, as the existence of `self` proves. It reads nothing and writes
            // nothing: it notes the line of an address that is valid.
            unsafe {
                asm!("umonitor {}", in(reg) word.as_ptr(), options(nostack, preserves_flags));
            }
        }

        #[inline]
        fn wait(&self, _word: &AtomicU32, left: u64) {
            let cycles = u128::from(left) * u128::from(self.hertz) / 1_000_000_000;
            let end = clock::counter::read().saturating_add(u64::try_from(cycles).unwrap_or(0));
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

#[cfg(not(all(target_arch = "x86_64", not(miri), not(loom))))]
pub(crate) use none::Umwait;

#[cfg(not(all(target_arch = "x86_64", not(miri), not(loom))))]
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

        pub(crate) fn exists() -> bool {
            false
        }
    }

    impl Instructions for Umwait {
        fn monitor(&self, _word: &AtomicU32) {
            match *self {}
        }

        fn wait(&self, _word: &AtomicU32, _left: u64) {
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
        monitored: Cell<Option<u32>>,
        waits: RefCell<Vec<u64>>,
        /// What happens behind the first look, and in the first wait.
        on_monitor: Cell<Option<u32>>,
    }

    impl Instructions for Fake {
        fn monitor(&self, word: &AtomicU32) {
            if let Some(value) = self.on_monitor.take() {
                // Relaxed: one thread.
                word.store(value, Ordering::Relaxed);
            }
            // Relaxed: as above.
            self.monitored.set(Some(word.load(Ordering::Relaxed)));
        }

        fn wait(&self, _word: &AtomicU32, left: u64) {
            assert!(
                self.monitored.take().is_some(),
                "monitored before each wait"
            );
            self.waits.borrow_mut().push(left);
            self.now.set(self.now.get() + left.max(1));
        }
    }

    fn wait_until(fake: &Fake, word: &AtomicU32, deadline: u64) {
        wait(
            fake,
            word,
            // Relaxed: one thread.
            || word.load(Ordering::Relaxed) != 0 || fake.now.get() >= deadline,
            || deadline - fake.now.get(),
        );
    }

    #[test]
    fn a_wait_ends_at_its_deadline_in_bounded_steps() {
        let fake = Fake::default();
        wait_until(&fake, &AtomicU32::new(0), 2 * LONGEST + 700);
        assert_eq!(*fake.waits.borrow(), [LONGEST, LONGEST, 700]);
    }

    #[test]
    fn what_is_over_is_not_waited_for() {
        let fake = Fake::default();
        wait_until(&fake, &AtomicU32::new(1), u64::MAX);
        wait_until(&fake, &AtomicU32::new(0), 0);
        assert!(fake.waits.borrow().is_empty() && fake.monitored.get().is_none());
    }

    /// A waker that writes between the look and the monitor is not missed.
    #[test]
    fn a_notification_before_the_monitor_is_seen() {
        let fake = Fake::default();
        fake.on_monitor.set(Some(1));
        wait_until(&fake, &AtomicU32::new(0), u64::MAX);
        assert!(fake.waits.borrow().is_empty());
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
