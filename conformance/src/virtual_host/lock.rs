//! Locks that check the order in which they are taken.
//!
//! One thread executes the whole host, so a lock that is taken twice is a deadlock, and the lock panics. Ordinary code
//! holds one base lock at a time (LOC-3, ORACLE-9); only a CPU that goes offline holds two.

use core::cell::{Cell, RefCell};

use tickless_link::lock::{SoloLock, Watcher};

use crate::prelude::*;
use crate::surroundings::thread_values;

type Hook = Box<dyn FnOnce()>;

thread_values! {
    static BASES_HELD: Cell<u32> = const { Cell::new(0) };
    static BASES_ALLOWED: Cell<u32> = const { Cell::new(1) };
    static BEFORE_ACQUIRE: RefCell<Vec<(usize, Hook)>> = const { RefCell::new(Vec::new()) };
    static ACQUISITIONS: Cell<u64> = const { Cell::new(0) };
}

/// Returns the number of base locks that are held at this moment.
pub(crate) fn held() -> u32 {
    BASES_HELD.get()
}

pub(crate) fn acquisitions() -> u64 {
    ACQUISITIONS.get()
}

/// Lets `body` hold two base locks at once.
pub(crate) fn with_two_allowed<R>(body: impl FnOnce() -> R) -> R {
    BASES_ALLOWED.set(2);
    let result = body();
    BASES_ALLOWED.set(1);
    result
}

/// Runs `hook` just before the next `countdown + 1`-th base lock is taken: this is the window between finding a timer's
/// base and locking it.
pub(crate) fn before_acquire(countdown: usize, hook: Hook) {
    BEFORE_ACQUIRE.with_borrow_mut(|hooks| hooks.push((countdown, hook)));
}

fn run_hooks() {
    let due = BEFORE_ACQUIRE.with_borrow_mut(|hooks| {
        let position = hooks.iter().position(|(countdown, _)| *countdown == 0);
        for (countdown, _) in hooks.iter_mut() {
            *countdown = countdown.saturating_sub(1);
        }
        position.map(|position| hooks.remove(position).1)
    });
    if let Some(hook) = due {
        hook();
    }
}

/// Clears the state that an earlier host on this thread left, for example after a panic.
pub(crate) fn reset() {
    BASES_HELD.set(0);
    BASES_ALLOWED.set(1);
    ACQUISITIONS.set(0);
    BEFORE_ACQUIRE.with_borrow_mut(Vec::clear);
}

/// The lock of a base.
pub type BaseLock = SoloLock<Order>;

/// The observer that counts the held base locks.
#[derive(Debug, Default)]
pub struct Order(());

impl Watcher for Order {
    fn comes(&self) {
        run_hooks();
    }

    fn takes(&self) {
        let held = BASES_HELD.get() + 1;
        ACQUISITIONS.set(ACQUISITIONS.get() + 1);
        assert!(
            held <= BASES_ALLOWED.get(),
            "ORACLE-9: {held} base locks are held at once"
        );
        BASES_HELD.set(held);
    }

    fn released(&self) {
        BASES_HELD.set(BASES_HELD.get() - 1);
    }
}

/// The lock around callbacks.
pub type ExpiryLock = SoloLock<Unwatched>;

/// An observer that does nothing.
#[derive(Debug, Default)]
pub struct Unwatched(());

impl Watcher for Unwatched {}
