//! Tests of the adapters of streams, compared with the adapters of `tokio_stream`.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::{Context, Poll};

use futures::Stream;
use futures::channel::mpsc;
use futures::stream;

use crate::support::{ms, poll_idly};

/// A step of a source: an item, or no more items for ever. A late item comes from a channel, when the test sends it.
#[derive(Clone, Copy)]
enum Step {
    Item(u32),
    Stall,
}
use Step::{Item, Stall};

fn source(steps: &'static [Step]) -> impl Stream<Item = u32> {
    stream::unfold(steps, |mut steps| async move {
        loop {
            let (step, rest) = steps.split_first()?;
            steps = rest;
            match *step {
                Item(item) => return Some((item, steps)),
                Stall => std::future::pending().await,
            }
        }
    })
}

fn next<S: Stream>(mut stream: Pin<&mut S>) -> impl Future<Output = Option<S::Item>> {
    poll_fn(move |context| stream.as_mut().poll_next(context))
}

macro_rules! same_as_tokio_stream {
    ($(async fn $name:ident() $body:block)*) => {
        mod tokio_tests {
            use super::*;
            use tokio::time::{Instant, interval, interval_at};
            use tokio_stream::StreamExt as _;
            use tokio_stream::wrappers::IntervalStream;
            same_as_tokio_stream!(@each $(async fn $name() $body)*);
        }
        mod tickless_tests {
            use super::*;
            use tickless::time::{Instant, IntervalStream, StreamExt as _, interval, interval_at};
            same_as_tokio_stream!(@each $(async fn $name() $body)*);
        }
    };
    (@each $(async fn $name:ident() $body:block)*) => {
        $(#[test] fn $name() {
            let _patience = crate::support::begin();
            crate::support::in_tokio(async $body);
        })*
        #[test]
        fn an_interval_is_a_stream_of_its_ticks() {
            let _patience = crate::support::begin();
            crate::support::in_tokio(async {
                let start = Instant::now();
                let mut ticks = pin!(IntervalStream::new(interval_at(start, ms(2))));
                for tick in 0..3 {
                    assert_eq!(next(ticks.as_mut()).await, Some(start + ms(2) * tick));
                }
                assert_eq!(ticks.as_ref().get_ref().as_ref().period(), ms(2));
                let _interval = interval(ms(1));
            });
        }
    };
}

