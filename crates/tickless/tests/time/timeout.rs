//! Tests of `timeout` and `timeout_at`, compared with tokio's.

use std::cell::Cell;
use std::error::Error as _;
use std::future::{Future, IntoFuture, pending, poll_fn, ready};
use std::io;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use crate::support::{
    Wakes, assert_passed, block_on, in_own_process, ms, poll_idly, poll_with, waiting_idly, worker,
};
use futures::channel::oneshot;

const HOUR: Duration = Duration::from_secs(3600);

/// A value that can be awaited but is no future itself.
struct Answer(u32);

impl IntoFuture for Answer {
    type Output = u32;
    type IntoFuture = std::future::Ready<u32>;

    fn into_future(self) -> Self::IntoFuture {
        ready(self.0)
    }
}

/// A future that records when it is polled and when it is dropped.
#[derive(Default)]
struct Watched {
    polls: Rc<Cell<u32>>,
    drops: Rc<Cell<u32>>,
}

impl Future for Watched {
    type Output = ();

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        self.polls.set(self.polls.get() + 1);
        Poll::Pending
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.drops.set(self.drops.get() + 1);
    }
}

same_as_tokio! {
    async fn a_value_that_is_ready_at_the_limit_counts_each_time() {
        for _ in 0..10_000 {
            assert!(time::timeout(Duration::ZERO, time::sleep(Duration::ZERO)).await.is_ok());
        }
        // A thousand ticks are over, and each is taken.
        let mut ticks = time::interval_at(time::Instant::now() - Duration::from_secs(1), ms(1));
        for _ in 0..1_000 {
            assert!(time::timeout(Duration::ZERO, ticks.tick()).await.is_ok());
        }
    }

    async fn a_value_that_is_ready_together_with_the_limit_counts() {
        let mut timeout = waiting_idly(|| {
            let mut polls = 0;
            let value = poll_fn(move |_| {
                polls += 1;
                if polls == 1 { Poll::Pending } else { Poll::Ready(7) }
            });
            time::timeout(ms(2), value)
        });
        time::sleep(ms(10)).await;
        assert_eq!(poll_idly(timeout.as_mut()), Poll::Ready(Ok(7)));
    }

    async fn a_value_that_comes_in_time_counts() {
        let (sender, receiver) = oneshot::channel();
        let (wakes, waker) = Wakes::new();
        let mut timeout = pin!(time::timeout(HOUR, receiver));
        assert!(poll_with(timeout.as_mut(), &waker).is_pending());
        assert_eq!(sender.send("it"), Ok(()));
        assert_eq!(wakes.count(), 1);
        assert_eq!(poll_with(timeout, &waker), Poll::Ready(Ok(Ok("it"))));
    }

    async fn what_never_comes_elapses_and_not_early() {
        let start = Instant::now();
        assert!(time::timeout(ms(5), pending::<()>()).await.is_err());
        assert_passed(start, ms(5));
        let deadline = time::Instant::now() + ms(5);
        assert!(time::timeout_at(deadline, pending::<()>()).await.is_err());
        assert!(time::Instant::now() >= deadline);
    }

    async fn the_longest_limits_are_none() {
        for limit in [Duration::MAX, Duration::MAX - ms(1), Duration::from_secs(u64::MAX / 2)] {
            let (sender, receiver) = oneshot::channel();
            let mut timeout = pin!(time::timeout(limit, receiver));
            assert!(poll_idly(timeout.as_mut()).is_pending());
            time::sleep(ms(2)).await;
            assert!(poll_idly(timeout.as_mut()).is_pending());
            assert_eq!(sender.send(()), Ok(()));
            assert_eq!(poll_idly(timeout), Poll::Ready(Ok(Ok(()))));
        }
    }

    async fn anything_that_becomes_a_future_can_be_given() {
        assert_eq!(time::timeout(HOUR, Answer(42)).await, Ok(42));
        let deadline = time::Instant::now() + HOUR;
        assert_eq!(time::timeout_at(deadline, Answer(43)).await, Ok(43));
    }

    async fn the_future_is_polled_once_for_each_poll_and_dropped_with_the_timeout() {
        let value = Watched::default();
        let (polls, drops) = (Rc::clone(&value.polls), Rc::clone(&value.drops));
        {
            let deadline = time::Instant::now() + Duration::from_secs(1);
            let mut timeout = pin!(time::timeout_at(deadline, value));
            assert_eq!(polls.get(), 0);
            assert!(poll_idly(timeout.as_mut()).is_pending());
            assert_eq!(polls.get(), 1);
            time::sleep_until(deadline + ms(8)).await;
            assert!(matches!(poll_idly(timeout.as_mut()), Poll::Ready(Err(_))));
            assert_eq!((polls.get(), drops.get()), (2, 0));
            // Elapsed for good, but the future is asked first.
            assert!(matches!(poll_idly(timeout), Poll::Ready(Err(_))));
            assert_eq!((polls.get(), drops.get()), (3, 0));
        }
        assert_eq!(drops.get(), 1);
    }

    async fn the_error_says_that_the_deadline_has_elapsed() {
        let error = time::timeout(Duration::ZERO, pending::<()>()).await.unwrap_err();
        assert_eq!(error.to_string(), "deadline has elapsed");
        assert_eq!(format!("{error:>22}"), "  deadline has elapsed");
        assert_eq!(format!("{error:?}"), "Elapsed(())");
        assert!(error.source().is_none());
        let other = time::timeout(Duration::ZERO, pending::<()>()).await.unwrap_err();
        assert_eq!(error, other);
        let elapsed: time::error::Elapsed = error;
        let io: io::Error = elapsed.into();
        assert_eq!(io.kind(), io::ErrorKind::TimedOut);
        assert!(io.get_ref().is_none(), "as in tokio, the kind is all there is");
    }

    async fn the_errors_of_the_driver_have_names_and_texts() {
        fn kinds(error: &time::error::Error) -> [bool; 3] {
            [error.is_shutdown(), error.is_at_capacity(), error.is_invalid()]
        }
        let all = [
            time::error::Error::shutdown(),
            time::error::Error::at_capacity(),
            time::error::Error::invalid(),
        ];
        assert_eq!(kinds(&all[0]), [true, false, false]);
        assert_eq!(kinds(&all[1]), [false, true, false]);
        assert_eq!(kinds(&all[2]), [false, false, true]);
        let copied = all[1];
        assert_eq!(copied.to_string(), "timer is at capacity and cannot create a new entry");
        assert_eq!(all[2].to_string(), "timer duration exceeds maximum duration");
        assert_eq!(format!("{copied:?}"), "Error(AtCapacity)");
        assert!(copied.source().is_none());
    }

    async fn the_debug_form_shows_the_future() {
        #[derive(Debug)]
        struct Shown;
        impl Future for Shown {
            type Output = ();
            fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
                Poll::Pending
            }
        }
        let text = format!("{:?}", time::timeout(HOUR, Shown));
        assert!(text.starts_with("Timeout { value: Shown, delay: "), "{text}");
    }
}

