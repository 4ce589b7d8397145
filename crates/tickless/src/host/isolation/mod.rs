//! Workers that must not be disturbed.
//!
//! An isolated worker is not in the tree of workers: it neither pulls nor is pulled. And no other thread executes a
//! barrier on its behalf, which would interrupt its CPU: a thread that takes a biased base lock of another thread does
//! that (`tickless_link::bias`). So before a worker is the first isolated one, the lock of every other base is made
//! ordinary, and none becomes biased again until the last one's isolation ends.
//!
//! The isolated worker's own base stays biased: other threads have no reason to take it. One that does nevertheless,
//! because it cancels or restarts a timer of that worker, asks for [`stats`](crate::stats()) or a dump, or forks,
//! executes one barrier, which interrupts all CPUs of the process once; from there on that lock is ordinary too, until
//! the worker is isolated anew.
//!
//! # A set
//!
//! Workers change their part themselves. So a thread that changes the set leaves a request with each worker that is to
//! change, kicks it, and waits until the worker has answered, which it does in its next turn.
//!
//! # Ground rules
//!
//! - The isolated flag of a seat changes with the registry of seats locked, and so does the count of isolated workers.
//!   Base locks are taken behind it, as a fork does.
//! - One thread at a time changes the set, and only that thread leaves requests. While it waits for its turn, and for
//!   answers, it answers what it is asked itself: two workers may each change the set.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, MutexGuard, TryLockError};

use tickless_core::hierarchy::{Change, IsolationHost, Leaving, Refused};
use tickless_core::platform::CpuId;
use tickless_link::bias::{LockHost, Owner};

use super::device;
use super::os::{self, Linux};
use super::remote::{stuck, trees as tree};
use super::thread::{self as seat, Kind, Seat, with_thread};

/// Isolates the worker on `seat`, this thread's, or ends that.
///
/// # Errors
///
/// As [`begin`].
pub(crate) fn apply(seat: &Seat, isolated: bool) -> Result<(), Refused> {
    if isolated {
        return begin(seat);
    }
    end(seat);
    tree::enlist(seat);
    stuck::watch(seat);
    Ok(())
}

/// Isolates the worker on `seat`, which is this thread's. In force when it returns.
///
/// # Errors
///
/// [`Refused::LastAvailable`] if no other worker would look after those that sleep; nothing changes.
fn begin(seat: &Seat) -> Result<(), Refused> {
    let _registry = seat::registry();
    tree::workers().clear_available(seat.cpu(), Leaving::Isolation)?;
    // Relaxed: written with the registry locked.
    if seat.local().isolated.swap(true, Ordering::Relaxed) {
        return Ok(());
    }
    // Asked for now: the kernel may interrupt the process's CPUs when a barrier is asked for the first time.
    let has_barrier = Linux::barrier_works();
    if os::one_more_isolated() && has_barrier {
        // Seats that are made later are made with the registry locked, behind this.
        for other in seat::seats().filter(|other| !std::ptr::eq(*other, seat)) {
            // As a stranger, also on the driver's: it makes the lock ordinary.
            drop(other.freeze(None));
        }
    }
    reserve(seat, true);
    Ok(())
}

/// Ends the isolation of the worker on `seat`, this thread's, if it is isolated. It still has to join the tree, if it
/// is to.
pub(crate) fn end(seat: &Seat) {
    let _registry = seat::registry();
    // Relaxed: written with the registry locked.
    if seat.local().isolated.swap(false, Ordering::Relaxed) {
        // Before it is one less: while others are isolated the lock becomes ordinary.
        reserve(seat, false);
        os::one_less_isolated();
    }
}

fn reserve(seat: &Seat, reserved: bool) {
    let token: Option<Owner> = with_thread(seat::Thread::token);
    if let Some(owner) = token {
        seat.lock().set_reserved(owner, reserved);
    }
}

/// No worker is isolated in the child of a fork, which has one thread.
pub(super) fn forget(own: Option<&Seat>) {
    for seat in seat::seats().filter(|seat| own.is_none_or(|own| !std::ptr::eq(own, *seat))) {
        // Relaxed: there is no other thread.
        seat.local().isolated.store(false, Ordering::Relaxed);
    }
    if let Some(seat) = own {
        end(seat);
    }
    os::none_isolated();
}

/// The stay of a thread on a seat: another one may sit there later.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tenancy {
    seat: &'static Seat,
    tenants: u32,
}

impl Tenancy {
    /// That of the thread that is on `seat` now.
    pub(crate) fn of(seat: &'static Seat) -> Self {
        // Relaxed: asked while the thread is known to be there.
        let tenants = seat.local().tenants.load(Ordering::Relaxed);
        Self { seat, tenants }
    }

