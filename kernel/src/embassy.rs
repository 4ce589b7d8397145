//! The integration of embassy: its executor runs as a guest of the kernel, and its time driver uses the timers of the
//! kernel.
//!
//! An executor belongs to the thread that made it. The thread [polls](Guest::poll) the executor after it was pended,
//! and sleeps otherwise. The time driver is the one of the Cortex-M program.
//!
//! # Safety
//!
//! *One poller*: an executor is polled only through the [`Guest`] that owns it, which is mutably borrowed during the
//! poll. The tasks of the executor cannot reach the guest. *Pended*: the context of
//! each executor is a [`Pended`] that is never freed. *Section*: one lock implements all critical sections, and
//! its holder has interrupts masked.

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

/// The way to note that an executor has work.
struct Pended {
    number: usize,
    pended: fn(usize),
}

/// An executor of embassy, owned by the thread that polls it.
pub(crate) struct Guest {
    executor: &'static Executor,
}

impl Guest {
    /// Makes an executor without tasks. When one of its tasks is woken, `pended(number)` is called, on the CPU that
    /// wakes the task.
    pub(crate) fn new(number: usize, pended: fn(usize)) -> Self {
        let context: &Pended = Box::leak(Box::new(Pended { number, pended }));
        let context = ptr::from_ref(context).cast_mut().cast();
        Self {
            executor: Box::leak(Box::new(Executor::new(context))),
        }
    }

    /// Gives the executor a task, whose memory is never freed.
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

/// Notes that an executor has work; the executor calls it on the CPU that noticed the work.
#[unsafe(export_name = "__pender")]
fn pend(context: *mut ()) {
    // SAFETY: *pended*.
    let Pended { number, pended } = unsafe { &*context.cast::<Pended>() };
    pended(*number);
}

/// The implementation of critical sections by one lock for all CPUs.
struct Section;

critical_section::set_impl!(Section);

static LOCK: MaskingLock = MaskingLock::new();
/// The number of the CPU that has the section, plus one; 0 if no CPU has it.
static HOLDER: AtomicUsize = AtomicUsize::new(0);
/// The state of a section inside another one, which restores nothing. No mask has this value.
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
