//! The reactors of runtimes; each is woken when timers of its runtime's threads are due.
//!
//! Each attached runtime has a [tree](super::trees) of its own, for the threads that are its workers. It also has a
//! [doorbell](crate::host::doorbell), which decides when the reactor rings and when the expiry thread acts in its
//! place. Either then takes a [`reactor_turn`](super::reactor_turn).
//!
//! # Ground rules
//!
//! - The thread that acts for the one member of a reactor's tree holds the *role* of the reactor. A thread tries to get
//!   the role and never waits for the role: a thread that does not get the role leaves the rest to the doorbell.
//! - A thread that attaches a runtime holds `LIST`, and locks it before the registry. A thread that forks may also hold
//!   `LIST`, without attaching a runtime.
//! - The locks of a doorbell and of a key are the last of all: their holders take no other lock.
//! - A reactor lives for ever. A detached reactor is used again when no thread is in its tree.
//! - In the child of a fork the parent's reactors are *foreign*: their descriptors belong to the parent's timers, so
//!   the child neither sets nor serves these reactors.

use std::any::Any;
use std::io;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use tickless_core::time::Instant;
use tickless_link::static_table::StaticTable;

use super::trees::{self, REACTORS_MAX, Tree};
use crate::host::call::Call;
use crate::host::doorbell::{Bell, Doorbell, GRACE};
#[cfg(feature = "tokio")]
use crate::host::process::Host;
use crate::host::registry::{self, bases};
use crate::host::sys::descriptors::{AsFd, OwnedFd, make_timer, set_timer};
use crate::host::thread::{ThreadBase, now_lower, with_thread};
use crate::host::{kernel_time, wake};

/// The timer file descriptor that a reactor watches.
impl Bell for Arc<OwnedFd> {
    fn set(&self, when: i64) {
        // Should the system refuse a time, the expiry thread comes.
        set_timer(self.as_fd(), kernel_time::until(Instant::from_nanos(when)));
        // Relaxed: a count.
        SETS.fetch_add(1, Ordering::Relaxed);
    }
}

/// The key by which a kind of runtime distinguishes its runtimes.
pub(crate) type Key = Arc<dyn Any + Send + Sync>;

/// What a layer above knows of the runtime that runs this thread. That layer implements it for the host.
#[cfg(feature = "tokio")]
pub(crate) trait Runtimes {
    /// Returns the attached runtime of which this thread is a worker. Attaches the runtime first, unless that was
    /// decided otherwise. Called without any lock, before the thread starts a timer.
    fn attached() -> Option<Attached>;

    /// Returns whether the runtime of `key` has one worker, and this thread does not run it. Takes no lock.
    fn is_left(key: &dyn Any) -> bool;
}

/// The thread that takes a turn for the threads of a reactor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum By {
    /// A thread of the runtime, because the timer file descriptor woke it in its reactor.
    Reactor,
    /// The expiry thread, because the reactor did not ring.
    ExpiryThread,
}

/// The reactor of one runtime.
#[derive(Debug)]
pub(crate) struct Reactor {
    number: NonZeroU32,
    pub(super) doorbell: Doorbell<Arc<OwnedFd>>,
    /// The role: a thread holds this lock while it acts for the member of the tree.
    pub(super) role: Mutex<()>,
    /// True if the thread that holds the role got the role because the reactor rang.
    pub(super) is_reactors_turn: AtomicBool,
    /// True if the reactor took a turn since the last check of the expiry thread.
    pub(super) was_active: AtomicBool,
    /// The time at which the expiry thread checks the reactor although nothing is pending, in nanoseconds. No other
    /// thread uses it.
    pub(super) watched_until: AtomicI64,
    /// The time until which the expiry thread does not interfere with a turn that another thread takes, in nanoseconds.
    /// Only the expiry thread uses it.
    pub(super) not_before: AtomicI64,
    /// The number of timers that fired because the reactor rang, and the number that the expiry thread fired in its
    /// place.
    pub(super) fired: [AtomicU64; 2],
    key: Mutex<Option<Key>>,
    /// The call to the runtime's task that takes turns in between other tasks.
    call: Call,
}

