//! The state machine of a future that waits for a time on a clock that can be set.
//!
//! The future reads the clock from the kernel at each poll, so that it is never ready early by that clock, even if the
//! timers do not know of a set yet. If a set moves the deadline, the timers are corrected by
//! [`wall`](crate::host::wall). If the task wants to know of sets, the future compares the count of sets with the count
//! at its creation.
//!
//! # The race with a set
//!
//! A set between the last read of the count and the queueing of the timer would not be noticed. So the count is read
//! once more when the timer is queued: see *Ground rules* of [`wall`](crate::host::wall). The core has the loom case,
//! `a_clock_is_set_against_a_start_that_wants_to_know`.
//!
//! # On a virtual clock
//!
//! If the thread's runtime has a virtual clock, each other clock is the virtual clock plus an offset. The timer of the
//! host is idle then, and keeps a ticket, as the timer of a sleep does.

use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use pin_project_lite::pin_project;
use tickless_core::base::TimerQueue;
use tickless_core::hrtimer::{Sleeper, Start};
use tickless_core::time::{ClockId, Instant, Monotonic};

use crate::host::registry::{clock_sets, recheck_clock, shown, timers, watch_clocks};
use crate::host::thread::shown_now_lower;
use crate::host::{blocked, wake};
use crate::time::budget;
use crate::time::sleep_timer::wakes;
#[cfg(feature = "worker")]
use crate::time::virtual_time::{
    self, FAR,
    ticket::{self, Waits as TicketWaits},
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TimerState {
    /// The timer is not queued.
    Idle,
    /// The timer is queued, or has fired meanwhile.
    Armed,
    /// The sleep is armed on a virtual clock, or has fired there meanwhile. The timer is idle, and keeps the ticket of
    /// the sleep.
    Virtual,
    /// The timer has fired, and its task has seen that.
    Over,
}

/// The result of a poll.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// The deadline has passed.
    Due,
    /// A clock was set since the future was made, or since the sets were last taken note of. The deadline may have
    /// passed too.
    Set,
}

/// The events that end a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waits {
    /// The deadline alone ends the wait.
    ForDeadline,
    /// A set of a clock ends the wait, too.
    ForSets,
}

pin_project! {
    /// A deadline on the clock `C`, and a timer. The first poll starts the timer for the deadline.
    #[project(!Unpin)]
    pub(crate) struct ClockTimer<C>
    where
        C: ClockId,
    {
        #[pin]
        sleeper: Sleeper<C>,
        deadline: Instant<C>,
        state: TimerState,
        waits: Waits,
        // Sets of clocks that are known here.
        sets: u64,
    }

    impl<C> PinnedDrop for ClockTimer<C>
    where
        C: ClockId,
    {
        fn drop(this: Pin<&mut Self>) {
            let this = this.project();
            if *this.state == TimerState::Armed {
                cancel(this.sleeper.as_ref());
            }
        }
    }
}

fn cancel<C: ClockId>(sleeper: Pin<&Sleeper<C>>) {
    // Dropped after every lock was released: it may run foreign code.
    drop(sleeper.cancel(timers()));
}

impl<C: ClockId> ClockTimer<C> {
    pub(crate) fn new(deadline: Instant<C>, waits: Waits) -> Self {
        Self {
            sleeper: match waits {
                Waits::ForDeadline => Sleeper::new(),
                Waits::ForSets => Sleeper::new_for_clock_sets(),
            },
            deadline: settable(deadline),
            state: TimerState::Idle,
            waits,
            sets: clock_sets(),
        }
    }

    pub(crate) const fn deadline(&self) -> Instant<C> {
        self.deadline
    }

    /// Returns whether a clock was set since the future was made, or since [`take_sets`](Self::take_sets).
    pub(crate) fn was_set(&self) -> bool {
        clock_sets() != self.sets
    }

    /// Sets the deadline of a future that was just made.
    pub(crate) fn aim(&mut self, deadline: Instant<C>) {
        debug_assert_eq!(self.state, TimerState::Idle);
        self.deadline = settable(deadline);
    }

    /// Takes note of the sets so far, so that only later sets count.
    pub(crate) fn take_sets(self: Pin<&mut Self>) {
        *self.project().sets = clock_sets();
    }

    /// Changes the deadline, and waits for the new one.
    pub(crate) fn reset(self: Pin<&mut Self>, deadline: Instant<C>) {
        let mut this = self.project();
        match *this.state {
            TimerState::Armed => cancel(this.sleeper.as_ref()),
            TimerState::Virtual => drop(kept(this.sleeper.as_mut())),
            TimerState::Idle | TimerState::Over => {}
        }
        *this.deadline = settable(deadline);
        *this.state = TimerState::Idle;
    }

