//! Tests of `tickless verify` on the trace of a program: this test program.

mod support;

use std::fs;
use std::pin::pin;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use support::{Place, end, text};
use tickless::hrtimer::{HrTimer, Restart, Span, Start};
use tickless::tracepoints::{self, Options};
use tickless::{Worker, coarse, time};

/// The lock that keeps the tests apart, because a process makes only one recording at a time.
static ONE: Mutex<()> = Mutex::new(());

const ROUNDS: u64 = 40;

/// A time that is longer than any wait on a busy machine.
const LONG: Duration = Duration::from_secs(3600);

/// Records timers of five threads, three of which are workers: sleeps that fire, timeouts that are cancelled, a
/// callback that restarts its timer, and a timer that is started, moved and cancelled. Two of the workers sleep most of
/// the time, so that one fires the timers of the other. Writes the trace to `my.jsonl`.
fn record(events: usize) -> Place {
    let _alone = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let waits = pin!(HrTimer::new(|_| Restart::No));
    let _ = waits.as_ref().start(Start::after(Span::from_secs(3600)));
    let options = Options::new().events_per_thread(events).late_max(LONG);
    let recording = tracepoints::start(&options).expect("no other goes on");
    let _ = waits.as_ref().cancel();
    thread::scope(|scope| {
        scope.spawn(|| naps(false));
        scope.spawn(|| naps(true));
        scope.spawn(|| rests(3));
        scope.spawn(|| rests(5));
        scope.spawn(|| {
            let timer = pin!(HrTimer::new(|_| Restart::No));
            for round in 0..ROUNDS {
                let far = Start::after(Span::from_secs(3600 + round));
                let _ = timer.as_ref().start(far);
            }
            let _ = timer.as_ref().cancel();
        });
    });
    let trace = recording.stop();
    let place = Place::new();
    let file = fs::File::create(place.path("my.jsonl")).expect("it can be made");
    trace.write(file).expect("it can be written");
    place
}

fn naps(is_worker: bool) {
    let all = async {
        for round in 0..ROUNDS {
            let nap = time::sleep(Duration::from_micros(round));
            let _ = coarse::timeout(LONG, nap).await;
        }
    };
    if is_worker {
        Worker::new().expect("this thread is none").block_on(all);
    } else {
        tokio::runtime::Builder::new_current_thread()
            .build()
            .expect("a runtime can be built")
            .block_on(all);
    }
}

fn rests(millis: u64) {
    let all = async {
        for round in 0..ROUNDS / 2 {
            coarse::sleep(Duration::from_millis(millis + round % 3)).await;
        }
    };
    Worker::new().expect("this thread is none").block_on(all);
}

#[test]
fn a_trace_of_a_program_is_found_good() {
    let place = record(1 << 14);
    let output = place.run(&["verify", "my.jsonl", "--chrome", "my.json"]);
    assert_eq!(end(&output), (Some(0), String::new()));
    let out = text(&output.stdout);
    for promise in [
        "never_early",
        "never_lost",
        "bounded_late",
        "one_migrator",
        "covered",
    ] {
        let row = out.lines().find(|line| line.starts_with(promise));
        assert!(row.is_some_and(|row| row.ends_with("kept")), "{out}");
    }
    assert!(!out.contains("unknown event"), "{out}");
    support::json_file(&place.path("my.json"));
}

#[test]
fn a_trace_that_lost_events_is_not_whole() {
    let place = record(60);
    let output = place.run(&["verify", "my.jsonl"]);
    let (code, error) = end(&output);
    assert_eq!(code, Some(2), "{error}");
    assert!(error.contains("the trace is not whole"), "{error}");
    assert!(text(&output.stdout).contains("not whole: "));
}
