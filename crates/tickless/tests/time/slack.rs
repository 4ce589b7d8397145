//! Tests of slack: its effect on a timer, and the behaviour that it does not change.

use std::future::{Future, poll_fn, ready};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

use crate::support::{
    begin, block_on, chosen, ms, on_thread, poll_idly, spin_past, waiting_idly, windows,
};
use tickless::time::{
    Instant, MissedTickBehavior, Precision, Slack, interval_at, set_thread_slack, sleep,
    sleep_until, thread_slack, timeout, timeout_at, with_slack,
};

const HOUR: Duration = Duration::from_secs(3600);
/// The longest possible slack.
const LONGEST: Duration = Duration::from_nanos((1 << 32) - 3);

fn nanos(instant: Instant) -> i64 {
    tickless_core::time::Instant::from(instant).as_nanos()
}

/// Returns an instant in about an hour that is 100 µs after a whole second.
fn in_an_hour() -> Instant {
    let nanos = nanos(Instant::now() + HOUR);
    let second = nanos - nanos % 1_000_000_000;
    tickless_core::time::Instant::from_nanos(second + 100_000).into()
}

/// The lateness that the library chooses for a slack of 1 ms at a deadline of [`in_an_hour`].
const TO_THE_MILLISECOND: Duration = Duration::from_micros(900);

#[test]
fn a_sleep_with_slack_is_never_early_and_ends() {
    let _patience = begin();
    for slack in [
        Duration::ZERO,
        Duration::from_nanos(1),
        Duration::from_micros(50),
        ms(1),
        ms(30),
    ] {
        for length in [0, 1, 70, 900, 3_000, 5_100] {
            let deadline = Instant::now() + Duration::from_micros(length);
            block_on(sleep_until(deadline).slack(slack));
            assert!(Instant::now() >= deadline, "{length} µs with {slack:?}");
        }
    }
}

/// The slack is longer than the sleep, or longer than the longest slack, or the deadline is over.
#[test]
#[cfg_attr(portable_host, ignore = "no numbers of threads on the portable host")]
fn slack_without_measure_is_some_seconds() {
    on_thread(|| {
        let deadline = in_an_hour();
        let mut long = pin!(sleep_until(deadline).slack(Duration::MAX));
        assert!(poll_idly(long.as_mut()).is_pending());
        let [(soft, hard)] = windows()[..] else {
            panic!("there is one timer")
        };
        assert_eq!(soft, nanos(deadline));
        // The longest unit that is in each window of that length.
        assert_eq!(hard % 4_096_000_000, 0);
        assert!(chosen()[0] <= LONGEST);
        assert_eq!(long.deadline(), deadline);

        let mut forever = pin!(sleep(Duration::MAX).slack(Duration::MAX));
        assert!(poll_idly(forever.as_mut()).is_pending());

        let over = Instant::now() - ms(1);
        let sleep = pin!(sleep_until(over).slack(Duration::MAX));
        assert!(poll_idly(sleep).is_ready(), "slack makes no one wait");
        let sleep = pin!(tickless::time::sleep(Duration::ZERO).slack(ms(1)));
        assert!(poll_idly(sleep).is_ready());
    });
}

#[test]
fn a_sleep_that_waits_is_ready_at_its_deadline_when_it_is_polled() {
    let _patience = begin();
    let mut sleep = waiting_idly(|| sleep(ms(1)).slack(Duration::MAX));
    let deadline = sleep.deadline();
    while Instant::now() < deadline + ms(1) {
        thread::yield_now();
    }
    assert!(poll_idly(sleep.as_mut()).is_ready());
}

#[test]
#[cfg_attr(portable_host, ignore = "no numbers of threads on the portable host")]
fn they_meet_at_round_times() {
    on_thread(|| {
        let deadline = in_an_hour();
        let all: [(Slack, Duration); 6] = [
            (Precision::Exact.into(), Duration::ZERO),
            (Precision::Millisecond.into(), TO_THE_MILLISECOND),
            ((ms(1) - Duration::from_nanos(1)).into(), TO_THE_MILLISECOND),
            // A multiple of 1/16 ms, and of 1/64 ms.
            (Duration::from_micros(50).into(), Duration::from_micros(25)),
            (
                Duration::from_nanos(9_375).into(),
                Duration::from_nanos(9_375),
            ),
            // No multiple: the end of it.
            (
                Duration::from_nanos(9_374).into(),
                Duration::from_nanos(9_374),
            ),
        ];
        for (slack, expected) in all {
            let mut sleep = pin!(sleep_until(deadline).slack(slack));
            assert!(poll_idly(sleep.as_mut()).is_pending());
            assert_eq!(chosen(), [expected], "with {slack:?}");
        }
    });
}