    pub(crate) fn poll(mut self: Pin<&mut Self>, context: &Context<'_>) -> Poll<Found> {
        #[cfg(feature = "worker")]
        if let Some(polled) = self.as_mut().poll_virtual(context.waker()) {
            return polled;
        }
        let mut this = self.project();
        let wall = &timers().platform().wall;
        let is_set = || *this.waits == Waits::ForSets && clock_sets() != *this.sets;
        let is_armed = *this.state == TimerState::Armed;
        if is_armed {
            wake::ensure_expiry_thread_again();
            blocked::polled(context.waker());
            if !this.sleeper.is_queued() && !is_set() && wall.show::<C>() < *this.deadline {
                // It fired by an offset that is none any more.
                recheck_clock(C::CLOCK);
            }
        }
        if wall.is_untold() {
            recheck_clock(C::CLOCK);
        }
        loop {
            let found = if is_set() {
                Some(Found::Set)
            } else {
                (wall.show::<C>() >= *this.deadline).then_some(Found::Due)
            };
            if let Some(found) = found {
                if *this.state != TimerState::Armed && budget::is_spent(context.waker()) {
                    return Poll::Pending;
                }
                cancel(this.sleeper.as_ref());
                *this.state = TimerState::Over;
                return Poll::Ready(found);
            }
            if *this.state == TimerState::Armed
                && this.sleeper.is_queued()
                && wakes(this.sleeper.as_ref(), context)
            {
                return Poll::Pending;
            }
            watch_clocks();
            wake::ensure_expiry_thread();
            let start = Start::at(*this.deadline);
            let waker = context.waker().clone();
            let old = this.sleeper.as_mut().start(timers(), start, waker);
            // Dropped here, after every lock was released: it may run foreign code.
            drop(old);
            blocked::polled(context.waker());
            *this.state = TimerState::Armed;
            if !is_set() {
                return Poll::Pending;
            }
        }
    }

    /// Polls on a thread with a virtual clock. Returns `None` on any other thread; the timer is then not armed on a
    /// virtual clock.
    #[cfg(feature = "worker")]
    fn poll_virtual(self: Pin<&mut Self>, waker: &Waker) -> Option<Poll<Found>> {
        let mut this = self.project();
        let is_virtual = wake::is_virtual();
        match *this.state {
            TimerState::Virtual => {}
            TimerState::Armed if is_virtual => {
                // Armed before the clock was paused.
                cancel(this.sleeper.as_ref());
                *this.state = TimerState::Idle;
            }
            _ if !is_virtual => return None,
            _ => {}
        }
        let is_set = *this.waits == Waits::ForSets && clock_sets() != *this.sets;
        let now = shown::<C>();
        // The end of the range never comes.
        let is_due = now >= *this.deadline && *this.deadline < Instant::LATEST;
        let is_over = is_set || is_due;
        if *this.state == TimerState::Virtual {
            let slot = this.sleeper.as_mut().idle_waker();
            let ticket = slot.and_then(|slot| ticket::find(slot.as_ref()?));
            match ticket.map_or(TicketWaits::Nowhere, |ticket| ticket.poll(is_over, waker)) {
                TicketWaits::On => return Some(Poll::Pending),
                TicketWaits::Over | TicketWaits::Nowhere => {
                    drop(kept(this.sleeper.as_mut()));
                    *this.state = TimerState::Idle;
                }
            }
        } else if is_over && budget::is_spent(waker) {
            return Some(Poll::Pending);
        }
        if !is_virtual {
            return None;
        }
        if !is_over {
            if *this.deadline >= Instant::LATEST {
                // A clock that nothing holds up comes to whatever is told it: see the sleeps.
                *this.deadline = now.saturating_add(FAR);
            }
            let deadline = if *this.deadline >= Instant::LATEST {
                Instant::<Monotonic>::LATEST
            } else {
                let left = this.deadline.saturating_since(now);
                shown_now_lower().saturating_add(left)
            };
            if let Some(ticket) = virtual_time::arm(deadline, waker, true) {
                let slot = this.sleeper.as_mut().idle_waker();
                let old = slot.and_then(|slot| slot.replace(ticket));
                *this.state = TimerState::Virtual;
                drop(old);
                return Some(Poll::Pending);
            }
        }
        *this.state = TimerState::Over;
        let found = if is_set { Found::Set } else { Found::Due };
        Some(Poll::Ready(found))
    }
}

/// Takes the waker that an idle timer has stored.
fn kept<C: ClockId>(sleeper: Pin<&mut Sleeper<C>>) -> Option<Waker> {
    sleeper.idle_waker().and_then(Option::take)
}

/// Returns `deadline`, limited to the largest deadline that a queue can hold: a timer for the end of time, which is no
/// valid deadline, would never fire.
fn settable<C>(deadline: Instant<C>) -> Instant<C> {
    deadline.min(Instant::LATEST)
}
