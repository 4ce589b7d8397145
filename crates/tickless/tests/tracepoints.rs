//! Tests of the recording of a trace. The tests of `tickless verify` check that it accepts such files, and finds
//! changes in them.

use std::pin::pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use futures::executor::block_on;
use tickless::hrtimer::{HrTimer, Restart, Span, Start};
use tickless::time;
use tickless::tracepoints::{self, Options, Recording, StartError, Trace};
use tickless::wheel::WheelTimer;

/// A lock of the tests, because a process has one recording at a time.
static ONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn start(options: &Options) -> Recording {
    tracepoints::start(options).expect("no other goes on")
}

fn lines(trace: &Trace) -> Vec<String> {
    let mut file = Vec::new();
    trace.write(&mut file).expect("a vector takes all");
    let text = String::from_utf8(file).expect("it is text");
    text.lines().map(str::to_owned).collect()
}

/// Returns the number of lines of `event`.
fn count(lines: &[String], event: &str) -> usize {
    let key = format!("\"event\":\"{event}\"");
    lines.iter().filter(|line| line.contains(&key)).count()
}

fn nap() {
    block_on(time::sleep(Duration::from_micros(50)));
}

#[test]
fn each_timer_is_there_from_its_start_to_its_end() {
    let _alone = alone();
    let recording = start(&Options::new().name("a \"name\""));
    assert!(tracepoints::is_recording());
    // Threads of their own, whose timers nothing else has touched.
    thread::scope(|scope| {
        scope.spawn(nap);
        scope.spawn(|| {
            let timer = pin!(HrTimer::new(|_| Restart::No));
            let _ = timer.as_ref().start(Start::after(Span::from_secs(3600)));
            let _ = timer.as_ref().start(Start::after(Span::from_secs(7200)));
            let _ = timer.as_ref().cancel();
            let coarse = pin!(WheelTimer::new(|_| Restart::No));
            let _ = coarse.as_ref().start(Duration::from_secs(3600));
            let _ = coarse.as_ref().cancel();
        });
    });
    let trace = recording.stop();
    assert!(!tracepoints::is_recording());
    assert!(trace.is_whole(), "{trace:?}");
    let lines = lines(&trace);
    let (first, last) = (&lines[0], &lines[lines.len() - 1]);
    assert!(
        first.contains("\"format\":\"tickless-trace\",\"version\":1"),
        "{first}"
    );
    assert!(first.contains("\"scenario\":\"a \\\"name\\\"\""), "{first}");
    assert!(
        last.contains(&format!("\"lines\":{},", lines.len())),
        "{last}"
    );
    assert!(last.contains("\"lost\":0,"), "{last}");
    assert!(count(&lines, "hrtimer_start") >= 3, "{lines:#?}");
    assert!(count(&lines, "hrtimer_expire_entry") >= 1, "{lines:#?}");
    assert_eq!(
        count(&lines, "hrtimer_expire_entry"),
        count(&lines, "hrtimer_expire_exit")
    );
    assert!(count(&lines, "hrtimer_cancel") >= 1, "{lines:#?}");
    assert!(count(&lines, "timer_start") >= 1, "{lines:#?}");
    assert!(count(&lines, "timer_cancel") >= 1, "{lines:#?}");
    assert!(count(&lines, "hrtimer_rearm") >= 1, "{lines:#?}");
}

#[test]
fn what_was_queued_before_is_said_to_be() {
    let _alone = alone();
    let timer = pin!(HrTimer::new(|_| Restart::No));
    let _ = timer.as_ref().start(Start::after(Span::from_secs(3600)));
    let recording = start(&Options::new());
    let _ = timer.as_ref().cancel();
    let _ = timer.as_ref().start(Start::after(Span::from_secs(3600)));
    let lines = lines(&recording.stop());
    let _ = timer.as_ref().cancel();
    let place = |event: &str| {
        let key = format!("\"event\":\"{event}\"");
        lines.iter().position(|line| line.contains(&key))
    };
    assert!(place("hrtimer_queued").is_some(), "{lines:#?}");
    assert!(
        place("hrtimer_queued") < place("hrtimer_cancel"),
        "{lines:#?}"
    );
    assert!(
        place("hrtimer_cancel") < place("hrtimer_start"),
        "{lines:#?}"
    );
}

#[test]
fn what_a_full_ring_loses_is_counted_and_nothing_behind_it_is_shown() {
    let _alone = alone();
    let recording = start(&Options::new().events_per_thread(4));
    thread::scope(|scope| {
        scope.spawn(|| {
            let timer = pin!(HrTimer::new(|_| Restart::No));
            for _ in 0..10 {
                let _ = timer.as_ref().start(Start::after(Span::from_secs(3600)));
                let _ = timer.as_ref().cancel();
            }
        });
    });
    let trace = recording.stop();
    assert!(!trace.is_whole());
    assert!(trace.events() >= 4, "{trace:?}");
    assert!(trace.lost() >= 16, "{trace:?}");
    let lines = lines(&trace);
    let said = format!("\"lost\":{},", trace.lost());
    assert!(lines[lines.len() - 1].contains(&said), "{lines:#?}");
    // No room at all: there is a file still.
    let recording = start(&Options::new().events_per_thread(0));
    nap();
    let trace = recording.stop();
    assert_eq!(trace.events(), 0);
    assert!(trace.lost() > 0);
    // More than there is memory for.
    let recording = start(&Options::new().events_per_thread(usize::MAX));
    nap();
    assert_eq!(recording.stop().events(), 0);
}

#[test]
fn one_recording_goes_on_at_a_time() {
    let _alone = alone();
    let recording = start(&Options::new());
    let second = tracepoints::start(&Options::new());
    assert_eq!(second.err(), Some(StartError::AlreadyRecording));
    assert!(tracepoints::is_recording());
    nap();
    drop(recording);
    assert!(!tracepoints::is_recording());
    // What the first one had is not in the next one.
    let trace = start(&Options::new()).stop();
    assert!(trace.is_whole(), "{trace:?}");
    assert_eq!(count(&lines(&trace), "hrtimer_start"), 0);
}
