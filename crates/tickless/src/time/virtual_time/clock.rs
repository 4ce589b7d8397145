//! A clock that stands still until a runtime moves it, and the timers that wait for it.
//!
//! The clock fires one timer at a time, the first by deadline and then by the order in which the timers were armed, and
//! the runtime runs its tasks until all of them wait before it asks for the next one. So what follows from one timer
//! has happened before the next one fires, and a task that a timer wakes finds the clock at the deadline, to the
//! nanosecond.
//!
//! # Ground rules
//!
//! - One lock holds the time and the queue. No waker is called, cloned or dropped under it.
//! - The lock may be held when that of a run queue is taken, never the other way round.

use std::collections::BTreeMap;
use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use tickless_core::hrtimer::Sleeper;
use tickless_core::time::Instant;

use super::draw::Draw;
use crate::host::clock::CLOCK;
use crate::host::thread;
use crate::time::sleep_timer::SleepTimer;

/// The place of a timer in the queue: its deadline, a number drawn from the seed or zero, and its number among all that
/// were armed.
pub(crate) type Key = (Instant, u64, u64);

/// Mode in which the time passes.
#[derive(Clone, Copy, Debug)]
enum Time {
    /// The time stands still.
    Paused(Instant),
    /// The time passes with the process's clock, which it is so many nanoseconds ahead of (or behind).
    Runs { ahead: i64 },
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
    /// Timers and advances so far: the next one's number.
    count: u64,
    /// Draws the order of timers that have one deadline; without it they fire in the order in which they were armed.
    draw: Option<Draw>,
    queue: BTreeMap<Key, Waker>,
    advances: Vec<Advance>,
}

/// The reasons why a clock cannot be paused, resumed or advanced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    Outside,
    SeveralWorkers,
    AlreadyFrozen,
    NotFrozen,
    TooFar,
}

/// A virtual clock.
pub(crate) struct Clock {
    state: Mutex<State>,
    /// A timer of the host that fires for the first timer of a clock that runs.
    host_timer: Mutex<Option<Pin<Box<SleepTimer<Sleeper>>>>>,
}

/// Permissions of a clock at a step.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Allowed {
    /// All tasks wait, so that the next timer that is due fires, and an `advance` goes on.
    pub(crate) to_advance: bool,
    /// True if nothing holds the time, so that it passes by itself.
    pub(crate) to_pass: bool,
}

