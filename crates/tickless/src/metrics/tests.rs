use std::pin::pin;
use std::task::{Context, Waker};
use std::thread;
use std::time::Duration;

use super::*;
use crate::Worker;
use crate::time::{sleep, sleep_until};

const HOUR: Duration = Duration::from_secs(3600);

/// Returns the counters of the calling thread.
fn own(metrics: &Metrics) -> &ThreadMetrics {
    let base = crate::host::thread::with_thread(|thread| thread.base());
    let number = base.expect("it has timers").cpu().0;
    let mut threads = metrics.threads.iter();
    threads
        .find(|thread| thread.number == number)
        .expect("it is shown")
}

fn on_thread(body: impl FnOnce() + Send + 'static) {
    thread::spawn(body).join().expect("it does not panic");
}

#[test]
fn each_way_of_a_timer_is_counted_on_its_thread() {
    on_thread(|| {
        let mut context = Context::from_waker(Waker::noop());
        crate::init().expect("there is room");
        let before = own(&snapshot()).clone();
        let mut pushed = pin!(sleep(HOUR));
        let mut dropped = Box::pin(sleep(HOUR));
        assert!(pushed.as_mut().poll(&mut context).is_pending());
        assert!(dropped.as_mut().poll(&mut context).is_pending());
        for hours in 2..5 {
            let later = crate::time::Instant::now() + HOUR * hours;
            pushed.as_mut().reset(later);
        }
        drop(dropped);
        let after = own(&snapshot()).clone();
        let exact = |of: fn(&Counts) -> u64| of(&after.exact) - of(&before.exact);
        assert_eq!(exact(|counts| counts.pending), 1);
        assert_eq!(exact(|counts| counts.armed), 5);
        assert_eq!(exact(|counts| counts.rearmed), 3);
        assert_eq!(exact(|counts| counts.cancelled), 1);
        assert_eq!(exact(|counts| counts.fired), 0);
        assert_eq!(after.role, Role::Foreign);
    });
}

#[test]
fn a_worker_counts_its_wake_ups_and_a_foreign_thread_what_is_pulled() {
    on_thread(|| {
        let worker = Worker::new().expect("there is room");
        let before = own(&snapshot()).clone();
        worker.block_on(sleep(Duration::from_millis(20)));
        let after = own(&snapshot()).clone();
        assert_eq!(after.role, Role::Worker);
        assert_eq!(after.exact.fired - before.exact.fired, 1);
        // On a loaded machine the expiry thread may come first; then there may be no sleep either.
        assert!(after.wakeups > before.wakeups || after.pulled > before.pulled);
    });
    on_thread(|| {
        crate::init().expect("there is room");
        let sleeps_and_is_pulled = || {
            let before = own(&snapshot()).clone();
            // Long enough for this thread to wait: what is due when it is polled is not pulled.
            futures::executor::block_on(sleep(Duration::from_secs(1)));
            let after = own(&snapshot()).clone();
            assert_eq!(after.exact.fired - before.exact.fired, 1);
            after.pulled - before.pulled == 1
        };
        // A thread that loses its CPU for longer than the sleep finds it due.
        assert!((0..5).any(|_| sleeps_and_is_pulled()));
    });
}

/// One test alone uses the switch, because the switch holds for the whole process.
#[test]
fn lateness_is_counted_while_the_switch_is_on() {
    on_thread(|| {
        crate::init().expect("there is room");
        let before = own(&snapshot()).lateness;
        futures::executor::block_on(sleep(Duration::from_millis(1)));
        assert_eq!(own(&snapshot()).lateness.since(&before).count(), 0);

        count_lateness(true);
        let start = crate::time::Instant::now();
        // Far enough for a bucket of far timers, whose entries would fire as a run.
        let sleeps =
            (0..100).map(|number| sleep_until(start + Duration::from_micros(300_000 + number)));
        futures::executor::block_on(futures::future::join_all(sleeps));
        let worst = start.elapsed();
        count_lateness(false);
        let late = own(&snapshot()).lateness.since(&before);
        assert_eq!(late.count(), 100);
        let median = late.quantile(0.5).expect("no machine is late by 17 s");
        assert!(median <= worst * 2 + Duration::from_micros(2), "{late:?}");
        assert!(late.sum() <= worst * 100, "{late:?}");
    });
}

#[test]
fn quantiles_are_ends_of_buckets() {
    let counts = crate::host::lateness::Lateness::new();
    assert_eq!(Lateness::of(counts.counts()).quantile(0.5), None);
    for late in [100, 1_000, 1_500, 90_000] {
        counts.note(late);
    }
    let late = Lateness::of(counts.counts());
    let at = |quantile| late.quantile(quantile).map(|end| end.as_nanos());
    assert_eq!(at(0.0), Some(1_024));
    assert_eq!(at(0.5), Some(1_024));
    assert_eq!(at(0.75), Some(2_048));
    assert_eq!(at(1.0), Some(131_072));
    assert_eq!(at(f64::NAN), Some(1_024));
    counts.note(u64::MAX);
    assert_eq!(Lateness::of(counts.counts()).quantile(1.0), None);
    assert_eq!(Lateness::of(counts.counts()).since(&late).count(), 1);
}

#[test]
fn names_are_escaped_for_prometheus() {
    let mut text = String::new();
    let mut metrics = snapshot();
    metrics.threads.truncate(1);
    metrics.threads[0].name = Some("a\"b\\c\nd".to_owned());
    metrics
        .write_prometheus(&mut text)
        .expect("a string takes all");
    assert!(text.contains(r#"name="a\"b\\c\nd"} 1"#), "{text}");
}
