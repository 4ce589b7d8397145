//! The state machine of a future that is ready at a certain time, whatever queue it waits in.
//!
//! A [`SleepTimer`] is a deadline and a [`SleepQueue`]: the exact or the coarse timer that waits.

use std::mem::MaybeUninit;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use pin_project_lite::pin_project;
use tickless_core::base::TaskTimer;
use tickless_core::time::{Instant, Span};
use tickless_link::emplace::Emplaced;
use tickless_link::lazy_init::{LazyInit, Made};

use super::budget;
use super::slack::{self, Slack};
use super::virtual_time::ticket::{self, Ticket, Waits};
use super::virtual_time::{self, FAR};
use crate::host::clock::CLOCK;
use crate::host::registry::{timers, try_timers_fast};
use crate::host::remote::reactor_turn;
use crate::host::thread::{shown_now_lower, shown_now_upper};
use crate::host::{blocked, wake};

/// A timer that wakes a task, exact or coarse, as a [`SleepTimer`] needs it. It MAY be late, and MUST NOT be early.
pub(crate) trait SleepQueue: TaskTimer<When: Copy> {
    /// True if the timer can be given slack.
    const HAS_SLACK: bool;

    /// Makes one that waits for nothing.
    fn new() -> Self;

    /// Timer that is about to be made, and started.
    type New;

    /// Makes the one that [`start_new`](Self::start_new) starts where it stays.
    fn emplace(slot: &mut MaybeUninit<Self>, new: Self::New) -> Emplaced<'_, Self>;

    /// Returns whether the timer waits to fire.
    fn is_queued(&self) -> bool;

    /// Returns the waker slot of a timer that is not queued, for the next time; `None` if it is queued.
    fn idle_waker(self: Pin<&mut Self>) -> Option<&mut Option<Waker>>;

    /// Returns the time argument of a start, so that the timer fires at `deadline` or, if it can be given slack, until
    /// `latest`.
    fn when(deadline: Instant, latest: Instant) -> Self::When;

    /// Starts one that was never queued, for what [`when`](Self::when) is given, where that takes less than
    /// [`start`](TaskTimer::start).
    ///
    /// # Errors
    ///
    /// The waker, where it does not; nothing was done.
    #[inline]
    fn try_start_fast(
        self: Pin<&mut Self>,
        deadline: Instant,
        latest: Instant,
        waker: Waker,
    ) -> Result<(), Waker> {
        let _ = (deadline, latest);
        Err(waker)
    }

    /// True if [`start_new`](Self::start_new) is worth trying.
    const STARTS_NEW: bool = false;

    /// Starts as [`try_start_fast`](Self::try_start_fast) does, for a timer that `put` [makes](Self::emplace) in its
    /// place.
    ///
    /// # Errors
    ///
    /// The waker, where that does not take less; `put` was not called, and nothing was done.
    #[inline]
    fn start_new<'t>(
        put: impl FnOnce(Self::New) -> Pin<&'t mut Self>,
        deadline: Instant,
        latest: Instant,
        waker: Waker,
    ) -> Result<(), Waker>
    where
        Self: 't,
    {
        let _ = (put, deadline, latest);
        Err(waker)
    }

    /// Starts one that is queued again, for what [`when`](Self::when) is given, if that takes neither a clock nor any
    /// other thread's notice: it stays where it is. `false`, and nothing was done, if it cannot.
    fn restart_in_place(self: Pin<&Self>, deadline: Instant, latest: Instant) -> bool;

    /// Restarts after [`restart_in_place`](Self::restart_in_place) failed, for a timer whose queue other threads keep
    /// touching.
    fn restart_in_place_contended(self: Pin<&Self>, deadline: Instant, latest: Instant) -> bool;

    /// Sees to it that a thread comes in time for one that was started for `when`.
    fn publish(when: Self::When);
}

tickless_link::stages! {
    /// State of a [`SleepTimer`], and whether its timer is made: where it is pinned, at the first poll or reset.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) enum SleepState {
        unmade {
            /// Made with a duration, never polled: the clock was read a moment ago and is not read again for the first
            /// poll. Should that moment have been long, the timer is started in the past and fires at once.
            Fresh,
            /// Made with no time to wait for, never polled.
            Over,
            /// Made with a deadline, never polled: not queued.
            Idle,
            /// Cancelled and dropped: the timer is no more.
            Gone,
        }
        made {
            /// Given another deadline since it was queued last, or before it ever was: not queued.
            Reset,
            /// Queued, unless it fired meanwhile.
            Armed,
            /// Its time has come, and a task was told. The timer keeps the waker of that task, for a reset.
            Elapsed,
            /// Armed on a virtual clock, unless it fired there meanwhile. The timer is idle, and keeps its ticket.
            Virtual,
        }
    }
}

