//! The one lock type of the kernel, which masks interrupts while it is held.
//!
//! A timer interrupt that came while its own CPU holds the base lock would wait for ever. So acquiring masks interrupts
//! first, and releasing restores the earlier mask.

use core::sync::atomic::{AtomicBool, Ordering};

use tickless_link::lock::RawLock;

use crate::arch;
use crate::exit::{Code, end};

/// The seconds after which a waiting CPU gives up. A lock is held for some microseconds, but a host that executes
/// another CPU of the machine meanwhile may take long.
const WAIT_SECONDS: u64 = 5;

/// A spin lock that masks interrupts.
#[derive(Debug, Default)]
pub(crate) struct MaskingLock {
    taken: AtomicBool,
}

impl MaskingLock {
    pub(crate) const fn new() -> Self {
        Self {
            taken: AtomicBool::new(false),
        }
    }

    /// Waits for a lock that another CPU holds, and takes it. Ends the run when the lock is not released, because with
    /// interrupts masked no watchdog would.
    #[cold]
    fn wait(&self) {
        let limit = arch::counter() + WAIT_SECONDS * u64::from(arch::kilohertz().0) * 1_000;
        // Acquire: pairs with the Release in `release`.
        while self.taken.swap(true, Ordering::Acquire) {
            // Relaxed: it only waits; the swap decides.
            while self.taken.load(Ordering::Relaxed) {
                arch::relax();
                if arch::counter() > limit {
                    end(
                        Code::Wedged,
                        format_args!("kernel: wedged: CPU {} waits for a lock", arch::cpu()),
                    );
                }
            }
        }
    }
}

// SAFETY: one exchange from free to taken succeeds between two releases; Acquire and Release order the sections.
unsafe impl RawLock for MaskingLock {
    type Token = ();
    /// The interrupt mask before the acquisition.
    type Acquired = u64;

    #[inline]
    fn acquire(&self, _token: Option<()>) -> u64 {
        let before = arch::mask();
        // Acquire: pairs with the Release in `release`.
        if self.taken.swap(true, Ordering::Acquire) {
            self.wait();
        }
        before
    }

    #[inline]
    fn try_acquire(&self, _token: Option<()>) -> Option<u64> {
        let before = arch::mask();
        // Acquire: as in `acquire`.
        if self.taken.swap(true, Ordering::Acquire) {
            arch::restore(before);
            return None;
        }
        Some(before)
    }

    #[inline]
    fn release(&self, before: &u64) {
        // Release: pairs with the exchanges above.
        self.taken.store(false, Ordering::Release);
        arch::restore(*before);
    }
}