impl Clock {
    /// A clock that runs with the process's.
    pub(crate) fn new() -> Self {
        Self {
            state: Mutex::new(State {
                time: Time::Runs { ahead: 0 },
                is_auto: true,
                count: 0,
                draw: None,
                queue: BTreeMap::new(),
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

    /// Lets `draw` choose the order of timers that have one deadline and are armed from here on.
    pub(crate) fn set_draw(&self, draw: Draw) {
        self.lock().draw = Some(draw);
    }

    /// Returns true if the clock stands still, and no timer that it has could end that.
    pub(crate) fn is_stuck(&self) -> bool {
        let state = self.lock();
        let is_passed = state.is_auto && !state.queue.is_empty();
        state.is_paused() && state.advances.is_empty() && !is_passed
    }

    /// Stops the clock; false if it stands still already. Without `is_auto` it passes by `advance` alone.
    pub(crate) fn pause(&self, is_auto: bool) -> bool {
        let mut state = self.lock();
        if state.is_paused() {
            return false;
        }
        state.time = Time::Paused(state.now());
        state.is_auto = is_auto;
        true
    }

    /// Lets the clock run on from where it is; false if it runs.
    pub(crate) fn resume(self: &Arc<Self>) -> bool {
        let mut state = self.lock();
        let Time::Paused(now) = state.time else {
            return false;
        };
        let ahead = now.as_nanos().saturating_sub(CLOCK.now().as_nanos());
        state.time = Time::Runs { ahead };
        let advances = std::mem::take(&mut state.advances);
        drop(state);
        advances
            .into_iter()
            .for_each(|advance| advance.waker.wake());
        self.follow();
        true
    }

    /// Arms a timer.
    pub(crate) fn arm(self: &Arc<Self>, deadline: Instant, waker: Waker) -> Key {
        let mut state = self.lock();
        let drawn = state.draw.as_mut().map_or(0, Draw::next);
        let key = (deadline, drawn, state.next_number());
        state.queue.insert(key, waker);
        let is_first = state.queue.keys().next() == Some(&key);
        let runs = !state.is_paused();
        drop(state);
        if is_first && runs {
            self.follow();
        }
        key
    }

    /// Returns whether a timer waits.
    pub(crate) fn is_armed(&self, key: Key) -> bool {
        self.lock().queue.contains_key(&key)
    }

    /// Takes a timer back, and returns its waker; `None` if it fired.
    pub(crate) fn cancel(&self, key: Key) -> Option<Waker> {
        self.lock().queue.remove(&key)
    }

    /// Gives a timer another waker; hands that one back if the timer fired.
    pub(crate) fn set_waker(&self, key: Key, waker: Waker) -> Result<(), Waker> {
        let mut state = self.lock();
        let Some(slot) = state.queue.get_mut(&key) else {
            return Err(waker);
        };
        let old = std::mem::replace(slot, waker);
        drop(state);
        drop(old);
        Ok(())
    }

    /// Begins to move the clock by `duration`, from where the advances that are under way end.
    ///
    /// # Errors
    ///
    /// Refused if the clock runs, and if there is no such time.
    pub(crate) fn begin_advance(&self, duration: Duration, waker: Waker) -> Result<u64, Refused> {
        let mut state = self.lock();
        let Time::Paused(now) = state.time else {
            return Err(Refused::NotFrozen);
        };
        let before = state.advances.iter().map(|advance| advance.target).max();
        let nanos = u64::try_from(duration.as_nanos()).ok();
        let start = before.map_or(now, |before| before.max(now)).as_nanos();
        let target = nanos.and_then(|nanos| start.checked_add_unsigned(nanos));
        let target = Instant::from_nanos(target.ok_or(Refused::TooFar)?);
        let number = state.next_number();
        state.advances.push(Advance {
            number,
            target,
            waker,
        });
        Ok(number)
    }

    /// Returns whether an advance is over; if not, `waker` is woken when it is.
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

    /// Gives an advance up: the clock stays where it is.
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

    /// Fires the next timer, and moves the clock to its deadline if that is `allowed`, which is asked under the lock;
    /// returns whom to wake. `took` is called under the lock if there is one.
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

    /// Wakes all that wait, at the end of a runtime: polled elsewhere, they wait for the clock there.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        let queue = std::mem::take(&mut state.queue);
        let advances = std::mem::take(&mut state.advances);
        drop(state);
        drop(advances);
        queue.into_values().for_each(Waker::wake);
    }

    /// Fires the due sleeps of a clock that runs, and has the host's timer fire for the next one.
    fn follow(self: &Arc<Self>) {
        let waker = Waker::from(Arc::new(Runs(Arc::downgrade(self))));
        let context = Context::from_waker(&waker);
        loop {
            while let Some(woken) = self.step(|| Allowed::NOTHING, || {}) {
                woken.wake();
            }
            let Some(next) = self.lock().first_of_running() else {
                return;
            };
            let is_due = outside(|| {
                let mut timer = Box::pin(SleepTimer::until(next));
                let is_due = timer.as_mut().poll(&context).is_ready();
                let mut kept = self
                    .host_timer
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner);
                let old = kept.replace(timer);
                drop(kept);
                drop(old);
                is_due
            });
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
    /// Permission for nothing: due timers fire on a clock that runs.
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

    fn next_number(&mut self) -> u64 {
        self.count += 1;
        self.count
    }

    fn step(&mut self, allowed: impl FnOnce() -> Allowed) -> Option<Waker> {
        let now = self.now();
        let first = self.queue.keys().next().map(|&(deadline, ..)| deadline);
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

    /// Fires a timer with the deadline `first`, the earliest there is, at that time or now, if that is later.
    fn fire(&mut self, first: Option<Instant>) -> Option<Waker> {
        let first = first?;
        if let Time::Paused(now) = self.time {
            self.time = Time::Paused(now.max(first));
        }
        self.queue.pop_first().map(|(_, waker)| waker)
    }

    /// Returns the time of the host's timer for the first timer; `None` if there is none, or the clock stands still.
    fn first_of_running(&self) -> Option<Instant> {
        let Time::Runs { ahead } = self.time else {
            return None;
        };
        let (first, ..) = self.queue.keys().next()?;
        Some(Instant::from_nanos(first.as_nanos().saturating_sub(ahead)))
    }
}

/// Wakes a clock that runs.
struct Runs(Weak<Clock>);

impl Wake for Runs {
    fn wake(self: Arc<Self>) {
        if let Some(clock) = self.0.upgrade() {
            clock.follow();
        }
    }
}

/// Runs `body` by the process's clock.
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