/// The slack that was said, or taken over from the thread when it was queued first; the state; and the timer.
type Timer<T> = LazyInit<Option<Slack>, SleepState, T>;

/// A timer that is made; here, one that is armed.
type Armed<'t, T> = Made<'t, Option<Slack>, SleepState, T>;

pin_project! {
    /// A deadline, and a timer that is started for it at the first poll.
    ///
    /// In this order what a reset touches lies in 56 bytes together: these fields, and the first of the timer.
    #[project(!Unpin)]
    #[repr(C)]
    pub(crate) struct SleepTimer<T>
    where
        T: SleepQueue,
    {
        deadline: Instant,
        #[pin]
        timer: Timer<T>,
    }

    impl<T> PinnedDrop for SleepTimer<T>
    where
        T: SleepQueue,
    {
        #[inline]
        fn drop(this: Pin<&mut Self>) {
            if let Some(made) = this.project().timer.made()
                && made.stage() == SleepState::Armed
            {
                end(made);
            }
        }
    }
}

/// Parts of a [`Timer`].
trait Parts<T> {
    /// The timer, if the state is armed.
    fn armed(self: Pin<&Self>) -> Option<Pin<&T>>;

    /// Returns the slot where the timer keeps a waker for the next time, if it is made and not queued.
    fn idle_waker(self: Pin<&mut Self>) -> Option<&mut Option<Waker>>;

    /// The ticket of a timer that waits for a virtual clock.
    fn ticket(self: Pin<&mut Self>) -> Option<Arc<Ticket>>;
}

impl<T: SleepQueue> Parts<T> for Timer<T> {
    #[inline(always)]
    fn armed(self: Pin<&Self>) -> Option<Pin<&T>> {
        self.value().filter(|_| self.stage() == SleepState::Armed)
    }

    #[inline]
    fn idle_waker(self: Pin<&mut Self>) -> Option<&mut Option<Waker>> {
        self.parts().1.and_then(T::idle_waker)
    }

    fn ticket(self: Pin<&mut Self>) -> Option<Arc<Ticket>> {
        if self.stage() != SleepState::Virtual {
            return None;
        }
        ticket::find(self.idle_waker()?.as_ref()?)
    }
}

impl<T: SleepQueue> SleepTimer<T> {
    // Always, as all that makes one: what is returned through memory is copied from there.
    #[inline(always)]
    pub(crate) fn until(deadline: Instant) -> Self {
        Self::new(deadline, SleepState::Idle)
    }

    #[inline(always)]
    pub(crate) fn lasting(duration: Duration) -> Self {
        if duration.is_zero() {
            // Over at once: an upper bound on the time would be a moment later.
            let now = shown_now_lower();
            return Self::new(now, SleepState::Over);
        }
        let now = shown_now_upper();
        Self::new(now.saturating_add(Span::from(duration)), SleepState::Fresh)
    }

    #[inline(always)]
    fn new(deadline: Instant, state: SleepState) -> Self {
        Self {
            deadline,
            timer: LazyInit::new(None, state),
        }
    }

    /// Gives it a slack, from the next time on that it is queued.
    pub(crate) fn set_slack(self: Pin<&mut Self>, slack: Slack) {
        *self.project().timer.parts().0 = Some(slack);
    }

    /// Sets the slack as [`set_slack`](Self::set_slack) does, before it is pinned.
    pub(crate) fn with_slack(mut self, slack: Slack) -> Self {
        *self.timer.note_mut() = Some(slack);
        self
    }

    /// The slack that it has, or none if it was neither said nor queued.
    pub(crate) fn slack(&self) -> Slack {
        self.timer.note().unwrap_or(Slack::NONE)
    }

    pub(crate) fn deadline(&self) -> Instant {
        self.deadline
    }

