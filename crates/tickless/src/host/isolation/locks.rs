//! The list of biased locks other than base locks: those of the executors' run queues.
//!
//! Threads own these locks as they own base locks, and a barrier on behalf of a lock's owner interrupts an isolated CPU
//! as well. So these locks are made ordinary whenever base locks are.
//!
//! # Ground rules
//!
//! The list is used with the registry locked. The registry's lock orders the list with the count of isolated workers:
//! the owners of locks that are listed later see the new count. A fork locks the registry, so in the child the list is
//! consistent.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::registry;

/// A set of locks that threads of this process own.
pub(crate) trait OwnedLocks: Send + Sync {
    /// Locks and releases each lock without the token of its owner, which makes the lock ordinary. Does nothing in the
    /// child of a fork, which has none of the owners.
    fn take_each_as_stranger(&self);
}

static LOCKS: Mutex<Vec<Weak<dyn OwnedLocks>>> = Mutex::new(Vec::new());

/// Lists `locks`, none of which has an owner yet, until the locks are dropped.
pub(crate) fn register(locks: Weak<dyn OwnedLocks>) {
    let _registry = registry::lock();
    let mut all = LOCKS.lock().unwrap_or_else(PoisonError::into_inner);
    all.retain(|locks| locks.strong_count() > 0);
    all.push(locks);
}

/// Takes all listed locks as a stranger. The caller has locked the registry.
///
/// The caller has to drop the result without the registry's lock: each reference in it may be the last one that keeps a
/// user's code.
pub(super) fn take_each_as_stranger() -> Vec<Arc<dyn OwnedLocks>> {
    let all = LOCKS.lock().unwrap_or_else(PoisonError::into_inner);
    let all: Vec<_> = all.iter().filter_map(Weak::upgrade).collect();
    for locks in &all {
        locks.take_each_as_stranger();
    }
    all
}
