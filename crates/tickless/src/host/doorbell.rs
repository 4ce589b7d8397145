//! The doorbell of a runtime: a descriptor that wakes the runtime's reactor when timers of the runtime's threads are
//! due. If the reactor does not react, the expiry thread fires these timers.
//!
//! The threads of a runtime publish into a tree of their own ([`trees`](super::remote::trees)). A thread that takes a
//! turn for that tree ends the turn by *lowering* the doorbell to the first deadline of the tree. If no thread takes a
//! turn, a thread whose deadline becomes the first of the tree lowers the doorbell itself. The bell is a timer file
//! descriptor in the runtime's reactor: setting it wakes no thread.
//!
//! A runtime may be busy, or not driven at all. So if the reactor has not reacted a [`GRACE`] after the doorbell should
//! have rung, the expiry thread fires the timers, and the reactor counts as *stalled*. From then on the expiry thread
//! fires the timers in time, without a grace, until the runtime polls its reactor again. A runtime that was dropped is
//! stalled for ever.
//!
//! # Ground rules
//!
//! - The lock that protects `until` is held when the descriptor is set, so that the descriptor rings at `until` or
//!   earlier. The descriptor is set at once. Or the setting is *put off*: then the task of the reactor sets the
//!   descriptor at its next poll, before the reactor waits.
//! - A thread that takes a turn [takes](Doorbell::take) the doorbell *before* it reads the tree, and lowers the
//!   doorbell after. If another thread publishes a deadline in between, the first thread reads that deadline, or the
//!   other thread lowers the doorbell afterwards.
//! - A reactor is stalled whose doorbell is overdue, or whose one thread has left it: the bell has rung then, and
//!   nobody has answered. A turn by the reactor ends that state, whichever thread came first. A reactor that finds
//!   another thread taking a turn ends the state too, because that thread lowers the doorbell afterwards.
//! - The expiry thread reads `until` and `grace` without the lock before it sleeps, after the fence of
//!   [`SleepDeadline`](super::sleep_protocol::SleepDeadline). A thread that writes them then executes the other side of
//!   that protocol.
//!
//! A Loom model runs this code unchanged (`model.rs`).

use tickless_link::sync::{AtomicI64, Ordering};

#[cfg(loom)]
use loom::sync::{Mutex, MutexGuard};
#[cfg(not(loom))]
use std::sync::{Mutex, MutexGuard};

use std::sync::PoisonError;

#[cfg(all(test, loom))]
mod model;

/// The time that the expiry thread waits for a reactor whose doorbell should have rung, in nanoseconds. It is so long
/// that the reactor of a runtime that polls it between tasks does not become stalled. While timers are pending, the
/// expiry thread checks at most once in this time.
pub(crate) const GRACE: i64 = 10_000_000;

/// A bell that a reactor watches.
pub(crate) trait Bell {
    /// Sets the bell to ring when the clock reads `when` nanoseconds; this replaces an earlier setting.
    fn set(&self, when: i64);
}

/// The doorbell of one reactor.
#[derive(Debug)]
pub(crate) struct Doorbell<B> {
    /// The time at which the doorbell has to ring, in nanoseconds; [`NEVER`](Self::NEVER) if it need not ring.
    until: AtomicI64,
    /// The time by which the expiry thread wakes later than the doorbell rings: [`GRACE`], or zero while the reactor is
    /// stalled.
    grace: AtomicI64,
    bell: Mutex<BellState<B>>,
}

/// The bell, and whether its setting is put off. A lock protects both.
#[derive(Debug)]
struct BellState<B> {
    /// The bell; `None` without a reactor.
    bell: Option<B>,
    /// True while the task of the reactor is about to set the bell, so that no other thread need set it. That task
    /// writes the field.
    is_put_off: bool,
}

impl<B: Bell> Doorbell<B> {
    pub(crate) const NEVER: i64 = i64::MAX;