    pub(crate) fn is_elapsed(&self) -> bool {
        match self.timer.stage() {
            SleepState::Fresh | SleepState::Over | SleepState::Idle | SleepState::Gone => false,
            SleepState::Reset => is_over(self.deadline),
            // Not queued and not over: see `poll`.
            SleepState::Armed => {
                !self.timer.get().is_some_and(T::is_queued) && is_over_slow(self.deadline)
            }
            SleepState::Elapsed => true,
            SleepState::Virtual => is_over(self.deadline),
        }
    }

    #[inline]
    pub(crate) fn reset(mut self: Pin<&mut Self>, deadline: Instant) {
        let this = self.as_mut().project();
        let is_exact = !T::HAS_SLACK || *this.timer.note() == Some(Slack::NONE);
        if is_exact
            && let Some(timer) = this.timer.as_ref().armed()
            && timer.restart_in_place(deadline, deadline)
        {
            *this.deadline = deadline;
            return;
        }
        self.reset_contended(deadline);
    }

    /// Resets as [`reset`](Self::reset) does, for a timer that has slack, or cannot stay where it is.
    // Apart: what chooses within a slack takes few registers, and the rest of the ways many.
    #[inline(never)]
    fn reset_contended(mut self: Pin<&mut Self>, deadline: Instant) {
        let this = self.as_mut().project();
        let slack = this
            .timer
            .note()
            .filter(|slack| T::HAS_SLACK && !slack.is_none());
        let latest = slack.map_or(deadline, |slack| slack.latest(deadline));
        if let Some(timer) = this.timer.as_ref().armed()
            && (slack.is_some() && timer.restart_in_place(deadline, latest)
                || timer.restart_in_place_contended(deadline, latest))
        {
            *this.deadline = deadline;
            return;
        }
        self.reset_slow(deadline);
    }

    /// Works as [`reset`](Self::reset), for a timer that has to be moved, or waits for nothing.
    #[inline(never)]
    fn reset_slow(mut self: Pin<&mut Self>, deadline: Instant) {
        let is_virtual = wake::ensure_expiry_thread_or_virtual();
        let mut this = self.as_mut().project();
        *this.deadline = deadline;
        if let Some(ticket) = this.timer.as_mut().ticket() {
            // If it fired its waker is used up, as below.
            if !ticket.reset(deadline) {
                this.timer.set_stage(SleepState::Reset);
            }
            return;
        }
        let slack = this.timer.note().unwrap_or(Slack::NONE);
        if let Some(timer) = this.timer.as_ref().armed()
            && restart(timer, deadline, slack)
        {
            return;
        }
        let was_told = this.timer.stage() == SleepState::Elapsed;
        this.timer.as_mut().make(SleepState::Reset, T::new);
        this.timer.as_mut().set_stage(SleepState::Reset);
        let kept = this.timer.as_mut().idle_waker().filter(|_| was_told);
        let Some(waker) = kept.and_then(Option::take) else {
            // If it fired unseen its waker is used up, so the task polls again anyway.
            return;
        };
        // The task was told that the time had come, and may wait for the next one without polling, as in tokio.
        if is_over(deadline) {
            waker.wake();
        } else if is_virtual {
            let _waits = self.start_virtual(waker);
        } else {
            drop(queue(this.timer.as_mut(), deadline, waker));
            this.timer.set_stage(SleepState::Armed);
        }
    }

    /// Resets as [`reset`](Self::reset) does, but a task that was woken for the old time is not woken before it polls
    /// again.
    #[inline]
    pub(crate) fn retime(mut self: Pin<&mut Self>, deadline: Instant) {
        let this = self.as_mut().project();
        if this.timer.stage() == SleepState::Elapsed {
            *this.deadline = deadline;
            this.timer.set_stage(SleepState::Reset);
        } else {
            self.reset(deadline);
        }
    }

    #[inline]
    pub(crate) fn poll(mut self: Pin<&mut Self>, context: &Context<'_>) -> Poll<()> {
        let this = self.as_mut().project();
        let is_ahead = match this.timer.stage() {
            SleepState::Fresh => true,
            // The upper bound: by that it is filed, if it is coarse. The lower one, which decides whether it is over,
            // is asked for if this does not say it.
            SleepState::Idle => shown_now_upper() < *this.deadline,
            _ => false,
        };
        if is_ahead {
            // Here and not where it is kept: a call in the middle is what the shortest path has to save registers for.
            let waker = context.waker().clone();
            return if T::STARTS_NEW && this.timer.note().is_none_or(Slack::is_none) {
                self.start_first(waker)
            } else {
                self.start_first_with_slack(waker)
            };
        }
        self.poll_again(context)
    }

