//! A queue that returns each of its values at the value's deadline.

mod run;
mod slab;
mod wheel;

#[cfg(all(test, not(loom)))]
mod tests;

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use tickless_core::time::{Instant as CoreInstant, Span};

pub use self::slab::Key;
use self::slab::Taken;
use self::wheel::{Next, Wheel};
use super::{Instant, Sleep, sleep_until};
use crate::host::thread::{shown_now_lower, shown_now_upper};
use crate::host::wake;

/// A queue that returns each of its values at the value's deadline: `tokio_util::time::DelayQueue`, exact to the
/// nanosecond.
///
/// The task that called [`poll_expired`](Self::poll_expired) last is woken when a value is due, once for any number of
/// values with one deadline, and never early. With the feature `stream` the queue is a `Stream`.
///
/// Values come out in the order of their deadlines, and values with equal deadlines in the order in which they were
/// inserted or reset. A value whose deadline had passed when it was inserted comes after the other values that are due.
///
/// ```
/// use std::future::poll_fn;
/// use std::time::Duration;
/// use tickless::time::DelayQueue;
///
/// # futures::executor::block_on(async {
/// let mut queue = DelayQueue::new();
/// let late = queue.insert("late", Duration::from_millis(2));
/// queue.insert("early", Duration::from_millis(1));
/// queue.reset(&late, Duration::from_micros(1_500));
///
/// let next = poll_fn(|context| queue.poll_expired(context)).await;
/// assert_eq!(next.map(|expired| expired.into_inner()), Some("early"));
/// assert_eq!(queue.remove(&late).into_inner(), "late");
/// assert!(queue.is_empty());
/// # });
/// ```
///
/// # What is different from tokio-util's
///
/// - Deadlines are nanoseconds, not milliseconds that are rounded up, and no runtime is needed.
/// - A deadline that is too far away never comes, where tokio-util panics.
/// - A key belongs to one value: when another value takes the memory of a removed value, the queue still does not
///   contain the old key. (A number of 32 bits, which counts the values of the queue, distinguishes the two keys.)
/// - A key belongs to one queue: no other queue contains it. (A number of 32 bits, which counts the queues of the
///   process, distinguishes the queues.) tokio-util's queue takes such a key for one of its own values.
/// - [`shrink_to_fit`](Self::shrink_to_fit) moves no value.
///
/// # Cancellation
///
/// Dropping a future that polls the queue loses no value. Dropping the queue drops all values.
///
/// # Cost
///
/// Inserting, removing and resetting is O(1): a few writes to a vector of entries, without a lock. They touch a timer
/// only if the value becomes the first one while a task waits, or if the last value leaves. Expiring is O(1) for each
/// value, with at most ten moves between lists over its life. The clock is read once for all values that are due.
///
/// The queue allocates a vector that grows by doubling (24 bytes for each entry, in addition to the value), 17 KiB of
/// lists with the first value, 32 bytes for each of up to 1,024 values, and a [`Sleep`] when a task first waits. It
/// allocates nothing after that, unless more than 1,024 values are due within the same 17 ms: then it allocates 32
/// bytes for each of them.
pub struct DelayQueue<T> {
    wheel: Wheel<T>,
    /// The latest time that is known to be over.
    now: u64,
    /// True if `now` is a time of a virtual clock.
    is_virtual: bool,
    /// The sleep that wakes the task that waits. The first wait makes it; it is boxed, because the queue may be moved.
    delay: Option<Pin<Box<Sleep>>>,
    /// The time at which `delay` wakes its task; `None` if no task waits.
    armed: Option<u64>,
    /// The waker of the task that waits, which wakes it before that time.
    waiting: Option<Waker>,
    /// The waker of the task that found the queue empty.
    idle: Option<Waker>,
}

impl<T> DelayQueue<T> {
    /// Makes an empty queue.
    pub fn new() -> Self {
        Self::with_capacity(0)
    }

    /// Makes an empty queue with memory for `capacity` values.
    pub fn with_capacity(capacity: usize) -> Self {
        Self {
            wheel: Wheel::with_capacity(capacity),
            now: 0,
            is_virtual: false,
            delay: None,
            armed: None,
            waiting: None,
            idle: None,
        }
    }

    /// Inserts `value`, to come out at `when`.
    ///
    /// # Panics
    ///
    /// With more than 2^32 - 2 values.
    #[track_caller]
    pub fn insert_at(&mut self, value: T, when: Instant) -> Key {
        self.insert_ordered(value, order(when.to_core()))
    }

