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
//! The child gets new ones under the same numbers. An epoll instance that watches a [`Driver`](crate::Driver) is shared
//! too; the child has to make its own.
//!
//! `posix_spawn` and `std::process::Command` do not come here: their child executes another program at once.
//!
//! The thread that watches for jumps of the time of day is started again by the child's next timer on such a clock.
//!
//! Not covered: a fork while another thread uses the library for the first time in the life of the process.

use std::cell::RefCell;
use std::os::fd::{AsRawFd, BorrowedFd, IntoRawFd, OwnedFd};
use std::sync::MutexGuard;
use std::sync::atomic::Ordering;

use rustix::io::Errno;
use tickless_core::hrtimer::Frozen;
use tickless_core::platform::CpuId;
use tickless_link::LastThread;

use super::handover::Promise;
use super::os::Parker;
use super::seat::{self, Kind, Local, Seat, with_thread};
use super::{Host, ask, background, coarse, timers, tree, turn};

/// What the forking thread holds from just before the fork until just after it.
struct Held {
    registry: MutexGuard<'static, Vec<u32>>,
    bases: Vec<Frozen<'static, Host>>,
    _clock: super::clock::Paused<'static>,
    _wall: super::wall::Paused<'static>,
}

thread_local! {
    static HELD: RefCell<Option<Held>> = const { RefCell::new(None) };
}

/// Has the handlers below called around every fork.
pub(super) fn install() {
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
    };
    HELD.with_borrow_mut(|slot| *slot = Some(held));
}

/// After the fork, in the parent: everything goes on.
extern "C" fn parent() {
    drop(HELD.take());
}

/// After the fork, in the child.
extern "C" fn child() {
    let Some(Held {
        registry,
        bases,
        _clock: clock,
        _wall: wall,
    }) = HELD.take()
    else {
        return;
    };
    // What follows may take them: the forking thread takes a seat if it has none.
    drop((registry, clock, wall));
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
        if !goes_on {
            // The driver may have been in the middle of a turn for this thread too.
            base.abandon(&last);
        }
        if !is_own && cpu != CpuId(0) {
            base.discard(&last);
        }
        drop(base);
        let Some(seat) = seat::seat(cpu) else {
            continue;
        };
        separate_descriptors(seat);
        if !goes_on {
            for lock in seat.expiry_locks() {
                lock.free_after_fork(&last);
            }
        }
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
    timers().platform().wall.forget_watcher();
    if !driver_survives {
        background::forget();
    }
    for seat in strays {
        tree::welcome(seat);
    }
    for seat in orphans {
        bury(seat, driver_survives);
    }
    if !driver_survives {
        timers().retrigger(CpuId(0));
    }
    if let Some(seat) = own.and_then(seat::seat) {
        rearm(seat);
    }
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
    local.coarse.store(Promise::NEVER, Ordering::Relaxed);
    local.soft_raised.store(false, Ordering::Relaxed);
    local.kicked.store(false, Ordering::Relaxed);
    local.parker.reset();
}

/// Programs the device of the forking thread's own seat: what it is, or who sees to it, is new.
fn rearm(seat: &Seat) {
    match seat.local().kind() {
        Kind::Foreign => {
            tree::welcome(seat);
            // Relaxed: there is nobody to be ordered with.
            seat.local()
                .deadline
                .store(Promise::NEVER, Ordering::Relaxed);
            turn::reprogram(seat);
            coarse::retell(seat);
        }
        Kind::Worker => {
            tree::enlist(seat);
            turn::reprogram(seat);
        }
        Kind::EventLoop => ask(seat),
        Kind::Free | Kind::Background => {}
    }
}

/// Gives the child descriptors of its own, under the numbers of those that it shares with its parent.
fn separate_descriptors(seat: &Seat) {
    let local = seat.local();
    if let Some(shared) = local.existing_timerfd() {
        replace(shared, Local::make_timerfd);
    }
    if let Some(shared) = local.parker.existing_descriptor() {
        replace(shared, Parker::make_descriptor);
    }
}

/// In the child of a fork there is no other thread, so between the closing and the opening nobody takes the number.
fn replace(shared: BorrowedFd<'_>, make: impl FnOnce() -> rustix::io::Result<OwnedFd>) {
    let number = shared.as_raw_fd();
    // Closed first: the process may have as many descriptors as it may.
    // SAFETY: the descriptor is the library's own, and the number means the same to it again before it is used.
    unsafe { libc::close(number) };
    let made = make().map(IntoRawFd::into_raw_fd).and_then(|own| {
        if own == number {
            return Ok(());
        }
        // SAFETY: the number is free: it was closed above.
        let moved = unsafe { libc::dup3(own, number, libc::O_CLOEXEC) };
        // SAFETY: it is open, and nobody else knows it.
        unsafe { libc::close(own) };
        if moved == number {
            Ok(())
        } else {
            Err(Errno::BADF)
        }
    });
    if made.is_err() {
        tickless_link::abort(
            "the child of a fork cannot make the descriptors that its timers need",
        );
    }
}
