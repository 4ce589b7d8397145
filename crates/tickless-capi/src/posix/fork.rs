//! The handler that removes all timers in the child of a fork, because POSIX timers are not inherited.

use std::sync::atomic::{AtomicBool, Ordering};

static IS_WATCHING: AtomicBool = AtomicBool::new(false);

/// Registers `in_child`, which the system calls in the child processes of this process and in their children. Only the
/// first call registers it.
pub(super) fn watch(in_child: unsafe extern "C" fn()) {
    // Relaxed: only the first of all calls has something to do.
    if !IS_WATCHING.swap(true, Ordering::Relaxed) {
        // SAFETY: the function may be called in a child, where it stores two words. It stays, as this code does.
        let _no_memory_is_left = unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    }
}