#[test]
#[cfg_attr(portable_host, ignore = "no numbers of threads on the portable host")]
fn a_reset_keeps_the_slack() {
    on_thread(|| {
        let deadline = in_an_hour();
        let mut sleep = pin!(sleep_until(deadline + ms(3)).slack(Precision::Millisecond));
        // Before it is queued, pushed out, and back.
        sleep.as_mut().reset(deadline + ms(2));
        assert!(poll_idly(sleep.as_mut()).is_pending());
        assert_eq!(chosen(), [TO_THE_MILLISECOND]);
        for seconds in [0, 1, 100, 99, 0] {
            let at = deadline + Duration::from_secs(seconds);
            sleep.as_mut().reset(at);
            assert_eq!(chosen(), [TO_THE_MILLISECOND], "{seconds}");
            assert_eq!(sleep.deadline(), at);
        }
        // After it was ready: queued again without a poll.
        let now = Instant::now();
        sleep.as_mut().reset(now);
        spin_past(now);
        assert!(poll_idly(sleep.as_mut()).is_ready());
        sleep.as_mut().reset(deadline);
        assert_eq!(chosen(), [TO_THE_MILLISECOND]);
    });
}

#[test]
#[cfg_attr(portable_host, ignore = "no numbers of threads on the portable host")]
fn the_slack_of_a_thread_is_that_of_the_first_poll() {
    on_thread(|| {
        let deadline = in_an_hour();
        assert_eq!(thread_slack(), Precision::Exact.into());
        let mut before = pin!(sleep_until(deadline));
        assert!(poll_idly(before.as_mut()).is_pending());
        let mut made_before = pin!(sleep_until(deadline));

        assert_eq!(
            set_thread_slack(Precision::Millisecond),
            Precision::Exact.into()
        );
        assert_eq!(thread_slack(), ms(1).into());
        assert!(poll_idly(made_before.as_mut()).is_pending());
        before.as_mut().reset(deadline + ms(1));
        let mut said = pin!(sleep_until(deadline).slack(Precision::Exact));
        assert!(poll_idly(said.as_mut()).is_pending());
        let mut all = chosen();
        all.sort_unstable();
        assert_eq!(all, [Duration::ZERO, Duration::ZERO, TO_THE_MILLISECOND]);

        assert_eq!(set_thread_slack(Duration::MAX), ms(1).into());
        assert_eq!(set_thread_slack(Duration::ZERO), LONGEST.into());
        made_before.as_mut().reset(deadline + ms(1));
        let mut all = chosen();
        all.sort_unstable();
        assert_eq!(all, [Duration::ZERO, Duration::ZERO, TO_THE_MILLISECOND]);
        assert_eq!(on_thread(thread_slack), Precision::Exact.into());
    });
}

#[test]
#[cfg_attr(portable_host, ignore = "no numbers of threads on the portable host")]
fn the_slack_of_a_scope_counts_while_it_is_polled() {
    on_thread(|| {
        let deadline = in_an_hour();
        // Made outside, polled inside.
        let mut outer = Box::pin(with_slack(Precision::Millisecond, sleep_until(deadline)));
        assert!(poll_idly(outer.as_mut()).is_pending());
        assert_eq!(thread_slack(), Precision::Exact.into());
        assert_eq!(chosen(), [TO_THE_MILLISECOND]);
        drop(outer);

        let seen = block_on(with_slack(ms(2), async {
            let before = thread_slack();
            let inside = with_slack(ms(7), async { thread_slack() }).await;
            // Undone by the end of the poll.
            set_thread_slack(ms(9));
            (before, inside, thread_slack())
        }));
        assert_eq!(seen, (ms(2).into(), ms(7).into(), ms(9).into()));
        assert_eq!(thread_slack(), Precision::Exact.into());

        let panics = with_slack(ms(2), poll_fn(|_| -> Poll<()> { panic!("as it should") }));
        let mut panics = Box::pin(panics);
        let result = catch_unwind(AssertUnwindSafe(|| poll_idly(panics.as_mut())));
        assert!(result.is_err());
        assert_eq!(thread_slack(), Precision::Exact.into());
    });
}

