//! The list of biased locks other than base locks: those of the executors' run queues.
//!
//! They are owned by threads as base locks are, and a barrier on behalf of one of their owners interrupts an isolated
//! CPU as well. So they are made ordinary where base locks are.
//!
//! # Ground rules
//!
//! The list is used with the registry locked, which orders it with the count of isolated workers: locks that are listed
//! later are owned by threads that know of it. A fork locks the registry, so in the child the list is whole.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::registry;

/// Locks that threads of this process own.
pub(crate) trait OwnedLocks: Send + Sync {
    /// Locks and releases each of them without the token of its owner, which makes it ordinary. In the child of a fork,
    /// which has none of the owners, does nothing.
    fn take_each_as_stranger(&self);
}

static LOCKS: Mutex<Vec<Weak<dyn OwnedLocks>>> = Mutex::new(Vec::new());

/// Lists `locks`, none of which has an owner yet, until they are dropped.
pub(crate) fn register(locks: Weak<dyn OwnedLocks>) {
    let _registry = registry::lock();
    let mut all = LOCKS.lock().unwrap_or_else(PoisonError::into_inner);
    all.retain(|locks| locks.strong_count() > 0);
    all.push(locks);
}

/// Takes all that are listed as a stranger, with the registry locked by the caller.
///
/// The returned waker is to be dropped without that lock: it may be the last that keeps a user's code.
pub(super) fn take_each_as_stranger() -> Vec<Arc<dyn OwnedLocks>> {
    let all = LOCKS.lock().unwrap_or_else(PoisonError::into_inner);
    let all: Vec<_> = all.iter().filter_map(Weak::upgrade).collect();
    for locks in &all {
        locks.take_each_as_stranger();
    }
    all
}
