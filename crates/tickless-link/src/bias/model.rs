//! Loom cases for the biased lock, which run the real code.

use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;

use super::{BiasedLock, LockHost};
use crate::lock::Lock;
use crate::sync::{AtomicBool, AtomicU32, Ordering, fence};

loom::lazy_static! {
    /// Models a futex for one word. Waiting really waits: with polling, two waiters could keep each other busy for
    /// ever.
    static ref SLEEPERS: (Mutex<()>, Condvar) = (Mutex::new(()), Condvar::new());
}

fn sleep_on(word: &AtomicU32, expected: u32) {
    let mut sleeping = SLEEPERS.0.lock().unwrap();
    // Relaxed: as a futex, which compares under a lock of its own.
    while word.load(Ordering::Relaxed) == expected {
        sleeping = SLEEPERS.1.wait(sleeping).unwrap();
    }
}

fn wake_all() {
    let _sleeping = SLEEPERS.0.lock().unwrap();
    SLEEPERS.1.notify_all();
}

/// A host whose barrier has the effect of `membarrier`.
struct Modelled;

// SAFETY: in a model the light barrier is a `SeqCst` fence too, and two such fences give the guarantee that the pair of
// a compiler fence and `membarrier` gives.
unsafe impl LockHost for Modelled {
    fn barrier_works() -> bool {
        true
    }
    fn heavy_barrier() {
        fence(Ordering::SeqCst);
    }
    fn wait(word: &AtomicU32, expected: u32) {
        sleep_on(word, expected);
    }
    fn wake_one(_word: &AtomicU32) {
        wake_all();
    }
    fn relax(_attempt: u32) {
        thread::yield_now();
    }
}

/// A host without the barrier.
struct Plain;

// SAFETY: it says that it has no barrier.
unsafe impl LockHost for Plain {
    fn barrier_works() -> bool {
        false
    }
    fn heavy_barrier() {
        unreachable!("the host has no barrier");
    }
    fn wait(word: &AtomicU32, expected: u32) {
        sleep_on(word, expected);
    }
    fn wake_one(_word: &AtomicU32) {
        wake_all();
    }
    fn relax(_attempt: u32) {
        thread::yield_now();
    }
}

loom::lazy_static! {
    static ref DISTURBS: AtomicBool = AtomicBool::new(false);
    /// True once every lock was acquired since barriers became unwelcome.
    static ref IN_FORCE: AtomicBool = AtomicBool::new(false);
}

/// Behaves as [`Modelled`], except that it refuses to interrupt CPUs from some moment on.
struct Isolating;

// SAFETY: as for `Modelled`.
unsafe impl LockHost for Isolating {
    fn barrier_works() -> bool {
        true
    }
    fn heavy_barrier() {
        // Relaxed: what the lock orders is what is under test.
        assert!(!IN_FORCE.load(Ordering::Relaxed), "an interrupt");
        fence(Ordering::SeqCst);
    }
    fn barrier_disturbs() -> bool {
        // Relaxed: ordered by the inner lock.
        DISTURBS.load(Ordering::Relaxed)
    }
    fn wait(word: &AtomicU32, expected: u32) {
        sleep_on(word, expected);
    }
    fn wake_one(_word: &AtomicU32) {
        wake_all();
    }
    fn relax(_attempt: u32) {
        thread::yield_now();
    }
}

loom::lazy_static! {
    static ref LOST: AtomicU32 = AtomicU32::new(0);
}

/// A host that loses its barrier at the first request for one. From then on it waits until stores have arrived.
struct Loses;

