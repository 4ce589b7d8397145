use super::*;
use crate::lock::Lock;
use std::sync::Arc;
use std::thread;
use std::vec::Vec;

/// A host that admits to have no barrier.
struct NoBarrier;

// SAFETY: it says that it has no barrier.
unsafe impl LockHost for NoBarrier {
    fn barrier_works() -> bool {
        false
    }
    fn heavy_barrier() {}
    fn wait(_word: &AtomicU32, _expected: u32) {
        thread::yield_now();
    }
    fn wake_one(_word: &AtomicU32) {}
    fn relax() {
        thread::yield_now();
    }
}

/// A host for tests of one thread.
struct Alone;

// SAFETY: with one thread every fence is a barrier for all of them.
unsafe impl LockHost for Alone {
    fn barrier_works() -> bool {
        true
    }
    fn heavy_barrier() {}
    fn wait(_word: &AtomicU32, _expected: u32) {}
    fn wake_one(_word: &AtomicU32) {}
    fn relax() {}
}

#[test]
fn the_owner_earns_its_bias_and_a_stranger_takes_it_away() {
    let lock = Lock::new(BiasedLock::<Alone>::new(), ());
    let owner = lock.raw().claim().expect("free");
    for _ in 0..REBIAS_AFTER {
        assert!(!lock.raw().is_biased());
        drop(lock.lock(Some(owner)));
    }
    assert!(lock.raw().is_biased());
    drop(lock.lock(None));
    assert!(!lock.raw().is_biased());
    for _ in 0..REBIAS_AFTER - 1 {
        drop(lock.lock(Some(owner)));
    }
    assert!(!lock.raw().is_biased());
    drop(lock.lock(Some(owner)));
    assert!(lock.raw().is_biased());
}

#[test]
fn strangers_that_keep_coming_keep_the_lock_ordinary() {
    let lock = Lock::new(BiasedLock::<Alone>::new(), ());
    let owner = lock.raw().claim().expect("free");
    for round in 0..4 * REBIAS_AFTER {
        drop(lock.lock(Some(owner)));
        if round % (REBIAS_AFTER / 2) == 0 {
            drop(lock.lock(None));
        }
        assert!(!lock.raw().is_biased());
    }
}

#[test]
fn there_is_one_owner_at_a_time() {
    let lock = BiasedLock::<Alone>::new();
    let first = lock.claim().expect("free");
    assert!(lock.claim().is_none());
    lock.disown(first);
    let second = lock.claim().expect("free again");
    assert_ne!(first.id, second.id);
    // The old token opens nothing any more: it counts as a stranger's.
    assert_eq!(lock.acquire(Some(first)), Held::Inner);
    lock.release(&Held::Inner);
}

#[test]
fn without_a_barrier_the_lock_never_becomes_biased() {
    let lock = Lock::new(BiasedLock::<NoBarrier>::new(), ());
    let owner = lock.raw().claim().expect("free");
    for _ in 0..2 * REBIAS_AFTER {
        drop(lock.lock(Some(owner)));
    }
    assert!(!lock.raw().is_biased());
}

#[test]
fn many_threads_exclude_each_other() {
    let rounds = if cfg!(miri) { 20 } else { 20_000 };
    let lock = Arc::new(Lock::new(BiasedLock::<NoBarrier>::new(), 0_usize));
    let strangers: Vec<_> = (0..3)
        .map(|_| {
            let lock = Arc::clone(&lock);
            thread::spawn(move || {
                for _ in 0..rounds {
                    *lock.lock(None) += 1;
                }
            })
        })
        .collect();
    let owner = lock.raw().claim().expect("free");
    for _ in 0..rounds {
        *lock.lock(Some(owner)) += 1;
    }
    for stranger in strangers {
        stranger.join().expect("no panic");
    }
    assert_eq!(*lock.lock(None), 4 * rounds);
}