static REACTORS: StaticTable<Reactor, REACTORS_MAX> = StaticTable::new();
/// The number of reactors that exist.
static MADE: AtomicU32 = AtomicU32::new(0);
/// The number of reactors that belong to ancestors of this process.
static INHERITED: AtomicU32 = AtomicU32::new(0);
/// The number of times that a descriptor was set.
static SETS: AtomicU64 = AtomicU64::new(0);
/// The keys of the runtimes that are not to be attached by themselves. A thread holds the lock while it attaches a
/// runtime.
static LIST: Mutex<Vec<Key>> = Mutex::new(Vec::new());

/// An error: the process has as many reactors as it can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooMany;

fn list() -> MutexGuard<'static, Vec<Key>> {
    LIST.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the reactors of this process that were ever attached.
#[inline]
pub(crate) fn all() -> impl Iterator<Item = &'static Reactor> {
    // Acquire: pairs with the Release in `make`. Relaxed: written while there was no other thread.
    let made = MADE.load(Ordering::Acquire);
    range(INHERITED.load(Ordering::Relaxed)..made)
}

/// Returns all trees of this process. Those that were abandoned in a fork are not among them: a thread of the parent
/// may have locked a node there.
#[cfg(feature = "tracepoints")]
pub(crate) fn all_trees() -> impl Iterator<Item = &'static Tree> {
    trees::existing(all().map(Reactor::number))
}

fn range(numbers: std::ops::Range<u32>) -> impl Iterator<Item = &'static Reactor> {
    numbers.filter_map(|number| REACTORS.get(number as usize))
}

pub(super) fn of_number(number: NonZeroU32) -> Option<&'static Reactor> {
    REACTORS.get(number.get() as usize - 1)
}

/// Returns the reactor that rings for the foreign thread on `base`.
#[inline]
pub(crate) fn of(base: &ThreadBase) -> Option<&'static Reactor> {
    base.local().remote.reactor().and_then(of_number)
}

/// Returns the attached reactor for whose runtime `is_it` returns true.
pub(crate) fn find(is_it: impl Fn(&dyn Any) -> bool) -> Option<&'static Reactor> {
    all().find(|reactor| reactor.has_key(&is_it))
}

/// Makes the timer file descriptor that a reactor watches.
pub(crate) fn make_bell() -> io::Result<Arc<OwnedFd>> {
    Ok(Arc::new(make_timer()?))
}

/// Returns whether the runtime for which `is_it` returns true was attached in an ancestor of this process.
pub(crate) fn is_inherited(is_it: impl Fn(&dyn Any) -> bool) -> bool {
    // Relaxed: see `all`.
    let inherited = INHERITED.load(Ordering::Relaxed);
    range(0..inherited).any(|reactor| {
        // Not waited for: a thread that is not there may have held it at the fork.
        let key = reactor.key.try_lock().ok();
        key.is_some_and(|key| key.as_ref().is_some_and(|key| is_it(&**key)))
    })
}

/// Attaches the runtime of `key`, for which `is_it` returns true. The runtime's reactor watches `bell`. `None` if
/// another thread attached or [declined](decline) the runtime meanwhile.
pub(crate) fn attach(
    key: Key,
    is_it: impl Fn(&dyn Any) -> bool,
    bell: Arc<OwnedFd>,
) -> Result<Option<Attached>, TooMany> {
    let declined = list();
    if declined.iter().any(|key| is_it(&**key)) || find(is_it).is_some() {
        return Ok(None);
    }
    let reactor = match all().find(|reactor| reactor.is_unused()) {
        Some(unused) => unused,
        None => make_one().ok_or(TooMany)?,
    };
    *reactor.key_slot() = Some(key);
    reactor.doorbell.attach(Arc::clone(&bell));
    Ok(Some(Attached { reactor, bell }))
}

/// Keeps the runtime of `key`, for which `is_it` returns true, from being attached until it is [admitted](admit).
/// Returns false if it was declined before.
pub(crate) fn decline(key: Key, is_it: impl Fn(&dyn Any) -> bool) -> bool {
    let mut declined = list();
    let is_new = !declined.iter().any(|key| is_it(&**key));
    if is_new {
        declined.push(key);
    }
    is_new
}