    pub(crate) const fn seat(&self) -> &'static Seat {
        self.seat
    }

    /// Whether the thread is still there, and a worker.
    fn is_worker(&self) -> bool {
        // Relaxed: `kind` loads with Acquire, and a worker's number of tenants was written before its kind.
        self.seat.local().kind() == Kind::Worker
            && self.seat.local().tenants.load(Ordering::Relaxed) == self.tenants
    }
}

/// What stands in the word for requests, above the number of the tenant it is meant for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Request {
    Nothing = 0,
    Join = 1,
    Leave = 2,
    Done = 3,
    Refused = 4,
}

impl Request {
    const ALL: [Self; 5] = [
        Self::Nothing,
        Self::Join,
        Self::Leave,
        Self::Done,
        Self::Refused,
    ];

    /// What `tenancy` was asked for, or answered.
    fn of(tenancy: Tenancy) -> Self {
        // Acquire: pairs with the Release in `put`, so that an answer comes with all that was done for it.
        let word = tenancy
            .seat
            .local()
            .isolation_request
            .load(Ordering::Acquire);
        let found = Self::ALL
            .into_iter()
            .find(|request| request.word(tenancy) == word);
        found.unwrap_or(Self::Nothing)
    }

    fn put(self, tenancy: Tenancy) {
        let word = &tenancy.seat.local().isolation_request;
        // Release: pairs with the Acquire in `of`.
        word.store(self.word(tenancy), Ordering::Release);
    }

    fn word(self, tenancy: Tenancy) -> u64 {
        (self as u64) << u32::BITS | u64::from(tenancy.tenants)
    }
}

/// Does what another thread asked the worker on `seat` for, if that is this thread.
pub(super) fn obey(seat: &'static Seat) {
    let own = Tenancy::of(seat);
    let isolated = match Request::of(own) {
        Request::Join => false,
        Request::Leave => true,
        Request::Nothing | Request::Done | Request::Refused => return,
    };
    let is_own = with_thread(|thread| thread.seat().is_some_and(|own| std::ptr::eq(own, seat)));
    if !is_own || seat.local().kind() != Kind::Worker {
        return;
    }
    let answer = match apply(seat, isolated) {
        Ok(()) => Request::Done,
        Err(_) => Request::Refused,
    };
    answer.put(own);
}

/// Does what this thread was asked for.
fn obey_own() {
    if let Some(own) = with_thread(seat::Thread::seat) {
        obey(own);
    }
}

/// Has those workers isolated that `wanted` says, by seat, and those no longer that it says are not to be. Workers that
/// it does not name stay as they are.
///
/// # Errors
///
/// [`Refused::LastAvailable`] if no worker of the process would be left.
pub(crate) fn change_set(wanted: &BTreeMap<CpuId, (Tenancy, bool)>) -> Result<(), Refused> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _only = lock_obeying(&ONE_AT_A_TIME);
    tree::workers().isolate_set(&mut Set { wanted }).map(drop)
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

/// A set that is being put into force.
struct Set<'w> {
    wanted: &'w BTreeMap<CpuId, (Tenancy, bool)>,
}

impl IsolationHost for Set<'_> {
    fn is_online(&self, cpu: CpuId) -> bool {
        match self.wanted.get(&cpu) {
            Some((tenancy, _)) => tenancy.is_worker(),
            None => seat::seat(cpu).is_some_and(|seat| seat.local().kind() == Kind::Worker),
        }
    }

    fn is_to_be_isolated(&self, cpu: CpuId) -> bool {
        let own_choice = || seat::seat(cpu).is_some_and(|seat| !tree::takes_part(seat));
        let wanted = self.wanted.get(&cpu);
        wanted.map_or_else(own_choice, |(_, isolated)| *isolated)
    }

    fn ask(&mut self, cpu: CpuId, change: Change) {
        let Some((tenancy, _)) = self.wanted.get(&cpu) else {
            return;
        };
        let request = match change {
            Change::Join => Request::Join,
            Change::Leave => Request::Leave,
        };
        request.put(*tenancy);
        device::kick(tenancy.seat);
    }

    fn wait(&mut self, cpu: CpuId, _change: Change) -> Result<(), Refused> {
        let Some((tenancy, _)) = self.wanted.get(&cpu) else {
            return Ok(());
        };
        let mut attempt = 0;
        let answer = loop {
            match Request::of(*tenancy) {
                Request::Join | Request::Leave if tenancy.is_worker() => {}
                answer => break answer,
            }
            obey_own();
            os::relax(attempt);
            attempt = attempt.saturating_add(1);
        };
        Request::Nothing.put(*tenancy);
        if answer == Request::Refused {
            return Err(Refused::LastAvailable);
        }
        Ok(())
    }
}
