//! Waiting until a word changes, by mutexes and condition variables that the address of the word selects.
//!
//! A waiting thread locks the mutex of the word's place, compares the word, and waits with that mutex. A waking thread
//! first changes the word and then locks the same mutex. So either the waiting thread sees the change, or it waits
//! already and is woken.
//!
//! If the system has a finer timer than condition variables, a wait with an end uses that timer's [`Sleeper`]: the
//! thread adds itself to the list of the place, with the mutex locked as before, and sleeps without the mutex. A ring
//! before the sleep ends the sleep at once.
//!
//! # Limits and cost
//!
//! Words that share a place wake each other's threads, which check their words and wait again. A wait in a timer of the
//! system costs at most one call more than the wait itself, and each thread that waits in this way keeps its timer
//! until the thread ends.

use std::cell::RefCell;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tickless_link::sync::{AtomicU32, Ordering};

use super::clocks::monotonic;
use super::native::Native;
use super::sleeper::Sleeper;
use crate::host::sys::{Until, Waited};

/// The number of places to wait at: more than the threads that sleep at a time on most machines.
const PLACES: usize = 256;

/// True if a process has one thread: on WebAssembly without shared memory.
const IS_ALONE: bool = cfg!(all(target_family = "wasm", not(target_feature = "atomics")));

/// A place where threads wait for words.
struct WaitPlace<S> {
    /// The threads that sleep in a timer of the system, with the addresses of their words.
    asleep: Mutex<Vec<(usize, Arc<S>)>>,
    changed: Condvar,
}

/// The places where threads wait.
struct Places<S>([WaitPlace<S>; PLACES]);

static ALL: Places<Native> = Places::new();

/// The timer of the system with which a thread waits.
enum Own<S> {
    /// The thread has not waited yet.
    Unknown,
    /// The system has no such timer, or refuses to make it.
    Absent,
    Present(Arc<S>),
}

thread_local! {
    static OWN: RefCell<Own<Native>> = const { RefCell::new(Own::Unknown) };
}

impl<S: Sleeper> Own<S> {
    fn get(&mut self) -> Option<Arc<S>> {
        if matches!(self, Self::Unknown) {
            *self = S::make().map_or(Self::Absent, |made| Self::Present(Arc::new(made)));
        }
        match self {
            Self::Present(sleeper) => Some(Arc::clone(sleeper)),
            _ => None,
        }
    }
}

impl<S: Sleeper> WaitPlace<S> {
    fn lock(&self) -> MutexGuard<'_, Vec<(usize, Arc<S>)>> {
        self.asleep.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The golden ratio, times 2^64: multiples of it are far from each other.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

impl<S: Sleeper> Places<S> {
    const fn new() -> Self {
        Self(
            [const {
                WaitPlace {
                    asleep: Mutex::new(Vec::new()),
                    changed: Condvar::new(),
                }
            }; PLACES],
        )
    }

    fn of(&self, word: &AtomicU32) -> &WaitPlace<S> {
        // Parkers are some cache lines apart: the bits above those of a line decide, spread by a multiplication.
        let spread = (address(word) as u64 >> 6).wrapping_mul(SPREAD);
        &self.0[(spread >> 32) as usize % PLACES]
    }

    /// Waits as [`wait`] does. A wait that has an end uses the sleeper in `own`.
    fn wait(&self, word: &AtomicU32, expected: u32, until: Until, own: &mut Own<S>) -> Waited {
        let place = self.of(word);
        let mut locked = place.lock();
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
        if let Some(sleeper) = own.get() {
            locked.push((address(word), Arc::clone(&sleeper)));
            drop(locked);
            if !sleeper.sleep(left) {
                *own = Own::Absent;
            }
            place
                .lock()
                .retain(|(_, other)| !Arc::ptr_eq(other, &sleeper));
            return Waited::Again;
        }
        let waited = place
            .changed
            .wait_timeout(locked, Duration::from_nanos(left));
        drop(waited);
        // Whether the time is over the clock says, when the caller looks again.
        Waited::Again
    }

