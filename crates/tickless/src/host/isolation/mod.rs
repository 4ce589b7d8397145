//! The isolation of workers, which other threads must not disturb.
//!
//! An isolated worker is not in the tree of workers, and no thread interrupts its CPU by a barrier: while a worker is
//! isolated no lock is biased but those of the isolated workers' own bases, neither of bases nor of run queues
//! ([`locks`]). `docs/base-lock.md` says how this comes about, and when a barrier is left.
//!
//! Each worker changes its own isolation. So a thread that changes the set leaves a request with each worker that has
//! to change, kicks the worker, and waits for its answer. The worker answers in its next turn.
//!
//! # Ground rules
//!
//! - The isolated flag of a base changes with the registry locked, and so does the count of isolated workers. Base
//!   locks are taken after the registry's lock, as in a fork.
//! - One thread at a time changes the set, and only that thread leaves requests. While a thread waits until it may
//!   change the set, and while it waits for answers, it answers requests itself, because two workers may want to change
//!   the set at the same time.

pub(crate) mod locks;
pub(crate) mod state;

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, TryLockError};

use tickless_core::hierarchy::{Change, IsolationHost, Leaving, Refused};
use tickless_core::platform::CpuId;
use tickless_link::bias::{LockHost, Owner};

use self::state::Request;
use super::barrier::{self, System};
use super::registry::{self, base, bases};
use super::remote::{publish, trees};
use super::thread::{Thread, ThreadBase, ThreadKind, with_thread};
use super::{device, os};

/// Isolates the worker on `base`, which is this thread, or ends its isolation.
///
/// # Errors
///
/// The errors of [`begin`].
pub(crate) fn apply(base: &ThreadBase, isolated: bool) -> Result<(), Refused> {
    if isolated {
        return begin(base);
    }
    end(base);
    trees::join(base);
    publish::republish_next_expiry(base);
    Ok(())
}

/// Isolates the worker on `base`, which is this thread. The isolation is in force when the function returns.
///
/// # Errors
///
/// [`Refused::LastAvailable`] if no other worker would remain that fires the timers of sleeping workers; nothing
/// changes.
fn begin(base: &ThreadBase) -> Result<(), Refused> {
    // Declared first, so that it is dropped after the lock.
    let _taken;
    let _registry = registry::lock();
    trees::workers().clear_available(base.cpu(), Leaving::Isolation)?;
    if base.local().isolation.replace(true) {
        return Ok(());
    }
    // Asked for now: the kernel may interrupt the process's CPUs when a barrier is asked for the first time.
    let has_barrier = System::barrier_works();
    if barrier::one_more_isolated() && has_barrier {
        // Bases that are made later are made with the registry locked, after this.
        for other in bases().filter(|other| !std::ptr::eq(*other, base)) {
            // As a stranger, also on the expiry thread's: it makes the lock ordinary.
            drop(other.freeze(None));
        }
        _taken = locks::take_each_as_stranger();
    }
    reserve(base, true);
    Ok(())
}

/// Ends the isolation of the worker on `base`, which is this thread, if it is isolated. The caller still has to make
/// the worker join the tree, if the worker should be in it.
pub(crate) fn end(base: &ThreadBase) {
    let _registry = registry::lock();
    if base.local().isolation.replace(false) {
        // Before it is one less: while others are isolated the lock becomes ordinary.
        reserve(base, false);
        barrier::one_less_isolated();
    }
}

fn reserve(base: &ThreadBase, reserved: bool) {
    let token: Option<Owner> = with_thread(Thread::token);
    if let Some(owner) = token {
        base.lock().set_reserved(owner, reserved);
    }
}

/// Forgets the isolated workers in the child of a fork, which has one thread.
pub(super) fn forget(own: Option<&ThreadBase>) {
    for other in bases().filter(|other| own.is_none_or(|own| !std::ptr::eq(own, *other))) {
        other.local().isolation.replace(false);
    }
    if let Some(base) = own {
        end(base);
    }
    barrier::none_isolated();
}

/// The thread that occupies a base. Another thread may occupy the same base later.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Occupancy {
    base: &'static ThreadBase,
    occupant: u32,
}

