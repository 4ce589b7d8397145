//! A clock that stands still until a runtime moves it, and the timers that wait for it.
//!
//! The clock fires one timer at a time, the first by deadline and then by the order in which the timers were armed, and
//! the runtime runs its tasks until all of them wait before it lets the next timer fire. So all consequences of one
//! timer have happened before the next timer fires, and a task that a timer wakes finds the clock at the deadline, to
//! the nanosecond.
//!
//! # Ground rules
//!
//! - One lock holds the time and the queue. No waker is called, cloned or dropped under it.
//! - The lock of a run queue may be acquired while this lock is held, never the other way round.

use std::collections::BTreeMap;
use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Wake, Waker};
use std::time::Duration;

use tickless_core::base::TimerQueue;
use tickless_core::hrtimer::{Sleeper, Start};
use tickless_core::time::Instant;

use super::draw::Draw;
use crate::host::clock::CLOCK;
use crate::host::registry::{VirtualSets, timers};
use crate::host::thread::{self, shown_now_lower};
use crate::host::wake::ensure_expiry_thread;

/// The place of a timer in the queue: its deadline, a random number from the seed or zero, and its number among all
/// timers that were armed.
pub(crate) type Key = (Instant, u64, u64);

/// The mode in which the time passes.
#[derive(Clone, Copy, Debug)]
enum Time {
    /// The time stands still.
    Paused(Instant),
    /// The time passes with the process's clock, and is `ahead` nanoseconds later than this clock, or earlier if
    /// `ahead` is negative.
    Runs { ahead: i64 },
}

/// A timer in the queue.
#[derive(Debug)]
struct Armed {
    waker: Waker,
    /// True if a set of the wall clock changes the deadline.
    is_of_wall: bool,
}

/// A call of `advance` that is under way.
#[derive(Debug)]
struct Advance {
    number: u64,
    target: Instant,
    waker: Waker,
}

#[derive(Debug)]
struct State {
    time: Time,
    /// True if the time passes by itself while all tasks wait, and not by `advance` alone.
    is_auto: bool,
    /// The number of timers and advances so far, which is the number of the next one.
    count: u64,
    /// Chooses the random order of timers that have one deadline; without a draw such timers fire in the order in which
    /// they were armed.
    draw: Option<Draw>,
    queue: BTreeMap<Key, Armed>,
    /// The sets of the wall clock.
    sets: VirtualSets,
    advances: Vec<Advance>,
}

/// The reasons why a clock cannot be paused, resumed or advanced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    Outside,
    /// The runtime is one of tokio, whose clock has no such function.
    #[cfg(feature = "tokio-test-util")]
    InTokio,
    SeveralWorkers,
    AlreadyFrozen,
    NotFrozen,
    TooFar,
}

/// A clock that a runtime can stop and move, with the timers that wait for it.
pub(crate) struct Clock {
    state: Mutex<State>,
    /// The timer of the host that fires for the first timer while the clock runs.
    host_timer: Mutex<Option<HostTimer>>,
}

/// The permissions of a clock for one step.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Allowed {
    /// True if all tasks wait, so that the next timer that is due fires, and an `advance` continues.
    pub(crate) to_advance: bool,
    /// True if nothing holds the time, so that it passes by itself.
    pub(crate) to_pass: bool,
}

