//! The life of threads and processes: a thread enters at its first timer and leaves at its end; a process begins at the
//! first use of the library and continues in the child of a [`fork`].
//!
//! # Ground rules
//!
//! - A thread joins the tree before its kind is set, and leaves the tree after its kind is cleared.
//! - A thread that ends holds no lock while it waits for callbacks of its timers that other threads execute.

mod fork;

use std::ffi::c_void;

use tickless_core::base::Timers;
use tickless_core::hierarchy::Leaving;

#[cfg(feature = "worker")]
use super::isolation;
use super::isolation::state::Help;
use super::process::Host;
use super::registry::{self, EXPIRY_THREAD, FirstUse, timers};
use super::remote::trees;
use super::sys::threads;
use super::thread::{Thread, ThreadBase, ThreadKind, turn_taken_by_this_thread, with_thread};
use super::{device, tick};

impl FirstUse for Host {
    fn begin(timers: &'static Timers<Self>) {
        timers.wheel_online(EXPIRY_THREAD, tick::now());
        timers.cpu_online(EXPIRY_THREAD);
        fork::install();
        threads::notice_exits();
    }
}

/// Returns the base of this thread, which occupies one now if it has none. `None` at the end of the thread's life, or
/// when all bases are occupied.
#[inline]
pub(crate) fn enter(thread: &Thread) -> Option<&'static ThreadBase> {
    match thread.base() {
        Some(base) => Some(base),
        None => enter_slow(thread),
    }
}

#[cold]
fn enter_slow(thread: &Thread) -> Option<&'static ThreadBase> {
    if thread.is_gone() || !threads::at_end_of_thread(end) {
        return None;
    }
    let timers = timers();
    // The first use of all makes the timers, which asks which CPU executes: then this thread has entered by now.
    if let Some(base) = thread.base() {
        return Some(base);
    }
    let base = registry::take()?;
    thread.occupy(base, timers);
    let local = base.local();
    local.count_occupant();
    local.device.forget();
    local.isolation.set_help(Help::UnlessIsolated);
    timers.wheel_online(base.cpu(), tick::now());
    timers.cpu_online(base.cpu());
    // Answers a kick that was sent while no thread was here. As long as it counts as under way no other is sent.
    timers.retrigger(base.cpu());
    trees::join_foreign(base);
    local.set_kind(ThreadKind::Foreign);
    device::renew(base);
    Some(base)
}

/// Ends a thread, after the destructors of its thread-locals.
///
/// A callback that ends the process may also cause this call, because `exit` drops the thread-locals of its thread on
/// many systems. The turn of that callback has the base locked, and continues in the handlers of `exit`, as on systems
/// where `exit` drops nothing.
extern "C" fn end(_: *mut c_void) {
    if turn_taken_by_this_thread().is_some() {
        return;
    }
    with_thread(|thread| {
        // A destructor of C code may drop its worker still. At the last call that was leaked, and its timers must fire
        // anyway.
        if !thread.outlives_its_end(|| threads::at_end_of_thread(end)) {
            leave(thread);
        }
    });
}

/// Frees the base of this thread. The expiry thread fires the timers that are still queued there.
fn leave(thread: &Thread) {
    thread.set_gone();
    let Some(base) = thread.base() else { return };
    // From here on the expiry thread does not look here any more; what it is doing here it finishes. That may be a
    // callback that takes its time, so no lock is held meanwhile that others need.
    let was = base.local().kind();
    base.local().set_kind(ThreadKind::Free);
    match was {
        ThreadKind::Foreign => trees::leave_foreign(base),
        ThreadKind::Worker => {
            #[cfg(feature = "worker")]
            isolation::end(base);
            let left = trees::leave(base, Leaving::Offline);
            debug_assert!(left.is_ok(), "a worker has joined: {left:?}");
        }
        ThreadKind::Free
        | ThreadKind::EventLoop
        | ThreadKind::ExpiryThread
        | ThreadKind::VirtualClock => {}
    }
    // Locks two bases (spec LOC-9): this one, then the expiry thread's. A thread that locks several takes that last.
    timers().cpu_offline(base.cpu());
    timers().wheel_offline(base.cpu(), tick::now());
    // The expiry thread comes for what it got.
    device::renew(registry::of_expiry_thread());
    thread.vacate();
    registry::give_back(base);
}

#[cfg(test)]
mod tests {
    use tickless_core::platform::CpuId;

    use super::*;

    /// Executes `body` on a new thread with the base of that thread.
    fn visit<R: Send + 'static>(body: impl FnOnce(&'static ThreadBase) -> R + Send + 'static) -> R {
        let visitor = std::thread::spawn(|| {
            let base = with_thread(enter).expect("there are bases enough");
            body(base)
        });
        visitor.join().expect("the visitor does not panic")
    }

    #[test]
    fn a_base_is_used_again() {
        let first = visit(ThreadBase::cpu);
        assert_ne!(first, CpuId(0), "that is the expiry thread's");
        // The thread of another test may occupy it meanwhile.
        let again = (0..20_000).any(|_| visit(ThreadBase::cpu) == first);
        assert!(again);
    }

    /// A clock is set while a thread leaves: the kick reaches no thread, and must not count as a kick in progress.
    #[test]
    fn a_base_that_was_kicked_while_it_was_free_can_be_kicked_again() {
        let cpu = visit(ThreadBase::cpu);
        timers().request_retrigger(cpu);
        let kicked = (0..20_000).any(|_| {
            visit(move |base| {
                // No other thread takes turns for a worker.
                base.local().set_kind(ThreadKind::Worker);
                timers().request_retrigger(base.cpu());
                let kicked = base.local().device.kick.is_raised();
                base.local().set_kind(ThreadKind::Foreign);
                assert!(kicked || base.cpu() != cpu, "the kick got lost");
                base.cpu() == cpu
            })
        });
        assert!(kicked, "another thread keeps the base");
    }
}
