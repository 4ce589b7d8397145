//! Tests of timers with callbacks: exact and coarse timers have the same methods.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::support::{self, assert_passed, ms, until};
use tickless::time;

const HOUR: Duration = Duration::from_secs(3600);

/// Makes the same tests for the timers of two modules; `goes_on` lets a callback fire again a little later.
macro_rules! same_verbs {
    ($module:ident, $timer:ident, $goes_on:expr) => {
        mod $module {
            use tickless::$module::{Restart, ShutDown, StartOutcome, TryCancel, $timer as Timer};

            use super::*;

            #[test]
            fn a_closure_needs_no_annotation() {
                let _patience = support::begin();
                let fired = AtomicU32::new(0);
                let fired: &'static AtomicU32 = Box::leak(Box::new(fired));
                let mut rounds = 0;
                let timer = pin!(Timer::new(move |told| {
                    fired.fetch_add(1, Ordering::Relaxed);
                    rounds += 1;
                    if rounds == 3 {
                        return Restart::No;
                    }
                    $goes_on(told);
                    Restart::Yes
                }));
                let _ = timer.as_ref().start(ms(1));
                until(|| fired.load(Ordering::Relaxed) == 3);
                until(|| !timer.as_ref().is_active());
            }

            #[test]
            fn a_start_says_whether_the_timer_waited_and_moves_it() {
                let _patience = support::begin();
                let timer = pin!(Timer::new(|_| Restart::No));
                let timer = timer.as_ref();
                assert_eq!(timer.start(HOUR), StartOutcome::Started);
                assert_eq!(
                    timer.start(time::Instant::now() + HOUR),
                    StartOutcome::Restarted
                );
                let start = Instant::now();
                assert_eq!(timer.start(ms(3)), StartOutcome::Restarted);
                until(|| !timer.is_active());
                assert_passed(start, ms(3));
            }

            #[test]
            fn a_start_if_earlier_leaves_an_earlier_timer_alone() {
                let _patience = support::begin();
                let timer = pin!(Timer::new(|_| Restart::No));
                let timer = timer.as_ref();
                assert_eq!(timer.start_if_earlier(HOUR), StartOutcome::Started);
                // It moves to earlier, and not back.
                let start = Instant::now();
                assert_eq!(timer.start_if_earlier(ms(40)), StartOutcome::Restarted);
                while start.elapsed() < ms(20) {
                    if timer.start_if_earlier(HOUR) != StartOutcome::Unchanged {
                        // This thread lost its CPU for so long that the timer fired, and now waits for an hour.
                        assert_passed(start, ms(40));
                        assert!(timer.cancel());
                        return;
                    }
                }
                until(|| !timer.is_active());
                assert_passed(start, ms(40));
            }

            #[test]
            fn a_timer_is_cancelled_once() {
                let timer = pin!(Timer::new(|_| Restart::No));
                let timer = timer.as_ref();
                assert_eq!(timer.try_cancel(), TryCancel::NotActive);
                let _ = timer.start(HOUR);
                assert_eq!(timer.try_cancel(), TryCancel::Removed);
                let _ = timer.start(HOUR);
                assert!(timer.cancel() && !timer.cancel());
                let _ = timer.start(HOUR);
                assert!(timer.is_active() && !timer.is_shut_down());
            }

            #[test]
            fn a_timer_that_was_shut_down_is_not_started_again() {
                let fired = Arc::new(AtomicU32::new(0));
                let count = Arc::clone(&fired);
                let timer = pin!(Timer::new(move |_| {
                    count.fetch_add(1, Ordering::Relaxed);
                    Restart::No
                }));
                let timer = timer.as_ref();
                let _ = timer.start(HOUR);
                assert!(timer.shutdown() && timer.is_shut_down());
                assert!(!timer.shutdown());
                assert_eq!(timer.start(ms(1)), StartOutcome::ShutDown);
                assert_eq!(timer.start_if_earlier(ms(1)), StartOutcome::ShutDown);
                assert_eq!(timer.start(ms(1)).into_result(), Err(ShutDown));
                assert!(!timer.is_active());
                thread::sleep(ms(5));
                assert_eq!(fired.load(Ordering::Relaxed), 0);
            }

            /// The timer's own callback and other threads restart the timer all the time.
            #[test]
            fn a_shutdown_is_final_whatever_runs_meanwhile() {
                let _patience = support::begin();
                for _ in 0..20 {
                    let fired = Arc::new(AtomicU32::new(0));
                    let count = Arc::clone(&fired);
                    let timer = pin!(Timer::new(move |told| {
                        count.fetch_add(1, Ordering::Relaxed);
                        $goes_on(told);
                        Restart::Yes
                    }));
                    let timer: Pin<&_> = timer.as_ref();
                    let _ = timer.start(Duration::from_micros(50));
                    until(|| fired.load(Ordering::Relaxed) > 0);
                    let starts = AtomicU32::new(0);
                    thread::scope(|scope| {
                        for _ in 0..2 {
                            scope.spawn(|| {
                                // Each start pushes the timer out: it need not fire any more.
                                while !timer.is_shut_down() {
                                    let _ = timer.start(Duration::from_micros(50));
                                    starts.fetch_add(1, Ordering::Relaxed);
                                }
                            });
                        }
                        until(|| starts.load(Ordering::Relaxed) > 1_000);
                        timer.shutdown();
                        let then = fired.load(Ordering::Relaxed);
                        assert!(!timer.is_active());
                        thread::sleep(ms(2));
                        assert_eq!(fired.load(Ordering::Relaxed), then, "it fired again");
                    });
                }
            }
        }
    };
}

same_verbs!(
    hrtimer,
    HrTimer,
    |expired: &mut tickless::hrtimer::Expired<'_, '_, _>| {
        expired.forward_now(tickless::hrtimer::Span::from_micros(200));
    }
);
same_verbs!(
    wheel,
    WheelTimer,
    |timeout: &mut tickless::wheel::Timeout| timeout.set_expiry_after(1)
);
