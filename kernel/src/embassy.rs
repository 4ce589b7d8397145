//! A place for guests: embassy's executor, and its time on the timers of the kernel.
//!
//! An executor belongs to the thread that made it, which [polls](Guest::poll) it when it was pended, and sleeps
//! otherwise. The time driver is that of the Cortex-M program.
//!
//! # Safety
//!
//! *One poller*: an executor is polled through the one [`Guest`] that has it, which is borrowed for as long. Its tasks
//! have no way to that. *Section*: the section of all critical sections is one lock, whose holder is masked.

use alloc::boxed::Box;
use core::ptr;
use core::sync::atomic::{AtomicUsize, Ordering};

use critical_section::RawRestoreState;
use embassy_executor::raw::{Executor, TaskStorage};
use tickless_core::link::lock::RawLock;

use crate::arch;
use crate::lock::MaskingLock;

#[path = "../../cortex-m/src/driver.rs"]
mod driver;

/// The time and the timers, for the driver.
mod host {
    use tickless_core::base::Timers;
    use tickless_core::time::Instant;

    use crate::host::Host;
    use crate::machine::machine;

    pub(super) fn now() -> Instant {
        machine().now()
    }

    pub(super) fn timers() -> &'static Timers<Host> {
        machine().timers
    }
}

/// An executor of embassy, in the hand of the thread that polls it.
pub(crate) struct Guest {
    executor: &'static Executor,
}

impl Guest {
    /// Makes an executor without tasks. When one of them is woken, `number` is [pended](crate::suite::pended).
    pub(crate) fn new(number: usize) -> Self {
        let context = ptr::without_provenance_mut(number);
        Self {
            executor: Box::leak(Box::new(Executor::new(context))),
        }
    }

    /// Gives the executor a task, whose place stays for ever.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + 'static) {
        let storage: &'static TaskStorage<_> = Box::leak(Box::new(TaskStorage::new()));
        let token = storage.spawn(|| task).expect("its place is new");
        self.executor.spawner().spawn(token);
    }

    /// Polls the tasks that were woken.
    pub(crate) fn poll(&mut self) {
        // SAFETY: *one poller*.
        unsafe { self.executor.poll() };
    }
}

/// Notes that an executor has something to do; the executor calls it wherever that was noticed.
#[unsafe(export_name = "__pender")]
fn pend(context: *mut ()) {
    crate::suite::pended(context.addr());
}

/// The section of all critical sections, on all CPUs.
struct Section;

critical_section::set_impl!(Section);

static LOCK: MaskingLock = MaskingLock::new();
/// The CPU that has the section, and one; 0 for none.
static HOLDER: AtomicUsize = AtomicUsize::new(0);
/// The state that a section inside of another one restores: nothing. No mask has this value.
const NESTED: u64 = u64::MAX;

// SAFETY: *section*. The holder is masked, so it is the same code that comes again: that is inside.
unsafe impl critical_section::Impl for Section {
    unsafe fn acquire() -> RawRestoreState {
        let holder = arch::cpu() + 1;
        // Relaxed: a CPU finds its own number only if it wrote that, masked ever since.
        if HOLDER.load(Ordering::Relaxed) == holder {
            return NESTED;
        }
        let before = LOCK.acquire(None);
        // Relaxed: as above.
        HOLDER.store(holder, Ordering::Relaxed);
        before
    }

    unsafe fn release(before: RawRestoreState) {
        if before != NESTED {
            // Relaxed: as above, before the lock is let go of.
            HOLDER.store(0, Ordering::Relaxed);
            LOCK.release(&before);
        }
    }
}
