//! The child of a fork has one thread, and a copy of everything that the others were in the middle of.
//!
//! Around the fork the forking thread holds the registry of seats and every base lock, so that the copy is consistent
//! and no lock in it belongs to a thread that does not exist there. In the child:
//!
//! - The timers that the forking thread queued stay queued, and so do those left by threads that had ended. The
//!   background driver is started anew if they need it.
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
//! The thread that watches for jumps of the time of day is started again by the child's next timer on such a clock.
//!
//! What it does not use of its parents it keeps: the hierarchies of each generation before it, which take memory as
//! there were threads in them.
//!
//! Not covered: a fork while another thread uses the library for the first time in the life of the process.

use std::cell::RefCell;
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd, IntoRawFd, OwnedFd, RawFd};
use std::sync::MutexGuard;
use std::sync::atomic::Ordering;

use tickless_core::hrtimer::Frozen;
use tickless_core::platform::{CpuId, Platform};
use tickless_link::LastThread;

use crate::host::os::{Descriptor, Parker};
use crate::host::remote::{expiry_thread as background, trees as tree};
use crate::host::sleep_protocol::Promise;
use crate::host::thread::{self as seat, Kind, Local, Seat, with_thread};
use crate::host::{Host, blocked, coarse, device, isolation, timers, turn};

type ExpiryLock = <Host as Platform>::ExpiryLock;

/// What the forking thread holds from just before the fork until just after it.
struct Held {
    registry: MutexGuard<'static, Vec<u32>>,
    bases: Vec<Frozen<'static, Host>>,
    _clock: crate::host::clock::Paused<'static>,
    _wall: crate::host::wall::Paused<'static>,
    _starting: MutexGuard<'static, ()>,
    _watch: blocked::Paused,
}

thread_local! {
    // Never dropped, so that there is no time at which it cannot be used any more: exit handlers and destructors of
    // thread-local values may fork.
    static HELD: RefCell<ManuallyDrop<Option<Held>>> =
        const { RefCell::new(ManuallyDrop::new(None)) };
}

/// Has the handlers below called around every fork.
pub(crate) fn install() {
    // SAFETY: the three functions have the C calling convention, do not unwind, and live for ever.
    let refused = unsafe { libc::pthread_atfork(Some(prepare), Some(parent), Some(child)) };
    // It fails only for lack of memory. Without the handlers a fork is as dangerous as with any other library.
    debug_assert_eq!(refused, 0);
}

/// Before the fork, in the forking thread.
extern "C" fn prepare() {
    let registry = seat::registry();
    let (own, token) = with_thread(|thread| (thread.seat(), thread.token()));
    let seats: Vec<_> = seat::seats().collect();
    // The driver's last: a thread that ends has its own locked when it locks that.
    let bases = seats
        .into_iter()
        .rev()
        .map(|seat| {
            let is_own = own.is_some_and(|own| std::ptr::eq(own, seat));
            seat.freeze(token.filter(|_| is_own))
        })
        .collect();
    let host = timers().platform();
    let held = Held {
        registry,
        bases,
        _clock: host.clock.counter.pause(),
        _wall: host.wall.pause(),
        _starting: background::starting(),
        _watch: blocked::pause(),
    };
    HELD.with_borrow_mut(|slot| **slot = Some(held));
}

/// Takes back what [`prepare`] left.
fn held() -> Option<Held> {
    HELD.with_borrow_mut(|slot| slot.take())
}

/// After the fork, in the parent: everything goes on.
extern "C" fn parent() {
    drop(held());
}

