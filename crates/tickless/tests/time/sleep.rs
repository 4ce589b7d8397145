//! Tests of `sleep` and `sleep_until`, compared with tokio's where both promise the same.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Wake, Waker};
use std::thread;
use std::time::{Duration, Instant};

use crate::support::{
    self, Wakes, assert_passed, block_on, ms, poll_idly, poll_with, us, waiting, waiting_idly,
};

const HOUR: Duration = Duration::from_secs(3600);

/// The sleep is ready at once, which the documentation of the module lists as a difference.
#[test]
fn a_deadline_that_passed_is_ready_at_once_where_tokio_s_is_pending() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        // From here on the clock of the runtime stands: no task gives way.
        tokio::time::sleep(ms(2)).await;
        thread::sleep(ms(40));
        let theirs = tokio::time::sleep_until(tokio::time::Instant::now() - ms(20));
        assert!(poll_idly(pin!(theirs)).is_pending());
        assert!(poll_idly(pin!(tokio::time::sleep(Duration::ZERO))).is_pending());
        let ours = tickless::time::sleep_until(tickless::time::Instant::now() - ms(20));
        assert!(poll_idly(pin!(ours)).is_ready());
        assert!(poll_idly(pin!(tickless::time::sleep(Duration::ZERO))).is_ready());
    });
}

same_as_tokio! {
    async fn the_longest_times_are_pending_and_can_be_dropped() {
        let longest = [
            Duration::MAX,
            Duration::MAX - ms(1),
            Duration::from_secs(u64::MAX / 10),
            Duration::from_secs(10 * 365 * 86_400),
        ];
        for duration in longest {
            let mut sleep = pin!(time::sleep(duration));
            assert!(poll_idly(sleep.as_mut()).is_pending());
            assert!(poll_idly(sleep.as_mut()).is_pending());
            assert!(!sleep.is_elapsed());
            assert!(sleep.deadline() > time::Instant::now() + HOUR);
        }
        // None of them keeps others from firing.
        time::sleep(ms(1)).await;
    }

    async fn the_deadline_is_the_one_asked_for() {
        let deadline = time::Instant::now() + Duration::new(5, 123_456_789);
        let mut sleep = pin!(time::sleep_until(deadline));
        assert_eq!(sleep.deadline(), deadline);
        assert!(poll_idly(sleep.as_mut()).is_pending());
        assert_eq!(sleep.deadline(), deadline);
        sleep.as_mut().reset(deadline + ms(1));
        assert_eq!(sleep.deadline(), deadline + ms(1));
        let past = deadline - Duration::from_secs(10);
        sleep.as_mut().reset(past);
        assert_eq!(sleep.deadline(), past);
    }

    async fn elapsed_is_said_once_the_time_is_over_and_the_sleep_was_registered() {
        let mut sleep = pin!(time::sleep(HOUR));
        assert!(!sleep.is_elapsed());
        assert!(poll_idly(sleep.as_mut()).is_pending());
        assert!(!sleep.is_elapsed());
        sleep.as_mut().reset(time::Instant::now() + ms(2));
        time::sleep(ms(10)).await;
        assert!(sleep.is_elapsed());
        sleep.as_mut().await;
        assert!(sleep.is_elapsed());
        sleep.as_mut().reset(time::Instant::now() + HOUR);
        assert!(!sleep.is_elapsed());
    }

    async fn a_sleep_that_was_never_registered_is_not_elapsed() {
        let sleep = time::sleep_until(time::Instant::now() - ms(20));
        time::sleep(ms(2)).await;
        assert!(!sleep.is_elapsed());
    }

    async fn a_reset_registers_without_a_poll() {
        let mut sleep = pin!(time::sleep(HOUR));
        assert!(!sleep.is_elapsed());
        sleep.as_mut().reset(time::Instant::now() + ms(2));
        time::sleep(ms(10)).await;
        assert!(sleep.is_elapsed());
    }

    async fn a_finished_sleep_stays_ready() {
        let mut sleep = pin!(time::sleep(ms(1)));
        sleep.as_mut().await;
        for _ in 0..3 {
            assert!(poll_idly(sleep.as_mut()).is_ready());
        }
    }

    async fn a_reset_to_an_earlier_time_wakes_the_task_then() {
        let (wakes, waker) = Wakes::new();
        let mut sleep = pin!(time::sleep(HOUR));
        assert!(poll_with(sleep.as_mut(), &waker).is_pending());
        let start = Instant::now();
        sleep.as_mut().reset(time::Instant::now() + ms(5));
        while wakes.count() == 0 {
            time::sleep(ms(1)).await;
        }
        assert_passed(start, ms(5));
        assert!(poll_idly(sleep).is_ready());
        assert_eq!(wakes.count(), 1);
    }

    async fn a_reset_to_a_later_time_postpones() {
        let start = Instant::now();
        let deadline = time::Instant::now() + ms(12);
        let mut sleep = waiting_idly(|| time::sleep(ms(4)));
        sleep.as_mut().reset(deadline);
        sleep.as_mut().await;
        assert_passed(start, ms(12));
        assert!(time::Instant::now() >= deadline);
    }

    async fn a_sleep_can_be_polled_on_another_thread() {
        let (here, here_waker) = Wakes::new();
        let (there, there_waker) = Wakes::new();
        let mut sleep = Box::pin(time::sleep(HOUR));
        assert!(poll_with(sleep.as_mut(), &here_waker).is_pending());
        let sleep = thread::spawn(move || {
            assert!(poll_with(sleep.as_mut(), &there_waker).is_pending());
            sleep
        });
        let mut sleep = sleep.join().expect("the thread does not panic");
        sleep.as_mut().reset(time::Instant::now() + ms(5));
        while there.count() == 0 {
            time::sleep(ms(1)).await;
        }
        assert_eq!(here.count(), 0);
        assert!(poll_idly(sleep.as_mut()).is_ready());
    }

    async fn a_dropped_sleep_wakes_no_task() {
        // Should the machine stand still for so long that it fires before it is dropped, it is tried again.
        for _ in 0..10 {
            let (wakes, waker) = Wakes::new();
            let never_polled = time::sleep(ms(20));
            let queued = waiting(|| time::sleep(ms(20)), &waker);
            let mut fired = Box::pin(time::sleep(ms(1)));
            fired.as_mut().await;
            drop((never_polled, queued, fired));
            time::sleep(ms(25)).await;
            if wakes.count() == 0 {
                assert_eq!(Arc::strong_count(&wakes), 2, "nothing keeps the waker");
                return;
            }
        }
        panic!("a sleep that was dropped fired ten times");
    }

    async fn a_waker_may_own_a_sleep() {
        struct Owner {
            _sleep: Pin<Box<time::Sleep>>,
        }
        impl Wake for Owner {
            fn wake(self: Arc<Self>) {}
        }
        let mut inner = Box::pin(time::sleep(HOUR));
        assert!(poll_idly(inner.as_mut()).is_pending());
        let waker = Waker::from(Arc::new(Owner { _sleep: inner }));
        let mut outer = Box::pin(time::sleep(HOUR));
        assert!(poll_with(outer.as_mut(), &waker).is_pending());
        drop(waker);
        drop(outer);
    }

    async fn dropping_one_of_equal_deadlines_leaves_the_others() {
        let start = time::Instant::now() + Duration::from_secs(1);
        let mut first = Box::pin(time::sleep_until(start + ms(4)));
        let mut moved = Box::pin(time::sleep_until(start + ms(4)));
        let mut last = Box::pin(time::sleep_until(start + ms(8)));
        for sleep in [&mut first, &mut moved, &mut last] {
            assert!(poll_idly(sleep.as_mut()).is_pending());
        }
        moved.as_mut().reset(start + ms(8));
        first.await;
        drop(moved);
        last.await;
    }

    async fn the_debug_form_names_the_deadline() {
        let sleep = time::sleep(HOUR);
        let text = format!("{sleep:?}");
        assert!(text.starts_with("Sleep {"), "{text}");
        assert!(text.contains(&format!("deadline: {:?}", sleep.deadline())), "{text}");
    }
}