/// Returns whether the runtime for which `is_it` returns true was [declined](decline).
pub(crate) fn is_declined(is_it: impl Fn(&dyn Any) -> bool) -> bool {
    list().iter().any(|key| is_it(&**key))
}

/// Lets the runtime for which `is_it` returns true be attached. Returns the key with which it was declined.
pub(crate) fn admit(is_it: impl Fn(&dyn Any) -> bool) -> Option<Key> {
    let mut declined = list();
    let index = declined.iter().position(|key| is_it(&**key))?;
    Some(declined.swap_remove(index))
}

fn make_one() -> Option<&'static Reactor> {
    // Relaxed: changed with the list locked only.
    let made = MADE.load(Ordering::Relaxed);
    if made as usize == REACTORS_MAX {
        return None;
    }
    let number = NonZeroU32::new(made + 1)?;
    let reactor: &'static Reactor = Box::leak(Box::new(Reactor::new(number)));
    {
        // Its tree is made here, before a thread can be in it.
        let _registry = registry::lock();
        let _tree = reactor.tree();
    }
    let published = REACTORS.publish(made as usize, reactor);
    // Release: see `all`.
    MADE.store(made + 1, Ordering::Release);
    published
}

/// Keeps other threads from attaching runtimes, until the result is dropped.
pub(crate) fn pause() -> MutexGuard<'static, Vec<Key>> {
    list()
}

/// Forgets all reactors in the child of a fork: the existing reactors belong to the parent.
pub(crate) fn forget() {
    // Relaxed, both: there is no other thread.
    INHERITED.store(MADE.load(Ordering::Relaxed), Ordering::Relaxed);
}

/// Makes this thread look for its runtime when it starts its next timer, if it is the thread on `base`, for which no
/// reactor rings, and has a timer. It may have entered a runtime since it last looked.
#[inline]
pub(crate) fn ask_again(base: &ThreadBase, due: Instant) {
    if cfg!(feature = "tokio") && !due.is_forever() {
        with_thread(|thread| {
            if thread.is_own(base) {
                thread.set_unattended(true);
            }
        });
    }
}

/// Returns how often a descriptor of a reactor was set. Each time is a system call.
pub(crate) fn sets() -> u64 {
    // Relaxed: a count.
    SETS.load(Ordering::Relaxed)
}

/// Returns the time at which the expiry thread has to wake for any of the reactors, in nanoseconds.
pub(crate) fn first() -> i64 {
    all()
        .map(Reactor::expiry_thread_comes_at)
        .min()
        .unwrap_or(i64::MAX)
}

impl Reactor {
    fn new(number: NonZeroU32) -> Self {
        Self {
            number,
            doorbell: Doorbell::new(),
            role: Mutex::new(()),
            is_reactors_turn: AtomicBool::new(false),
            was_active: AtomicBool::new(false),
            watched_until: AtomicI64::new(i64::MAX),
            not_before: AtomicI64::new(i64::MIN),
            fired: [AtomicU64::new(0), AtomicU64::new(0)],
            key: Mutex::new(None),
            call: Call::new(),
        }
    }

    /// Returns the number of the reactor.
    pub(crate) const fn number(&self) -> NonZeroU32 {
        self.number
    }

