//! The executing CPU, and its virtual time.
//!
//! The core calls locks and the platform without passing the time; they read it here. One machine runs at a time on a
//! thread.
//!
//! # Ground rules
//!
//! - The code that lets a CPU execute calls [`enter`] before and [`leave`] after, and keeps the cursor in between. The
//!   executor of a machine does that for each event, a process for each call. No other code calls the two functions.
//! - Code that costs time calls [`charge`], or a lock or line of the [cost model](super::cost_model). The cursor of a
//!   CPU that executes never goes back.
//! - While [`NO_CPU`] executes, no operation costs time: [`looking`] is for checkers, which may call the core.

use std::cell::Cell;

use super::time::Picos;

/// The number that stands in place of a CPU's for the machine itself, which inspects and does not execute.
pub(crate) const NO_CPU: u32 = u32::MAX;

/// The state that each step reads. No field needs a destructor at the end of the thread, so that an access takes no
/// check.
pub(super) struct CurrentCpu {
    pub(super) cpu: Cell<u32>,
    pub(super) cursor: Cell<Picos>,
    starts: Cell<u64>,
    starting: Cell<Picos>,
}

thread_local! {
    static CURRENT: CurrentCpu = const {
        CurrentCpu {
            cpu: Cell::new(NO_CPU),
            cursor: Cell::new(Picos::ZERO),
            starts: Cell::new(0),
            starting: Cell::new(Picos::ZERO),
        }
    };
}

#[inline]
pub(super) fn with<R>(body: impl FnOnce(&CurrentCpu) -> R) -> R {
    CURRENT.with(body)
}

/// Resets the state, before a machine starts on this thread.
pub(super) fn reset() {
    with(|current| {
        current.cpu.set(NO_CPU);
        current.cursor.set(Picos::ZERO);
        current.starts.set(0);
        current.starting.set(Picos::ZERO);
    });
}

/// Makes `cpu` the executing CPU, from `cursor` on.
#[inline]
pub(crate) fn enter(cpu: u32, cursor: Picos) {
    with(|current| {
        current.cpu.set(cpu);
        current.cursor.set(cursor);
    });
}

/// Ends the execution of the current CPU, and returns the time up to which it executed.
#[inline]
pub(crate) fn leave() -> Picos {
    with(|current| {
        current.cpu.set(NO_CPU);
        current.cursor.get()
    })
}

/// Executes `look` as no CPU, which costs nothing.
pub(crate) fn looking<R>(look: impl FnOnce() -> R) -> R {
    let cpu = with(|current| current.cpu.replace(NO_CPU));
    let result = look();
    with(|current| current.cpu.set(cpu));
    result
}

/// Returns the CPU that executes.
#[inline]
pub(crate) fn cpu() -> u32 {
    with(|current| current.cpu.get())
}

/// Returns the time up to which the current CPU has executed.
#[inline]
pub(crate) fn cursor() -> Picos {
    with(|current| current.cursor.get())
}

/// Keeps the executing CPU busy for `cost`.
#[inline]
pub(crate) fn charge(cost: Picos) {
    with(|current| {
        if current.cpu.get() != NO_CPU {
            current.cursor.set(current.cursor.get() + cost);
        }
    });
}

/// Executes `body`, which starts an exact timer, and measures its time.
#[inline]
pub(crate) fn start(body: impl FnOnce()) {
    let before = cursor();
    body();
    with(|current| {
        if current.cpu.get() != NO_CPU {
            let took = current.cursor.get() - before;
            current.starts.set(current.starts.get() + 1);
            current.starting.set(current.starting.get() + took);
        }
    });
}

/// Returns the number of measured starts of exact timers, and their total time.
pub(crate) fn starts() -> (u64, Picos) {
    with(|current| (current.starts.get(), current.starting.get()))
}
