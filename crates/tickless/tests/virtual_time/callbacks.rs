//! Tests of timers with callbacks under a worker's virtual clock.

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, mpsc};

use tickless::Worker;
use tickless::hrtimer::{
    self, Boottime, HrTimer, Restart, Setup, Span, Stage, Start, StartError, StartOutcome,
};
use tickless::time::{self, Duration, Instant, sleep};
use tickless::wheel::{self, WheelTimer};

const DAY: Duration = Duration::from_secs(86_400);

fn nanos(nanos: u64) -> Duration {
    Duration::from_nanos(nanos)
}

fn paused<F: Future>(future: F) -> F::Output {
    Worker::new().expect("none so far").block_on(async {
        time::pause();
        future.await
    })
}

/// The names of timers in the order in which they fired, with their times.
type Log = Arc<Mutex<Vec<(&'static str, Duration)>>>;

fn entries(log: &Log) -> Vec<(&'static str, Duration)> {
    std::mem::take(&mut *log.lock().expect("no panic"))
}

/// Returns a closure that records the time at which it is called, and is called once.
fn notes(
    log: &Log,
    name: &'static str,
    since: Instant,
) -> impl FnMut(&mut hrtimer::Expired<'_, '_, hrtimer::Monotonic>) -> Restart + Send + 'static {
    let log = Arc::clone(log);
    move |expired| {
        assert_eq!(expired.now(), expired.deadline());
        assert_eq!(expired.read_clock(), expired.now());
        log.lock().expect("no panic").push((name, since.elapsed()));
        Restart::No
    }
}

#[test]
fn callbacks_come_by_deadline_inside_of_an_advance() {
    paused(async {
        let (log, start) = (Log::default(), Instant::now());
        let timers = [("late", 9), ("first", 5), ("second", 5), ("early", 1)]
            .map(|(name, after)| (Box::pin(HrTimer::new(notes(&log, name, start))), after));
        for (timer, after) in &timers {
            let outcome = timer.as_ref().start(start + nanos(*after));
            assert_eq!(outcome, StartOutcome::Started);
        }
        time::advance(nanos(0)).await;
        assert_eq!(entries(&log), []);
        time::advance(nanos(5)).await;
        let came = [
            ("early", nanos(1)),
            ("first", nanos(5)),
            ("second", nanos(5)),
        ];
        assert_eq!(entries(&log), came);
        time::advance(nanos(3)).await;
        assert_eq!(entries(&log), []);
        time::advance(DAY).await;
        assert_eq!(entries(&log), [("late", nanos(9))]);
        assert!(timers.iter().all(|(timer, _)| !timer.as_ref().is_active()));
    });
}

#[test]
fn callbacks_and_sleeps_have_one_clock_that_passes_by_itself() {
    paused(async {
        let (log, start) = (Log::default(), Instant::now());
        let timer = pin!(HrTimer::new(notes(&log, "callback", start)));
        let _ = timer.as_ref().start(DAY);
        sleep(DAY - nanos(1)).await;
        assert_eq!(entries(&log), []);
        sleep(nanos(2)).await;
        assert_eq!(entries(&log), [("callback", DAY)]);
        // A callback that a task waits for, which sleeps nowhere.
        let (sender, receiver) = futures::channel::oneshot::channel();
        let mut sender = Some(sender);
        let wakes = pin!(HrTimer::new(move |expired| {
            let sent = sender.take().map(|sender| sender.send(expired.now()));
            assert!(sent.is_some_and(|sent| sent.is_ok()));
            Restart::No
        }));
        let before = hrtimer::now();
        let _ = wakes.as_ref().start(DAY);
        assert_eq!(
            wakes.as_ref().deadline(),
            Some(before.saturating_add(Span::from(DAY)))
        );
        assert_eq!(receiver.await, Ok(before.saturating_add(Span::from(DAY))));
    });
}

#[test]
fn a_callback_starts_itself_again() {
    paused(async {
        let count = Arc::new(AtomicU32::new(0));
        let of_timer = Arc::clone(&count);
        let timer = pin!(HrTimer::new(move |expired| {
            // Relaxed, here and below: one thread.
            of_timer.fetch_add(1, Ordering::Relaxed);
            assert_eq!(expired.forward_now(Span::from_millis(1)), 1);
            Restart::Yes
        }));
        let _ = timer.as_ref().start(Duration::from_millis(1));
        time::advance(Duration::from_millis(1_000)).await;
        assert_eq!(count.load(Ordering::Relaxed), 1_000);
        assert!(timer.as_ref().cancel());
        time::advance(DAY).await;
        assert_eq!(count.load(Ordering::Relaxed), 1_000);
    });
}