    /// Works as [`poll`](Self::poll), for a timer that was polled before, or may be over: nearly always it goes on
    /// waiting, for the same task.
    #[inline(never)]
    fn poll_again(mut self: Pin<&mut Self>, context: &Context<'_>) -> Poll<()> {
        let this = self.as_mut().project();
        if let Some(timer) = this.timer.as_ref().armed()
            && wake::goes_on()
        {
            // The clock decides, as in `poll_slow`.
            let now = shown_now_lower();
            if now < *this.deadline && timer.try_wakes_fast(timers(), context.waker()) {
                if T::HAS_SLACK && *this.timer.note() != Some(Slack::NONE) {
                    reactor_turn::take_along_soon(now);
                }
                return Poll::Pending;
            }
        }
        self.poll_slow(context)
    }

    /// Works as [`poll`](Self::poll), for a timer that is elsewhere, over, or waits for another task.
    #[inline(never)]
    fn poll_slow(mut self: Pin<&mut Self>, context: &Context<'_>) -> Poll<()> {
        if self.as_mut().waits_virtually(context.waker()) {
            return Poll::Pending;
        }
        let mut this = self.as_mut().project();
        let has_slack = T::HAS_SLACK && *this.timer.note() != Some(Slack::NONE);
        let mut old = None;
        match this.timer.stage() {
            SleepState::Idle | SleepState::Reset if !is_over(*this.deadline) => {
                let kept = this.timer.as_mut().idle_waker().and_then(Option::take);
                return self.start(of_task(kept, context.waker()));
            }
            // Ready without ever having waited.
            SleepState::Over
            | SleepState::Fresh
            | SleepState::Idle
            | SleepState::Gone
            | SleepState::Reset
            | SleepState::Virtual
            | SleepState::Elapsed => {
                if budget::is_spent(context.waker()) {
                    return Poll::Pending;
                }
            }
            SleepState::Armed => {
                wake::ensure_expiry_thread_again();
                blocked::polled(context.waker());
                let timer = this.timer.as_ref().armed();
                // The clock decides, not only whether a thread came to fire it: a task that is polled all the time must
                // not wait for an expiry thread that gets no turn.
                if let Some(timer) = timer
                    && timer.is_queued()
                {
                    let now = shown_now_lower();
                    if now < *this.deadline && wakes(timer, context) {
                        if has_slack {
                            reactor_turn::take_along_soon(now);
                        }
                        return Poll::Pending;
                    }
                }
                if !is_over_slow(*this.deadline) {
                    // Neither queued nor over: another thread queued it, and the process is the child of a fork.
                    let kept = this.timer.as_mut().idle_waker().and_then(Option::take);
                    return self.start(of_task(kept, context.waker()));
                }
                old = timer.and_then(|timer| timer.cancel(timers()));
            }
        }
        this.timer.as_mut().make(SleepState::Elapsed, T::new);
        this.timer.as_mut().set_stage(SleepState::Elapsed);
        keep(this.timer, old, context.waker());
        Poll::Ready(())
    }

    // Kept whole, out of the caller's code: each is the core's whole path in one piece. What has to be at hand when
    // that turns out not to be the way is kept in registers, and each of them has to be saved: so that is the timer and
    // the waker, and no more.

    /// Starts a timer that was never polled, without slack: nearly always it is not made yet, and goes the straight
    /// way.
    #[inline(never)]
    fn start_first(mut self: Pin<&mut Self>, waker: Waker) -> Poll<()> {
        let this = self.as_mut().project();
        let times = (*this.deadline, *this.deadline);
        if wake::can_fast_path() {
            match start_new(this.timer, times, Slack::NONE, waker) {
                Ok(()) => Poll::Pending,
                Err(waker) => self.start(waker),
            }
        } else {
            self.start(waker)
        }
    }

    // Apart: to choose within a slack takes registers.

    /// Works as [`start_first`](Self::start_first), for a timer with slack.
    #[inline(never)]
    fn start_first_with_slack(mut self: Pin<&mut Self>, waker: Waker) -> Poll<()> {
        let this = self.as_mut().project();
        let slack = this.timer.note().filter(|_| T::STARTS_NEW && T::HAS_SLACK);
        if let Some(slack) = slack
            && wake::can_fast_path()
        {
            let times = (*this.deadline, latest::<T>(slack, *this.deadline));
            match start_new(this.timer, times, slack, waker) {
                Ok(()) => Poll::Pending,
                Err(waker) => self.start(waker),
            }
        } else {
            self.start(waker)
        }
    }