    /// Inserts `value`, to come out after `timeout`, counted from this call. A timeout of more than 292 years never
    /// ends.
    ///
    /// # Panics
    ///
    /// With more than 2^32 - 2 values.
    #[track_caller]
    pub fn insert(&mut self, value: T, timeout: Duration) -> Key {
        self.insert_ordered(value, after(timeout))
    }

    #[track_caller]
    fn insert_ordered(&mut self, value: T, when: u64) -> Key {
        let key = self.wheel.insert(when, value);
        self.set_earlier(when);
        if self.idle.is_some() {
            self.wake_idle();
        }
        key
    }

    /// Wakes the task that found the queue empty.
    #[cold]
    fn wake_idle(&mut self) {
        if let Some(idle) = self.idle.take() {
            idle.wake();
        }
    }

    /// Returns the next value that is due, or `None` if the queue is empty.
    ///
    /// If no value is due, the task is woken when the first value is due, or when the last value is removed. A task
    /// that got `None` is woken by the next insertion.
    ///
    /// # Cost
    ///
    /// O(1). After the first value was removed or moved, a task may be woken once for nothing.
    pub fn poll_expired(&mut self, context: &mut Context<'_>) -> Poll<Option<Expired<T>>> {
        if self.is_virtual || wake::is_virtual() {
            self.follow_clock();
        }
        loop {
            let first = match self.wheel.expire(self.now) {
                Next::Due(taken) => return Poll::Ready(Some(Expired::new(taken))),
                Next::Wait(first) => first,
                Next::Empty => {
                    self.set_idle(context.waker());
                    return Poll::Ready(None);
                }
            };
            self.now = self.now.max(order(shown_now_lower()));
            if self.now < first {
                ready!(self.poll_delay(first, context));
                self.now = self.now.max(first);
            }
        }
    }

    /// Removes a value before its deadline.
    ///
    /// # Panics
    ///
    /// If `key` is not contained in the queue.
    #[track_caller]
    pub fn remove(&mut self, key: &Key) -> Expired<T> {
        self.try_remove(key).expect("invalid key")
    }

    /// Removes a value before its deadline; returns `None` if the queue does not contain `key`.
    pub fn try_remove(&mut self, key: &Key) -> Option<Expired<T>> {
        let taken = self.wheel.remove(*key)?;
        if self.is_empty() {
            self.wake();
        }
        Some(Expired::new(taken))
    }

    /// Returns the deadline of a value.
    ///
    /// # Panics
    ///
    /// If `key` is not contained in the queue.
    #[track_caller]
    pub fn deadline(&self, key: &Key) -> Instant {
        let deadline = self.wheel.deadline(*key).expect("invalid key");
        instant(deadline)
    }

    /// Moves the deadline of a value to `when`.
    ///
    /// # Panics
    ///
    /// If `key` is not contained in the queue.
    #[track_caller]
    pub fn reset_at(&mut self, key: &Key, when: Instant) {
        self.reset_ordered(*key, order(when.to_core()));
    }

    /// Moves the deadline of a value to `timeout` from this call.
    ///
    /// # Panics
    ///
    /// If `key` is not contained in the queue.
    #[track_caller]
    pub fn reset(&mut self, key: &Key, timeout: Duration) {
        self.reset_ordered(*key, after(timeout));
    }

    #[track_caller]
    fn reset_ordered(&mut self, key: Key, when: u64) {
        assert!(self.wheel.reset(key, when), "invalid key");
        self.set_earlier(when);
    }

    /// Returns the key of the value that comes out next, even if it is not due yet; `None` if the queue is empty.
    ///
    /// # Cost
    ///
    /// O(n) in the number of values in the first list. If all deadlines are far away and near to each other, the first
    /// list holds all values.
    pub fn peek(&self) -> Option<Key> {
        self.wheel.peek()
    }

    /// Removes all values and keeps the allocation. Keys from before the call are no longer valid.
    pub fn clear(&mut self) {
        self.wheel.clear();
        self.wake();
    }

    /// Returns the number of values that fit without an allocation.
    pub fn capacity(&self) -> usize {
        self.wheel.capacity()
    }

    /// Reserves memory for `additional` more values.
    ///
    /// # Panics
    ///
    /// If the queue would hold more than 2^32 - 2 values.
    #[track_caller]
    pub fn reserve(&mut self, additional: usize) {
        let has_indices = self.wheel.has_indices_for(additional);
        assert!(has_indices, "max queue capacity exceeded");
        self.wheel.reserve(additional);
    }

    /// Returns the number of values.
    pub fn len(&self) -> usize {
        self.wheel.len()
    }

    /// Returns true if the queue holds no value.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Frees the memory after the last value. Keys stay valid.
    ///
    /// # Cost
    ///
    /// O(n).
    pub fn compact(&mut self) {
        self.wheel.shrink();
    }

