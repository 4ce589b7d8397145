//! The doorbell of a runtime: a descriptor that wakes the runtime's reactor when timers of the runtime's threads are
//! due. If the reactor does not react, the expiry thread fires them.
//!
//! The threads of a runtime publish into a tree of their own ([`trees`](super::remote::trees)). A thread that takes a
//! turn for that tree ends it by *lowering* the doorbell to what is first there; a thread whose deadline is the first
//! of the tree, while no thread takes one, lowers the doorbell itself. A timer file descriptor in the runtime's reactor
//! rings: setting it wakes no thread.
//!
//! A runtime may be busy, or not driven at all. So the expiry thread comes a [`GRACE`] after the doorbell should have
//! rung, and the reactor counts as *stalled*: from then on the expiry thread comes in time, without a grace, until the
//! runtime polls its reactor again. A runtime that was dropped is stalled for ever.
//!
//! # Ground rules
//!
//! - The descriptor is set with the lock held that `until` is changed under, so that it rings for `until`, or earlier:
//!   at once, or, while the setting is *put off*, when the task of the reactor comes again, which it does before the
//!   reactor waits.
//! - A thread that takes a turn [takes](Doorbell::take) the doorbell *before* it looks at the tree, and lowers it
//!   after. A deadline that a thread publishes in between is found by the look, or lowers the doorbell afterwards.
//! - Only a doorbell that is overdue makes its reactor a stalled one; a turn by the reactor ends that, whichever was
//!   first. A reactor that finds another thread taking a turn ends it too: that thread lowers the doorbell afterwards.
//! - `until` and `grace` are read without the lock by the expiry thread before it sleeps, behind the fence of
//!   [`SleepDeadline`](super::sleep_protocol::SleepDeadline), and are followed by its other side.
//!
//! Loom runs this as it is (`model.rs`).

use tickless_link::sync::{AtomicI64, Ordering};

#[cfg(loom)]
use loom::sync::{Mutex, MutexGuard};
#[cfg(not(loom))]
use std::sync::{Mutex, MutexGuard};

use std::sync::PoisonError;

#[cfg(all(test, loom))]
mod model;

/// Time that the expiry thread leaves a reactor that should have rung, in nanoseconds. Long enough that a runtime which
/// polls its reactor between tasks does not lose it; and the expiry thread looks that often, at most, while timers are
/// pending.
pub(crate) const GRACE: i64 = 10_000_000;

/// Bell that a reactor watches.
pub(crate) trait Bell {
    /// Sets the bell to ring when the clock reads `when` nanoseconds, in place of an earlier setting.
    fn set(&self, when: i64);
}

/// The doorbell of one reactor.
#[derive(Debug)]
pub(crate) struct Doorbell<B> {
    /// Time at which it is to ring, in nanoseconds; [`NEVER`](Self::NEVER) if it need not.
    until: AtomicI64,
    /// Time by which the expiry thread comes later: [`GRACE`], or nothing while the reactor is stalled.
    grace: AtomicI64,
    bell: Mutex<BellState<B>>,
}

/// Bell and when it is set, under the lock.
#[derive(Debug)]
struct BellState<B> {
    /// `None` without a reactor.
    bell: Option<B>,
    /// True while the task of the reactor is about to set the bell, so that no other thread need do so. That task
    /// writes it.
    is_put_off: bool,
}

impl<B: Bell> Doorbell<B> {
    pub(crate) const NEVER: i64 = i64::MAX;

    tickless_link::const_unless_loom! {
        /// The doorbell of a reactor that is not there.
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

    /// A reactor is there from here on.
    pub(crate) fn attach(&self, bell: B) {
        let mut state = self.lock();
        state.bell = Some(bell);
        self.expect_reactor(&mut state, 0);
    }

    /// Detaches the reactor, if it is that of the bell that `is_it` knows: the expiry thread comes in time from here
    /// on. The caller wakes it.
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

    /// Returns whether a reactor is there whose bell `is_it` knows.
    pub(crate) fn is_attached(&self, is_it: impl FnOnce(&B) -> bool) -> bool {
        self.lock().bell.as_ref().is_some_and(is_it)
    }

    /// A thread is about to take a turn: nothing is set from here on.
    pub(crate) fn take(&self) {
        let _locked = self.lock();
        // Relaxed, here and below: changed under the lock; the expiry thread reads it behind its fence.
        self.until.store(Self::NEVER, Ordering::Relaxed);
    }

    /// Sees to it that the doorbell rings at `when` or before.
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

    /// Works as [`lower`](Self::lower), by the reactor, which is not stalled then.
    pub(crate) fn lower_by_reactor(&self, when: i64) {
        let mut state = self.lock();
        self.note_earlier(when);
        self.expect_reactor(&mut state, 0);
    }

    /// Works as [`lower_by_reactor`](Self::lower_by_reactor), but sets nothing: the task of the reactor comes again
    /// before the reactor waits, and sets the bell for all deadlines that arrive until then.
    pub(crate) fn put_off(&self, when: i64) {
        let mut state = self.lock();
        self.note_earlier(when);
        if state.bell.is_some() {
            // Relaxed: see `take`.
            self.grace.store(GRACE, Ordering::Relaxed);
            state.is_put_off = true;
        }
    }

    /// Notes an earlier time, with the lock held.
    fn note_earlier(&self, when: i64) {
        // Relaxed: see `take`.
        let until = self.until.load(Ordering::Relaxed).min(when);
        self.until.store(until, Ordering::Relaxed);
    }

    /// The reactor came, and found that another thread takes the turn. It is not rung again before `not_before`, for
    /// what that thread will have done.
    pub(crate) fn revive(&self, not_before: i64) {
        let mut state = self.lock();
        self.expect_reactor(&mut state, not_before);
    }

    /// The reactor came where no turn can be taken. It rings again at `not_before` or later; the expiry thread comes
    /// meanwhile.
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

    /// Lets the reactor ring for `until`.
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

    /// Returns whether the doorbell should have rung a grace before `now`, so that the reactor counts as stalled.
    pub(crate) fn stall_if_overdue(&self, now: i64) -> bool {
        let _locked = self.lock();
        let is_overdue = self.expiry_thread_comes_at() <= now;
        if is_overdue {
            // Relaxed: the expiry thread's own, or found under the lock.
            self.grace.store(0, Ordering::Relaxed);
        }
        is_overdue
    }

    /// Returns whether the expiry thread comes in time, and not a grace later.
    pub(crate) fn is_stalled(&self) -> bool {
        // Relaxed: under the lock, or to be shown.
        self.grace.load(Ordering::Relaxed) == 0
    }

    /// Returns when it rings, in nanoseconds, or [`NEVER`](Self::NEVER).
    pub(crate) fn until(&self) -> i64 {
        // Relaxed: see `take`.
        self.until.load(Ordering::Relaxed)
    }

    /// Returns when the expiry thread has to come if the reactor does not.
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

    /// One setting for all that arrive until the task of the reactor comes again. The expiry thread comes by the first
    /// of them meanwhile.
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

    /// A setting that is put off ends with whatever the task does next, and with its runtime.
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