    /// Returns the tree of the reactor's threads.
    pub(crate) fn tree(&self) -> &'static Tree {
        trees::of_reactor(self.number)
    }

    fn key_slot(&self) -> MutexGuard<'_, Option<Key>> {
        self.key.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls the runtime for a turn before its reactor rings, for timers that may fire though they need not yet. The
    /// caller is a task of the runtime: so the task that takes the turn is queued after the caller on the same worker,
    /// and no thread is woken.
    ///
    /// The function does nothing if the runtime has been dropped; the expiry thread then fires the timers in time.
    #[cold]
    pub(super) fn call(&self) {
        // Those of a parent are woken by descriptors that this process shares with it.
        if !self.is_inherited() {
            self.call.make();
        }
    }

    /// Returns whether the calling task, which takes turns in between other tasks, was called since its last call of
    /// this function.
    pub(crate) fn take_call(&self) -> bool {
        self.call.take()
    }

    fn has_key(&self, is_it: impl Fn(&dyn Any) -> bool) -> bool {
        self.key_slot().as_ref().is_some_and(|key| is_it(&**key))
    }

    /// Returns whether the reactor belongs to an ancestor of this process.
    pub(crate) fn is_inherited(&self) -> bool {
        // Relaxed: see `all`.
        self.number.get() <= INHERITED.load(Ordering::Relaxed)
    }

    /// Returns whether a runtime is attached to the reactor.
    pub(crate) fn is_attached(&self) -> bool {
        self.doorbell.is_attached(|_| true)
    }

    /// Returns whether the expiry thread fires the timers in place of the reactor, in time.
    pub(crate) fn is_stalled(&self) -> bool {
        self.doorbell.is_stalled()
    }

    /// Returns the time at which the reactor rings; `None` if it need not ring.
    pub(crate) fn rings_at(&self) -> Option<i64> {
        let until = self.doorbell.until();
        (until != i64::MAX).then_some(until)
    }

    /// Returns the number of timers that the reactor fired, and the number that the expiry thread fired in its place.
    pub(crate) fn fired(&self) -> [u64; 2] {
        // Relaxed: counts.
        self.fired
            .each_ref()
            .map(|count| count.load(Ordering::Relaxed))
    }

    pub(super) fn count_fired(&self, fired: u32) {
        // Relaxed, both: the role orders the flag; a count.
        let by = usize::from(!self.is_reactors_turn.load(Ordering::Relaxed));
        self.fired[by].fetch_add(fired.into(), Ordering::Relaxed);
    }

    /// Returns whether another runtime can use the reactor.
    fn is_unused(&self) -> bool {
        !self.is_attached()
            && !bases().any(|base| base.local().remote.reactor() == Some(self.number))
    }

    /// Returns the key with which the runtime was attached.
    pub(crate) fn key(&self) -> Option<Key> {
        self.key_slot().clone()
    }

    /// Publishes `due` for the thread on `base`, which is in the reactor's tree. Called with the base locked.
    pub(crate) fn publish(&self, base: &ThreadBase, due: Instant) {
        let first = self.tree().rearm_from_idle(base.cpu(), due);
        // Otherwise a thread holds the role, and finds it before it lowers the doorbell.
        if first.is_forever() {
            return;
        }
        if first.as_nanos() < self.doorbell.until() && self.is_left_by(base) {
            self.doorbell.stall(now_lower().as_nanos());
        }
        self.lower(first);
        if self.is_stalled() {
            ask_again(base, due);
        }
    }

    /// Returns whether the thread on `base` is this thread, and starts a timer outside of its runtime, of which it is
    /// the one worker: no thread polls the reactor.
    #[cfg(feature = "tokio")]
    fn is_left_by(&self, base: &ThreadBase) -> bool {
        with_thread(|thread| thread.is_own(base)) && self.has_key(Host::is_left)
    }

    #[cfg(not(feature = "tokio"))]
    fn is_left_by(&self, _: &ThreadBase) -> bool {
        false
    }

    /// Makes a thread wake at `when`.
    pub(super) fn lower(&self, when: Instant) {
        // What has no time of its own is due now, and has not been since the clock began.
        let when = if when <= Instant::ZERO {
            now_lower()
        } else {
            when
        };
        self.doorbell.lower(when.as_nanos());
        self.tell_expiry_thread();
    }

    /// Wakes the expiry thread to check this reactor, if it would sleep until after the time at which it has to wake
    /// for the reactor.
    pub(super) fn tell_expiry_thread(&self) {
        if wake::SLEEPS_UNTIL.is_after(self.expiry_thread_comes_at()) {
            wake::wake();
        }
    }

    /// Returns the time at which the expiry thread has to wake, in nanoseconds: to fire the timers if the reactor does
    /// not, or to check whether the reactor does.
    pub(super) fn expiry_thread_comes_at(&self) -> i64 {
        // Relaxed, both: written by the expiry thread; one that reads them late wakes it once for nothing.
        let not_before = self.not_before.load(Ordering::Relaxed);
        let watched_until = self.watched_until.load(Ordering::Relaxed);
        let comes_at = self.doorbell.expiry_thread_comes_at().max(not_before);
        comes_at.min(watched_until)
    }

    /// Checks on the expiry thread, at `now`, whether it has to fire the timers in place of the reactor.
    pub(super) fn look(&self, now: i64) -> bool {
        // Relaxed, all: hints, and the expiry thread's own words.
        if self.was_active.swap(false, Ordering::Relaxed) {
            // More will come: to look once in a grace costs less than to be woken for each timer after a pause.
            self.watched_until
                .store(now.saturating_add(GRACE), Ordering::Relaxed);
        } else if self.watched_until.load(Ordering::Relaxed) <= now {
            self.watched_until.store(i64::MAX, Ordering::Relaxed);
        }
        self.not_before.load(Ordering::Relaxed) <= now && self.doorbell.stall_if_overdue(now)
    }
}

