//! Exact timers with a callback, their settings, and the arguments of a start.

use core::fmt;
use core::marker::PhantomData;
use core::pin::Pin;
use core::task::Waker;
use core::time::Duration;

use tickless_link::const_unless_loom;
use tickless_link::entry::{Always, Entry, EntryRef, Expiry, Member, State};

use crate::exact::family::{ExpiryRange, Firing, Hr, Tag};
use crate::restart::Restart;
use crate::time::forward::forward;
use crate::time::{ClockId, Deadline, Instant, Monotonic, RelativeClock, Span};
use crate::trace::StartMode;

/// The place where a callback runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Stage {
    /// The host chooses the context: hard, or soft on hosts with a preemptible soft stage.
    #[default]
    Default,
    /// The timer interrupt itself.
    Hard,
    /// The soft stage after the timer interrupt, where the callback delays no hard timer.
    Soft,
}

/// The argument of a callback: the expired timer, and a method to set its next deadline.
///
/// No method takes a lock.
#[derive(Debug)]
pub struct Expired<'f, 'a, C> {
    firing: &'f mut Firing<'a>,
    clock: PhantomData<fn() -> C>,
}

impl<C: ClockId> Expired<'_, '_, C> {
    /// Returns the clock reading that found the timer due; all timers that fire together have the same reading (spec
    ///
    #[must_use]
    pub fn now(&self) -> Instant<C> {
        self.firing.now.instant()
    }

    /// Returns the present time of the timer's clock.
    #[must_use]
    pub fn read_clock(&self) -> Instant<C> {
        (self.firing.read)().instant()
    }

    /// Returns true if the timer fires because its clock was set, as [`Setup::fire_on_clock_set`] requested. The
    /// deadline may have passed or not. To find out, compare the deadline with [`read_clock`](Self::read_clock),
    /// because [`now`](Self::now) may be a reading from before the set.
    #[must_use]
    pub fn clock_was_set(&self) -> bool {
        self.firing.clock_was_set
    }

    /// Returns the deadline that passed; after a [`forward`](Self::forward), the next deadline.
    #[must_use]
    pub fn deadline(&self) -> Instant<C> {
        self.firing.deadline.instant()
    }

    /// Sets the deadline that [`Restart::Yes`] will use, without slack.
    ///
    /// A timer with a deadline in the past fires after all due timers of the same pass, or in the next turn if the pass
    /// has lasted for 100 µs. If a callback runs for longer than it moves the deadline ahead, its timer is
    /// [paced](crate::base::Overrun): the timer waits for up to 1 ms, or its own period, after each callback. If
    /// another thread starts the timer for a time in that pause, the timer may fire only at the end of the pause.
    pub fn set_deadline(&mut self, deadline: Instant<C>) {
        self.firing.deadline = Deadline::new(deadline);
        self.firing.earliest = self.firing.deadline;
    }

    /// Moves the deadline ahead by whole intervals until it is after `now`, and returns their number.
    ///
    /// The phase is kept: a timer that is late by three and a half intervals fires next at the time at which it would
    /// have fired anyway. A timer that fired within its slack, before its deadline, moves by one interval. The result
    /// is 0 if `now` is before the soft expiry, from which on the timer may fire. An interval of zero counts as 1 ns.
    /// The call takes constant time.
    pub fn forward(&mut self, now: Instant<C>, interval: Span) -> u64 {
        forward(
            &mut self.firing.deadline,
            &mut self.firing.earliest,
            Deadline::new(now),
            interval,
        )
    }

    /// Moves the deadline as [`forward`](Self::forward) does, past a fresh reading of the clock.
    pub fn forward_now(&mut self, interval: Span) -> u64 {
        let now = self.read_clock();
        self.forward(now, interval)
    }
}

/// The part of an entry that holds the timer's closure and calls it.
pub(crate) struct Callback<F, C> {
    function: F,
    clock: PhantomData<fn() -> C>,
}

impl<F, C> Member<Hr> for Callback<F, C>
where
    F: FnMut(&mut Expired<'_, '_, C>) -> Restart,
{
    type Guarded = ();

    const EXPIRY: Always<(), Option<Waker>> = Always::CALLED;

    fn name() -> &'static str {
        core::any::type_name::<F>()
    }

    #[inline]
    fn expire((): &mut ()) -> Expiry<Option<Waker>> {
        Expiry::Call
    }

    fn call(&mut self, firing: &mut Firing<'_>) -> Restart {
        (self.function)(&mut Expired {
            firing,
            clock: PhantomData,
        })
    }
}

/// Settings of a timer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Setup {
    stage: Stage,
    lazy: bool,
    early: bool,
    on_set: bool,
}

