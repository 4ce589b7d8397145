//! Adapters of streams: time limits, a slower pace, batches, and intervals as streams.

use std::fmt;
use std::future::Future;
use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures_core::Stream;
use pin_project_lite::pin_project;

use super::budget::poll_limited;
use super::error::Elapsed;
use super::{Instant, Interval, Sleep, sleep};

/// Methods that add time to a stream: the methods of `tokio_stream::StreamExt` that need timers, exact and without a
/// runtime.
///
/// The feature `stream` adds this trait.
///
/// ```
/// use std::pin::pin;
/// use std::time::Duration;
/// use futures::stream::{self, StreamExt as _};
/// use tickless::time::StreamExt as _;
///
/// # futures::executor::block_on(async {
/// let slow = stream::iter([1]).chain(stream::pending());
/// let mut limited = pin!(slow.timeout(Duration::from_millis(1)));
/// assert_eq!(limited.next().await, Some(Ok(1)));
/// assert!(limited.next().await.is_some_and(|item| item.is_err()));
/// # });
/// ```
pub trait StreamExt: Stream {
    /// Limits the wait for each item to `duration`, counted from the previous item, and for the first item from this
    /// call.
    ///
    /// If an item takes longer, the stream returns one error, [`Elapsed`], and later the item, however late it is.
    fn timeout(self, duration: Duration) -> StreamTimeout<Self>
    where
        Self: Sized,
    {
        StreamTimeout {
            stream: self,
            deadline: sleep(duration),
            duration,
            is_told: false,
        }
    }

    /// Returns an error, [`Elapsed`], for each tick of `interval` that comes before the next item. An item resets the
    /// interval.
    fn timeout_repeating(self, interval: Interval) -> StreamTimeoutRepeating<Self>
    where
        Self: Sized,
    {
        StreamTimeoutRepeating {
            stream: self,
            interval,
        }
    }

    /// Waits for `duration` between an item and the next one. Zero changes nothing.
    fn throttle(self, duration: Duration) -> Throttle<Self>
    where
        Self: Sized,
    {
        Throttle {
            stream: self,
            delay: sleep(Duration::ZERO),
            duration,
            waits: false,
        }
    }

    /// Collects items into batches of at most `max_size`. A batch is complete at the latest `duration` after its first
    /// item, or at the end of the stream; no batch is empty.
    ///
    /// # Panics
    ///
    /// When `max_size` is zero.
    #[track_caller]
    fn chunks_timeout(self, max_size: usize, duration: Duration) -> ChunksTimeout<Self>
    where
        Self: Sized,
    {
        assert!(max_size > 0, "`max_size` must be non-zero.");
        ChunksTimeout {
            stream: self,
            deadline: sleep(duration),
            duration,
            items: Vec::new(),
            max_size,
            has_ended: false,
        }
    }
}

impl<S: Stream + ?Sized> StreamExt for S {}

pin_project! {
    /// The stream that [`StreamExt::timeout`] returns.
    #[must_use = "streams do nothing unless polled"]
    #[derive(Debug)]
    pub struct StreamTimeout<S> {
        #[pin]
        stream: S,
        #[pin]
        deadline: Sleep,
        duration: Duration,
        // The item that is awaited was announced.
        is_told: bool,
    }
}

impl<S: Stream> Stream for StreamTimeout<S> {
    type Item = Result<S::Item, Elapsed>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let mut this = self.project();
        let next = |context: &mut Context<'_>| this.stream.poll_next(context);
        let limit = |context: &mut Context<'_>| match *this.is_told {
            true => Poll::Pending,
            false => this.deadline.as_mut().poll(context),
        };
        let Ok(item) = ready!(poll_limited(context, next, limit)) else {
            *this.is_told = true;
            return Poll::Ready(Some(Err(Elapsed::new())));
        };
        if item.is_some() {
            this.deadline
                .as_mut()
                .reset(Instant::now() + *this.duration);
            *this.is_told = false;
        }
        Poll::Ready(item.map(Ok))
    }

    /// Returns the bounds of the source, with an error before each item and before the end at most.
    fn size_hint(&self) -> (usize, Option<usize>) {
        let (lower, upper) = self.stream.size_hint();
        let upper = upper.and_then(|upper| upper.checked_mul(2)?.checked_add(1));
        (lower, upper)
    }
}

pin_project! {
    /// The stream that [`StreamExt::timeout_repeating`] returns.
    #[must_use = "streams do nothing unless polled"]
    #[derive(Debug)]
    pub struct StreamTimeoutRepeating<S> {
        #[pin]
        stream: S,
        interval: Interval,
    }
}

