//! Timers in the child of a fork, which has one thread, and a copy of the data that all other threads were changing.
//!
//! Around the fork the forking thread holds the registry and every base lock, so that the copy is consistent and no
//! lock in it belongs to a thread that does not exist there. In the child:
//!
//! - The timers that the forking thread queued stay queued, and so do those left by threads that had ended. The expiry
//!   thread is started again if these timers need it.
//! - The timers that other threads had queued are removed from the queues, without a callback or a wake-up. Most of
//!   these timers are on the stacks of those threads, whose memory the child reuses for its own threads. A timer that
//!   is elsewhere can be started, and a sleep that is polled again is queued again. No timer fires early.
//! - A callback that another thread was executing counts as finished.
//!
//! A fork from within a callback is possible: the callback continues in both processes. If its timer is on the stack of
//! another thread, the child must neither start the timer again nor start threads.
//!
//! A fork copies descriptors, but not the objects behind them: a timer or a count, which both processes would change.
//! The child gets new objects under the same descriptor numbers. If the system refuses these, the child has none: an
//! event loop of the thread is never readable in the child, and new event loops are refused. An epoll instance that
//! watches a [`Driver`](crate::Driver) is shared too; the child has to make its own.
//!
//! `posix_spawn` does not call these handlers, because its child executes another program at once.
//! `std::process::Command` calls them only if it has to fork (`pre_exec`, another user). Such a child does not need its
//! timers, so no error here may end it: the child continues without the objects that the system refuses.
//!
//! The thread that watches for jumps of the time of day is started again by the child's next timer on such a clock.
//!
//! The child keeps parts of its ancestors that it does not use: the hierarchies of each earlier generation, whose
//! memory grows with the number of their threads.
//!
//! `docs/host.md` says what becomes of reactors and of the clock in the child.
//!
//! A fork is not supported while another thread uses the library for the first time in the life of the process.
#![expect(unsafe_code, reason = "a host calls its system (decision 3)")]

use std::cell::RefCell;
use std::mem::ManuallyDrop;
use std::sync::MutexGuard;

use tickless_core::base::Frozen;
use tickless_core::platform::Port;
use tickless_core::time::Clock as CoreClock;
use tickless_link::LastThread;

use crate::host::clock::{self, CLOCK, Clock};
#[cfg(feature = "worker")]
use crate::host::isolation;
use crate::host::process::{self, Host};
#[cfg(feature = "flight-recorder")]
use crate::host::recording;
use crate::host::registry::{self, EXPIRY_THREAD, base, bases, timers};
use crate::host::remote::{reactors, trees};
use crate::host::sys::descriptors::make_count;
use crate::host::sys::threads::around_forks;
use crate::host::sys::timers;
use crate::host::thread::{
    Local, Thread, ThreadBase, ThreadKind, lock, turn_taken_by_this_thread, with_thread,
};
use crate::host::{blocked, device, kernel_time, tick, wake, wall};

type ExpiryLock = <Host as Port>::ExpiryLock;

/// The locks that the forking thread holds from just before the fork until just after it.
struct Paused {
    lists: (
        MutexGuard<'static, Vec<reactors::Key>>,
        MutexGuard<'static, Vec<u32>>,
    ),
    bases: Vec<Frozen<'static, Host>>,
    _clock: clock::Paused<'static>,
    _wall: wall::Paused<'static>,
    _starting: MutexGuard<'static, ()>,
    _watch: blocked::Paused,
}

thread_local! {
    // Never dropped, so that there is no time at which it cannot be used any more: exit handlers and destructors of
    // thread-local values may fork.
    static PAUSED: RefCell<ManuallyDrop<Option<Paused>>> =
        const { RefCell::new(ManuallyDrop::new(None)) };
}

/// Registers the handlers below for every fork.
pub(super) fn install() {
    // The clock registers its handlers first, because these handlers read it.
    Clock::survive_forks();
    around_forks(prepare, Some(parent), child);
}

/// Runs before the fork, in the forking thread.
extern "C" fn prepare() {
    let lists = (reactors::pause(), registry::lock());
    let all: Vec<_> = bases().collect();
    // The expiry thread's last: a thread that ends has its own locked when it locks that.
    let bases = all.into_iter().rev().map(lock).collect();
    let host = timers().platform();
    let paused = Paused {
        lists,
        bases,
        _clock: CLOCK.pause(),
        _wall: host.wall.pause(),
        _starting: wake::starting(),
        _watch: blocked::pause(),
    };
    PAUSED.with_borrow_mut(|slot| **slot = Some(paused));
}

/// Takes the locks that [`prepare`] left.
fn paused() -> Option<Paused> {
    PAUSED.with_borrow_mut(|slot| slot.take())
}

/// Runs after the fork, in the parent: releases the locks.
extern "C" fn parent() {
    drop(paused());
}

/// Begins again in the child of a fork.
fn begin_anew() {
    process::count_fork();
    #[cfg(feature = "flight-recorder")]
    recording::forget();
    CLOCK.forget_others();
}