// SAFETY: that wait amounts to the fence, as for `Modelled`.
unsafe impl LockHost for Loses {
    fn barrier_works() -> bool {
        // Relaxed, both: the word stands alone.
        LOST.load(Ordering::Relaxed) == 0
    }
    fn heavy_barrier() {
        LOST.store(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }
    fn wait(word: &AtomicU32, expected: u32) {
        sleep_on(word, expected);
    }
    fn wake_one(_word: &AtomicU32) {
        wake_all();
    }
    fn relax(_attempt: u32) {
        thread::yield_now();
    }
}

/// Explores every interleaving with at most `preemptions` preemptions. Without a bound, a case with three threads takes
/// hours.
fn explore(preemptions: usize, body: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(body);
}

/// The owner locks `rounds` times and becomes biased meanwhile, while each of `strangers` threads locks once.
///
/// The short check (`cargo xtask check`) uses one preemption less against a single stranger, which takes a tenth of the
/// time.
fn owner_against_strangers<H: LockHost + 'static>(rounds: usize, strangers: usize) {
    let is_short = std::env::var_os("TICKLESS_SHORT_MODELS").is_some();
    let alone = if is_short { 3 } else { 4 };
    explore(if strangers > 1 { 2 } else { alone }, move || {
        let lock = Arc::new(Lock::new(BiasedLock::<H>::new(), 0_usize));
        let others: std::vec::Vec<_> = (0..strangers)
            .map(|_| {
                let lock = Arc::clone(&lock);
                thread::spawn(move || *lock.lock(None) += 1)
            })
            .collect();
        let owner = lock.raw().claim().expect("no other thread claims");
        for _ in 0..rounds {
            *lock.lock(Some(owner)) += 1;
        }
        for other in others {
            other.join().unwrap();
        }
        assert_eq!(*lock.lock(Some(owner)), rounds + strangers);
    });
}

#[test]
fn owner_at_the_gate_against_a_stranger() {
    owner_against_strangers::<Modelled>(3, 1);
}

#[test]
fn owner_against_two_strangers() {
    owner_against_strangers::<Modelled>(2, 2);
}

#[test]
fn owner_at_the_gate_against_a_stranger_for_whom_the_barrier_is_lost() {
    owner_against_strangers::<Loses>(3, 1);
}

#[test]
fn without_a_barrier_the_owner_pays_the_exchange() {
    owner_against_strangers::<Plain>(3, 1);
}

/// The owner gives up the lock while a stranger acquires it. Then a new owner claims the lock and uses it.
#[test]
fn disown_and_claim_again_against_a_stranger() {
    explore(3, || {
        let lock = Arc::new(Lock::new(BiasedLock::<Modelled>::new(), 0_usize));
        let first = lock.raw().claim().expect("no other thread claims");
        *lock.lock(Some(first)) += 1;
        let stranger = {
            let lock = Arc::clone(&lock);
            thread::spawn(move || *lock.lock(None) += 1)
        };
        *lock.lock(Some(first)) += 1;
        lock.raw().disown(first);
        let successor = {
            let lock = Arc::clone(&lock);
            thread::spawn(move || {
                let owner = lock.raw().claim().expect("the first owner left");
                *lock.lock(Some(owner)) += 1;
            })
        };
        stranger.join().unwrap();
        successor.join().unwrap();
        assert_eq!(*lock.lock(None), 4);
    });
}

/// Barriers become unwelcome while the owner, which is biased or about to be, uses the lock, and strangers lock before
/// and after that. Once each lock was acquired, none of the strangers executes a barrier.
#[test]
fn no_barrier_once_every_lock_was_taken() {
    explore(3, || {
        let lock = Arc::new(Lock::new(BiasedLock::<Isolating>::new(), 0_usize));
        let isolating = {
            let lock = Arc::clone(&lock);
            thread::spawn(move || {
                // Relaxed: the locks below order it.
                DISTURBS.store(true, Ordering::Relaxed);
                *lock.lock(None) += 1;
                // Relaxed: who takes the lock later sees it.
                IN_FORCE.store(true, Ordering::Relaxed);
                *lock.lock(None) += 1;
            })
        };
        let owner = lock.raw().claim().expect("no other thread claims");
        for _ in 0..3 {
            *lock.lock(Some(owner)) += 1;
        }
        isolating.join().unwrap();
        *lock.lock(Some(owner)) += 1;
        assert!(!lock.raw().is_biased());
        *lock.lock(None) += 1;
        assert_eq!(*lock.lock(Some(owner)), 7);
    });
}