/// A runtime that is attached to a reactor. When the runtime is detached, another runtime may use the reactor.
#[derive(Clone, Debug)]
pub(crate) struct Attached {
    pub(crate) reactor: &'static Reactor,
    pub(crate) bell: Arc<OwnedFd>,
}

impl Attached {
    fn is_mine(&self, bell: &Arc<OwnedFd>) -> bool {
        Arc::ptr_eq(&self.bell, bell)
    }

    /// Returns whether the runtime is still attached.
    pub(crate) fn is_attached(&self) -> bool {
        !self.reactor.is_inherited() && self.reactor.doorbell.is_attached(|bell| self.is_mine(bell))
    }

    /// Detaches a runtime that was dropped or no longer wants the reactor. From then on the expiry thread fires the
    /// timers.
    pub(crate) fn detach(&self) {
        if self.reactor.is_inherited() {
            return;
        }
        // While no other runtime can get the reactor.
        let list = list();
        let detached = self.reactor.doorbell.detach(|bell| self.is_mine(bell));
        let left = detached.map(|bell| {
            let key = self.reactor.key_slot().take();
            (bell, key, self.reactor.call.forget())
        });
        drop(list);
        // Dropped here, after every lock was released: a task may be the last that holds its runtime, and with it what
        // the program gave to that.
        if left.is_some() {
            self.reactor.tell_expiry_thread();
        }
    }

    /// Sets `task` as the waker of the task that takes turns, until the runtime is detached.
    pub(crate) fn introduce(&self, task: &Waker) {
        let task = task.clone();
        // While it cannot be detached.
        let list = list();
        let left = if self.is_attached() {
            self.reactor.call.introduce(task)
        } else {
            Some(task)
        };
        drop(list);
        drop(left);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The expiry thread checks the reactors once per grace while they take turns, and a last time when they have
    /// nothing to do.
    #[test]
    fn the_expiry_thread_sleeps_for_ever_when_nothing_is_pending() {
        // Nothing of it is in a table, so no thread looks at it.
        let reactor = Reactor::new(NonZeroU32::MAX);
        let comes_at = || reactor.expiry_thread_comes_at();
        assert_eq!(comes_at(), i64::MAX);
        assert!(!reactor.look(5));
        assert_eq!(comes_at(), i64::MAX);
        for now in [10, 10 + GRACE] {
            // Relaxed: one thread.
            reactor.was_active.store(true, Ordering::Relaxed);
            assert!(!reactor.look(now));
            assert_eq!(comes_at(), now + GRACE);
        }
        assert!(!reactor.look(20 + GRACE));
        assert_eq!(comes_at(), 10 + 2 * GRACE, "it looks no later");
        assert!(!reactor.look(10 + 2 * GRACE));
        assert_eq!(comes_at(), i64::MAX);
    }

    /// The expiry thread does not poll for the end of a turn that another thread takes.
    #[test]
    fn the_expiry_thread_leaves_a_turn_alone_that_lasts() {
        let reactor = Reactor::new(NonZeroU32::MAX);
        reactor.doorbell.lower(50);
        assert!(reactor.look(50));
        reactor.not_before.store(80, Ordering::Relaxed);
        assert!(!reactor.look(79));
        assert_eq!(reactor.expiry_thread_comes_at(), 80);
        assert!(reactor.look(80));
    }
}
