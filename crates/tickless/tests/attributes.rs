//! Tests of the attribute `#[tickless::test]`, which runs them.
//!
//! Only in a debug build: the attribute is expanded before anything is optimised, and the runtime that it begins is
//! tested in both builds (`tests/executor`, `tests/virtual_time`).

#![cfg(debug_assertions)]

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::{Arc, Mutex};

use tickless::task;
use tickless::time::{self, Duration, Instant, interval, sleep};

mod support;

const DAY: Duration = Duration::from_secs(86_400);

#[tickless::test]
async fn the_clock_runs_at_first() {
    let start = std::time::Instant::now();
    sleep(Duration::from_millis(2)).await;
    assert!(start.elapsed() >= Duration::from_millis(2));
    time::pause();
    sleep(DAY).await;
}

#[tickless::test(start_paused = true)]
async fn the_clock_stands_still_at_first() {
    let start = Instant::now();
    sleep(DAY).await;
    assert_eq!(start.elapsed(), DAY);
}

#[tickless::test(start_paused = true)]
async fn what_is_returned_need_not_be_send() -> Result<(), Box<dyn std::error::Error>> {
    let shared = Rc::new(RefCell::new(0));
    let of_task = Rc::clone(&shared);
    task::spawn_local(async move {
        sleep(DAY).await;
        *of_task.borrow_mut() = 7;
    })
    .await?;
    assert_eq!(*shared.borrow(), 7);
    Ok(())
}

#[tickless::test(start_paused = true)]
#[should_panic(expected = "this is why")]
async fn a_panic_is_that_of_the_test() {
    sleep(DAY).await;
    panic!("this is why");
}

#[tickless::test(start_paused = true)]
async fn tasks_run_on_the_thread_of_the_test() {
    let thread = std::thread::current().id();
    let other = task::spawn(async { std::thread::current().id() }).await;
    assert_eq!(other.expect("it does not panic"), thread);
}

#[tickless::test(workers = 2)]
async fn several_workers_are_other_threads() {
    let thread = std::thread::current().id();
    let other = task::spawn(async { std::thread::current().id() }).await;
    assert_ne!(other.expect("it does not panic"), thread);
}

#[tickless::test(start_paused = true)]
async fn tasks_of_one_length_end_in_the_order_in_which_they_were_spawned() {
    for round in 0..50 {
        let order = Arc::new(Mutex::new(Vec::new()));
        let tasks = [0, 1, 2, 3, 4].map(|number| {
            let order = Arc::clone(&order);
            task::spawn(async move {
                let mut interval = interval(DAY);
                interval.tick().await;
                interval.tick().await;
                order.lock().expect("no panic").push(number);
            })
        });
        for task in tasks {
            task.await.expect("it does not panic");
        }
        let order = order.lock().expect("no panic");
        assert_eq!(*order, [0, 1, 2, 3, 4], "{round}");
    }
}

#[tickless::test(start_paused = true)]
async fn what_is_aborted_is_dropped() {
    struct Dropped(Arc<Mutex<bool>>);
    impl Drop for Dropped {
        fn drop(&mut self) {
            *self.0.lock().expect("no panic") = true;
        }
    }
    let dropped = Arc::new(Mutex::new(false));
    let sentry = Dropped(Arc::clone(&dropped));
    let task = task::spawn(async move {
        let _sentry = sentry;
        sleep(Duration::MAX).await;
    });
    sleep(DAY).await;
    task.abort();
    assert!(task.await.is_err());
    assert!(*dropped.lock().expect("no panic"));
}

#[test]
fn what_is_left_behind_ends_with_the_test() {
    static DROPPED: Mutex<u32> = Mutex::new(0);
    struct Dropped;
    impl Drop for Dropped {
        fn drop(&mut self) {
            *DROPPED.lock().expect("no panic") += 1;
        }
    }
    async fn leave() {
        let sentry = Dropped;
        drop(task::spawn(async move {
            let _sentry = sentry;
            sleep(Duration::MAX).await;
        }));
        sleep(DAY).await;
    }
    tickless::__private::test(true, None, leave);
    assert_eq!(*DROPPED.lock().expect("no panic"), 1);
    tickless::__private::seeds(0..2, "leave", leave);
    assert_eq!(*DROPPED.lock().expect("no panic"), 3);
}

/// Runs two tasks that add to a number: each reads the number, keeps it across an `await`, and writes it.
async fn race() -> u32 {
    let number = Arc::new(Mutex::new(0));
    let add = |pause: bool| {
        let number = Arc::clone(&number);
        task::spawn(async move {
            let read = *number.lock().expect("no panic");
            if pause {
                task::yield_now().await;
            }
            *number.lock().expect("no panic") = read + 1;
        })
    };
    let (slow, fast) = (add(true), add(false));
    slow.await.expect("it does not panic");
    fast.await.expect("it does not panic");
    Arc::into_inner(number)
        .expect("both are over")
        .into_inner()
        .expect("no panic")
}

