use super::*;
use crate::lock::Lock;
use std::cell::Cell;
use std::sync::Arc;
use std::thread;
use std::vec::Vec;

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
    fn relax(_attempt: u32) {
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
    fn relax(_attempt: u32) {}
}

#[test]
fn without_a_barrier_the_owner_announces_itself() {
    let lock = Lock::new(BiasedLock::<NoBarrier>::new(), ());
    let owner = lock.raw().claim().expect("free");
    for round in 1..=2 * REBIAS_AFTER {
        let held = lock.try_lock(Some(owner));
        // It asks for the bias now and then, in vain.
        let is_inside = round % REBIAS_AFTER != 0;
        assert_eq!(held.is_some(), is_inside);
        assert_eq!(
            lock.raw().inside.load(Ordering::Relaxed) == INSIDE,
            is_inside
        );
        assert_eq!(lock.raw().inner.load(Ordering::Relaxed), FREE);
        drop(held.unwrap_or_else(|| lock.lock(Some(owner))));
        assert_eq!(lock.raw().inside.load(Ordering::Relaxed), OUTSIDE);
        assert!(!lock.raw().is_biased());
    }
    assert!(lock.try_lock(None).is_none(), "no owner");
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
fn the_owner_enters_by_its_announcement_unless_another_has_the_lock() {
    let lock = Lock::new(BiasedLock::<Alone>::new(), ());
    let owner = lock.raw().claim().expect("free");
    for is_biased in [false, true] {
        assert_eq!(lock.raw().is_biased(), is_biased);
        assert!(lock.try_lock(None).is_none(), "no owner");
        let held = lock.try_lock(Some(owner));
        assert!(held.is_some());
        assert_eq!(lock.raw().inside.load(Ordering::Relaxed), INSIDE);
        assert_eq!(lock.raw().inner.load(Ordering::Relaxed), FREE);
        drop(held);
        let stranger = lock.lock(None);
        assert!(lock.try_lock(Some(owner)).is_none(), "another has it");
        // The stranger, or the next one, must not wait for the owner.
        assert_eq!(lock.raw().inside.load(Ordering::Relaxed), OUTSIDE);
        drop(stranger);
        for _ in 0..REBIAS_AFTER {
            drop(lock.lock(Some(owner)));
        }
    }
}

#[test]
fn a_stranger_waits_for_the_owner_that_is_inside() {
    struct Waits;
    // SAFETY: with one thread every fence is a barrier for all of them.
    unsafe impl LockHost for Waits {
        fn barrier_works() -> bool {
            true
        }
        fn heavy_barrier() {}
        fn wait(_word: &AtomicU32, _expected: u32) {}
        fn wake_one(_word: &AtomicU32) {}
        fn relax(_attempt: u32) {
            panic!("it waits");
        }
    }
    for rounds in [0, REBIAS_AFTER] {
        let lock = BiasedLock::<Waits>::new();
        let owner = lock.claim().expect("free");
        for _ in 0..rounds {
            let held = lock.acquire(Some(owner));
            lock.release(&held);
        }
        assert_eq!(lock.acquire(Some(owner)), Acquired::Inside);
        let stranger = std::panic::AssertUnwindSafe(|| lock.acquire(None));
        assert!(std::panic::catch_unwind(stranger).is_err());
    }
}

/// Threads contend for the lock without sleeping, so that none of them has to be woken.
#[test]
fn only_a_thread_that_slept_leaves_a_mark() {
    let lock = BiasedLock::<Alone>::new();
    lock.lock_inner_slow();
    assert_eq!(lock.inner.load(Ordering::Relaxed), TAKEN);
    lock.unlock_inner();
    std::thread_local! {
        static SLEPT: Cell<bool> = const { Cell::new(false) };
    }
    struct Woken;
    // SAFETY: it says that it has no barrier.
    unsafe impl LockHost for Woken {
        fn barrier_works() -> bool {
            false
        }
        fn heavy_barrier() {}
        fn wait(word: &AtomicU32, _expected: u32) {
            SLEPT.set(true);
            word.store(FREE, Ordering::Relaxed);
        }
        fn wake_one(_word: &AtomicU32) {}
        fn relax(_attempt: u32) {}
    }
    let lock = BiasedLock::<Woken>::new();
    lock.inner.store(TAKEN, Ordering::Relaxed);
    lock.lock_inner_slow();
    assert!(SLEPT.get());
    // The release that woke this thread forgot the others that sleep.
    assert_eq!(lock.inner.load(Ordering::Relaxed), CONTENDED);
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
    assert_eq!(lock.acquire(Some(first)), Acquired::Inner);
    lock.release(&Acquired::Inner);
}

std::thread_local! {
    static DISTURBS: Cell<bool> = const { Cell::new(false) };
    static BARRIERS: Cell<u32> = const { Cell::new(0) };
}

/// A host for tests of one thread, whose barriers can be unwelcome.
struct Isolating;

// SAFETY: with one thread every fence is a barrier for all of them.
unsafe impl LockHost for Isolating {
    fn barrier_works() -> bool {
        true
    }
    fn heavy_barrier() {
        BARRIERS.set(BARRIERS.get() + 1);
    }
    fn barrier_disturbs() -> bool {
        DISTURBS.get()
    }
    fn wait(_word: &AtomicU32, _expected: u32) {}
    fn wake_one(_word: &AtomicU32) {}
    fn relax(_attempt: u32) {}
}

type Base = Lock<BiasedLock<Isolating>, ()>;

/// Returns a lock with its owner, and arms the switch that the environment names.
fn owned() -> (Base, Owner) {
    BARRIERS.set(0);
    let lock = Base::new(BiasedLock::new(), ());
    let owner = lock.raw().claim().expect("free");
    (lock, owner)
}

fn work_uncontended(lock: &Base, owner: Owner) {
    for _ in 0..REBIAS_AFTER {
        drop(lock.lock(Some(owner)));
    }
}

#[test]
fn while_barriers_disturb_strangers_need_none() {
    let (lock, owner) = owned();
    work_uncontended(&lock, owner);
    assert!(lock.raw().is_biased());
    DISTURBS.set(true);
    // What the host does once.
    drop(lock.lock(None));
    assert_eq!(BARRIERS.get(), 1);
    for _ in 0..3 {
        work_uncontended(&lock, owner);
        assert!(!lock.raw().is_biased());
        drop(lock.lock(None));
    }
    assert_eq!(BARRIERS.get(), 1);
    DISTURBS.set(false);
    work_uncontended(&lock, owner);
    assert!(lock.raw().is_biased());
}

#[test]
fn a_reserved_lock_is_biased_until_a_stranger_takes_it() {
    let (lock, owner) = owned();
    DISTURBS.set(true);
    lock.raw().set_reserved(owner, true);
    work_uncontended(&lock, owner);
    assert!(lock.raw().is_biased());
    for _ in 0..3 {
        drop(lock.lock(None));
        work_uncontended(&lock, owner);
        assert!(!lock.raw().is_biased());
    }
    assert_eq!(BARRIERS.get(), 1, "one for the first of them");
}

#[test]
fn a_stranger_that_comes_before_the_bias_ends_the_reservation() {
    let (lock, owner) = owned();
    DISTURBS.set(true);
    lock.raw().set_reserved(owner, true);
    drop(lock.lock(None));
    work_uncontended(&lock, owner);
    drop(lock.lock(None));
    assert_eq!(BARRIERS.get(), 0);
}

#[test]
fn a_lock_that_is_no_longer_reserved_is_ordinary_while_barriers_disturb() {
    let (lock, owner) = owned();
    for disturbs in [true, false] {
        DISTURBS.set(disturbs);
        lock.raw().set_reserved(owner, true);
        work_uncontended(&lock, owner);
        assert!(lock.raw().is_biased());
        lock.raw().set_reserved(owner, false);
        assert_eq!(lock.raw().is_biased(), !disturbs);
    }
    assert_eq!(BARRIERS.get(), 0, "the owner needs none");
}

#[test]
fn a_reservation_ends_with_the_ownership() {
    let (lock, owner) = owned();
    DISTURBS.set(true);
    lock.raw().set_reserved(owner, true);
    lock.raw().disown(owner);
    lock.raw().set_reserved(owner, true);
    let next = lock.raw().claim().expect("free");
    work_uncontended(&lock, next);
    assert!(!lock.raw().is_biased());
}

/// A host that loses its barrier when one is requested.
struct Loses;

static LOST: AtomicU32 = AtomicU32::new(0);

// SAFETY: as for `Alone`, also when it is lost.
unsafe impl LockHost for Loses {
    fn barrier_works() -> bool {
        LOST.load(Ordering::Relaxed) == 0
    }
    fn heavy_barrier() {
        LOST.fetch_add(1, Ordering::Relaxed);
    }
    fn wait(_word: &AtomicU32, _expected: u32) {}
    fn wake_one(_word: &AtomicU32) {}
    fn relax(_attempt: u32) {}
}

#[test]
fn a_lock_is_ordinary_from_the_stranger_on_that_found_the_barrier_lost() {
    let locks = [(); 2].map(|()| Lock::new(BiasedLock::<Loses>::new(), ()));
    let owners = locks.each_ref().map(|lock| lock.raw().claim());
    let work = |quietly: u32| {
        for (lock, owner) in locks.iter().zip(owners) {
            for _ in 0..quietly {
                drop(lock.lock(owner));
            }
        }
    };
    work(REBIAS_AFTER);
    let biased = || locks.each_ref().map(|lock| lock.raw().is_biased());
    assert_eq!(biased(), [true, true]);
    drop(locks[0].lock(None));
    work(2 * REBIAS_AFTER);
    // The other stays as it is until a stranger comes, for whom the host does what amounts to the barrier.
    assert_eq!((biased(), LOST.load(Ordering::Relaxed)), ([false, true], 1));
    drop(locks[1].lock(None));
    drop(locks[1].lock(None));
    work(2 * REBIAS_AFTER);
    assert_eq!(
        (biased(), LOST.load(Ordering::Relaxed)),
        ([false, false], 2)
    );
}

#[test]
#[cfg(debug_assertions)]
fn the_owner_that_holds_the_lock_cannot_take_it_again() {
    for rounds in [0, REBIAS_AFTER] {
        let lock = Lock::new(BiasedLock::<Alone>::new(), ());
        let owner = lock.raw().claim().expect("free");
        for _ in 0..rounds {
            drop(lock.lock(Some(owner)));
        }
        let _held = lock.lock(Some(owner));
        let again = std::panic::AssertUnwindSafe(|| drop(lock.lock(Some(owner))));
        assert!(std::panic::catch_unwind(again).is_err());
    }
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