/// After the fork, in the child.
extern "C" fn child() {
    let Some(Held {
        registry,
        bases,
        _clock: clock,
        _wall: wall,
        _starting: starting,
        _watch: watch,
    }) = held()
    else {
        return;
    };
    // What follows may take them: the forking thread takes a seat if it has none.
    drop((registry, clock, wall, starting, watch));
    // SAFETY: this handler runs in the child of a fork, which has this thread only, before it has started any other.
    let last = unsafe { LastThread::new() };
    let own = with_thread(seat::Thread::seat).map(Seat::cpu);
    let executing = turn::taken_by_this_thread();
    let driver_survives = own == Some(CpuId(0));
    let (mut orphans, mut strays) = (Vec::new(), Vec::new());
    tree::forget(driver_survives);
    for mut base in bases {
        let cpu = base.cpu();
        let (is_own, goes_on) = (Some(cpu) == own, Some(cpu) == executing);
        // The driver, and others on its wheels, may have been in the middle of a turn for this thread too.
        let free = |lock: &ExpiryLock| lock.free_after_fork(&last);
        if goes_on {
            base.abandon_passes(&last, own, free);
        } else {
            base.abandon(&last, free);
        }
        if !is_own && cpu != CpuId(0) {
            base.discard(&last);
        }
        drop(base);
        let Some(seat) = seat::seat(cpu) else {
            continue;
        };
        separate_descriptors(seat);
        if goes_on && !is_own {
            // The driver forked in a callback. Nobody else will look after what that callback starts here.
            seat.local().set_kind(Kind::Foreign);
            strays.push(seat);
        }
        if is_own || goes_on {
            continue;
        }
        seat.lock().free_after_fork(&last);
        forget_thread(seat.local());
        if cpu != CpuId(0) && seat.local().kind() != Kind::Free {
            orphans.push(seat);
        }
    }
    isolation::forget(own.and_then(seat::seat));
    forget_watchers();
    if !driver_survives {
        background::forget();
    }
    strays.into_iter().for_each(welcome);
    for seat in orphans {
        bury(seat, driver_survives);
    }
    if !driver_survives {
        reprogram(seat::background());
    }
    if let Some(seat) = own.and_then(seat::seat) {
        rearm(seat);
    }
}

/// Has the driver look after a seat from here on.
fn welcome(seat: &Seat) {
    tree::welcome(seat);
    device::renew(seat);
}

/// Those who need them start them anew.
fn forget_watchers() {
    timers().platform().wall.forget_watcher();
    blocked::forget();
}

/// Gives the seat of a thread that does not exist here back.
fn bury(seat: &Seat, driver_survives: bool) {
    if driver_survives && seat.local().kind() == Kind::Foreign {
        tree::farewell(seat);
    }
    seat.local().set_kind(Kind::Free);
    timers().cpu_offline(seat.cpu());
    timers().wheel_offline(seat.cpu(), coarse::now());
    seat::registry().push(seat.cpu().0);
}

/// Nothing is armed or asked for where nobody sits.
fn forget_thread(local: &Local) {
    // Relaxed: there is nobody to be ordered with.
    local.deadline.store(Promise::NEVER, Ordering::Relaxed);
    local.soft_raised.store(false, Ordering::Relaxed);
    local.kicked.reset();
    local.parker.reset();
}

/// Programs the device of the forking thread's own seat: what it is, or who sees to it, is new.
fn rearm(seat: &Seat) {
    with_thread(|thread| thread.unattended.set(true));
    match seat.local().kind() {
        Kind::Foreign => tree::welcome(seat),
        Kind::Worker => tree::enlist(seat),
        Kind::EventLoop => {}
        Kind::Free | Kind::Background => return,
    }
    reprogram(seat);
}

/// Sets the device of a seat for all that is queued there. A thread that is gone may have been in the middle of a turn
/// for it, in which nothing is programmed.
fn reprogram(seat: &Seat) {
    timers().retrigger(seat.cpu());
    device::renew(seat);
}

/// Gives the child descriptors of its own, under the numbers of those that it shares with its parent.
fn separate_descriptors(seat: &Seat) {
    let local = seat.local();
    separate(&local.device, Local::make_timerfd);
    separate(&local.parker.descriptor, Parker::make_descriptor);
}

/// Gives the child a descriptor of its own in place of `shared`. If the system refuses it is lost, and whoever needs it
/// is told; most children execute another program and never do.
fn separate(shared: &Descriptor, make: fn() -> rustix::io::Result<OwnedFd>) {
    let Some(number) = shared.existing().map(|fd| fd.as_raw_fd()) else {
        return;
    };
    let made = make().or_else(|_| {
        // The process may have as many descriptors as it may.
        // SAFETY: the descriptor is the library's own, and the number means the same to it again or nothing from here
        // on. There is no other thread that could take it.
        unsafe { libc::close(number) };
        make()
    });
    let made = made.map(IntoRawFd::into_raw_fd);
    if made != Ok(number) && !made.is_ok_and(|own| is_moved(own, number)) {
        shared.lose();
    }
}

/// Puts the descriptor `own` under `number`, which is the library's, in place of what is there; says whether it could.
fn is_moved(own: RawFd, number: RawFd) -> bool {
    // SAFETY: what stands under the number, if anything, is the library's and not used by another thread.
    let moved = unsafe { libc::dup3(own, number, libc::O_CLOEXEC) };
    // SAFETY: it is open, and nothing else knows it.
    unsafe { libc::close(own) };
    moved == number
}