    tickless_link::const_unless_loom! {
        /// Creates a doorbell without a reactor.
        pub(crate) const fn new() -> Self {
            Self {
                until: AtomicI64::new(Self::NEVER),
                grace: AtomicI64::new(0),
                bell: Mutex::new(BellState {
                    bell: None,
                    is_put_off: false,
                }),
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, BellState<B>> {
        self.bell.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Attaches a reactor, which watches `bell`.
    pub(crate) fn attach(&self, bell: B) {
        let mut state = self.lock();
        state.bell = Some(bell);
        self.expect_reactor(&mut state, 0);
    }

    /// Detaches the reactor, if `is_it` returns true for its bell. From then on the expiry thread fires the timers in
    /// time; the caller wakes the expiry thread.
    pub(crate) fn detach(&self, is_it: impl FnOnce(&B) -> bool) -> Option<B> {
        let mut state = self.lock();
        if !state.bell.as_ref().is_some_and(is_it) {
            return None;
        }
        state.is_put_off = false;
        // Relaxed: ordered as `until` is, by the fence of whatever tells the expiry thread.
        self.grace.store(0, Ordering::Relaxed);
        state.bell.take()
    }

    /// Returns whether a reactor is attached for whose bell `is_it` returns true.
    pub(crate) fn is_attached(&self, is_it: impl FnOnce(&B) -> bool) -> bool {
        self.lock().bell.as_ref().is_some_and(is_it)
    }

    /// Takes the doorbell for a thread that begins a turn: the doorbell need not ring until it is lowered.
    pub(crate) fn take(&self) {
        let _locked = self.lock();
        // Relaxed, here and below: changed under the lock; the expiry thread reads it after its fence.
        self.until.store(Self::NEVER, Ordering::Relaxed);
    }

    /// Makes the doorbell ring at `when` or earlier.
    pub(crate) fn lower(&self, when: i64) {
        let state = self.lock();
        if when < self.until.load(Ordering::Relaxed) {
            self.until.store(when, Ordering::Relaxed);
            if !self.is_stalled()
                && !state.is_put_off
                && let Some(bell) = &state.bell
            {
                bell.set(when);
            }
        }
    }

    /// Works as [`lower`](Self::lower), called by the reactor, which is not stalled then.
    pub(crate) fn lower_by_reactor(&self, when: i64) {
        let mut state = self.lock();
        self.note_earlier(when);
        self.expect_reactor(&mut state, 0);
    }

    /// Works as [`lower_by_reactor`](Self::lower_by_reactor), but does not set the bell: the task of the reactor is
    /// polled again before the reactor waits, and then sets the bell for all deadlines that arrived until then.
    pub(crate) fn put_off(&self, when: i64) {
        let mut state = self.lock();
        self.note_earlier(when);
        if state.bell.is_some() {
            // Relaxed: see `take`.
            self.grace.store(GRACE, Ordering::Relaxed);
            state.is_put_off = true;
        }
    }

    /// Records an earlier time. Called with the lock held.
    fn note_earlier(&self, when: i64) {
        // Relaxed: see `take`.
        let until = self.until.load(Ordering::Relaxed).min(when);
        self.until.store(until, Ordering::Relaxed);
    }

    /// Ends the stalled state of a reactor that woke and found another thread taking the turn. The bell does not ring
    /// again before `not_before`, because that thread does the work until then.
    pub(crate) fn revive(&self, not_before: i64) {
        let mut state = self.lock();
        self.expect_reactor(&mut state, not_before);
    }

    /// Delays the bell of a reactor that woke where no turn can be taken. The bell rings again at `not_before` or
    /// later; meanwhile the expiry thread fires the timers.
    pub(crate) fn postpone(&self, not_before: i64) {
        let mut state = self.lock();
        state.is_put_off = false;
        if let Some(bell) = &state.bell {
            // Relaxed: see `take`.
            let until = self.until.load(Ordering::Relaxed);
            let later = until.max(not_before);
            bell.set(if until == Self::NEVER {
                not_before
            } else {
                later
            });
        }
    }

    /// Sets the bell of the reactor for `until`, but not before `not_before`.
    fn expect_reactor(&self, state: &mut BellState<B>, not_before: i64) {
        state.is_put_off = false;
        let Some(bell) = &state.bell else { return };
        // Relaxed, both: see `take`.
        self.grace.store(GRACE, Ordering::Relaxed);
        let until = self.until.load(Ordering::Relaxed);
        if until != Self::NEVER {
            bell.set(until.max(not_before));
        }
    }

    /// Marks the reactor as stalled if its doorbell should have rung a grace before `now`. Returns whether that is so.
    pub(crate) fn stall_if_overdue(&self, now: i64) -> bool {
        let _locked = self.lock();
        let is_overdue = self.expiry_thread_comes_at() <= now;
        if is_overdue {
            // Relaxed: the expiry thread's own, or found under the lock.
            self.grace.store(0, Ordering::Relaxed);
        }
        is_overdue
    }

    /// Marks the reactor as stalled at once, because its one thread has left it. The bell has rung by `now`, so that the
    /// reactor ends that state when it is polled again.
    pub(crate) fn stall(&self, now: i64) {
        let state = self.lock();
        if !self.is_stalled()
            && let Some(bell) = &state.bell
        {
            // Relaxed: see `take`.
            self.grace.store(0, Ordering::Relaxed);
            bell.set(now);
        }
    }

    /// Returns whether the expiry thread fires the timers in time, and not a grace later.
    pub(crate) fn is_stalled(&self) -> bool {
        // Relaxed: under the lock, or to be shown.
        self.grace.load(Ordering::Relaxed) == 0
    }

    /// Returns the time at which the doorbell has to ring, in nanoseconds, or [`NEVER`](Self::NEVER).
    pub(crate) fn until(&self) -> i64 {
        // Relaxed: see `take`.
        self.until.load(Ordering::Relaxed)
    }

    /// Returns the time at which the expiry thread has to wake if the reactor does not, in nanoseconds.
    pub(crate) fn expiry_thread_comes_at(&self) -> i64 {
        // Relaxed: see `take`.
        self.until()
            .saturating_add(self.grace.load(Ordering::Relaxed))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[derive(Clone, Default)]
    struct Rings(Arc<Mutex<Vec<i64>>>);

    impl Bell for Rings {
        fn set(&self, when: i64) {
            self.0.lock().expect("no panic").push(when);
        }
    }

    impl Rings {
        fn taken(&self) -> Vec<i64> {
            std::mem::take(&mut *self.0.lock().expect("no panic"))
        }
    }

    fn attached() -> (Doorbell<Rings>, Rings) {
        let (doorbell, rings) = (Doorbell::new(), Rings::default());
        doorbell.attach(rings.clone());
        (doorbell, rings)
    }

    #[test]
    fn only_an_earlier_deadline_sets_the_descriptor() {
        let (doorbell, rings) = attached();
        for when in [50, 70, 50, 30] {
            doorbell.lower(when);
        }
        assert_eq!(rings.taken(), [50, 30]);
        assert_eq!(doorbell.expiry_thread_comes_at(), 30 + GRACE);
        doorbell.take();
        doorbell.lower_by_reactor(i64::MAX);
        assert_eq!(rings.taken(), []);
        assert_eq!(doorbell.expiry_thread_comes_at(), i64::MAX);
    }

    /// One setting serves all deadlines that arrive until the task of the reactor is polled again. Meanwhile the expiry
    /// thread wakes by the first of them.
    #[test]
    fn a_setting_that_is_put_off_is_made_once() {
        let (doorbell, rings) = attached();
        doorbell.take();
        doorbell.put_off(90);
        for when in [80, 30, 50] {
            doorbell.lower(when);
        }
        assert_eq!(rings.taken(), []);
        assert_eq!(doorbell.expiry_thread_comes_at(), 30 + GRACE);
        doorbell.lower_by_reactor(i64::MAX);
        assert_eq!(rings.taken(), [30]);
        doorbell.lower(20);
        assert_eq!(rings.taken(), [20]);
    }

    /// A setting that is put off ends with any next operation of the task, and with its runtime.
    #[test]
    fn no_setting_stays_put_off() {
        let (doorbell, rings) = attached();
        doorbell.put_off(90);
        doorbell.revive(95);
        doorbell.lower(80);
        assert_eq!(rings.taken(), [95, 80]);
        doorbell.put_off(80);
        doorbell.postpone(85);
        doorbell.lower(70);
        assert_eq!(rings.taken(), [85, 70]);
        doorbell.put_off(70);
        assert!(doorbell.detach(|_| true).is_some());
        doorbell.attach(rings.clone());
        doorbell.lower(60);
        assert_eq!(rings.taken(), [70, 60]);
        let without: Doorbell<Rings> = Doorbell::new();
        without.put_off(50);
        assert_eq!(without.expiry_thread_comes_at(), 50);
    }

    #[test]
    fn a_reactor_that_does_not_come_has_no_grace_until_it_does() {
        let (doorbell, rings) = attached();
        doorbell.lower(50);
        assert!(!doorbell.stall_if_overdue(49 + GRACE) && !doorbell.is_stalled());
        assert!(doorbell.stall_if_overdue(50 + GRACE) && doorbell.is_stalled());
        doorbell.take();
        doorbell.lower(GRACE + 90);
        // Nothing more is set: that it rang is still to be seen there.
        assert_eq!(rings.taken(), [50]);
        assert_eq!(doorbell.expiry_thread_comes_at(), GRACE + 90);
        doorbell.postpone(GRACE + 100);
        assert!(doorbell.is_stalled());
        doorbell.revive(0);
        assert!(!doorbell.is_stalled());
        assert_eq!(rings.taken(), [GRACE + 100, GRACE + 90]);
    }

    /// The bell has rung for the reactor, whatever is started meanwhile.
    #[test]
    fn a_reactor_that_its_thread_left_has_no_grace_until_it_is_polled() {
        let (doorbell, rings) = attached();
        doorbell.lower(500);
        doorbell.stall(40);
        doorbell.stall(45);
        doorbell.lower(50);
        assert_eq!(rings.taken(), [500, 40]);
        assert_eq!(doorbell.expiry_thread_comes_at(), 50);
        doorbell.revive(0);
        assert_eq!(rings.taken(), [50]);
        assert_eq!(doorbell.expiry_thread_comes_at(), 50 + GRACE);
    }

    #[test]
    fn without_a_reactor_there_is_no_grace() {
        let (doorbell, rings) = attached();
        doorbell.lower(50);
        assert!(doorbell.detach(|_| false).is_none() && doorbell.is_attached(|_| true));
        assert!(doorbell.detach(|_| true).is_some() && !doorbell.is_attached(|_| true));
        assert_eq!(doorbell.expiry_thread_comes_at(), 50);
        doorbell.lower(20);
        doorbell.revive(0);
        doorbell.postpone(90);
        assert_eq!(doorbell.expiry_thread_comes_at(), 20);
        assert_eq!(rings.taken(), [50]);
    }
}