/// Runs after the fork, in the child.
extern "C" fn child() {
    let Some(Paused {
        lists,
        bases,
        _clock: clock,
        _wall: wall,
        _starting: starting,
        _watch: watch,
    }) = paused()
    else {
        return;
    };
    // What follows may take them: the forking thread occupies a base if it has none.
    drop((lists, clock, wall, starting, watch));
    begin_anew();
    // SAFETY: this handler runs in the child of a fork, which has this thread only, before it has started any other.
    let last = unsafe { LastThread::new() };
    let own = with_thread(Thread::base).map(ThreadBase::cpu);
    let executing = turn_taken_by_this_thread();
    let expiry_thread_survives = own == Some(EXPIRY_THREAD);
    let (mut orphans, mut strays) = (Vec::new(), Vec::new());
    trees::forget(expiry_thread_survives);
    for mut frozen in bases {
        let cpu = frozen.cpu();
        let (is_own, goes_on) = (Some(cpu) == own, Some(cpu) == executing);
        // The expiry thread, and others on its wheels, may have been in the middle of a turn for this thread too.
        let free = |lock: &ExpiryLock| lock.free_after_fork(&last);
        if goes_on {
            frozen.abandon_passes(&last, own, free);
        } else {
            frozen.abandon(&last, free);
        }
        if !is_own && cpu != EXPIRY_THREAD {
            frozen.discard(&last);
        }
        drop(frozen);
        let Some(base) = base(cpu) else {
            continue;
        };
        separate_descriptors(base);
        if goes_on && !is_own {
            // The expiry thread forked in a callback. No other thread will look after what that callback starts here.
            base.local().set_kind(ThreadKind::Foreign);
            strays.push(base);
        }
        if is_own || goes_on {
            base.lock().forget_strangers(&last);
            continue;
        }
        base.lock().free_after_fork(&last);
        forget_thread(base.local());
        if cpu != EXPIRY_THREAD && base.local().kind() != ThreadKind::Free {
            orphans.push(base);
        }
    }
    #[cfg(feature = "worker")]
    isolation::forget(own.and_then(base));
    forget_watchers();
    if !expiry_thread_survives {
        wake::forget();
    }
    strays.into_iter().for_each(adopt);
    bury_all(orphans, expiry_thread_survives);
    if let Some(base) = own.and_then(base) {
        rearm(base);
    }
    recheck_clocks();
}

/// Rechecks the timers on other clocks if the child's clocks show other times. The watcher of the parent does not exist
/// in the child, and a new watcher would not be notified of this change.
fn recheck_clocks() {
    if kernel_time::is_new_shift() {
        registry::recheck_clock(CoreClock::Boottime);
    }
}

/// Makes the expiry thread fire the timers of a base from now on.
fn adopt(base: &ThreadBase) {
    trees::join_foreign(base);
    device::renew(base);
}

/// Forgets the watchers of the parent. Threads that need a watcher start one again; the reactors of runtimes belong to
/// the parent.
fn forget_watchers() {
    reactors::forget();
    timers().platform().wall.forget_watcher();
    blocked::forget();
}

/// Frees the bases of threads that do not exist in the child. The expiry thread fires the timers that are left there.
fn bury_all(orphans: Vec<&ThreadBase>, expiry_thread_survives: bool) {
    for base in orphans {
        bury(base, expiry_thread_survives);
    }
    if !expiry_thread_survives {
        reprogram(registry::of_expiry_thread());
    }
}

/// Frees the base of a thread that does not exist in the child.
fn bury(base: &ThreadBase, expiry_thread_survives: bool) {
    let remote = &base.local().remote;
    let is_left_behind = remote.reactor().is_some();
    if expiry_thread_survives && base.local().kind() == ThreadKind::Foreign && !is_left_behind {
        trees::leave_foreign(base);
    }
    remote.set_reactor(None);
    base.local().set_kind(ThreadKind::Free);
    timers().cpu_offline(base.cpu());
    timers().wheel_offline(base.cpu(), tick::now());
    registry::give_back(base);
}

/// Clears the state of a thread that does not exist in the child, so that no time is programmed and no kick is pending.
fn forget_thread(local: &Local) {
    local.device.forget();
    local.parker.reset();
}

/// Programs the device of the forking thread's own base, because the device, or the thread that serves it, is new.
fn rearm(base: &ThreadBase) {
    with_thread(|thread| thread.set_unattended(true));
    match base.local().kind() {
        ThreadKind::Foreign => trees::join_foreign(base),
        ThreadKind::Worker => trees::join(base),
        ThreadKind::EventLoop => {}
        ThreadKind::Free | ThreadKind::ExpiryThread | ThreadKind::VirtualClock => return,
    }
    reprogram(base);
}

/// Sets the device of a base for all timers that are queued there. A thread that does not exist in the child may have
/// been in the middle of a turn for the base, in which no device is programmed.
fn reprogram(base: &ThreadBase) {
    timers().retrigger(base.cpu());
    device::renew(base);
}

/// Replaces the descriptors that the child shares with its parent by new ones under the same numbers.
fn separate_descriptors(base: &ThreadBase) {
    let local = base.local();
    local.device.timerfd.separate(timers::make);
    local.parker.descriptor.separate(make_count);
}