#[test]
fn a_timeout_of_a_ready_future_leaves_no_timer_behind() {
    let test = "timeout::a_timeout_of_a_ready_future_leaves_no_timer_behind";
    in_own_process(test, || {
        let before = tickless::stats().starts;
        block_on(async {
            for _ in 0..100 {
                assert!(tickless::time::timeout(HOUR, async {}).await.is_ok());
            }
        });
        let after = tickless::stats().starts;
        assert_eq!(
            after, before,
            "no queue is touched for a future that is ready"
        );
    });
}

/// The runtimes are those of this library, and two that give no budget.
#[test]
fn a_value_that_is_ready_at_the_limit_counts_in_each_runtime() {
    use tickless::realtime::{self, OnSet};
    use tickless::{boottime, coarse, time};
    async fn ties() {
        for _ in 0..1_000 {
            let zero = Duration::ZERO;
            assert!(time::timeout(zero, time::sleep(zero)).await.is_ok());
            assert!(coarse::timeout(zero, coarse::sleep(zero)).await.is_ok());
            assert!(boottime::timeout(zero, boottime::sleep(zero)).await.is_ok());
            let alarm = realtime::sleep_until(realtime::now(), OnSet::Follow);
            assert!(realtime::timeout(zero, OnSet::Follow, alarm).await.is_ok());
        }
    }
    block_on(ties());
    async_io::block_on(ties());
    worker().block_on(ties());
    #[cfg(feature = "executor")]
    {
        let executor = tickless::Executor::builder().workers(1).build();
        let executor = executor.expect("threads can be started");
        executor.block_on(ties());
        executor.block_on(executor.spawn(ties())).expect("it ends");
    }
}
