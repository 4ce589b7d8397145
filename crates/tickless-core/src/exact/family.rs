//! The entries of the exact queues: their contents, the arguments of their callbacks, and the answers.

use core::fmt;
use core::task::Waker;

use tickless_link::entry::{Branches, Family};

use crate::restart::Restart;
use crate::time::{Clock, Deadline};

/// All queues of high-resolution timers.
#[derive(Debug)]
pub(crate) enum Hr {}

impl Family for Hr {
    type Key = Deadline;
    type Tag = Tag;
    type Head = ExpiryRange;
    type Shared = ();
    type Branches = Branches<Self>;
    type Token = Option<Waker>;
    type Context<'a> = Firing<'a>;
    type Answer = Restart;

    #[inline]
    fn rank(deadline: Deadline) -> i64 {
        deadline.as_nanos()
    }
}

/// The index of the one queue that the far wheel feeds, and in which far timers are sorted: hard, on the monotonic
/// clock.
pub(crate) const NEAR: usize = 0;

/// Fixed properties of a timer, in one byte. They are its queue among the eight queues of a base (the number of the
/// clock, plus 4 for soft), and three flags: the timer has lazy rearm, it always leaves the device early, and it fires
/// when its clock is set.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tag(u8);

impl Tag {
    const QUEUE: u8 = 0x07;
    const LAZY: u8 = 0x08;
    const EARLY: u8 = 0x10;
    const ON_SET: u8 = 0x20;

    pub(crate) const fn new(clock: Clock, soft: bool, lazy: bool) -> Self {
        let stage = if soft { 4 } else { 0 };
        Self(clock as u8 | stage | if lazy { Self::LAZY } else { 0 })
    }

    #[inline]
    pub(crate) const fn queue(self) -> usize {
        (self.0 & Self::QUEUE) as usize
    }

    #[inline]
    pub(crate) const fn clock(self) -> Clock {
        Clock::ALL[self.queue() % 4]
    }

    #[inline]
    pub(crate) const fn is_soft(self) -> bool {
        self.queue() >= 4
    }

    /// Returns true if the timer may be in the far wheel, because it belongs to the queue that the far wheel feeds.
    #[inline]
    pub(crate) const fn may_stand_far(self) -> bool {
        self.queue() == NEAR
    }

    /// Returns the properties with the flag that the timer *leaves the device early*: when the timer is pushed out or
    /// cancelled, the device stays armed for the earlier time (spec LAZY-7). The flag is only set for a timer that may
    /// be in the far wheel.
    pub(crate) const fn leaving_early(self) -> Self {
        if self.may_stand_far() {
            Self(self.0 | Self::EARLY)
        } else {
            self
        }
    }

    /// Returns true if the device stays armed for the earlier time when the timer is pushed out or cancelled.
    #[inline]
    pub(crate) const fn leaves_early(self) -> bool {
        self.0 & Self::EARLY != 0
    }

    /// Returns the properties with the flag that the timer fires when its clock is set. The flag is not set for the
    /// monotonic clock, which is never set.
    pub(crate) const fn on_set(self) -> Self {
        if self.queue() % 4 == Clock::Monotonic as usize {
            self
        } else {
            Self(self.0 | Self::ON_SET)
        }
    }

    /// Returns true if the timer fires when its clock is set.
    #[inline]
    pub(crate) const fn fires_on_set(self) -> bool {
        self.0 & Self::ON_SET != 0
    }

    /// Returns true if the timer was made with lazy rearm and lazy rearm is possible.
    #[inline]
    pub(crate) fn is_lazy(self) -> bool {
        self.0 & Self::LAZY != 0 && !self.is_soft() && self.clock() as u8 == Clock::Monotonic as u8
    }
}

/// Range of times in which a timer fires.
///
/// The deadline is here and not in the key of the entry, because a timer may be queued under a key that is earlier than
/// its deadline: see `hrtimer::start`. The range is packed into twelve bytes, of which four fill a gap in the entry. So
/// a timer with a plain function stays within 88 bytes.
#[derive(Clone, Copy, Debug)]
#[repr(C, packed(4))]
pub(crate) struct ExpiryRange {
    /// Nanoseconds before the deadline from which on the timer may fire (spec OBJ-8).
    slack: u32,
    /// The hard expiry, which is the latest time at which the timer fires.
    deadline: Deadline,
}

impl ExpiryRange {
    pub(crate) const IDLE: Self = Self {
        slack: 0,
        deadline: Deadline::FOREVER,
    };

    /// Makes the range of a timer that may fire from `earliest` on and must fire at `deadline`. A slack of more than
    /// 4.29 s is reduced to 4.29 s, counted back from the deadline. The reduction breaks no promise, because slack is a
    /// permission.
    #[inline]
    pub(crate) fn new(earliest: Deadline, deadline: Deadline) -> Self {
        let slack = u32::try_from(deadline.saturating_sub(earliest)).unwrap_or(u32::MAX);
        Self { slack, deadline }
    }

    #[inline]
    pub(crate) const fn deadline(self) -> Deadline {
        self.deadline
    }

    /// Returns the distance of the soft expiry before the deadline, in nanoseconds.
    #[inline]
    pub(crate) const fn slack(self) -> u32 {
        self.slack
    }

    #[inline]
    pub(crate) const fn earliest(self) -> Deadline {
        self.deadline.before(self.slack)
    }

    /// Returns true if neither expiry is earlier than the same expiry of `old`, so that a restart with these times
    /// pushes the timer out.
    #[inline]
    pub(crate) fn is_pushed_out_from(self, old: Self) -> bool {
        // Without slack one question is enough: what is not before the old deadline is not before the soft expiry.
        self.deadline() >= old.deadline() && (self.slack == 0 || self.earliest() >= old.earliest())
    }
}

/// The soft and the hard expiry of a timer.
pub(crate) type Times = (Deadline, Deadline);

/// The data of a firing that the core passes to a callback.
pub(crate) struct Firing<'a> {
    /// The time of the pass that found the timer due.
    pub(crate) now: Deadline,
    pub(crate) deadline: Deadline,
    pub(crate) earliest: Deadline,
    /// True if the timer fires because its clock was set.
    pub(crate) clock_was_set: bool,
    /// Reads the timer's clock.
    pub(crate) read: &'a dyn Fn() -> Deadline,
}

impl fmt::Debug for Firing<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Firing")
            .field("now", &self.now)
            .field("deadline", &self.deadline)
            .finish_non_exhaustive()
    }
}

/// The effect of a start on the place of its timer in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// The timer moved to another place, or was not queued before.
    Moved,
    /// The timer is queued for its new deadline between the same neighbours. The start compared the neighbours'
    /// deadlines (spec Q-13).
    InPlace,
    /// The timer kept its place without a comparison with its neighbours. Its key is its new deadline or an earlier
    /// time.
    FiledEarly,
    /// The deadline is far away, and the timer kept its bucket of the far wheel.
    FarSlot,
}

impl Placement {
    /// Returns true if the timer was left where it was.
    #[inline]
    #[must_use]
    pub const fn is_kept(self) -> bool {
        !matches!(self, Self::Moved)
    }
}
