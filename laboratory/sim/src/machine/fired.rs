//! The list of timers that fired during a call of the core. The executor reads it when the core has returned.
//!
//! Callbacks of timers run inside the core and cannot reach the machine: they [`note`] that their timer fired.

use std::cell::{Cell, RefCell};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fired {
    /// The tick of the CPU that executes, with its findings.
    Tick {
        wheel_is_due: bool,
        /// True if a timer of a sleeping CPU is due that this CPU expires.
        remote_is_due: bool,
    },
    /// The slice of the task of a CPU ended.
    Slice(u32),
    /// A throttled task of a CPU may have runtime again.
    Bandwidth(u32),
    /// The sleep of a task ended.
    Task(u32),
    /// A coarse timer of a task fired.
    Coarse { task: u32, index: u32 },
}

thread_local! {
    /// True if the list has an entry. The flag needs no destructor at the end of the thread, so that an access takes no
    /// check.
    static HAS_FIRED: Cell<bool> = const { Cell::new(false) };
    static FIRED: RefCell<Vec<Fired>> = const { RefCell::new(Vec::new()) };
}

/// Empties the list, before a machine starts on this thread.
pub(crate) fn reset() {
    HAS_FIRED.set(false);
    FIRED.take();
}

#[inline]
pub(crate) fn note(fired: Fired) {
    HAS_FIRED.set(true);
    FIRED.with_borrow_mut(|all| all.push(fired));
}

/// Moves the timers that fired since the last call, in order, into `into`, which is empty. Returns true if any fired.
#[inline]
pub(crate) fn take(into: &mut Vec<Fired>) -> bool {
    let has_fired = HAS_FIRED.replace(false);
    if has_fired {
        FIRED.with_borrow_mut(|all| std::mem::swap(into, all));
    }
    has_fired
}
