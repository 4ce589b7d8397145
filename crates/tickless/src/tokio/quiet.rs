//! A panic hook that says nothing of the panic by which tokio reports that a runtime has no reactor.
//!
//! tokio tells in no other way whether a runtime has I/O. So a hook that leaves out the panics of this thread takes the
//! place of the program's hook for the few microseconds of the question. The panics of other threads go to the
//! program's hook as before.

use std::cell::Cell;
use std::panic::{PanicHookInfo, set_hook, take_hook};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

type Hook = Box<dyn Fn(&PanicHookInfo<'_>) + Sync + Send>;

/// True while a [`Quiet`] exists.
static IS_HELD: AtomicBool = AtomicBool::new(false);

thread_local! {
    static IS_QUIET: Cell<bool> = const { Cell::new(false) };
}

/// The time in which panics of this thread are not shown.
pub(super) struct Quiet {
    previous: Option<Arc<Hook>>,
    /// The address of the hook in its place; a pointer keeps this on its thread.
    address: *const (),
}

impl Quiet {
    /// Begins that time; `None` while another thread has it, or this thread panics, when no hook can be set.
    pub(super) fn begin() -> Option<Self> {
        // Acquire: pairs with the Release in `drop`.
        if thread::panicking() || IS_HELD.swap(true, Ordering::Acquire) {
            return None;
        }
        let previous = Arc::new(take_hook());
        let others = Arc::clone(&previous);
        let hook: Hook = Box::new(move |info| {
            if !IS_QUIET.get() {
                others(info);
            }
        });
        let address = ptr::from_ref(&*hook).cast();
        set_hook(hook);
        IS_QUIET.set(true);
        Some(Self {
            previous: Some(previous),
            address,
        })
    }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        IS_QUIET.set(false);
        let mut top = take_hook();
        // A hook that the program set meanwhile stays. It may have the address of the one that it replaced, which holds
        // the previous one no more then.
        let is_own = ptr::from_ref(&*top).cast() == self.address;
        if is_own
            && let Some(previous) = self.previous.take()
            && Arc::strong_count(&previous) == 2
        {
            drop(top);
            top = Arc::into_inner(previous).expect("its two owners were the hook and this");
        }
        set_hook(top);
        // Release: see `begin`.
        IS_HELD.store(false, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use std::panic::catch_unwind;
    use std::sync::atomic::AtomicU32;

    use super::*;

    /// One test for all, because the hook is the process's.
    #[test]
    fn the_panics_of_this_thread_are_not_shown_and_all_others_are() {
        static SHOWN: AtomicU32 = AtomicU32::new(0);
        // Relaxed, here and below: a count that is read after a join.
        let count = |_: &PanicHookInfo<'_>| _ = SHOWN.fetch_add(1, Ordering::Relaxed);
        let shown = || SHOWN.swap(0, Ordering::Relaxed);
        let fail = || assert!(catch_unwind(|| panic!("to be caught")).is_err());
        let of_the_harness = take_hook();
        set_hook(Box::new(count));
        // Another test of the process may hold it.
        let begin = || std::iter::repeat_with(Quiet::begin).flatten().next();
        let quiet = begin();
        assert!(Quiet::begin().is_none(), "one at a time");
        fail();
        assert_eq!(shown(), 0);
        thread::spawn(fail).join().expect("it is caught");
        assert_eq!(shown(), 1);
        drop(quiet);
        fail();
        assert_eq!(shown(), 1, "the hook is the program's again");
        // A hook that is set meanwhile.
        let quiet = begin();
        set_hook(Box::new(move |info| (0..10).for_each(|_| count(info))));
        drop(quiet);
        fail();
        assert_eq!(shown(), 10);
        set_hook(of_the_harness);
    }
}
