//! A turn: everything that a timer interrupt, its soft stage and its way back are on other hosts.

use std::cell::Cell;
use std::sync::atomic::Ordering;

use tickless_core::hrtimer::Flush;
use tickless_core::platform::CpuId;
use tickless_core::time::Instant;
use tickless_link::mutant;

use super::remote::{expiry_thread as background, stuck};
use super::sleep_protocol::Promise;
use super::thread::{Kind, Seat};
use super::{blocked, coarse, device, isolation, timers};

thread_local! {
    static TURN_OF: Cell<Option<CpuId>> = const { Cell::new(None) };
}

/// What a turn did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Done {
    /// Timers that fired.
    pub(crate) fired: u32,
    /// More is due: the budget is spent.
    pub(crate) more: bool,
}

/// Runs what is due on `seat` at `now`. Called by the thread that looks after it.
pub(crate) fn run(seat: &'static Seat, now: Instant) -> Done {
    as_turn_of(seat, || take(seat, now))
}

/// As [`run`], for the worker on `seat`, which looks after others too.
pub(crate) fn run_own(seat: &'static Seat, now: Instant) -> Done {
    as_turn_of(seat, || {
        let mut done = take(seat, now);
        background::replace_missing(now);
        if seat.local().kind() == Kind::Worker {
            if coarse::is_needed(seat, now) {
                done.more |= coarse::look_after_others(seat, now);
            }
            stuck::watch(seat);
        }
        done
    })
}

/// Has callbacks know whose turn it is.
pub(super) fn as_turn_of<R>(seat: &Seat, turn: impl FnOnce() -> R) -> R {
    /// Also when the turn panics.
    struct Restore(Option<CpuId>);
    impl Drop for Restore {
        fn drop(&mut self) {
            TURN_OF.set(self.0);
            blocked::turn_ends();
        }
    }
    let _restore = Restore(TURN_OF.replace(Some(seat.cpu())));
    turn()
}

/// Whose turn this thread is taking, if any: it is inside of a callback or a waker then.
#[inline]
pub(crate) fn taken_by_this_thread() -> Option<CpuId> {
    TURN_OF.get()
}

fn take(seat: &'static Seat, now: Instant) -> Done {
    let cpu = seat.cpu();
    if seat.local().kicked.take() {
        timers().retrigger(cpu);
        isolation::obey(seat);
    }
    let mut done = Done::default();
    let (fired, more) = coarse::run(seat, now);
    done.fired += fired;
    done.more |= more;
    take_exact(seat, now, &mut done);
    if seat.local().kind() == Kind::EventLoop {
        device::end_turn(seat);
    }
    done
}

/// The part of a turn that is about exact timers.
fn take_exact(seat: &'static Seat, now: Instant, done: &mut Done) {
    let cpu = seat.cpu();
    let is_due = seat.local().deadline.load(Ordering::Relaxed) <= now.as_nanos();
    // Relaxed: the last turn left it, and whoever takes turns is ordered behind it by what gave it the seat.
    if !is_due && !seat.local().soft_raised.load(Ordering::Relaxed) {
        return;
    }
    let mut exact_more = false;
    if is_due {
        // The device fired: nothing is programmed until the rearm. Should the thread on the seat program an earlier
        // deadline at this moment, it is overwritten, but the interrupt below finds its timer.
        seat.local()
            .deadline
            .store(Promise::NEVER, Ordering::Relaxed);
        let turn = timers().interrupt(cpu);
        done.fired += turn.fired;
        exact_more |= turn.more;
    }
    // Relaxed: raised by this very interrupt, or by the soft stage below.
    while seat.local().soft_raised.swap(false, Ordering::Relaxed) {
        // S10: before soft callbacks, which may take long.
        flush(seat);
        let soft = timers().soft_interrupt(cpu);
        done.fired += soft.fired;
        if soft.more {
            // Raised again already; the rest is for the next turn.
            exact_more = true;
            break;
        }
    }
    flush(seat);
    done.more |= exact_more;
    if exact_more {
        // From now on, not from when it was due: others that are due since before go first. Soft timers have no event
        // at all to be armed for. Relaxed: what follows sets the device, with the base locked.
        seat.local()
            .left_over
            .store(now.as_nanos(), Ordering::Relaxed);
        seat.local()
            .deadline
            .store(now.as_nanos(), Ordering::Relaxed);
    }
}

/// S10: the end of a turn.
fn flush(seat: &'static Seat) {
    if !mutant!("flush-s10-turn-end") {
        timers().flush_deferred(seat.cpu(), Flush::TurnEnd);
    }
}