impl<S: Stream> Stream for StreamTimeoutRepeating<S> {
    type Item = Result<S::Item, Elapsed>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.project();
        let next = |context: &mut Context<'_>| this.stream.poll_next(context);
        let limit = |context: &mut Context<'_>| this.interval.poll_tick(context);
        let Ok(item) = ready!(poll_limited(context, next, limit)) else {
            return Poll::Ready(Some(Err(Elapsed::new())));
        };
        if item.is_some() {
            this.interval.reset();
        }
        Poll::Ready(item.map(Ok))
    }

    /// Returns the lower bound of the source. The number of errors has no bound.
    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.stream.size_hint().0, None)
    }
}

pin_project! {
    /// The stream that [`StreamExt::throttle`] returns.
    #[must_use = "streams do nothing unless polled"]
    #[derive(Debug)]
    pub struct Throttle<S> {
        #[pin]
        stream: S,
        #[pin]
        delay: Sleep,
        duration: Duration,
        // The delay after an item is not over.
        waits: bool,
    }
}

impl<S> Throttle<S> {
    /// Returns the stream inside.
    pub fn get_ref(&self) -> &S {
        &self.stream
    }

    /// Returns the stream inside.
    pub fn get_mut(&mut self) -> &mut S {
        &mut self.stream
    }

    /// Returns the stream inside, without the slower pace.
    pub fn into_inner(self) -> S {
        self.stream
    }
}

impl<S: Stream> Stream for Throttle<S> {
    type Item = S::Item;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<S::Item>> {
        let mut this = self.project();
        if *this.waits {
            ready!(this.delay.as_mut().poll(context));
            *this.waits = false;
        }
        let item = ready!(this.stream.poll_next(context));
        if item.is_some() && !this.duration.is_zero() {
            this.delay.reset(Instant::now() + *this.duration);
            *this.waits = true;
        }
        Poll::Ready(item)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.stream.size_hint()
    }
}

pin_project! {
    /// The stream that [`StreamExt::chunks_timeout`] returns.
    #[must_use = "streams do nothing unless polled"]
    pub struct ChunksTimeout<S: Stream> {
        #[pin]
        stream: S,
        #[pin]
        deadline: Sleep,
        duration: Duration,
        items: Vec<S::Item>,
        max_size: usize,
        has_ended: bool,
    }
}

impl<S: Stream> ChunksTimeout<S> {
    /// Returns the items of the incomplete batch; the stream no longer has them.
    pub fn into_remainder(self: Pin<&mut Self>) -> Vec<S::Item> {
        mem::take(self.project().items)
    }
}

impl<S: Stream> fmt::Debug for ChunksTimeout<S> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("ChunksTimeout")
            .field("duration", &self.duration)
            .field("max_size", &self.max_size)
            .field("items", &self.items.len())
            .finish_non_exhaustive()
    }
}

impl<S: Stream> Stream for ChunksTimeout<S> {
    type Item = Vec<S::Item>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Vec<S::Item>>> {
        let mut this = self.project();
        while !*this.has_ended {
            match this.stream.as_mut().poll_next(context) {
                Poll::Pending => {
                    if this.items.is_empty() {
                        return Poll::Pending;
                    }
                    ready!(this.deadline.as_mut().poll(context));
                    return Poll::Ready(Some(mem::take(this.items)));
                }
                Poll::Ready(Some(item)) => {
                    if this.items.is_empty() {
                        this.deadline
                            .as_mut()
                            .reset(Instant::now() + *this.duration);
                    }
                    this.items.push(item);
                    if this.items.len() >= *this.max_size {
                        return Poll::Ready(Some(mem::take(this.items)));
                    }
                }
                Poll::Ready(None) => *this.has_ended = true,
            }
        }
        let rest = mem::take(this.items);
        Poll::Ready((!rest.is_empty()).then_some(rest))
    }

    /// Returns the bounds of the source in batches: the fewest if all are full, the most if each has one item.
    fn size_hint(&self) -> (usize, Option<usize>) {
        let (lower, upper) = if self.has_ended {
            (0, Some(0))
        } else {
            self.stream.size_hint()
        };
        let lower = lower.saturating_add(self.items.len());
        let begun = usize::from(!self.items.is_empty());
        let upper = upper.and_then(|upper| upper.checked_add(begun));
        (lower.div_ceil(self.max_size), upper)
    }
}

/// The ticks of an [`Interval`] as a stream, which never ends: `tokio_stream::wrappers::IntervalStream`.
#[derive(Debug)]
pub struct IntervalStream {
    interval: Interval,
}

impl IntervalStream {
    /// Makes a stream of the ticks of `interval`.
    pub fn new(interval: Interval) -> Self {
        Self { interval }
    }

    /// Returns the interval.
    pub fn into_inner(self) -> Interval {
        self.interval
    }
}

impl AsRef<Interval> for IntervalStream {
    fn as_ref(&self) -> &Interval {
        &self.interval
    }
}

impl AsMut<Interval> for IntervalStream {
    fn as_mut(&mut self) -> &mut Interval {
        &mut self.interval
    }
}

impl Stream for IntervalStream {
    type Item = Instant;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Instant>> {
        self.interval.poll_tick(context).map(Some)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (usize::MAX, None)
    }
}