impl Clock {
    /// Makes a clock that runs with the process's clock.
    pub(crate) fn new() -> Self {
        Self {
            state: Mutex::new(State {
                time: Time::Runs { ahead: 0 },
                is_auto: true,
                count: 0,
                draw: None,
                queue: BTreeMap::new(),
                sets: VirtualSets::default(),
                advances: Vec::new(),
            }),
            host_timer: Mutex::new(None),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn now(&self) -> Instant {
        self.lock().now()
    }

    /// Lets `draw` choose the order of timers that have one deadline and are armed after this call.
    pub(crate) fn set_draw(&self, draw: Draw) {
        self.lock().draw = Some(draw);
    }

    /// Returns true if the clock stands still, and none of its timers could move it.
    pub(crate) fn is_stuck(&self) -> bool {
        let state = self.lock();
        let is_passed = state.is_auto && state.first().is_some();
        state.is_paused() && state.advances.is_empty() && !is_passed
    }

    /// Stops the clock; returns false if it stands still already. Without `is_auto` only `advance` moves the clock.
    pub(crate) fn pause(&self, is_auto: bool) -> bool {
        let mut state = self.lock();
        if state.is_paused() {
            return false;
        }
        state.time = Time::Paused(state.now());
        state.is_auto = is_auto;
        true
    }

    /// Lets the clock run again from its present time; returns false if it runs already.
    pub(crate) fn resume(self: &Arc<Self>) -> bool {
        let mut state = self.lock();
        let Time::Paused(now) = state.time else {
            return false;
        };
        let ahead = now.as_nanos().saturating_sub(CLOCK.now().as_nanos());
        state.time = Time::Runs { ahead };
        let advances = std::mem::take(&mut state.advances);
        drop(state);
        advances.into_iter().for_each(|advance| wake(advance.waker));
        self.follow();
        true
    }

    /// Arms a timer that wakes `waker` at `deadline`; returns its place in the queue. A set of the wall clock wakes
    /// `waker` too if `is_of_wall`.
    pub(crate) fn arm(self: &Arc<Self>, deadline: Instant, waker: Waker, is_of_wall: bool) -> Key {
        let mut state = self.lock();
        let drawn = state.draw.as_mut().map_or(0, Draw::next);
        let key = (deadline, drawn, state.next_number());
        state.queue.insert(key, Armed { waker, is_of_wall });
        let is_first = state.queue.keys().next() == Some(&key);
        let runs = !state.is_paused();
        drop(state);
        if is_first && runs {
            self.follow();
        }
        key
    }

    /// Returns true if the timer waits.
    pub(crate) fn is_armed(&self, key: Key) -> bool {
        self.lock().queue.contains_key(&key)
    }

    /// Cancels a timer, and returns its waker; `None` if the timer fired.
    pub(crate) fn cancel(&self, key: Key) -> Option<Waker> {
        let armed = self.lock().queue.remove(&key)?;
        Some(armed.waker)
    }

    /// Returns the sets of the wall clock.
    pub(crate) fn sets(&self) -> VirtualSets {
        self.lock().sets
    }

    /// Sets the wall clock, which is `step` nanoseconds later from now on, and wakes the tasks that wait for a time of
    /// the wall clock; they arm their timers anew. Returns false if the clock runs.
    pub(crate) fn set_wall(&self, step: i64) -> bool {
        let mut state = self.lock();
        if !state.is_paused() {
            return false;
        }
        state.sets.shift = state.sets.shift.saturating_add(step);
        state.sets.count += 1;
        let queue = std::mem::take(&mut state.queue);
        let of_wall = |(_, armed): &(Key, Armed)| armed.is_of_wall;
        let (of_wall, others): (BTreeMap<_, _>, _) = queue.into_iter().partition(of_wall);
        state.queue = others;
        drop(state);
        of_wall.into_values().for_each(|armed| wake(armed.waker));
        true
    }

    /// Gives a timer another waker; returns the new waker as the error if the timer fired.
    pub(crate) fn set_waker(&self, key: Key, waker: Waker) -> Result<(), Waker> {
        let mut state = self.lock();
        let Some(slot) = state.queue.get_mut(&key) else {
            return Err(waker);
        };
        let old = std::mem::replace(&mut slot.waker, waker);
        drop(state);
        drop(old);
        Ok(())
    }

    /// Begins to move the clock by `duration`, from the time at which the pending advances end.
    ///
    /// # Errors
    ///
    /// [`Refused`] if the clock runs, or if the resulting time is out of range.
    pub(crate) fn begin_advance(&self, duration: Duration, waker: Waker) -> Result<u64, Refused> {
        let mut state = self.lock();
        let Time::Paused(now) = state.time else {
            return Err(Refused::NotFrozen);
        };
        let before = state.advances.iter().map(|advance| advance.target).max();
        let nanos = u64::try_from(duration.as_nanos()).ok();
        let start = before.map_or(now, |before| before.max(now)).as_nanos();
        let target = nanos.and_then(|nanos| start.checked_add_unsigned(nanos));
        let target = target.map(Instant::from_nanos);
        let target = target.filter(|target| *target < Instant::LATEST);
        let target = target.ok_or(Refused::TooFar)?;
        let number = state.next_number();
        state.advances.push(Advance {
            number,
            target,
            waker,
        });
        Ok(number)
    }

    /// Returns true if an advance is over; otherwise `waker` is woken when the advance is over.
    pub(crate) fn is_advanced(&self, number: u64, waker: &Waker) -> bool {
        let waker = waker.clone();
        let mut state = self.lock();
        let found = state
            .advances
            .iter_mut()
            .find(|advance| advance.number == number);
        let Some(advance) = found else {
            drop(state);
            return true;
        };
        let old = std::mem::replace(&mut advance.waker, waker);
        drop(state);
        drop(old);
        false
    }

    /// Cancels an advance: the clock stays at its present time.
    pub(crate) fn end_advance(&self, number: u64) {
        let mut state = self.lock();
        let place = state
            .advances
            .iter()
            .position(|advance| advance.number == number);
        let ended = place.map(|place| state.advances.swap_remove(place));
        drop(state);
        drop(ended);
    }

    /// Fires the next timer, and moves the clock to its deadline if `allowed`, which is called under the lock, permits
    /// this. Returns the waker to wake. `took` is called under the lock if the result is a waker.
    pub(crate) fn step(
        &self,
        allowed: impl FnOnce() -> Allowed,
        took: impl FnOnce(),
    ) -> Option<Waker> {
        let mut state = self.lock();
        let woken = state.step(allowed)?;
        took();
        Some(woken)
    }

    /// Wakes all tasks that wait, at the end of a runtime: if they are polled elsewhere, they wait for the clock there.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        let queue = std::mem::take(&mut state.queue);
        let advances = std::mem::take(&mut state.advances);
        drop(state);
        drop(advances);
        queue.into_values().for_each(|armed| wake(armed.waker));
    }

    /// Fires the due sleeps of a clock that runs, and starts the host's timer for the next sleep.
    fn follow(self: &Arc<Self>) {
        let waker = Waker::from(Arc::new(Runs(Arc::downgrade(self))));
        loop {
            while let Some(woken) = self.step(|| Allowed::NOTHING, || {}) {
                wake(woken);
            }
            let Some(next) = self.lock().first_of_running() else {
                return;
            };
            let timer =
                outside(|| (shown_now_lower() < next).then(|| HostTimer::new(next, &waker)));
            let is_due = timer.is_none();
            let kept = self.host_timer.lock();
            let mut kept = kept.unwrap_or_else(PoisonError::into_inner);
            let old = std::mem::replace(&mut *kept, timer);
            drop(kept);
            drop(old);
            if !is_due {
                return;
            }
        }
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Clock")
            .field("state", &self.state)
            .finish_non_exhaustive()
    }
}

impl Allowed {
    /// No permission at all: only the due timers of a clock that runs fire.
    pub(crate) const NOTHING: Self = Self {
        to_advance: false,
        to_pass: false,
    };
}

impl State {
    fn now(&self) -> Instant {
        match self.time {
            Time::Paused(now) => now,
            Time::Runs { ahead } => {
                Instant::from_nanos(CLOCK.now().as_nanos().saturating_add(ahead))
            }
        }
    }

