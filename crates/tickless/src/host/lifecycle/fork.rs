//! Timers in the child of a fork, which has one thread and a copy of the data that all others were changing.
//!
//! Around the fork the forking thread holds the registry and every base lock, so that the copy is consistent and no
//! lock in it belongs to a thread that does not exist there. In the child:
//!
//! - The timers that the forking thread queued stay queued, and so do those left by threads that had ended. The expiry
//!   thread is started anew if they need it.
//! - Those that other threads had queued are taken out of the queues, without a call or a wake-up. Most of them lie on
//!   the stacks of those threads, which the child gives to its own threads. One that lies elsewhere can be started, and
//!   a sleep that is polled again is queued again; none fires early.
//! - A callback that another thread was executing counts as finished.
//!
//! A fork from within a callback is possible: what the forking thread executes goes on in both processes. Should its
//! timer lie on the stack of another thread, the child must not start it again nor start threads.
//!
//! Descriptors are copied by a fork, but not what they stand for: a timer or a count that both processes would change.
//! The child gets new ones under the same numbers. If the system refuses them it has none: an event loop that the
//! thread had is never readable there, and new ones are refused. An epoll instance that watches a
//! [`Driver`](crate::Driver) is shared too; the child has to make its own.
//!
//! `posix_spawn` does not come here, because its child executes another program at once, nor does
//! `std::process::Command` unless it has to fork (`pre_exec`, another user). That child gets its timers for nothing, so
//! nothing here may end it: what the system refuses is gone without.
//!
//! Reactors of runtimes stay the parent's: the child neither sets nor serves them, and its expiry thread comes for the
//! forking thread.
//!
//! The thread that watches for jumps of the time of day is started again by the child's next timer on such a clock.
//!
//! The child keeps the parts of its parents that it does not use: the hierarchies of each generation before it, which
//! take memory as there were threads in them.
//!
//! The child may be in a time namespace of its own. Its clock goes on where that of its parent was, which is what the
//! deadlines count from ([`kernel_time`]).
//!
//! Not covered: a fork while another thread uses the library for the first time in the life of the process.

use std::cell::RefCell;
use std::mem::ManuallyDrop;
use std::sync::MutexGuard;

use tickless_core::base::Frozen;
use tickless_core::platform::Port;
use tickless_core::time::Clock as CoreClock;
use tickless_link::LastThread;

use crate::host::clock::{self, CLOCK, Clock};
use crate::host::process::{self, Host};
#[cfg(feature = "tracepoints")]
use crate::host::recording;
use crate::host::registry::{self, EXPIRY_THREAD, base, bases, timers};
use crate::host::remote::{reactors, trees};
use crate::host::sys::descriptors::make_count;
use crate::host::sys::threads::around_forks;
use crate::host::sys::timers;
use crate::host::thread::{
    Local, Thread, ThreadBase, ThreadKind, lock, turn_taken_by_this_thread, with_thread,
};
use crate::host::{blocked, device, isolation, kernel_time, tick, wake, wall};

type ExpiryLock = <Host as Port>::ExpiryLock;

/// Locks that the forking thread holds from just before the fork until just after it.
struct Paused {
    lists: (MutexGuard<'static, ()>, MutexGuard<'static, Vec<u32>>),
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
    // Before those: what they do reads the clock.
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

/// Takes back what [`prepare`] left.
fn paused() -> Option<Paused> {
    PAUSED.with_borrow_mut(|slot| slot.take())
}

/// Runs after the fork, in the parent: everything goes on.
extern "C" fn parent() {
    drop(paused());
}

/// Begins anew in the child of a fork.
fn begin_anew() {
    process::count_fork();
    #[cfg(feature = "tracepoints")]
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
            continue;
        }
        base.lock().free_after_fork(&last);
        forget_thread(base.local());
        if cpu != EXPIRY_THREAD && base.local().kind() != ThreadKind::Free {
            orphans.push(base);
        }
    }
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

/// Rechecks the timers on other clocks where the child's clocks are elsewhere. The watcher of the parent is gone, and
/// another one would hear of no set.
fn recheck_clocks() {
    if kernel_time::is_new_shift() {
        registry::recheck_clock(CoreClock::Boottime);
    }
}

/// Gives a base to the expiry thread from here on.
fn adopt(base: &ThreadBase) {
    trees::join_foreign(base);
    device::renew(base);
}

/// Forgets the watchers of the parent. Threads that need one start it anew; reactors of runtimes are the parent's.
fn forget_watchers() {
    reactors::forget();
    timers().platform().wall.forget_watcher();
    blocked::forget();
}

/// Gives the bases of threads that do not exist here back; what is left there is the expiry thread's.
fn bury_all(orphans: Vec<&ThreadBase>, expiry_thread_survives: bool) {
    for base in orphans {
        bury(base, expiry_thread_survives);
    }
    if !expiry_thread_survives {
        reprogram(registry::of_expiry_thread());
    }
}

/// Gives the base of a thread that does not exist here back.
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

/// Clears the state of a thread that does not exist: nothing is programmed or requested.
fn forget_thread(local: &Local) {
    local.device.forget();
    local.parker.reset();
}

/// Programs the device of the forking thread's own base: what it is, or which thread sees to it, is new.
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

/// Sets the device of a base for all that is queued there. A thread that is gone may have been in the middle of a turn
/// for it, in which nothing is programmed.
fn reprogram(base: &ThreadBase) {
    timers().retrigger(base.cpu());
    device::renew(base);
}

/// Gives the child descriptors of its own, under the numbers of those that it shares with its parent.
fn separate_descriptors(base: &ThreadBase) {
    let local = base.local();
    local.device.timerfd.separate(timers::make);
    local.parker.descriptor.separate(make_count);
}