/// The test checks the deadline: a wake-up takes longer than any error of the cheap clock, and would hide the error.
#[test]
fn the_deadline_of_a_duration_is_never_early() {
    for round in 0..20_000_u64 {
        let duration = Duration::from_nanos(1 + round);
        let start = Instant::now();
        let sleep = tickless::time::sleep(duration);
        assert!(sleep.deadline().into_std() >= start + duration);
    }
}

/// An eager combinator polls without ever returning to its executor, so no other thread may be needed to end a sleep.
#[test]
fn a_sleep_that_is_polled_in_a_loop_ends() {
    let _patience = support::begin();
    let worker = tickless::Worker::new().expect("the thread is free");
    let start = Instant::now();
    let mut sleep = pin!(tickless::time::sleep(ms(3)));
    while poll_idly(sleep.as_mut()).is_pending() {}
    assert_passed(start, ms(3));
    drop(worker);
}

#[test]
fn a_sleep_queued_on_one_thread_is_reset_and_dropped_on_another() {
    let _patience = support::begin();
    let (wakes, waker) = Wakes::new();
    let mut moved = Box::pin(tickless::time::sleep(HOUR));
    let mut dropped = Box::pin(tickless::time::sleep(HOUR));
    assert!(poll_with(moved.as_mut(), &waker).is_pending());
    assert!(poll_with(dropped.as_mut(), &waker).is_pending());
    let start = Instant::now();
    let mut moved = support::on_thread(move || {
        drop(dropped);
        moved.as_mut().reset(tickless::time::Instant::now() + ms(3));
        moved
    });
    wakes.wait();
    assert_passed(start, ms(3));
    assert!(poll_idly(moved.as_mut()).is_ready());
    assert_eq!(wakes.count(), 1);
}

/// The wake-up of a sleep that was reset after it fired belongs to the old deadline and does no harm.
#[test]
fn a_reset_that_meets_the_firing_still_ends() {
    let _patience = support::begin();
    block_on(async {
        for round in 0..500_u64 {
            let mut sleep = waiting_idly(|| tickless::time::sleep(us(40)));
            let spin = Instant::now() + us(20 + round % 60);
            while Instant::now() < spin {}
            let start = Instant::now();
            sleep
                .as_mut()
                .reset(tickless::time::Instant::now() + us(30));
            sleep.await;
            assert_passed(start, us(30));
        }
    });
}

#[test]
fn the_debug_form_says_whether_it_elapsed() {
    let mut sleep = pin!(tickless::time::sleep(Duration::ZERO));
    assert!(format!("{sleep:?}").contains("is_elapsed: false"));
    assert!(poll_idly(sleep.as_mut()).is_ready());
    assert!(format!("{sleep:?}").contains("is_elapsed: true"));
}

/// The poll checks the clock, and not only whether a thread has fired the sleep: here no thread has fired it before the
/// poll.
#[test]
fn a_sleep_that_waits_is_over_when_it_is_polled_behind_its_deadline() {
    // Near and far: in the tree, and in a bucket.
    for late in [1, 2, 5, 20, 50].repeat(4) {
        let mut sleep = pin!(tickless::time::sleep(ms(late)));
        let _first = poll_idly(sleep.as_mut());
        support::spin_past(sleep.deadline());
        assert!(poll_idly(sleep.as_mut()).is_ready());
        assert!(sleep.is_elapsed());
    }
}