same_as_tokio_stream! {
    async fn an_item_that_is_late_is_announced_once_and_comes() {
        let (sender, source) = mpsc::unbounded();
        let mut limited = pin!(source.timeout(ms(10)));
        sender.unbounded_send(1).expect("it is read");
        assert_eq!(next(limited.as_mut()).await.map(Result::ok), Some(Some(1)));
        assert_eq!(next(limited.as_mut()).await.map(Result::ok), Some(None));
        assert!(poll_idly(pin!(next(limited.as_mut()))).is_pending());
        sender.unbounded_send(2).expect("it is read");
        assert_eq!(next(limited.as_mut()).await.map(Result::ok), Some(Some(2)));
        assert_eq!(next(limited.as_mut()).await.map(Result::ok), Some(None));
        assert!(poll_idly(pin!(next(limited.as_mut()))).is_pending());
    }

    async fn a_stream_that_ends_ends_with_a_limit() {
        let mut limited = pin!(source(&[Item(1)]).timeout(ms(60_000)));
        assert_eq!(next(limited.as_mut()).await.map(Result::ok), Some(Some(1)));
        assert!(next(limited.as_mut()).await.is_none());
    }

    async fn a_repeated_limit_returns_errors_until_the_item_comes() {
        let steps = &[Item(1), Stall];
        let mut limited = pin!(source(steps).timeout_repeating(interval(ms(3))));
        // Before the limit begins, however long the thread is kept from its CPU after it.
        let item = Instant::now();
        assert_eq!(next(limited.as_mut()).await.map(Result::ok), Some(Some(1)));
        for _ in 0..3 {
            assert_eq!(next(limited.as_mut()).await.map(Result::ok), Some(None));
        }
        assert!(Instant::now() + ms(1) >= item + ms(9));
    }

    async fn a_delay_passes_between_items() {
        let mut slow = pin!(source(&[Item(1), Item(2), Item(3)]).throttle(ms(4)));
        let start = Instant::now();
        for item in 1..=3 {
            assert_eq!(next(slow.as_mut()).await, Some(item));
            assert!(Instant::now() >= start + ms(4) * (item - 1));
        }
        assert_eq!(next(slow.as_mut()).await, None);
    }

    async fn no_delay_is_none() {
        let mut all = pin!(source(&[Item(1), Item(2)]).throttle(ms(0)));
        assert_eq!(poll_idly(pin!(next(all.as_mut()))), Poll::Ready(Some(1)));
        assert_eq!(poll_idly(pin!(next(all.as_mut()))), Poll::Ready(Some(2)));
    }

    async fn batches_are_full_or_in_time_or_the_last() {
        let (sender, source) = mpsc::unbounded();
        let mut batches = pin!(source.chunks_timeout(3, ms(10)));
        for item in 1..=4 {
            sender.unbounded_send(item).expect("it is read");
        }
        let start = Instant::now();
        assert_eq!(next(batches.as_mut()).await, Some(vec![1, 2, 3]));
        assert_eq!(next(batches.as_mut()).await, Some(vec![4]));
        assert!(Instant::now() >= start + ms(10));
        sender.unbounded_send(5).expect("it is read");
        drop(sender);
        assert_eq!(next(batches.as_mut()).await, Some(vec![5]));
        assert_eq!(next(batches.as_mut()).await, None);
    }

    async fn hints_of_the_length_are_those_of_the_source() {
        let known = || stream::iter([1, 2, 3]);
        let unknown = || source(&[Item(1)]);
        assert_eq!(known().timeout(ms(10)).size_hint(), (3, Some(7)));
        assert_eq!(unknown().timeout(ms(10)).size_hint(), (0, None));
        assert_eq!(known().timeout_repeating(interval(ms(10))).size_hint(), (3, None));
        let mut batches = pin!(known().chunks_timeout(3, ms(10)));
        assert_eq!(batches.size_hint(), (1, Some(3)));
        assert!(next(batches.as_mut()).await.is_some());
        assert_eq!(batches.size_hint(), (0, Some(0)));
        assert!(next(batches.as_mut()).await.is_none());
        assert_eq!(batches.size_hint(), (0, Some(0)));
        assert_eq!(IntervalStream::new(interval(ms(10))).size_hint(), (usize::MAX, None));
    }

    async fn no_batch_is_empty() {
        let mut batches = pin!(source(&[Stall]).chunks_timeout(3, ms(1)));
        assert!(poll_idly(pin!(next(batches.as_mut()))).is_pending());
        let limit = tickless::time::timeout(ms(20), next(batches.as_mut()));
        assert!(limit.await.is_err());
    }
}

/// tokio's `Throttle` gives no hint.
#[test]
fn a_slower_pace_changes_no_hint_of_the_length() {
    use tickless::time::StreamExt as _;

    assert_eq!(
        stream::iter([1, 2]).throttle(ms(10)).size_hint(),
        (2, Some(2))
    );
}

/// A stream that stalls after one item, and hints at more.
struct Stalls(Option<u32>);

impl Stream for Stalls {
    type Item = u32;

    fn poll_next(mut self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<Option<u32>> {
        self.0
            .take()
            .map_or(Poll::Pending, |item| Poll::Ready(Some(item)))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (6, Some(9))
    }
}

/// tokio-stream counts the full batches alone: it hints at one batch for five items.
#[test]
fn a_batch_that_has_begun_counts_with_the_items_to_come() {
    use tickless::time::StreamExt as _;

    let mut batches = pin!(Stalls(Some(1)).chunks_timeout(3, ms(60_000)));
    assert_eq!(batches.size_hint(), (2, Some(9)));
    assert!(poll_idly(pin!(next(batches.as_mut()))).is_pending());
    assert_eq!(batches.size_hint(), (3, Some(10)));
}