    /// Starts a timer that is not queued, and makes it if it is not made. Ready if a virtual clock has passed it.
    #[inline(never)]
    fn start(self: Pin<&mut Self>, waker: Waker) -> Poll<()> {
        if wake::ensure_expiry_thread_or_virtual() {
            return self.start_virtual(waker);
        }
        blocked::polled(&waker);
        let mut this = self.project();
        let deadline = *this.deadline;
        let (slack, made) = this.timer.as_mut().make(SleepState::Reset, T::new);
        let is_exact = !T::HAS_SLACK || slack.get_or_insert_with(slack::default).is_none();
        let started = if is_exact {
            made.try_start_fast(deadline, deadline, waker)
        } else {
            start_with_slack(made, deadline, *slack, waker)
        };
        if let Err(waker) = started {
            let old = queue(this.timer.as_mut(), deadline, waker);
            // Dropped here, after every lock was released: it may run foreign code.
            drop(old);
        }
        this.timer.set_stage(SleepState::Armed);
        Poll::Pending
    }

    /// Arms a timer that is not queued on the virtual clock of this thread, unless that has passed it.
    #[cold]
    #[inline(never)]
    fn start_virtual(self: Pin<&mut Self>, waker: Waker) -> Poll<()> {
        let mut this = self.project();
        if *this.deadline >= Instant::LATEST {
            // A clock that nothing holds up comes to whatever is told it, so it is told tokio's "never".
            *this.deadline = shown_now_lower().saturating_add(FAR);
        }
        this.timer.as_mut().make(SleepState::Reset, T::new);
        let armed = if is_over(*this.deadline) {
            None
        } else {
            virtual_time::arm(*this.deadline, &waker)
        };
        let (kept, stage) = match armed {
            Some(ticket) => (ticket, SleepState::Virtual),
            None => (waker, SleepState::Elapsed),
        };
        let slot = this.timer.as_mut().idle_waker();
        let old = slot.and_then(|slot| slot.replace(kept));
        this.timer.as_mut().set_stage(stage);
        drop(old);
        if stage == SleepState::Elapsed {
            return Poll::Ready(());
        }
        Poll::Pending
    }

    /// Returns whether the sleep waits for a virtual clock, and goes on waiting, for the task of `waker`. If not, it is
    /// armed nowhere, or in a queue of the host on a thread without a virtual clock.
    fn waits_virtually(mut self: Pin<&mut Self>, waker: &Waker) -> bool {
        let mut this = self.as_mut().project();
        if this.timer.stage() == SleepState::Virtual {
            let is_over = is_over(*this.deadline);
            let ticket = this.timer.as_mut().ticket();
            match ticket.map_or(Waits::Nowhere, |ticket| ticket.poll(is_over, waker)) {
                Waits::On => return true,
                Waits::Over => return false,
                // It waits for the clock of the thread that polls it.
                Waits::Nowhere => this.timer.as_mut().set_stage(SleepState::Reset),
            }
        } else if this.timer.stage() == SleepState::Armed && wake::is_virtual() {
            // Armed before the clock was paused.
            let old = this
                .timer
                .as_ref()
                .armed()
                .and_then(|timer| timer.cancel(timers()));
            drop(old);
            this.timer.as_mut().set_stage(SleepState::Reset);
        }
        false
    }
}

/// A waker of the task of `waker`: `kept`, if that is one.
#[inline]
fn of_task(kept: Option<Waker>, waker: &Waker) -> Waker {
    let kept = kept.filter(|kept| kept.will_wake(waker));
    kept.unwrap_or_else(|| waker.clone())
}

/// Starts a timer that was never polled on a thread that goes straight.
///
/// # Errors
///
/// The waker, if that is not as simple; nothing was done.
#[inline(always)]
fn start_new<T: SleepQueue>(
    timer: Pin<&mut Timer<T>>,
    (deadline, latest): (Instant, Instant),
    slack: Slack,
    waker: Waker,
) -> Result<(), Waker> {
    let Some(vacant) = timer.vacant() else {
        return Err(waker);
    };
    T::start_new(
        #[inline(always)]
        |new| {
            let (note, made) = vacant.fill(
                SleepState::Armed,
                #[inline(always)]
                |place| T::emplace(place, new),
            );
            *note = Some(slack);
            made
        },
        deadline,
        latest,
        waker,
    )
}

