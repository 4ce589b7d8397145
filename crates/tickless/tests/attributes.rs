//! `#[tickless::test]`: what the tests in here are run by.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::{Arc, Mutex};

use tickless::task;
use tickless::time::{self, Duration, Instant, interval, sleep};

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
    task::spawn_local(task::Spec::new(), async move {
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
async fn what_is_left_behind_is_dropped() {
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
    drop(task::spawn(sleep(DAY)));
}