impl Setup {
    /// Makes the default settings: the host's preferred stage, and a device that is programmed at each change.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            stage: Stage::Default,
            lazy: false,
            early: false,
            on_set: false,
        }
    }

    /// Sets the stage in which the callback runs.
    #[must_use]
    pub const fn stage(self, stage: Stage) -> Self {
        Self { stage, ..self }
    }

    /// Makes the timer lazy: the device is not written when the timer moves later or is cancelled.
    ///
    /// The setting is meant for a timer that is started at every context switch, nearly always for a later time. For
    /// such a timer an occasional useless interrupt is cheaper than a write of the device each time. The setting has an
    /// effect on hard monotonic timers only, because the armed value is monotonic, and because the soft
    /// stage has an armed value of its own, which must not be too early.
    #[must_use]
    pub const fn lazy(self) -> Self {
        Self { lazy: true, ..self }
    }

    /// Keeps the device armed for the earlier time when the timer is pushed out or cancelled, as with a
    /// [`Sleeper`](crate::hrtimer::Sleeper). The setting is meant for a host whose CPUs
    /// [settle](crate::base::Timers::settle_armed) the armed time before they sleep. Any other host takes one useless
    /// interrupt.
    ///
    /// The setting has an effect on hard monotonic timers only. It differs from [`lazy`](Self::lazy) in two ways: a
    /// restart of such a timer does not compare the armed value, and operations on other CPUs do not write the device
    /// either.
    #[must_use]
    pub const fn leaving_early(self) -> Self {
        Self {
            early: true,
            ..self
        }
    }

    /// Makes the timer also fire when its clock is set, forwards or backwards, even before its deadline.
    ///
    /// The callback checks [`Expired::clock_was_set`]. It may start the timer again, for the same deadline or for a
    /// deadline that it computes from the new time. The timer is notified of each set that happens while the timer is
    /// queued or executes. It may be notified twice of one set, once of two sets in a row, and of a set that happened
    /// before the start if the host notices that set after the start. The setting has no effect on the monotonic clock,
    /// which is never set.
    ///
    /// # Cost
    ///
    /// One walk over the timers on the clock, on each CPU and under the lock of its base, when the clock is set. No
    /// cost otherwise.
    #[must_use]
    pub const fn fire_on_clock_set(self) -> Self {
        Self {
            on_set: true,
            ..self
        }
    }

    pub(super) const fn tag<C: ClockId>(self, soft_by_default: bool) -> Tag {
        let soft = match self.stage {
            Stage::Default => soft_by_default,
            Stage::Hard => false,
            Stage::Soft => true,
        };
        let tag = Tag::new(C::CLOCK, soft, self.lazy);
        let tag = if self.early { tag.leaving_early() } else { tag };
        if self.on_set { tag.on_set() } else { tag }
    }
}

/// A timer with a callback, on the clock `C`.
///
/// The user pins the timer at any address. The callback is called without any lock, never twice at the same time, on
/// the CPU of the timer. A callback must not free its own timer, except through [`Restart::NoThenWake`].
///
/// A timer that is dropped while it is queued or running ends the process: cancel it first. (The user-space crate wraps
/// the timer in a type that cancels it.)
///
/// Cost: 80 bytes on 64-bit targets, and the closure.
pub struct HrTimer<F, C = Monotonic>
where
    F: FnMut(&mut Expired<'_, '_, C>) -> Restart,
{
    entry: Entry<Hr, Callback<F, C>>,
}

tickless_link::project_entry!(
    [F, C] HrTimer<F, C> [F: FnMut(&mut Expired<'_, '_, C>) -> Restart]
    entry: Entry<Hr, Callback<F, C>>
);

impl<F, C: ClockId> HrTimer<F, C>
where
    F: FnMut(&mut Expired<'_, '_, C>) -> Restart,
{
    const_unless_loom! {
        /// Makes an idle timer.
        ///
        /// `soft_by_default` is the host's choice for timers with the stage [`Stage::Default`]: true for the soft
        /// stage, as in a real-time kernel (spec OBJ-4).
        pub const fn with_setup(setup: Setup, soft_by_default: bool, function: F) -> Self {
            Self {
                entry: Entry::new(
                    Deadline::FOREVER,
                    setup.tag::<C>(soft_by_default),
                    ExpiryRange::IDLE,
                    (),
                    (),
                    Callback { function, clock: PhantomData },
                ),
            }
        }
    }
}

impl<F> HrTimer<F>
where
    F: FnMut(&mut Expired<'_, '_, Monotonic>) -> Restart,
{
    const_unless_loom! {
        /// Makes an idle timer on the monotonic clock, whose callback runs in the hard stage.
        pub const fn new(function: F) -> Self {
            Self::with_setup(Setup::new(), false, function)
        }
    }
}

