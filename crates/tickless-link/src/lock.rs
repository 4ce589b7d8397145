//! A lock around data, on top of the host's own locking primitive.
//!
//! The core uses one lock for each base, and does not depend on how a host implements it. User space uses a biased lock
//! ([`bias`](crate::bias)), bare metal a spin lock with interrupts masked, and the simulator a lock that checks the
//! order.

use core::cell::Cell;
use core::fmt;
use core::marker::PhantomData;
use core::mem::MaybeUninit;
use core::ops::{Deref, DerefMut};

use crate::const_unless_loom;
use crate::emplace;
use crate::emplace::Emplaced;
use crate::sync::cell::UnsafeCell;
use crate::sync::{AtomicBool, Ordering, spin_loop};

/// A mutual-exclusion primitive of a host.
///
/// # Safety
///
/// Between a return from [`acquire`](RawLock::acquire) and the matching [`release`](RawLock::release), no other
/// `acquire` on the same lock may return, and no [`try_acquire`](RawLock::try_acquire) may succeed, whatever tokens are
/// passed. All accesses before a release happen before all accesses after the next acquire.
pub unsafe trait RawLock {
    /// Identity of the thread that acquires, for locks that treat their owner in a special way.
    type Token: Copy;
    /// State that a release needs from its acquire, for example whether interrupts were enabled.
    type Acquired;

    /// Waits until the lock is free and takes it.
    ///
    /// `token` is `None` for each thread but the owner. A thread that holds the lock MUST NOT call this method.
    fn acquire(&self, token: Option<Self::Token>) -> Self::Acquired;

    /// Takes the lock if that needs neither waiting nor a call. `None` does not mean that another thread holds the
    /// lock.
    ///
    /// For the shortest paths, which fall back on [`acquire`](RawLock::acquire).
    #[inline]
    fn try_acquire(&self, token: Option<Self::Token>) -> Option<Self::Acquired> {
        let _ = token;
        None
    }

    /// Releases the lock.
    fn release(&self, held: &Self::Acquired);
}

/// Data behind a [`RawLock`].
pub struct Lock<R: RawLock, T> {
    raw: R,
    data: UnsafeCell<T>,
}

// SAFETY: a shared lock gives its data to one thread at a time (contract of `RawLock`), so it must be `Send`; the
// primitive itself is shared, so it must be `Sync`.
unsafe impl<R: RawLock + Sync, T: Send> Sync for Lock<R, T> {}
// SAFETY: moving the lock moves the primitive and the data.
unsafe impl<R: RawLock + Send, T: Send> Send for Lock<R, T> {}

impl<R: RawLock, T> Lock<R, T> {
    const_unless_loom! {
        /// Makes a lock of `raw` around `data`.
        pub const fn new(raw: R, data: T) -> Self {
            Self { raw, data: UnsafeCell::new(data) }
        }
    }

    /// Makes the data in their final place, and locks them by `raw`.
    pub fn emplace<'a>(
        slot: &'a mut MaybeUninit<Self>,
        raw: R,
        data: impl for<'s> FnOnce(&'s mut MaybeUninit<T>) -> Emplaced<'s, T>,
    ) -> Emplaced<'a, Self> {
        #[cfg(not(loom))]
        return emplace!(slot => Self {
            raw: raw;
            data <- |slot| UnsafeCell::emplace(slot, data),
        });
        #[cfg(loom)]
        return emplace::value(slot, Self::new(raw, emplace::moved(data)));
    }

    /// Returns the primitive, for its operations besides locking.
    #[inline]
    pub const fn raw(&self) -> &R {
        &self.raw
    }

    /// Takes the lock if that needs neither waiting nor a call. `None` does not mean that another thread holds the
    /// lock.
    #[inline]
    pub fn try_lock(&self, token: Option<R::Token>) -> Option<Guard<'_, R, T>> {
        let held = self.raw.try_acquire(token)?;
        Some(self.guard(held))
    }

    /// Waits for the lock and takes it.
    #[inline]
    pub fn lock(&self, token: Option<R::Token>) -> Guard<'_, R, T> {
        let held = self.raw.acquire(token);
        self.guard(held)
    }

    #[inline]
    fn guard(&self, held: R::Acquired) -> Guard<'_, R, T> {
        Guard {
            held,
            #[cfg(loom)]
            data: Some(self.data.get_mut()),
            lock: self,
            stays: PhantomData,
        }
    }
}

impl<R: RawLock + fmt::Debug, T> fmt::Debug for Lock<R, T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Lock")
            .field("raw", &self.raw)
            .finish_non_exhaustive()
    }
}

/// The right to use the data of a [`Lock`]; dropping it releases the lock.
pub struct Guard<'a, R: RawLock, T> {
    lock: &'a Lock<R, T>,
    held: R::Acquired,
    /// Shows loom for how long the data are used.
    #[cfg(loom)]
    data: Option<loom::cell::MutPtr<T>>,
    /// A lock may know its owner by thread, so the guard stays on the thread.
    stays: PhantomData<*mut ()>,
}

impl<'a, R: RawLock, T> Guard<'a, R, T> {
    /// Releases this lock, then waits for `other`. It never holds both.
    ///
    /// A panic while it waits, holding neither, ends the process.
    pub fn move_to(&mut self, other: &'a Lock<R, T>, token: Option<R::Token>) {
        struct HoldsNothing;
        impl Drop for HoldsNothing {
            fn drop(&mut self) {
                crate::abort("a lock panicked while a guard moved from one to another");
            }
        }
        let between = HoldsNothing;
        #[cfg(loom)]
        drop(self.data.take());
        self.lock.raw.release(&self.held);
        self.held = other.raw.acquire(token);
        self.lock = other;
        #[cfg(loom)]
        {
            self.data = Some(other.data.get_mut());
        }
        core::mem::forget(between);
    }
}