#[test]
fn a_callback_that_is_cancelled_or_moved_leaves_the_clock_alone() {
    paused(async {
        let (log, start) = (Log::default(), Instant::now());
        let timer = pin!(HrTimer::new(notes(&log, "moved", start)));
        let timer = timer.as_ref();
        let _ = timer.start(nanos(10));
        assert_eq!(timer.start(nanos(30)), StartOutcome::Restarted);
        assert_eq!(timer.start_if_earlier(nanos(40)), StartOutcome::Unchanged);
        time::advance(nanos(29)).await;
        assert_eq!(entries(&log), []);
        time::advance(nanos(1)).await;
        assert_eq!(entries(&log), [("moved", nanos(30))]);
        assert_eq!(
            timer.start_checked(start + nanos(30)),
            Err(StartError::AlreadyExpired)
        );
        let _ = timer.start(DAY);
        assert!(timer.cancel());
        // The clock would go to the timer if it waited still: nothing else is there to wait for.
        let (sender, receiver) = futures::channel::oneshot::channel();
        let other = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(20));
            sender.send(())
        });
        assert_eq!(receiver.await, Ok(()));
        assert!(other.join().expect("no panic").is_ok());
        assert_eq!(start.elapsed(), nanos(30));
        let dropped = Box::pin(HrTimer::new(|_| Restart::No));
        let _ = dropped.as_ref().start(nanos(5));
        drop(dropped);
        time::advance(nanos(5)).await;
    });
}

#[test]
fn other_clocks_slack_and_the_soft_stage_follow() {
    paused(async {
        let (sender, came) = mpsc::channel();
        let of_soft = sender.clone();
        let setup = Setup::new().stage(Stage::Soft);
        let soft = pin!(HrTimer::<_, Boottime>::with_setup(setup, move |expired| {
            let _ = of_soft.send(expired.now());
            Restart::No
        }));
        let before = hrtimer::now::<Boottime>();
        let _ = soft.as_ref().start(before.saturating_add(Span::from(DAY)));
        time::advance(DAY).await;
        assert_eq!(came.try_recv(), Ok(before.saturating_add(Span::from(DAY))));
        // Slack: the end of it is when it has to have come.
        let slack = pin!(HrTimer::new(move |_| {
            let _ = sender.send(hrtimer::Instant::ZERO);
            Restart::No
        }));
        let _ = slack
            .as_ref()
            .start(Start::after(Span::from_millis(1)).slack(Span::from_millis(9)));
        time::advance(Duration::from_micros(999)).await;
        assert!(came.try_recv().is_err());
        time::advance(Duration::from_micros(9_001)).await;
        assert!(came.try_recv().is_ok());
    });
}

#[test]
fn a_callback_goes_on_with_a_clock_that_runs_and_outlives_its_runtime() {
    let (sender, came) = mpsc::channel();
    let timer = pin!(HrTimer::new(move |_| {
        let _ = sender.send(());
        Restart::No
    }));
    paused(async {
        time::advance(nanos(1)).await;
        time::resume();
        let start = std::time::Instant::now();
        let _ = timer.as_ref().start(Duration::from_millis(2));
        let fired = std::thread::spawn(move || (came.recv(), came));
        while !fired.is_finished() {
            sleep(Duration::from_millis(1)).await;
        }
        let (fired, came) = fired.join().expect("no panic");
        assert_eq!(fired, Ok(()));
        assert!(start.elapsed() >= Duration::from_millis(2));
        // Queued when the runtime ends.
        let _ = timer.as_ref().start(DAY);
        drop(came);
    });
    assert!(timer.as_ref().is_active());
    assert!(timer.as_ref().cancel());
    // By the process's clock again.
    assert_eq!(timer.as_ref().start(DAY), StartOutcome::Started);
    assert!(timer.as_ref().cancel());
}

#[test]
fn coarse_callbacks_come_at_the_end_of_their_slots() {
    paused(async {
        let (sender, came) = mpsc::channel();
        let timer = pin!(WheelTimer::new(move |timeout| {
            let _ = sender.send((timeout.expiry, wheel::now()));
            timeout.set_expiry_after(1_000);
            Restart::Yes
        }));
        let timer = timer.as_ref();
        assert_eq!(timer.start(DAY), StartOutcome::Started);
        assert_eq!(timer.start_if_earlier(DAY * 2), StartOutcome::Unchanged);
        assert_eq!(timer.start_if_idle(DAY), StartOutcome::Unchanged);
        let expiry = timer.expiry();
        time::advance(DAY - Duration::from_millis(2)).await;
        assert!(came.try_recv().is_err());
        time::advance(DAY / 4).await;
        let mut last = expiry;
        for (asked, at) in came.try_iter() {
            assert!(asked >= last && at >= asked, "{asked:?} {at:?}");
            last = at;
        }
        assert!(last.0 + 2_000 > wheel::now().0, "to the end of the advance");
        assert!(timer.cancel());
        time::advance(DAY).await;
        assert!(came.try_recv().is_err());
        // A sleep is what the clock goes to then.
        let start = Instant::now();
        sleep(nanos(7)).await;
        assert_eq!(start.elapsed(), nanos(7));
    });
}
