//! The removal of all timers in the child of a fork, which has none.

use std::sync::atomic::{AtomicBool, Ordering};

static IS_WATCHING: AtomicBool = AtomicBool::new(false);

/// Registers `in_child` with the system for the children of this process, and theirs. Only the first call registers.
pub(super) fn watch(in_child: unsafe extern "C" fn()) {
    // Relaxed: only the first of all calls has something to do.
    if !IS_WATCHING.swap(true, Ordering::Relaxed) {
        // SAFETY: the function may be called in a child, where it stores two words. It stays, as this code does.
        let _no_memory_is_left = unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    }
}
