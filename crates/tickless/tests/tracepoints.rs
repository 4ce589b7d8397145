//! Tests of the recording of a trace. The tests of `tickless verify` check that it accepts such files, and finds
//! changes in them.

#[path = "support/trace.rs"]
mod trace;

use std::pin::pin;
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use tickless::hrtimer::{HrTimer, Restart, Span, Start};
use tickless::tracepoints::{self, Options, Recording, StartError};
use tickless::wheel::WheelTimer;
use tickless::{Worker, coarse};
use trace::{alone, count, lines, nap};

fn start(options: &Options) -> Recording {
    tracepoints::start(options).expect("no other goes on")
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

/// Two workers rest most of the time. The recording begins after the arrival of one of them.
#[test]
fn who_looks_after_the_timers_of_whom_is_there() {
    let _alone = alone();
    let record = |options: &Options| {
        let recording = Mutex::new(None);
        thread::scope(|scope| {
            for number in 0..2 {
                let recording = &recording;
                scope.spawn(move || {
                    let worker = Worker::new().expect("this thread is none");
                    if number == 0 {
                        *recording.lock().expect("no panic") = Some(start(options));
                    }
                    worker.block_on(async {
                        for _ in 0..20 {
                            coarse::sleep(Duration::from_millis(2 + number)).await;
                        }
                    });
                });
            }
        });
        let recording = recording.into_inner().expect("no panic");
        lines(&recording.expect("it began").stop())
    };
    let all = record(&Options::new());
    let of_workers: Vec<_> = all
        .iter()
        .filter(|line| line.ends_with(",\"tree\":1}"))
        .cloned()
        .collect();
    for event in [
        "tmigr_group_set",
        "tmigr_connect_cpu_parent",
        "tmigr_cpu_available",
        "tmigr_group_set_cpu_inactive",
        "tmigr_update_events",
        "tmigr_cpu_idle",
        "tmigr_cpu_wakeup",
    ] {
        assert!(count(&of_workers, event) > 0, "{event}: {all:#?}");
    }
    let begins = |line: &&String| line.contains("\"cpu\":null,\"event\":\"tmigr_cpu_available\"");
    assert!(of_workers.iter().any(|line| begins(&line)), "{all:#?}");
    // The groups come before everything that happens to them.
    let is_setting = |line: &String| line.contains("tmigr_group_set\"") || line.contains("connect");
    let settings = of_workers
        .iter()
        .take_while(|line| is_setting(line))
        .count();
    assert!(!of_workers[settings..].iter().any(is_setting), "{all:#?}");
    let without = record(&Options::new().hierarchy(false));
    assert!(!without.iter().any(|line| line.contains("tmigr_")));
    // Of the worker that began the recording before its first sleep.
    assert!(count(&without, "timer_start") >= 20);
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
