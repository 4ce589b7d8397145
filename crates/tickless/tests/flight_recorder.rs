//! Tests of the flight recorder.

#[path = "support/trace.rs"]
mod trace;

use std::pin::pin;
use std::sync::Mutex;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use tickless::hrtimer::{HrTimer, Restart, Span, Start};
use tickless::tracepoints::{self, Breach, FlightRecorder, Options, StartError};
use trace::{alone, count, lines, nap};

/// Longer than any test takes.
const NEVER: Duration = Duration::from_secs(3_600);

/// What a recorder tells.
type Told = mpsc::Receiver<(Breach, Vec<String>)>;

/// Starts a recorder, and a channel of what it tells.
fn fly(options: &Options) -> (FlightRecorder, Told) {
    let (tell, told) = mpsc::channel();
    let recorder = tracepoints::fly(options, move |breach, trace| {
        // Nobody listens at the end of a test.
        let _is_heard = tell.send((*breach, lines(trace)));
    });
    (recorder.expect("no other goes on"), told)
}

/// Waits for a breach for which `is_it` holds; others may come before.
fn wait_for(told: &Told, is_it: impl Fn(&Breach) -> bool) -> (Breach, Vec<String>) {
    loop {
        // No machine stands still for so long.
        let one = told.recv_timeout(Duration::from_secs(100));
        let one = one.expect("the recorder tells");
        if is_it(&one.0) {
            return one;
        }
    }
}

/// Returns the time of the last expiry.
fn last_expiry(lines: &[String]) -> u64 {
    let last = lines
        .iter()
        .rfind(|line| line.contains("\"hrtimer_expire_entry\""));
    let time = last.and_then(|line| line.strip_prefix("{\"time\":")?.split_once(','));
    time.and_then(|(time, _)| time.parse().ok())
        .expect("one expired")
}

#[test]
fn a_snapshot_has_the_expiries_and_no_starts() {
    let _alone = alone();
    let (recorder, _told) = fly(&Options::new().late_max(NEVER));
    thread::spawn(|| (0..3).for_each(|_| nap()))
        .join()
        .expect("it naps");
    let trace = recorder.snapshot();
    assert!(trace.is_whole());
    let lines = lines(&trace);
    // A timer at the same address is another one each time, and each was queued.
    let entries = count(&lines, "hrtimer_expire_entry");
    assert!(entries >= 3, "{lines:#?}");
    assert_eq!(count(&lines, "hrtimer_queued"), entries, "{lines:#?}");
    assert_eq!(count(&lines, "hrtimer_start"), 0, "{lines:#?}");
    assert_eq!(count(&lines, "hrtimer_cancel"), 0, "{lines:#?}");
}

#[test]
fn a_full_ring_keeps_the_last_events() {
    let _alone = alone();
    let (recorder, _told) = fly(&Options::new().late_max(NEVER).events_per_thread(4));
    for _ in 0..20 {
        nap();
    }
    let before = last_expiry(&lines(&recorder.snapshot()));
    nap();
    let lines = lines(&recorder.snapshot());
    assert!(last_expiry(&lines) > before, "{lines:#?}");
    // One thread fires all. Of the begin and the end of an expiry that are two.
    assert!(count(&lines, "hrtimer_expire_entry") <= 2, "{lines:#?}");
}

#[test]
fn a_long_callback_is_told_with_what_happened() {
    let _alone = alone();
    let bounds = Options::new()
        .late_max(NEVER)
        .callback_max(Duration::from_millis(5));
    let (_recorder, told) = fly(&bounds);
    let timer = pin!(HrTimer::new(|_| {
        thread::sleep(Duration::from_millis(6));
        Restart::No
    }));
    let _ = timer.as_ref().start(Start::after(Span::from_micros(10)));
    let (breach, lines) = wait_for(&told, |breach| matches!(breach, Breach::LongCallback(_)));
    let Breach::LongCallback(took) = breach else {
        unreachable!("it is one");
    };
    assert!(took >= Duration::from_millis(5), "{breach}");
    assert!(count(&lines, "hrtimer_expire_exit") >= 1, "{lines:#?}");
    timer.as_ref().cancel();
}

#[test]
fn late_timers_are_told() {
    let _alone = alone();
    let (_recorder, told) = fly(&Options::new().late_max(Duration::from_millis(5)));
    // One thread fires both: the first keeps it from the second for longer than a timer may be late.
    let first = pin!(HrTimer::new(|_| {
        thread::sleep(Duration::from_millis(20));
        Restart::No
    }));
    let second = pin!(HrTimer::new(|_| Restart::No));
    let _ = first.as_ref().start(Start::after(Span::from_micros(10)));
    let _ = second.as_ref().start(Start::after(Span::from_millis(2)));
    let is_late =
        |breach: &Breach| matches!(breach, Breach::Late(late) if *late > Duration::from_millis(5));
    let (_, lines) = wait_for(&told, is_late);
    assert!(lines[0].contains("\"late_max\":5000000"), "{}", lines[0]);
    first.as_ref().cancel();
    second.as_ref().cancel();
}

#[test]
fn a_timer_that_never_fires_is_told() {
    let _alone = alone();
    let (_recorder, told) = fly(&Options::new().late_max(Duration::from_millis(5)));
    let (end, ended) = mpsc::channel::<()>();
    let ended = Mutex::new(ended);
    // One thread fires both, and the first keeps it.
    let first = pin!(HrTimer::new(move |_| {
        // An error is the end of the test, too.
        let _is_ended = ended.lock().map(|ended| ended.recv());
        Restart::No
    }));
    let second = pin!(HrTimer::new(|_| Restart::No));
    let _ = first.as_ref().start(Start::after(Span::from_micros(10)));
    let _ = second.as_ref().start(Start::after(Span::from_millis(2)));
    // The first may be late, which is told before.
    let (breach, _) = wait_for(&told, |breach| matches!(breach, Breach::Overdue(..)));
    assert!(breach.to_string().contains("has not fired"), "{breach}");
    drop(end);
    first.as_ref().cancel();
    second.as_ref().cancel();
}

#[test]
fn there_is_one_recorder_at_a_time() {
    let _alone = alone();
    let (recorder, _told) = fly(&Options::new());
    let second = tracepoints::fly(&Options::new(), |_, _| {});
    assert_eq!(
        second.expect_err("one goes on"),
        StartError::AlreadyRecording
    );
    drop(recorder);
    drop(fly(&Options::new()));
}