// Kept out of `start`: to choose takes registers that would have to be saved there.

/// Works as [`SleepQueue::try_start_fast`], at the point that `slack` chooses.
#[inline(never)]
fn start_with_slack<T: SleepQueue>(
    timer: Pin<&mut T>,
    deadline: Instant,
    slack: Option<Slack>,
    waker: Waker,
) -> Result<(), Waker> {
    let latest = latest::<T>(slack.unwrap_or(Slack::NONE), deadline);
    timer.try_start_fast(deadline, latest, waker)
}

/// Queues a timer, or moves it if it is queued, and has `waker` woken. Returns the waker that it had.
#[inline(never)]
fn queue<T: SleepQueue>(
    timer: Pin<&mut Timer<T>>,
    deadline: Instant,
    waker: Waker,
) -> Option<Waker> {
    let (slack, made) = timer.make(SleepState::Reset, T::new);
    let slack = if T::HAS_SLACK {
        *slack.get_or_insert_with(slack::default)
    } else {
        Slack::NONE
    };
    let when = T::when(deadline, latest::<T>(slack, deadline));
    let old = made.start(timers(), when, waker);
    T::publish(when);
    old
}

/// Returns the latest time for a timer with that slack.
#[inline]
fn latest<T: SleepQueue>(slack: Slack, deadline: Instant) -> Instant {
    if T::HAS_SLACK && !slack.is_none() {
        wake::note_slack();
        slack.latest(deadline)
    } else {
        deadline
    }
}

/// Moves a timer and keeps its waker; `false`, and nothing is changed, if it is not queued any more.
#[inline(never)]
fn restart<T: SleepQueue>(timer: Pin<&T>, deadline: Instant, slack: Slack) -> bool {
    let when = T::when(deadline, latest::<T>(slack, deadline));
    let is_queued = timer.restart(timers(), when);
    if is_queued {
        T::publish(when);
    }
    is_queued
}

/// Has a timer that is not queued keep a waker of the task of `waker`; `old` is the one it had, if it was queued
/// still.
#[inline]
fn keep<T: SleepQueue>(timer: Pin<&mut Timer<T>>, old: Option<Waker>, waker: &Waker) {
    if let Some(kept) = timer.idle_waker() {
        let old = old.or_else(|| kept.take());
        *kept = old.filter(|old| old.will_wake(waker));
        if kept.is_none() {
            *kept = Some(waker.clone());
        }
    }
}

/// Cancels an armed timer and drops it where it is.
#[inline(never)]
fn end<T: SleepQueue>(armed: Armed<'_, T>) {
    // What is rare is a call at the end, so that no register is saved for it.
    let ended = armed.end(
        SleepState::Gone,
        #[inline(always)]
        |timer| match try_timers_fast() {
            Some(timers) => T::try_end_fast(timer, timers),
            None => Err(timer),
        },
    );
    match ended {
        // Dropped here, after every lock was released: it may run foreign code.
        Ok(waker) => drop(waker),
        Err(armed) => end_slow(armed),
    }
}

#[inline(never)]
fn end_slow<T: SleepQueue>(armed: Armed<'_, T>) {
    let ended = armed.end(
        SleepState::Gone,
        #[inline(always)]
        |timer| Ok(T::end(timer, timers())),
    );
    drop(ended);
}

/// Returns whether `deadline` has passed for a timer that is not queued: for the thread that fired it, it had.
#[inline]
fn is_over_slow(deadline: Instant) -> bool {
    is_over(deadline) || CLOCK.now() >= deadline
}

/// Returns whether `deadline` has certainly passed.
#[inline]
fn is_over(deadline: Instant) -> bool {
    shown_now_lower() >= deadline
}

/// Sees to it that the task of `context` is woken; `false` if the timer fired meanwhile.
pub(crate) fn wakes<T: TaskTimer>(timer: Pin<&T>, context: &Context<'_>) -> bool {
    match timer.will_wake(timers(), context.waker()) {
        Some(true) => true,
        // Cloned without a lock: it is foreign code. Should the timer fire meanwhile, it wakes the old task, which is
        // no loss: this poll finds it fired.
        Some(false) => timer.set_waker(timers(), context.waker().clone()).is_ok(),
        None => false,
    }
}
