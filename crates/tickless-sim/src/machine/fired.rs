//! The list of timers that fired during a call of the core. The executor reads it when the core has returned.
//!
//! Callbacks of timers run inside the core and cannot reach the machine: they [`note`] what happened.

use std::cell::{Cell, RefCell};

/// A timer that fired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fired {
    /// The tick of the CPU that executes: what it found.
    Tick {
        /// True if the wheels of the CPU have something due.
        wheel_is_due: bool,
        /// True if CPUs that sleep have something due that this one expires.
        remote_is_due: bool,
    },
    /// The slice of the task of a CPU.
    Slice(u32),
    /// A task of a CPU that was throttled may have runtime again.
    Bandwidth(u32),
    /// The sleep of a task is over.
    Task(u32),
    /// A coarse timer of a task.
    Coarse { task: u32, index: u32 },
}

thread_local! {
    /// True if the list has an entry. Nothing in it needs to be dropped with the thread, so that reaching it takes no
    /// check.
    static HAS_FIRED: Cell<bool> = const { Cell::new(false) };
    static FIRED: RefCell<Vec<Fired>> = const { RefCell::new(Vec::new()) };
}

/// Begins a machine on this thread.
pub(crate) fn reset() {
    HAS_FIRED.set(false);
    FIRED.take();
}

/// Notes that a timer fired.
#[inline]
pub(crate) fn note(fired: Fired) {
    HAS_FIRED.set(true);
    FIRED.with_borrow_mut(|all| all.push(fired));
}

/// Moves what fired since the last time, in order, into `into`, which is empty. Returns true if anything did.
#[inline]
pub(crate) fn take(into: &mut Vec<Fired>) -> bool {
    let has_fired = HAS_FIRED.replace(false);
    if has_fired {
        FIRED.with_borrow_mut(|all| std::mem::swap(into, all));
    }
    has_fired
}