impl Occupancy {
    /// Creates the handle of the thread that is on `base` now.
    pub(crate) fn of(base: &'static ThreadBase) -> Self {
        let occupant = base.local().occupant();
        Self { base, occupant }
    }

    pub(crate) const fn base(&self) -> &'static ThreadBase {
        self.base
    }

    /// Returns whether the thread still occupies its base, and is a worker.
    fn is_worker(&self) -> bool {
        // `kind` loads with Acquire, and a worker's number of occupants was written before its kind.
        self.base.local().kind() == ThreadKind::Worker
            && self.base.local().occupant() == self.occupant
    }

    fn request(self) -> Request {
        self.base.local().isolation.request(self.occupant)
    }

    fn put(self, request: Request) {
        self.base.local().isolation.put(request, self.occupant);
    }
}

/// Executes a request of another thread to the worker on `base`, if that worker is this thread.
pub(super) fn obey(base: &'static ThreadBase) {
    let own = Occupancy::of(base);
    let isolated = match own.request() {
        Request::Join => false,
        Request::Leave => true,
        Request::Nothing | Request::Done | Request::Refused => return,
    };
    let is_own = with_thread(|thread| thread.is_own(base));
    if !is_own || base.local().kind() != ThreadKind::Worker {
        return;
    }
    let answer = match apply(base, isolated) {
        Ok(()) => Request::Done,
        Err(_) => Request::Refused,
    };
    own.put(answer);
}

/// Answers the requests to this thread.
fn obey_own() {
    if let Some(own) = with_thread(Thread::base) {
        obey(own);
    }
}

/// Isolates the workers that `wanted` sets to true, by base, and ends the isolation of those that `wanted` sets to
/// false. Workers that are not in `wanted` stay as they are.
///
/// # Errors
///
/// [`Refused::LastAvailable`] if no worker of the process would remain that is not isolated.
pub(crate) fn change_set(wanted: &BTreeMap<CpuId, (Occupancy, bool)>) -> Result<(), Refused> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _only = lock_obeying(&ONE_AT_A_TIME);
    trees::workers().isolate_set(&mut Set { wanted }).map(drop)
}

fn lock_obeying(mutex: &'static Mutex<()>) -> MutexGuard<'static, ()> {
    let mut attempt = 0;
    loop {
        match mutex.try_lock() {
            Ok(guard) => return guard,
            Err(TryLockError::Poisoned(poisoned)) => return poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => {}
        }
        obey_own();
        os::relax(attempt);
        attempt = attempt.saturating_add(1);
    }
}

/// A change of the set that is in progress.
struct Set<'w> {
    wanted: &'w BTreeMap<CpuId, (Occupancy, bool)>,
}

impl IsolationHost for Set<'_> {
    fn is_online(&self, cpu: CpuId) -> bool {
        match self.wanted.get(&cpu) {
            Some((occupancy, _)) => occupancy.is_worker(),
            None => base(cpu).is_some_and(|base| base.local().kind() == ThreadKind::Worker),
        }
    }

    fn is_to_be_isolated(&self, cpu: CpuId) -> bool {
        let own_choice = || base(cpu).is_some_and(|base| !trees::takes_part(base));
        let wanted = self.wanted.get(&cpu);
        wanted.map_or_else(own_choice, |(_, isolated)| *isolated)
    }

    fn ask(&mut self, cpu: CpuId, change: Change) {
        let Some((occupancy, _)) = self.wanted.get(&cpu) else {
            return;
        };
        let request = match change {
            Change::Join => Request::Join,
            Change::Leave => Request::Leave,
        };
        occupancy.put(request);
        device::kick(occupancy.base());
    }

    fn wait(&mut self, cpu: CpuId, _change: Change) -> Result<(), Refused> {
        let Some((occupancy, _)) = self.wanted.get(&cpu) else {
            return Ok(());
        };
        let mut attempt = 0;
        let answer = loop {
            match occupancy.request() {
                Request::Join | Request::Leave if occupancy.is_worker() => {}
                answer => break answer,
            }
            obey_own();
            os::relax(attempt);
            attempt = attempt.saturating_add(1);
        };
        occupancy.put(Request::Nothing);
        if answer == Request::Refused {
            return Err(Refused::LastAvailable);
        }
        Ok(())
    }
}
