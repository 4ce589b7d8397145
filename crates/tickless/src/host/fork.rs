//! The child of a fork has one thread, and a copy of everything that the others were in the middle of.
//!
//! Around the fork the forking thread holds the registry of seats and every base lock, so that the copy is consistent
//! and no lock in it belongs to a thread that does not exist there. In the child, the timers of all other threads go to
//! the background driver, which is started anew if any timer is queued, and a callback that another thread was
//! executing counts as finished.
//!
//! A fork from within a callback is possible: what the forking thread executes goes on in both processes.
//!
//! `posix_spawn` and `std::process::Command` do not come here: their child executes another program at once.
//!
//! Not covered: a fork while another thread uses the library for the first time in the life of the process.

use std::cell::RefCell;
use std::sync::MutexGuard;
use std::sync::atomic::Ordering;

use tickless_core::hrtimer::Frozen;
use tickless_core::platform::CpuId;
use tickless_link::LastThread;

use super::handover::Promise;
use super::seat::{self, Kind, Seat, with_thread};
use super::{Host, background, timers, turn};

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
    let bases = seat::seats()
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
        mut registry,
        bases,
        _clock,
        _wall,
    }) = HELD.take()
    else {
        return;
    };
    // SAFETY: this handler runs in the child of a fork, which has this thread only, before it has started any other.
    let last = unsafe { LastThread::new() };
    let own = with_thread(seat::Thread::seat).map(Seat::cpu);
    let executing = turn::taken_by_this_thread();
    let driver_survives = own == Some(CpuId(0));
    let mut orphans = Vec::new();
    for mut base in bases {
        let cpu = base.cpu();
        let lives = Some(cpu) == own || Some(cpu) == executing;
        if !lives {
            base.abandon(&last);
        }
        drop(base);
        let Some(seat) = seat::seat(cpu) else {
            continue;
        };
        if lives {
            continue;
        }
        seat.expiry_lock().free_after_fork(&last);
        seat.lock().free_after_fork(&last);
        // Relaxed: there is nobody to be ordered with.
        seat.local()
            .deadline
            .store(Promise::NEVER, Ordering::Relaxed);
        seat.local().soft_raised.store(false, Ordering::Relaxed);
        seat.local().kicked.store(false, Ordering::Relaxed);
        seat.local().parker.reset();
        if cpu != CpuId(0) && seat.local().kind() != Kind::Free {
            orphans.push(seat);
        }
    }
    timers().platform().wall.forget_watcher();
    if !driver_survives {
        background::forget();
    }
    for seat in orphans {
        seat.local().set_kind(Kind::Free);
        timers().cpu_offline(seat.cpu());
        registry.push(seat.cpu().0);
    }
    drop(registry);
    if !driver_survives {
        timers().retrigger(CpuId(0));
        // The forking thread's own timers, if the driver looked after them.
        let foreign = own
            .and_then(seat::seat)
            .filter(|seat| seat.local().kind() == Kind::Foreign);
        if let Some(seat) = foreign {
            seat.local()
                .deadline
                .store(Promise::NEVER, Ordering::Relaxed);
            timers().retrigger(seat.cpu());
        }
    }
}
