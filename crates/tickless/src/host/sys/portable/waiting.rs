//! Waiting until a word changes: mutexes and condition variables, chosen by the address of the word.
//!
//! A thread that waits compares the word with the mutex of its place locked, and waits with it. A thread that wakes
//! changes the word first and locks that mutex then: either the first one sees the change, or it waits already.
//!
//! # Limits and cost
//!
//! Words that share a place wake each other's threads, which look and wait again.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tickless_link::sync::{AtomicU32, Ordering};

use super::clocks::monotonic;
use crate::host::sys::{Until, Waited};

/// Places to wait at: more than threads that sleep at a time on most machines.
const PLACES: usize = 256;

/// True where a process has one thread: WebAssembly without shared memory.
const IS_ALONE: bool = cfg!(all(target_family = "wasm", not(target_feature = "atomics")));

/// A place where threads wait for words.
struct WaitPlace {
    mutex: Mutex<()>,
    changed: Condvar,
}

static ALL: [WaitPlace; PLACES] = [const {
    WaitPlace {
        mutex: Mutex::new(()),
        changed: Condvar::new(),
    }
}; PLACES];

impl WaitPlace {
    fn of(word: &AtomicU32) -> &'static Self {
        // Parkers are some cache lines apart: the bits above those of a line decide, spread by a multiplication.
        let spread = (std::ptr::from_ref(word).addr() as u64 >> 6).wrapping_mul(SPREAD);
        &ALL[(spread >> 32) as usize % PLACES]
    }

    fn lock(&self) -> MutexGuard<'_, ()> {
        self.mutex.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The golden ratio, times 2^64: multiples of it are far from each other.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// Waits while `word` is `expected`, until another thread [wakes](wake_one) this one or the time is over.
pub(crate) fn wait(word: &AtomicU32, expected: u32, until: Until) -> Waited {
    let place = WaitPlace::of(word);
    let locked = place.lock();
    // Relaxed: ordered by the mutex, see above.
    if word.load(Ordering::Relaxed) != expected {
        return Waited::Again;
    }
    let left = match until {
        Until::Never => {
            drop(place.changed.wait(locked));
            return Waited::Again;
        }
        Until::At(nanos) => nanos.saturating_sub(monotonic()),
        Until::In(nanos) => nanos,
    };
    let Some(left @ 1..) = u64::try_from(left).ok() else {
        return Waited::Over;
    };
    if cfg!(event_host) {
        // The only thread must not wait, and cannot: the caller polls the clock.
        return Waited::Refused;
    }
    if IS_ALONE {
        // No other thread could change the word, and the condition variables of such a system panic.
        drop(locked);
        std::thread::sleep(Duration::from_nanos(left));
        return Waited::Again;
    }
    let waited = place
        .changed
        .wait_timeout(locked, Duration::from_nanos(left));
    drop(waited);
    // Whether the time is over the clock says, when the caller looks again.
    Waited::Again
}

/// Wakes the threads that wait for `word`.
pub(crate) fn wake_one(word: &AtomicU32) {
    let place = WaitPlace::of(word);
    drop(place.lock());
    // All: one of them may wait for another word.
    place.changed.notify_all();
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::thread;

    use super::*;

    #[test]
    fn no_wait_ends_before_its_time() {
        let word = AtomicU32::new(7);
        for micros in [1, 300, 2_000, 20_000] {
            let deadline = monotonic() + micros * 1_000;
            while wait(&word, 7, Until::At(deadline)) != Waited::Over {}
            assert!(monotonic() >= deadline);
        }
        assert_eq!(wait(&word, 8, Until::Never), Waited::Again);
    }

    /// Words that share a place, each with a thread that waits for it and one that changes it.
    #[test]
    fn no_change_of_a_word_is_missed() {
        let words: Arc<[AtomicU32; 2 * PLACES]> = Arc::new([const { AtomicU32::new(0) }; _]);
        let first = WaitPlace::of(&words[0]);
        let shared = words
            .iter()
            .position(|word| {
                !std::ptr::eq(word, &words[0]) && std::ptr::eq(WaitPlace::of(word), first)
            })
            .expect("more words than places");
        let waiters: Vec<_> = [0, shared]
            .into_iter()
            .map(|index| {
                let words = Arc::clone(&words);
                thread::spawn(move || {
                    for round in 0..2_000 {
                        while words[index].load(Ordering::Acquire) == round {
                            let _any = wait(&words[index], round, Until::Never);
                        }
                        words[index].store(round + 1, Ordering::Release);
                    }
                })
            })
            .collect();
        for round in 0..2_000 {
            for index in [0, shared] {
                while words[index].load(Ordering::Acquire) != round {
                    thread::yield_now();
                }
                words[index].store(u32::MAX, Ordering::Release);
                wake_one(&words[index]);
            }
        }
        for waiter in waiters {
            waiter.join().expect("it does not panic");
        }
    }
}
