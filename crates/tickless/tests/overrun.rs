//! Tests of timers with callbacks that take longer than they move the deadline ahead. The library delays, counts and
//! names such timers, and they keep no other timer of their thread from firing.

mod support;

use std::io::Read as _;
use std::pin::{Pin, pin};
use std::process::Stdio;
use std::time::{Duration, Instant};

use support::{
    assert_passed, assert_well_done, block_on, ms, on_thread, process_of_its_own, until, us,
    well_done, worker,
};
use tickless::hrtimer::{Expired, HrTimer, Monotonic, Restart, Span};
use tickless::time::sleep;
use tickless::{Driver, Executor, coarse, stats};

type Callback = Box<dyn FnMut(&mut Expired<'_, '_, Monotonic>) -> Restart + Send>;

/// Starts a timer with a callback that never moves the deadline ahead, or computes for four periods.
fn overrun(moves_on: bool) -> Pin<Box<HrTimer<Callback>>> {
    let callback: Callback = if moves_on {
        Box::new(|expired| {
            let start = Instant::now();
            while start.elapsed() < us(400) {}
            let next = expired.deadline().saturating_add(Span::from_micros(100));
            expired.set_deadline(next);
            Restart::Yes
        })
    } else {
        Box::new(|_| Restart::Yes)
    };
    let timer = Box::pin(HrTimer::new(callback));
    let _started = timer.as_ref().start(us(10));
    timer
}

async fn naps() {
    for _ in 0..10 {
        sleep(ms(2)).await;
        coarse::sleep(ms(2)).await;
    }
}

/// Runs `naps` while such a timer fires, whichever thread fires it.
fn naps_beside(moves_on: bool, naps: fn()) {
    let _patience = support::begin();
    on_thread(move || {
        let timer = overrun(moves_on);
        let start = Instant::now();
        naps();
        assert_passed(start, ms(40));
        // While it lasts.
        let before = stats().paced;
        naps();
        until(|| stats().paced > before);
        timer.as_ref().cancel();
    });
}

#[test]
fn foreign_threads_sleep_beside_a_timer_that_is_always_due() {
    for moves_on in [false, true] {
        naps_beside(moves_on, || block_on(naps()));
    }
}

#[test]
fn workers_sleep_beside_a_timer_that_is_always_due() {
    for moves_on in [false, true] {
        let _patience = support::begin();
        on_thread(move || {
            let worker = worker();
            let timer = overrun(moves_on);
            worker.block_on(naps());
            let before = stats().paced;
            worker.block_on(async {
                while stats().paced == before {
                    sleep(ms(1)).await;
                }
            });
            timer.as_ref().cancel();
        });
    }
}

#[test]
#[cfg_attr(portable_host, ignore = "no event loops on the portable host")]
fn drivers_sleep_beside_a_timer_that_is_always_due() {
    let _patience = support::begin();
    on_thread(|| {
        let driver = Driver::new().expect("the thread is free");
        let timer = overrun(false);
        let mut naps = pin!(naps());
        while support::poll_idly(naps.as_mut()).is_pending() {
            let _turn = driver.turn();
        }
        timer.as_ref().cancel();
    });
}

#[test]
fn tasks_sleep_beside_a_timer_that_is_always_due() {
    let _patience = support::begin();
    let executor = Executor::builder().workers(1).build().expect("it starts");
    for moves_on in [false, true] {
        let task = executor.spawn(async move {
            let timer = overrun(moves_on);
            naps().await;
            drop(timer);
        });
        executor.block_on(task).expect("it does not panic");
    }
}

#[test]
fn a_timer_that_is_always_due_is_named_once() {
    let test = "a_timer_that_is_always_due_is_named_once";
    let _patience = support::begin();
    if let Some(mut process) = process_of_its_own(test) {
        let mut child = process.stderr(Stdio::piped()).spawn().expect("it starts");
        let mut said = String::new();
        let mut errors = child.stderr.take().expect("it is piped");
        errors.read_to_string(&mut said).expect("it is text");
        assert_well_done(child.wait().expect("it ends"));
        let lines = said.lines().filter(|line| line.contains("always due"));
        let lines: Vec<&str> = lines.collect();
        assert_eq!(lines.len(), 1, "{said}");
        assert!(lines[0].contains("never_moves_on"), "{said}");
        return;
    }
    fn never_moves_on(_: &mut Expired<'_, '_, Monotonic>) -> Restart {
        Restart::Yes
    }
    let timers = [(); 2].map(|()| Box::pin(HrTimer::new(never_moves_on)));
    for timer in &timers {
        let _started = timer.as_ref().start(us(10));
    }
    block_on(sleep(Duration::from_millis(2_500)));
    drop(timers);
    well_done();
}
