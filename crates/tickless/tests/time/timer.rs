//! Tests of `Timer`, compared with the `Timer` of `async_io`, which smol uses.

use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::thread;
use std::time::{Duration, Instant as StdInstant};

use crate::support::{self, Wakes, assert_passed, block_on, ms, poll_idly, poll_with};

const HOUR: Duration = Duration::from_secs(3600);

/// Makes the same tests for both timers, which differ in the type of their instants.
macro_rules! same_as_async_io {
    ($(fn $name:ident() $body:block)*) => {
        mod async_io_tests {
            use super::*;
            use async_io::Timer;
            use std::time::Instant;
            $(#[test] fn $name() {
                let _patience = support::begin();
                $body
            })*
        }
        mod tickless_tests {
            use super::*;
            use tickless::time::{Instant, Timer};
            $(#[test] fn $name() {
                let _patience = support::begin();
                $body
            })*
        }
    };
}

same_as_async_io! {
    fn one_that_is_set_once_is_ready_once() {
        let start = StdInstant::now();
        let mut timer = Timer::after(ms(3));
        assert!(timer.will_fire());
        block_on(&mut timer);
        assert_passed(start, ms(3));
        assert!(poll_idly(pin!(&mut timer)).is_pending());
    }

    fn the_instant_is_that_for_which_it_was_set() {
        let due = Instant::now() + ms(2);
        let mut timer = Timer::at(due);
        assert_eq!(block_on(&mut timer), due);
        assert!(Instant::now() >= due);
        let over = Instant::now() - HOUR;
        timer.set_at(over);
        assert_eq!(block_on(&mut timer), over);
    }

    fn one_that_repeats_keeps_its_period() {
        let start = Instant::now() + ms(1);
        let mut timer = Timer::interval_at(start, ms(2));
        for tick in 0..4 {
            let due = start + ms(2) * tick;
            assert_eq!(block_on(&mut timer), due);
            assert!(Instant::now() >= due);
            assert!(timer.will_fire());
        }
    }

    fn one_that_repeats_is_ready_a_period_from_now_for_the_first_time() {
        let before = Instant::now();
        let mut timer = Timer::interval(HOUR);
        assert!(poll_idly(pin!(&mut timer)).is_pending());
        timer.set_interval(ms(2));
        assert!(block_on(&mut timer) >= before + ms(2));
    }

    fn never_is_never_until_it_is_set() {
        let mut timer = Timer::never();
        assert!(!timer.will_fire());
        assert!(poll_idly(pin!(&mut timer)).is_pending());
        timer.set_after(ms(1));
        assert!(timer.will_fire());
        block_on(&mut timer);
    }

    fn what_does_not_fit_is_never() {
        let mut timer = Timer::after(Duration::MAX);
        assert!(!timer.will_fire());
        assert!(poll_idly(pin!(&mut timer)).is_pending());
        timer.set_after(HOUR);
        assert!(timer.will_fire());
        timer.set_interval(Duration::MAX);
        assert!(!timer.will_fire());
    }

    fn a_task_that_polled_is_woken_when_it_is_set_to_earlier() {
        let (wakes, waker) = Wakes::new();
        let mut timer = Timer::after(HOUR);
        assert!(poll_with(pin!(&mut timer), &waker).is_pending());
        timer.set_after(ms(1));
        wakes.wait();
        assert!(poll_with(pin!(&mut timer), &waker).is_ready());
    }

    fn a_timer_that_moved_goes_on() {
        let (wakes, waker) = Wakes::new();
        let mut timer = Timer::after(HOUR);
        assert!(poll_with(pin!(&mut timer), &waker).is_pending());
        timer.set_after(ms(3));
        let moved = thread::spawn(move || {
            wakes.wait();
            block_on(&mut timer);
            Arc::strong_count(&wakes)
        });
        assert!(moved.join().is_ok());
    }
}

#[test]
fn ticks_that_were_missed_follow_at_once() {
    use tickless::time::{Instant, Timer};

    let start = Instant::now() - HOUR * 5 / 2;
    let mut timer = Timer::interval_at(start, HOUR);
    for tick in 0..3 {
        let due = start + HOUR * tick;
        assert_eq!(poll_idly(pin!(&mut timer)), Poll::Ready(due));
        assert_eq!(timer.deadline(), Some(due + HOUR));
    }
    assert!(poll_idly(pin!(&mut timer)).is_pending());
}

/// async-io loses the waker of a timer that is not set, because such a timer has no entry that would keep the waker.
#[test]
fn a_task_that_polled_never_is_woken_when_it_is_set() {
    use tickless::time::Timer;

    let _patience = support::begin();
    let (wakes, waker) = Wakes::new();
    let mut timer = Timer::never();
    assert!(poll_with(pin!(&mut timer), &waker).is_pending());
    timer.set_after(ms(1));
    wakes.wait();
    assert!(poll_with(pin!(&mut timer), &waker).is_ready());
    // It is over, and waits to be set again.
    assert!(poll_with(pin!(&mut timer), &waker).is_pending());
    let before = wakes.count();
    timer.set_at(tickless::time::Instant::now());
    support::until(|| wakes.count() > before);
    timer.clear();
    assert!(!timer.will_fire() && poll_with(pin!(&mut timer), &waker).is_pending());
}

#[cfg(feature = "stream")]
#[test]
fn a_timer_is_a_stream_that_never_ends() {
    use futures::StreamExt;
    use tickless::time::{Instant, Timer};

    let _patience = support::begin();
    let start = Instant::now();
    let mut timer = Timer::interval_at(start, ms(1));
    for tick in 0..3 {
        assert_eq!(block_on(timer.next()), Some(start + ms(1) * tick));
    }
    timer.set_at(start);
    assert_eq!(block_on(timer.next()), Some(start));
    assert!(poll_idly(pin!(timer.next())).is_pending());
}