    fn is_paused(&self) -> bool {
        matches!(self.time, Time::Paused(_))
    }

    /// Returns the first deadline; `None` if no timer ever fires. The end of the range never comes.
    fn first(&self) -> Option<Instant> {
        let (first, ..) = self.queue.keys().next()?;
        Some(*first).filter(|first| *first < Instant::LATEST)
    }

    fn next_number(&mut self) -> u64 {
        self.count += 1;
        self.count
    }

    fn step(&mut self, allowed: impl FnOnce() -> Allowed) -> Option<Waker> {
        let now = self.now();
        let first = self.first();
        let is_due = first.is_some_and(|first| first <= now);
        if !self.is_paused() {
            return self.fire(first.filter(|_| is_due));
        }
        let target = (0..self.advances.len()).min_by_key(|&index| {
            let advance = &self.advances[index];
            (advance.target, advance.number)
        });
        if target.is_none() && !is_due && (first.is_none() || !self.is_auto) {
            return None;
        }
        let allowed = allowed();
        if is_due {
            return self.fire(first.filter(|_| allowed.to_advance));
        }
        if let Some(index) = target {
            if !allowed.to_advance {
                return None;
            }
            let target = self.advances[index].target;
            if first.is_some_and(|first| first <= target) {
                return self.fire(first);
            }
            self.time = Time::Paused(target);
            return Some(self.advances.swap_remove(index).waker);
        }
        if !allowed.to_pass {
            return None;
        }
        self.fire(first)
    }

    /// Fires a timer with the earliest deadline, `first`, at `first` or at the present time, whichever is later.
    fn fire(&mut self, first: Option<Instant>) -> Option<Waker> {
        let first = first?;
        if let Time::Paused(now) = self.time {
            self.time = Time::Paused(now.max(first));
        }
        self.queue.pop_first().map(|(_, armed)| armed.waker)
    }

    /// Returns the time at which the host's timer has to fire for the first timer; `None` if no timer waits, or if the
    /// clock stands still.
    fn first_of_running(&self) -> Option<Instant> {
        let Time::Runs { ahead } = self.time else {
            return None;
        };
        let first = self.first()?;
        Some(Instant::from_nanos(first.as_nanos().saturating_sub(ahead)))
    }
}

/// A timer of the host that is started, and cancelled when it is dropped.
struct HostTimer(Pin<Box<Sleeper>>);

impl HostTimer {
    fn new(deadline: Instant, waker: &Waker) -> Self {
        ensure_expiry_thread();
        let mut timer = Self(Box::pin(Sleeper::new()));
        let sleeper = timer.0.as_mut();
        let _new = sleeper.start(timers(), Start::at(deadline), waker.clone());
        timer
    }
}

impl Drop for HostTimer {
    fn drop(&mut self) {
        drop(self.0.as_ref().cancel(timers()));
    }
}

/// The waker of the host's timer, which lets a running clock fire its due timers.
struct Runs(Weak<Clock>);

impl Wake for Runs {
    fn wake(self: Arc<Self>) {
        if let Some(clock) = self.0.upgrade() {
            clock.follow();
        }
    }
}

/// Wakes the task of a timer that fired. A panic of the waker ends here, as where the host fires a timer: it belongs to
/// no task of the thread that moves the clock.
pub(crate) fn wake(waker: Waker) {
    let _counted = timers().platform().guard(|| waker.wake());
}

/// Runs `body`, which sees the process's clock.
pub(crate) fn outside<R>(body: impl FnOnce() -> R) -> R {
    let shown = thread::shown();
    if shown.is_none() {
        return body();
    }
    struct Restore(Option<fn() -> Instant>);
    impl Drop for Restore {
        fn drop(&mut self) {
            thread::show(self.0);
        }
    }
    let _restore = Restore(shown);
    thread::show(None);
    body()
}