    /// Frees as much memory as possible, which is the same as [`compact`](Self::compact), since no value moves.
    pub fn shrink_to_fit(&mut self) {
        self.wheel.shrink();
    }

    /// Moves the wake-up of the task that waits to `when`, if `when` is earlier than the present wake-up.
    #[inline]
    fn set_earlier(&mut self, when: u64) {
        if self.armed.is_some_and(|armed| when < armed) {
            self.rearm(when);
        }
    }

    #[cold]
    fn rearm(&mut self, when: u64) {
        if when <= order(shown_now_lower()) {
            self.wake();
        } else if let Some(delay) = &mut self.delay {
            delay.as_mut().reset(instant(when));
            self.armed = Some(when);
        }
    }

    /// Wakes the task that waits, before this call returns: a value is due, or the queue is empty.
    fn wake(&mut self) {
        if self.armed.take().is_none() {
            return;
        }
        if let Some(delay) = &mut self.delay {
            delay.as_mut().reset(instant(u64::MAX));
        }
        if let Some(waiting) = self.waiting.take() {
            waiting.wake();
        }
    }

    fn set_idle(&mut self, waker: &Waker) {
        self.armed = None;
        set_waker(&mut self.idle, waker);
    }

    /// Reads the clock, which may be another one than at the last poll, because this thread has a virtual clock or has
    /// left it. The other clock may show an earlier time.
    #[cold]
    fn follow_clock(&mut self) {
        let now = order(shown_now_lower());
        self.is_virtual = wake::is_virtual();
        if now < self.now {
            self.wheel.rewind();
        }
        self.now = now;
    }

    /// Polls the sleep until `when`, and registers the task to be woken at `when`.
    fn poll_delay(&mut self, when: u64, context: &mut Context<'_>) -> Poll<()> {
        let delay = self
            .delay
            .get_or_insert_with(|| Box::pin(sleep_until(instant(when))));
        if delay.deadline() != instant(when) {
            delay.as_mut().retime(instant(when));
        }
        let outcome = delay.as_mut().poll(context);
        self.armed = outcome.is_pending().then_some(when);
        if outcome.is_pending() {
            set_waker(&mut self.waiting, context.waker());
        }
        outcome
    }
}

fn set_waker(place: &mut Option<Waker>, waker: &Waker) {
    match place {
        Some(old) => old.clone_from(waker),
        None => *place = Some(waker.clone()),
    }
}

/// Returns the deadline as a number without a sign, which keeps the order of deadlines.
#[inline]
fn order(instant: CoreInstant) -> u64 {
    instant.as_nanos().cast_unsigned() ^ SIGN
}

#[inline]
fn instant(ordered: u64) -> Instant {
    Instant::from_core(CoreInstant::from_nanos((ordered ^ SIGN).cast_signed()))
}

const SIGN: u64 = 1 << 63;

/// Returns the deadline `timeout` from now, rounded up by the uncertainty of the clock. A timeout of zero is over at
/// once.
#[inline]
fn after(timeout: Duration) -> u64 {
    if timeout.is_zero() {
        return order(shown_now_lower());
    }
    order(shown_now_upper().saturating_add(Span::from(timeout)))
}

impl<T> Default for DelayQueue<T> {
    fn default() -> Self {
        Self::new()
    }
}

/// A queue may be moved, because it pins no value.
impl<T> Unpin for DelayQueue<T> {}

impl<T> fmt::Debug for DelayQueue<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("DelayQueue")
            .field("len", &self.len())
            .field("armed", &self.armed.map(instant))
            .finish_non_exhaustive()
    }
}

/// The stream of due values. It never ends for good: an empty queue may be filled again.
#[cfg(feature = "stream")]
impl<T> futures_core::Stream for DelayQueue<T> {
    type Item = Expired<T>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.get_mut().poll_expired(context)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.len(), None)
    }
}

/// A value that left its [`DelayQueue`], because it was due or removed.
#[derive(Debug)]
pub struct Expired<T> {
    taken: Taken<T>,
}

impl<T> Expired<T> {
    fn new(taken: Taken<T>) -> Self {
        Self { taken }
    }

    /// Returns the value.
    pub fn get_ref(&self) -> &T {
        &self.taken.value
    }

    /// Returns the value.
    pub fn get_mut(&mut self) -> &mut T {
        &mut self.taken.value
    }

    /// Returns the value.
    pub fn into_inner(self) -> T {
        self.taken.value
    }

    /// Returns the deadline of the value.
    pub fn deadline(&self) -> Instant {
        instant(self.taken.deadline)
    }

    /// Returns the key that the value had in the queue.
    pub fn key(&self) -> Key {
        self.taken.key
    }
}