#[tickless::test(seeds = 64)]
#[should_panic(expected = "one was lost")]
async fn seeds_find_a_race() {
    assert_eq!(race().await, 2, "one was lost");
}

#[tickless::test(seeds = 64)]
#[should_panic(expected = "none was lost")]
async fn not_every_seed_loses() {
    assert_eq!(race().await, 1, "none was lost");
}

static ORDER: Mutex<Vec<Vec<u32>>> = Mutex::new(Vec::new());

/// Records the order in which eight tasks begin, and in which their sleeps with one deadline end.
async fn order() {
    let order = Arc::new(Mutex::new(Vec::new()));
    let tasks = [0, 1, 2, 3, 4, 5, 6, 7].map(|number| {
        let order = Arc::clone(&order);
        task::spawn(async move {
            order.lock().expect("no panic").push(number);
            sleep(DAY).await;
            order.lock().expect("no panic").push(number);
        })
    });
    for task in tasks {
        task.await.expect("it does not panic");
    }
    let order = std::mem::take(&mut *order.lock().expect("no panic"));
    ORDER.lock().expect("no panic").push(order);
}

#[test]
fn one_seed_is_one_order() {
    let run = |seed| {
        tickless::__private::seeds(seed..seed + 1, "order", order);
        ORDER.lock().expect("no panic").pop().expect("it ran")
    };
    let orders: Vec<_> = (0..20).map(run).collect();
    let again: Vec<_> = (0..20).map(run).collect();
    assert_eq!(orders, again);
    let (begins, ends): (Vec<_>, Vec<_>) = orders.iter().map(|order| order.split_at(8)).unzip();
    for drawn in [begins, ends] {
        let differ = drawn.windows(2).filter(|pair| pair[0] != pair[1]).count();
        assert!(differ > 10, "{drawn:?}");
    }
    let as_begun = orders.iter().filter(|order| order[..8] == order[8..]);
    assert!(as_begun.count() < 10, "timers are drawn, too: {orders:?}");
}

#[tickless::test(seeds = 3)]
#[should_panic(expected = "deadlock: every task waits")]
async fn tasks_that_wait_for_ever_are_a_failure() {
    std::future::pending::<()>().await;
}

#[tickless::test(seeds = 3)]
#[should_panic(expected = "the test returned an error")]
async fn an_error_is_a_failure() -> Result<(), &'static str> {
    Err("this is why")
}

#[tickless::test(seeds = 3)]
async fn a_blocking_job_and_a_local_task_run_under_a_seed() {
    let local = task::spawn_local(async {
        sleep(DAY).await;
        1
    });
    let blocking = task::spawn_blocking(|| 2);
    let left = task::spawn(std::future::pending::<()>());
    assert_eq!(
        local.await.expect("no panic") + blocking.await.expect("no panic"),
        3
    );
    left.abort();
    assert!(left.await.is_err());
    drop(task::spawn(sleep(DAY)));
}

#[tickless::test(seeds = 64)]
#[ignore = "it fails, for the test of the line that replays it"]
async fn replayed() {
    assert_eq!(race().await, 2, "one was lost");
}

#[test]
fn a_seed_that_fails_prints_the_line_that_replays_it() {
    let run = |seed: Option<&str>| {
        let mut child = support::this_program();
        child.args(["--exact", "replayed", "--ignored", "--nocapture"]);
        child.env_remove("TICKLESS_SEED");
        if let Some(seed) = seed {
            child.env("TICKLESS_SEED", seed);
        }
        let output = child.output().expect("it can be started");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.success(), said)
    };
    let (passes, said) = run(None);
    assert!(!passes, "{said}");
    let line = said.lines().find(|line| line.contains("TICKLESS_SEED="));
    let line = line.expect("the line");
    assert!(line.ends_with(" cargo test replayed"), "{line}");
    let seed = line.split("TICKLESS_SEED=").nth(1).expect("a seed");
    let seed = seed.split(' ').next().expect("a seed");
    let (passes, again) = run(Some(seed));
    assert!(!passes && again.contains(line), "{again}");
    let has_passed = (0..64).any(|seed: u32| run(Some(&seed.to_string())).0);
    assert!(has_passed, "each seed loses, or none is replayed");
    let (passes, said) = run(Some("a"));
    assert!(!passes && said.contains("no number of a seed"), "{said}");
}