impl<F, C> HrTimer<F, C>
where
    F: FnMut(&mut Expired<'_, '_, C>) -> Restart + Send + 'static,
    C: ClockId,
{
    #[inline]
    pub(crate) fn erase(self: Pin<&Self>) -> EntryRef<'_, Hr> {
        self.entry().erase()
    }

    /// Returns a reference to the timer that does not name the type of its closure.
    #[inline]
    pub fn timer_ref(self: Pin<&Self>) -> TimerRef<'_, C> {
        TimerRef {
            entry: self.erase(),
            clock: PhantomData,
        }
    }

    /// Returns true if the timer is queued, or its callback executes. Lock-free; never wrongly false (spec OBJ-14).
    #[inline]
    pub fn is_active(&self) -> bool {
        !self.entry.state().is_idle()
    }

    /// Returns true if the timer is queued.
    #[inline]
    pub fn is_queued(&self) -> bool {
        self.entry.state().is_queued()
    }

    /// Returns the life cycle state of the timer.
    #[inline]
    pub fn state(&self) -> State {
        self.entry.state()
    }
}

impl<F, C> fmt::Debug for HrTimer<F, C>
where
    F: FnMut(&mut Expired<'_, '_, C>) -> Restart,
{
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("HrTimer").field(&self.entry).finish()
    }
}

/// A borrowed [`HrTimer`] without the type of its closure.
#[derive(Debug)]
pub struct TimerRef<'a, C = Monotonic> {
    pub(crate) entry: EntryRef<'a, Hr>,
    clock: PhantomData<fn() -> C>,
}

// Not derived, which would ask it of the clock.
impl<C> Clone for TimerRef<'_, C> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<C> Copy for TimerRef<'_, C> {}

/// The time and the options of a start.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a start does nothing by itself"]
pub struct Start<C = Monotonic> {
    pub(crate) request: Request,
    clock: PhantomData<fn() -> C>,
}

// Not derived: whether the clock's type can be copied does not matter.
impl<C> Clone for Start<C> {
    #[inline]
    fn clone(&self) -> Self {
        *self
    }
}

impl<C> Copy for Start<C> {}

/// A start without its clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) when: When,
    pub(crate) slack: Span,
    pub(crate) mode: StartMode,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum When {
    At(Deadline),
    After(Span),
}

impl<C: ClockId> Start<C> {
    /// Makes a start at this instant, or at once if the instant has passed.
    #[inline]
    pub const fn at(instant: Instant<C>) -> Self {
        Self {
            request: Request {
                when: When::At(Deadline::new(instant)),
                slack: Span::ZERO,
                mode: StartMode {
                    relative: false,
                    pinned: false,
                    checked: false,
                },
            },
            clock: PhantomData,
        }
    }

    /// Makes a start after this span, counted from the call of the start.
    #[inline]
    pub const fn after(span: Span) -> Self
    where
        C: RelativeClock,
    {
        Self {
            request: Request {
                when: When::After(span),
                slack: Span::ZERO,
                mode: StartMode {
                    relative: true,
                    pinned: false,
                    checked: false,
                },
            },
            clock: PhantomData,
        }
    }

    /// Allows the timer to fire up to `slack` later, so that it can share an interrupt with others.
    ///
    /// A slack of more than 4.29 s (2^32 - 1 ns) is shortened at its beginning: the timer then fires in the last 4.29 s
    /// of the allowed time, not before. A slack that would reach beyond the largest instant ends at that instant.
    #[inline]
    pub const fn slack(mut self, slack: Span) -> Self {
        self.request.slack = slack;
        self
    }

    /// Returns the instant of the start, if the start is at an instant, without slack, and not pinned.
    #[inline]
    #[must_use]
    pub fn exact_instant(&self) -> Option<Instant<C>> {
        let Request { when, slack, mode } = self.request;
        match when {
            When::At(deadline) if slack == Span::ZERO && mode == StartMode::default() => {
                Some(deadline.instant())
            }
            _ => None,
        }
    }

    /// Leaves the timer on the CPU that executes the start.
    #[inline]
    pub const fn pinned(mut self) -> Self {
        self.request.mode.pinned = true;
        self
    }
}

/// Starts at this instant.
impl<C: ClockId> From<Instant<C>> for Start<C> {
    #[inline]
    fn from(instant: Instant<C>) -> Self {
        Self::at(instant)
    }
}

/// Starts after this span, counted from the moment of the start.
impl<C: RelativeClock> From<Span> for Start<C> {
    #[inline]
    fn from(span: Span) -> Self {
        Self::after(span)
    }
}

/// Starts after this duration, counted from the call.
impl<C: RelativeClock> From<Duration> for Start<C> {
    #[inline]
    fn from(duration: Duration) -> Self {
        Self::after(Span::from(duration))
    }
}

#[cfg(all(not(any(loom, shuttle)), target_pointer_width = "64"))]
const _: () = {
    type Function = fn(&mut Expired<'_, '_, Monotonic>) -> Restart;
    assert!(size_of::<HrTimer<Function>>() == 80 + size_of::<Function>());
};