impl<R: RawLock, T> Deref for Guard<'_, R, T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        #[cfg(not(loom))]
        let data = self.lock.data.get();
        #[cfg(loom)]
        let data = self.data.as_ref().expect("until drop").with(|data| data);
        // SAFETY: the guard exists, so the lock is held and no other thread has the data (contract of `RawLock`).
        unsafe { &*data }
    }
}

impl<R: RawLock, T> DerefMut for Guard<'_, R, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        #[cfg(not(loom))]
        let data = self.lock.data.get();
        #[cfg(loom)]
        let data = self.data.as_ref().expect("until drop").with(|data| data);
        // SAFETY: as in `deref`, and the guard is borrowed mutably.
        unsafe { &mut *data }
    }
}

impl<R: RawLock, T> Drop for Guard<'_, R, T> {
    #[inline]
    fn drop(&mut self) {
        // Loom must see the access end before the lock is free.
        #[cfg(loom)]
        drop(self.data.take());
        self.lock.raw.release(&self.held);
    }
}

impl<R: RawLock, T: fmt::Debug> fmt::Debug for Guard<'_, R, T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(formatter)
    }
}

/// The simplest lock: one flag that waiters poll.
///
/// It is for bare metal and for tests. It does not mask interrupts.
///
/// It has no model: loom 0.7 lets a plain store come between the read and the write of an exchange, so that a release
/// is lost, which no real machine does.
#[derive(Debug)]
pub struct SpinLock {
    taken: AtomicBool,
}

impl SpinLock {
    const_unless_loom! {
        /// Makes a free lock.
        pub const fn new() -> Self {
            Self { taken: AtomicBool::new(false) }
        }
    }
}

impl Default for SpinLock {
    fn default() -> Self {
        Self::new()
    }
}

// SAFETY: one exchange from free to taken succeeds between two releases; Acquire and Release order the sections.
unsafe impl RawLock for SpinLock {
    type Token = ();
    type Acquired = ();

    #[inline]
    fn acquire(&self, _token: Option<()>) {
        // Acquire: pairs with the Release in `release`.
        while self.taken.swap(true, Ordering::Acquire) {
            // Relaxed: only to wait on a shared cache line; the swap decides.
            while self.taken.load(Ordering::Relaxed) {
                spin_loop();
            }
        }
    }

    #[inline]
    fn try_acquire(&self, _token: Option<()>) -> Option<()> {
        // Acquire: pairs with the Release in `release`.
        (!self.taken.swap(true, Ordering::Acquire)).then_some(())
    }

    #[inline]
    fn release(&self, (): &()) {
        // Release: pairs with the Acquire in `acquire` and `try_acquire`.
        self.taken.store(false, Ordering::Release);
    }
}

/// A lock for hosts in which one thread executes everything, for example a simulator.
///
/// No other thread could ever release it, so taking it twice is a deadlock, and panics.
#[derive(Debug, Default)]
pub struct SoloLock<W> {
    taken: Cell<bool>,
    watcher: W,
}

/// An observer of a [`SoloLock`]. It does nothing by default.
pub trait Watcher {
    /// Notes that a thread wants the lock, and may find it taken.
    fn comes(&self) {}

    /// Notes that the lock was free and is taken now. If this panics the lock stays free.
    fn takes(&self) {}

    /// Notes that the lock was released.
    fn released(&self) {}
}

// SAFETY: not `Sync`, so one thread acquires; and that panics rather than return twice.
unsafe impl<W: Watcher> RawLock for SoloLock<W> {
    type Token = ();
    type Acquired = ();

    fn acquire(&self, _token: Option<()>) {
        self.watcher.comes();
        assert!(
            !self.taken.get(),
            "deadlock: the only thread there is waits for a lock that it holds"
        );
        self.watcher.takes();
        self.taken.set(true);
    }

    /// Acquires the lock, and panics as [`acquire`](RawLock::acquire) does if the lock is held: otherwise a caller that
    /// tries first would hide a deadlock.
    fn try_acquire(&self, token: Option<()>) -> Option<()> {
        self.acquire(token);
        Some(())
    }

    fn release(&self, (): &()) {
        self.taken.set(false);
        self.watcher.released();
    }
}

#[cfg(loom)]
use loom::sync as model;
#[cfg(shuttle)]
use shuttle::sync as model;

/// A lock for models: waiters block, so that loom and shuttle need not explore how often a thread polls.
#[cfg(any(loom, shuttle))]
#[derive(Debug, Default)]
pub struct ModelLock {
    taken: model::Mutex<bool>,
    freed: model::Condvar,
}

// SAFETY: the flag goes from false to true once between two releases, under the mutex, which orders the sections.
#[cfg(any(loom, shuttle))]
unsafe impl RawLock for ModelLock {
    type Token = ();
    type Acquired = ();

    fn acquire(&self, _token: Option<()>) {
        let mut taken = self.taken.lock().expect("no section panics");
        while *taken {
            taken = self.freed.wait(taken).expect("no section panics");
        }
        *taken = true;
    }

    fn try_acquire(&self, _token: Option<()>) -> Option<()> {
        let mut taken = self.taken.lock().expect("no section panics");
        (!core::mem::replace(&mut *taken, true)).then_some(())
    }

    fn release(&self, (): &()) {
        *self.taken.lock().expect("no section panics") = false;
        self.freed.notify_one();
    }
}