    fn wake_one(&self, word: &AtomicU32) {
        let place = self.of(word);
        let asleep = place.lock();
        for (_, sleeper) in asleep.iter().filter(|(at, _)| *at == address(word)) {
            sleeper.ring();
        }
        drop(asleep);
        // All: one of them may wait for another word.
        place.changed.notify_all();
    }
}

fn address(word: &AtomicU32) -> usize {
    std::ptr::from_ref(word).addr()
}

/// Waits while `word` is `expected`, until another thread [wakes](wake_one) this thread or the time is over.
pub(crate) fn wait(word: &AtomicU32, expected: u32, until: Until) -> Waited {
    let waited = OWN.try_with(|own| match own.try_borrow_mut() {
        Ok(mut own) => ALL.wait(word, expected, until, &mut own),
        Err(_) => ALL.wait(word, expected, until, &mut Own::Absent),
    });
    // A thread that ends has no timer any more.
    waited.unwrap_or_else(|_| ALL.wait(word, expected, until, &mut Own::Absent))
}

/// Wakes the threads that wait for `word`.
pub(crate) fn wake_one(word: &AtomicU32) {
    ALL.wake_one(word);
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::thread;
    use std::time::Instant;

    use super::*;

    /// The time after which a wait counts as hanging.
    const PATIENCE: Duration = Duration::from_secs(60);

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

    /// The waits are without an end, and with an end that is far.
    #[test]
    fn no_change_of_a_word_is_missed() {
        static NATIVE: Places<Native> = Places::new();
        hand_over(&NATIVE);
    }

    /// The test uses a sleeper that is made of the standard library, because not every machine has a timer of the
    /// system.
    #[test]
    fn no_change_of_a_word_is_missed_in_a_timer_of_the_system() {
        static FAKE: Places<Fake> = Places::new();
        hand_over(&FAKE);
    }

    #[cfg(unix)]
    #[test]
    fn no_change_of_a_word_is_missed_in_a_queue_of_the_system() {
        use crate::host::sys::portable::native::FakeQueue;

        static QUEUES: Places<FakeQueue> = Places::new();
        hand_over(&QUEUES);
    }

    #[test]
    fn a_timer_that_is_refused_is_replaced_by_a_condition_variable() {
        /// A sleeper that refuses to wait.
        struct Refused;

        impl Sleeper for Refused {
            fn make() -> Option<Self> {
                Some(Self)
            }

            fn sleep(&self, _left: u64) -> bool {
                false
            }

            fn ring(&self) {}
        }

        static ALL: Places<Refused> = Places::new();
        let word = AtomicU32::new(7);
        let mut own = Own::Unknown;
        let deadline = monotonic() + 300_000;
        while ALL.wait(&word, 7, Until::At(deadline), &mut own) != Waited::Over {}
        assert!(monotonic() >= deadline);
        assert!(matches!(own, Own::Absent));
        assert!(ALL.of(&word).lock().is_empty());
    }

    /// A sleeper with a bell that is heard once.
    #[derive(Default)]
    struct Fake {
        is_rung: Mutex<bool>,
        rung: Condvar,
    }

    impl Sleeper for Fake {
        fn make() -> Option<Self> {
            Some(Self::default())
        }

        fn sleep(&self, left: u64) -> bool {
            let mut is_rung = self.is_rung.lock().expect("no test panics with it");
            if !*is_rung {
                let time = Duration::from_nanos(left);
                is_rung = self.rung.wait_timeout(is_rung, time).expect("as above").0;
            }
            *is_rung = false;
            true
        }

        fn ring(&self) {
            *self.is_rung.lock().expect("no test panics with it") = true;
            self.rung.notify_one();
        }
    }

    /// Tests words that share a place: for each word one thread waits, and another changes it.
    fn hand_over<S: Sleeper>(places: &'static Places<S>) {
        let words: Arc<[AtomicU32; 2 * PLACES]> = Arc::new([const { AtomicU32::new(0) }; _]);
        let first = places.of(&words[0]);
        let shared = words
            .iter()
            .position(|word| !std::ptr::eq(word, &words[0]) && std::ptr::eq(places.of(word), first))
            .expect("more words than places");
        let waiters: Vec<_> = [0, shared]
            .into_iter()
            .map(|index| {
                let words = Arc::clone(&words);
                thread::spawn(move || {
                    let mut own = Own::Unknown;
                    for round in 0..2_000 {
                        let until = match round % 2 {
                            0 => Until::Never,
                            _ => {
                                Until::In(i64::try_from(PATIENCE.as_nanos()).expect("it is short"))
                            }
                        };
                        let begin = Instant::now();
                        while words[index].load(Ordering::Acquire) == round {
                            let _any = places.wait(&words[index], round, until, &mut own);
                        }
                        assert!(begin.elapsed() < PATIENCE, "the change was missed");
                        words[index].store(round + 1, Ordering::Release);
                    }
                })
            })
            .collect();
        for round in 0..2_000 {
            for index in [0, shared] {
                let begin = Instant::now();
                while words[index].load(Ordering::Acquire) != round {
                    assert!(begin.elapsed() < 2 * PATIENCE, "the change was missed");
                    thread::yield_now();
                }
                words[index].store(u32::MAX, Ordering::Release);
                places.wake_one(&words[index]);
            }
        }
        for waiter in waiters {
            waiter.join().expect("it does not panic");
        }
    }
}