#[test]
#[cfg_attr(portable_host, ignore = "no numbers of threads on the portable host")]
fn a_timeout_has_slack_and_its_future_does_not() {
    on_thread(|| {
        let deadline = in_an_hour();
        let inside = sleep_until(deadline);
        let mut limited = pin!(timeout_at(deadline, inside).slack(Precision::Millisecond));
        assert!(poll_idly(limited.as_mut()).is_pending());
        let mut all = chosen();
        all.sort_unstable();
        assert_eq!(all, [Duration::ZERO, TO_THE_MILLISECOND]);

        let _patience = begin();
        let never = timeout(ms(1), std::future::pending::<()>()).slack(ms(1));
        assert!(block_on(never).is_err());
        let at_once = timeout(ms(1), ready(7)).slack(Duration::MAX);
        assert_eq!(block_on(at_once), Ok(7));
    });
}

#[test]
#[cfg_attr(portable_host, ignore = "no numbers of threads on the portable host")]
fn an_interval_with_slack_keeps_its_phase() {
    let _patience = begin();
    on_thread(|| {
        let start = Instant::now();
        let mut ticks = interval_at(start, ms(2)).slack(Precision::Millisecond);
        for tick in 0..5 {
            let due = start + ms(2) * tick;
            assert_eq!(block_on(ticks.tick()), due);
            assert!(Instant::now() >= due);
        }
        let deadline = in_an_hour();
        let mut context = Context::from_waker(Waker::noop());
        ticks.reset_at(deadline);
        assert!(ticks.poll_tick(&mut context).is_pending());
        assert_eq!(chosen(), [TO_THE_MILLISECOND]);
        // Said later it counts from the next time on.
        ticks = ticks.slack(Precision::Exact);
        assert_eq!(chosen(), [TO_THE_MILLISECOND]);
        ticks.reset_at(deadline + ms(1));
        assert_eq!(chosen(), [Duration::ZERO]);
    });
}

/// A tick that is late within its slack is not missed.
#[test]
#[cfg_attr(portable_host, ignore = "no numbers of threads on the portable host")]
fn a_tick_within_its_slack_is_not_missed() {
    on_thread(|| {
        let mut context = Context::from_waker(Waker::noop());
        let start = Instant::now() - ms(50);
        for (slack, in_phase) in [(Duration::from_secs(4), true), (Duration::ZERO, false)] {
            let mut ticks = interval_at(start, HOUR).slack(slack);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            assert_eq!(ticks.poll_tick(&mut context), Poll::Ready(start));
            assert!(ticks.poll_tick(&mut context).is_pending());
            let next = windows()[0].0;
            assert_eq!(next == nanos(start + HOUR), in_phase, "with {slack:?}");
        }
    });
}

#[test]
#[cfg_attr(portable_host, ignore = "no numbers of threads on the portable host")]
fn coarse_sleeps_ask_for_no_slack() {
    on_thread(|| {
        set_thread_slack(Precision::Millisecond);
        let mut sleep = Box::pin(tickless::coarse::sleep(HOUR));
        assert!(poll_idly(sleep.as_mut()).is_pending());
        assert_eq!(chosen(), [Duration::ZERO]);
    });
}

#[test]
fn the_future_of_a_scope_may_be_anything() {
    fn is_send<T: Send>(_: &T) {}
    let scoped = with_slack(ms(1), ready(3));
    is_send(&scoped);
    assert_eq!(size_of_val(&with_slack(ms(1), ready(()))), 8);
    let boxed: Pin<Box<dyn Future<Output = i32>>> = Box::pin(scoped);
    assert_eq!(block_on(boxed), 3);
}
