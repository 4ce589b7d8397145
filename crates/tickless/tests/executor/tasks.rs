//! Tests of tasks on an executor: results, panics, cancellation, shutdown.

use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::task::Poll;
use std::time::Duration;

use tickless::executor::PanicPolicy;
use tickless::task::{self, Slice, Spec, Weight};
use tickless::{Executor, coop, time};

use crate::executor;
use crate::support::panic_of;

/// Returns an executor with one worker, on which two tasks take turns every 200 µs.
fn with_short_slices() -> Executor {
    let builder = Executor::builder().workers(1);
    let executor = builder.slice(Duration::from_micros(200)).build();
    executor.expect("there are threads enough")
}

/// Spawns a task that never ends by itself, and returns it with the flag that its end sets.
fn endless(executor: &Executor) -> (task::JoinHandle<()>, Arc<AtomicBool>) {
    let dropped = Arc::new(AtomicBool::new(false));
    let flag = Dropped(Arc::clone(&dropped));
    let task = executor.spawn(async move {
        let _flag = flag;
        std::future::pending::<()>().await;
    });
    (task, dropped)
}

/// Keeps its worker until the flag is set.
async fn hog(stop: Arc<AtomicBool>) {
    while !stop.load(Ordering::SeqCst) {
        std::hint::spin_loop();
    }
}

/// A value that sets a flag when it is dropped.
struct Dropped(Arc<AtomicBool>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

#[test]
fn a_task_gives_its_result_to_who_waits_for_it() {
    let executor = executor(2);
    let task = executor.spawn(async { 40 + 2 });
    assert_eq!(executor.block_on(task).expect("it ends"), 42);
}

/// The running task was alone until then, without a tick: only the checkpoint can find the other task.
#[test]
fn a_task_that_wakes_another_one_gives_way_at_a_checkpoint() {
    for workers in [1, 2] {
        let executor = executor(workers);
        let computes = executor.spawn_with(Slice::MAX, async {
            let began = Arc::new(AtomicBool::new(false));
            let begins = Arc::clone(&began);
            let woken = task::spawn_with(Slice::MIN, async move {
                begins.store(true, Ordering::SeqCst);
            });
            while !began.load(Ordering::SeqCst) {
                coop::checkpoint().await;
            }
            woken.await.expect("it ends");
        });
        executor.block_on(computes).expect("it ends");
    }
}

#[test]
fn a_panic_goes_to_the_joiner_and_no_further() {
    let executor = executor(1);
    let bad = executor.spawn(async { panic!("on purpose") });
    let good = executor.spawn(async {
        time::sleep(Duration::from_millis(1)).await;
        7
    });
    let error: task::JoinError = executor.block_on(bad).expect_err("it panicked");
    assert!(error.is_panic() && !error.is_cancelled());
    assert_eq!(error.to_string(), "the task panicked: on purpose");
    let payload = error.try_into_panic().expect("it is one");
    assert_eq!(payload.downcast_ref::<&str>(), Some(&"on purpose"));
    assert_eq!(executor.block_on(good).expect("it goes on"), 7);
    assert_eq!(executor.stats().panics, 1);
}

#[test]
fn a_panic_ends_the_others_where_that_is_asked_for() {
    let builder = Executor::builder()
        .workers(2)
        .on_panic(PanicPolicy::ShutDown);
    let executor = builder.build().expect("there are threads enough");
    let waits = executor.spawn(std::future::pending::<()>());
    let bad = executor.spawn(async { panic!("on purpose") });
    let ended = executor.block_on(waits);
    assert!(ended.expect_err("it never ends by itself").is_cancelled());
    assert!(executor.block_on(bad).expect_err("it panicked").is_panic());
}

#[test]
fn a_destructor_that_panics_harms_no_other_task() {
    struct Bad;
    impl Drop for Bad {
        fn drop(&mut self) {
            panic!("on purpose, in a destructor");
        }
    }
    let executor = executor(1);
    let bad = Bad;
    let bad = executor.spawn(async move {
        let _bad = bad;
        std::future::pending::<()>().await;
    });
    bad.abort();
    assert!(
        executor
            .block_on(bad)
            .expect_err("it was aborted")
            .is_cancelled()
    );
    assert_eq!(
        executor
            .block_on(executor.spawn(async { 1 }))
            .expect("it ends"),
        1
    );
    assert_eq!(executor.stats().panics, 1);
}

#[test]
fn an_aborted_task_is_dropped_and_says_so() {
    let executor = executor(2);
    let (task, dropped) = endless(&executor);
    assert!(!task.is_finished());
    task.abort();
    let error = executor.block_on(task).expect_err("it was aborted");
    assert!(error.is_cancelled());
    assert!(
        dropped.load(Ordering::SeqCst),
        "after its result there is nothing left of it"
    );
}

#[test]
fn a_task_that_computes_is_aborted_at_its_next_await() {
    let executor = executor(1);
    let (begun, begins) = mpsc::channel();
    let task = executor.spawn(async move {
        begun.send(()).expect("the test waits");
        loop {
            coop::yield_now().await;
        }
    });
    begins.recv().expect("it begins");
    task.abort();
    let ended: Result<(), _> = executor.block_on(task);
    assert!(ended.expect_err("it was aborted").is_cancelled());
}

#[test]
fn blocking_jobs_have_a_bound() {
    let builder = Executor::builder().workers(1).blocking_threads(2);
    let executor = builder.build().expect("there are threads enough");
    let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let jobs: Vec<_> = (0..20)
        .map(|number| {
            let (running, most) = (Arc::clone(&running), Arc::clone(&most));
            executor.spawn_blocking(move || {
                most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                std::thread::sleep(Duration::from_micros(300));
                running.fetch_sub(1, Ordering::SeqCst);
                number
            })
        })
        .collect();
    for (number, job) in jobs.into_iter().enumerate() {
        assert_eq!(executor.block_on(job).expect("it ends"), number);
    }
    assert!(most.load(Ordering::SeqCst) <= 2);
    let bad = executor.spawn_blocking(|| panic!("on purpose"));
    assert!(executor.block_on(bad).expect_err("it panicked").is_panic());
}

#[test]
fn a_shutdown_waits_and_then_cancels() {
    let executor = executor(2);
    let (done, ends) = mpsc::channel();
    executor
        .spawn(async move {
            time::sleep(Duration::from_millis(2)).await;
            done.send(()).expect("the test waits");
        })
        .detach();
    assert_eq!(
        executor.shutdown(Duration::from_secs(60)),
        0,
        "all ended by themselves"
    );
    ends.recv().expect("it ended");
    let late = executor.spawn(async { 1 });
    assert!(
        executor
            .block_on(late)
            .expect_err("nothing is taken")
            .is_cancelled()
    );

    let executor = crate::executor(2);
    let (task, dropped) = endless(&executor);
    assert_eq!(executor.shutdown(Duration::from_millis(1)), 1);
    assert!(dropped.load(Ordering::SeqCst));
    assert!(
        executor
            .block_on(task)
            .expect_err("it was cancelled")
            .is_cancelled()
    );
    assert_eq!(
        executor.shutdown(Duration::ZERO),
        0,
        "a second time there is nothing to do"
    );
}

/// A task that computes alone has no tick: the request of the shutdown ends it.
#[test]
fn a_shutdown_ends_a_task_that_computes_alone() {
    for _ in 0..20 {
        let builder = Executor::builder().workers(1);
        let executor = builder.build().expect("there are threads enough");
        let (begun, begins) = mpsc::channel();
        let task = executor.spawn(async move {
            begun.send(()).expect("the test waits");
            loop {
                coop::checkpoint().await;
            }
        });
        begins.recv().expect("it begins");
        assert_eq!(executor.shutdown(Duration::ZERO), 1);
        let ended: Result<(), _> = executor.block_on(task);
        assert!(ended.expect_err("it was cancelled").is_cancelled());
    }
}

#[test]
fn an_executor_may_be_dropped_by_its_own_task() {
    let executor = Arc::new(Mutex::new(None));
    let own = Arc::clone(&executor);
    let (done, ends) = mpsc::channel();
    *executor.lock().expect("no panic") = Some(crate::executor(2));
    let guard = executor.lock().expect("no panic");
    let inner = guard.as_ref().expect("it is there");
    inner
        .spawn(async move {
            let executor = own.lock().expect("no panic").take();
            drop(executor);
            // The poll goes on to its end.
            done.send(task::spawn(async {}).is_finished())
                .expect("the test waits");
        })
        .detach();
    drop(guard);
    assert_eq!(
        ends.recv(),
        Ok(true),
        "what is spawned afterwards is cancelled at once"
    );
}

#[test]
fn blocking_on_a_future_in_a_task_is_a_panic_of_that_task() {
    let executor = Arc::new(executor(1));
    let own = Arc::clone(&executor);
    let task = executor.spawn(async move { own.block_on(async { 1 }) });
    let error = executor.block_on(task).expect_err("it panicked");
    assert!(
        error.to_string().contains("cannot block its worker"),
        "{error}"
    );
    // In a blocking job it is fine.
    let own = Arc::clone(&executor);
    let job = executor.spawn_blocking(move || own.block_on(own.spawn(async { 3 })));
    assert_eq!(
        executor.block_on(job).expect("it ends").expect("it ends"),
        3
    );
}

#[test]
fn nonsense_for_weights_slices_and_deadlines_is_moved_into_the_range() {
    assert_eq!(Weight::clamped(0), Weight::MIN);
    assert_eq!(Weight::clamped(u64::MAX), Weight::MAX);
    assert_eq!(Slice::new(Duration::ZERO), Slice::MIN);
    assert_eq!(Slice::new(Duration::from_secs(3_600)), Slice::MAX);
    let executor = executor(1);
    let specs: [Spec; 5] = [
        Weight::clamped(0).into(),
        Weight::clamped(u64::MAX).into(),
        Slice::new(Duration::ZERO).into(),
        Slice::new(Duration::MAX).into(),
        Spec::new().name("").weight(Weight::MAX).slice(Slice::MIN),
    ];
    let tasks: Vec<_> = specs
        .into_iter()
        .map(|spec| {
            executor.spawn_with(spec, async {
                for _ in 0..100 {
                    coop::yield_now().await;
                }
            })
        })
        .collect();
    for task in tasks {
        executor.block_on(task).expect("it ends");
    }
}

#[test]
fn a_million_tasks_at_once() {
    // With assertions each of them takes ten times as long.
    let count: u64 = if cfg!(debug_assertions) {
        100_000
    } else {
        1_000_000
    };
    let executor = executor(2);
    let tasks: Vec<_> = (0..count)
        .map(|number| {
            executor.spawn(async move {
                coop::yield_now().await;
                number
            })
        })
        .collect();
    let mut sum = 0;
    for task in tasks {
        sum += executor.block_on(task).expect("it ends");
    }
    assert_eq!(sum, count * (count - 1) / 2);
    // The handle has the result before the task is counted off.
    while executor.stats().tasks > 0 {
        std::thread::yield_now();
    }
}

#[test]
fn checkpoints_cost_no_turn_where_no_executor_is() {
    assert!(!coop::need_resched());
    futures::executor::block_on(async {
        coop::checkpoint().await;
        coop::yield_now().await;
    });
}

#[test]
fn a_task_that_keeps_its_worker_is_named_once_and_timers_go_on() {
    let reports: Arc<Mutex<Vec<_>>> = Arc::default();
    let sink = Arc::clone(&reports);
    let stop = Arc::new(AtomicBool::new(false));
    let builder = Executor::builder()
        .workers(1)
        .stuck_after(Duration::from_millis(5));
    let builder = builder.on_stuck(move |stuck| sink.lock().expect("no panic").push(stuck.clone()));
    let executor = builder.build().expect("there are threads enough");
    let line = line!() + 1;
    let hog = executor.spawn_with(Spec::new().name("hog"), hog(Arc::clone(&stop)));
    while reports.lock().expect("no panic").is_empty() {
        executor.block_on(time::sleep(Duration::from_micros(100)));
    }
    // It has been reported once; a few periods more report nothing.
    executor.block_on(time::sleep(Duration::from_millis(20)));
    stop.store(true, Ordering::SeqCst);
    executor.block_on(hog).expect("it ends");
    let reports = reports.lock().expect("no panic");
    assert_eq!(reports.len(), 1, "{reports:?}");
    assert_eq!(reports[0].name.as_deref(), Some("hog"));
    assert_eq!((reports[0].spawned_at.line(), reports[0].worker), (line, 0));
    assert!(reports[0].polled_for >= Duration::from_millis(5));
    assert_eq!(executor.stats().stuck, 1);
}

/// The system may keep a worker off its CPU for longer than the watch waits, just before the worker picks its first
/// task.
#[cfg(feature = "internals")]
#[test]
fn a_task_that_is_picked_late_is_watched_all_the_same() {
    static IS_LATE: AtomicBool = AtomicBool::new(true);
    let (sender, reports) = mpsc::channel();
    let stop = Arc::new(AtomicBool::new(false));
    let executor = Executor::builder()
        .workers(1)
        .stuck_after(Duration::from_millis(5))
        .on_stuck(move |stuck| sender.send(stuck.worker).expect("the test waits"))
        .rounds(|round| {
            if IS_LATE.swap(false, Ordering::SeqCst) {
                std::thread::sleep(Duration::from_millis(100));
            }
            round();
        })
        .build()
        .expect("there are threads enough");
    let hog = executor.spawn(hog(Arc::clone(&stop)));
    let reported = reports.recv_timeout(Duration::from_secs(60));
    stop.store(true, Ordering::SeqCst);
    executor.block_on(hog).expect("it ends");
    assert_eq!(reported, Ok(0), "it is reported");
}

#[test]
fn an_idle_worker_pulls_what_waits_behind_a_task_that_computes() {
    let executor = executor(2);
    let stop = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&stop);
    let hog = executor.spawn(async move {
        let behind = task::spawn(async move { stop.store(true, Ordering::SeqCst) });
        let second = task::spawn(async {});
        // No checkpoint: only another worker can run what waits here.
        while !seen.load(Ordering::SeqCst) {
            std::thread::yield_now();
        }
        behind.await.expect("it ends");
        second.await.expect("it ends");
    });
    executor.block_on(hog).expect("it ends");
    assert!(executor.stats().pulls > 0);
}

/// Three computing tasks take turns on two workers. Otherwise two tasks would share a worker for ever, and each would
/// get half the share of the third task.
#[test]
fn three_tasks_that_compute_have_two_workers_by_turns() {
    let executor = executor(2);
    let (met, count) = (Arc::new(AtomicUsize::new(0)), 3);
    let tasks: Vec<_> = (0..count)
        .map(|_| {
            let met = Arc::clone(&met);
            executor.spawn(async move {
                let begun_on = std::thread::current().id();
                let mut moved = false;
                while met.load(Ordering::SeqCst) < count {
                    if !moved && std::thread::current().id() != begun_on {
                        moved = true;
                        met.fetch_add(1, Ordering::SeqCst);
                    }
                    coop::checkpoint().await;
                }
            })
        })
        .collect();
    for task in tasks {
        executor.block_on(task).expect("it ends");
    }
    let stats = executor.stats();
    assert!(stats.pulls + stats.pushes >= 3, "{stats:?}");
}

thread_local! {
    static SEEN: RefCell<Vec<u32>> = const { RefCell::new(Vec::new()) };
}

#[test]
fn a_future_that_block_on_runs_need_not_be_send() {
    let executor = executor(1);
    let shared = Rc::new(Cell::new(1));
    let value = executor.block_on(async {
        time::sleep(Duration::from_micros(50)).await;
        SEEN.with_borrow_mut(|seen| seen.push(1));
        shared.set(shared.get() + task::spawn(async { 1 }).await.expect("it ends"));
        shared.get()
    });
    assert_eq!(value, 2);
    fn is_send<T: Send>(_: &T) {}
    is_send(&executor.spawn(async {}));
    fn is_future<T: Future>(_: &T) {}
    is_future(&coop::checkpoint());
}

#[test]
fn a_worker_with_local_tasks_alone_gives_none_away() {
    let executor = executor(2);
    let done = executor.spawn(async {
        let here = std::thread::current().id();
        let locals: Vec<_> = {
            let turns = Rc::new(Cell::new(0));
            let local = |_| {
                let turns = Rc::clone(&turns);
                task::spawn_local(async move {
                    for _ in 0..20 {
                        coop::yield_now().await;
                        assert_eq!(std::thread::current().id(), here);
                        turns.set(turns.get() + 1);
                    }
                    time::sleep(Duration::from_micros(20)).await;
                    assert_eq!(std::thread::current().id(), here);
                })
            };
            (0..50).map(local).collect()
        };
        // Others may be pulled from among them.
        let free = task::spawn(async { 1 });
        for local in locals {
            // It outlives this task, which may move.
            local.detach();
        }
        free.await.expect("it ends")
    });
    assert_eq!(executor.block_on(done).expect("it ends"), 1);
    assert_eq!(executor.shutdown(Duration::from_secs(60)), 0);
    assert_eq!(executor.stats().panics, 0);
}

#[test]
fn sockets_of_any_reactor_work() {
    let executor = executor(2);
    let (one, two) = std::os::unix::net::UnixStream::pair().expect("a pair of sockets");
    let one = async_io::Async::new(one).expect("it can be watched");
    let two = async_io::Async::new(two).expect("it can be watched");
    let echo = executor.spawn(async move {
        let mut byte = [0];
        for _ in 0..100 {
            futures_lite::AsyncReadExt::read_exact(&mut &two, &mut byte)
                .await
                .expect("it is open");
            byte[0] += 1;
            futures_lite::AsyncWriteExt::write_all(&mut &two, &byte)
                .await
                .expect("it is open");
        }
    });
    let asks = executor.spawn(async move {
        for number in 0..100 {
            let mut byte = [number];
            futures_lite::AsyncWriteExt::write_all(&mut &one, &byte)
                .await
                .expect("it is open");
            futures_lite::AsyncReadExt::read_exact(&mut &one, &mut byte)
                .await
                .expect("it is open");
            assert_eq!(byte[0], number + 1);
        }
    });
    executor.block_on(asks).expect("it ends");
    executor.block_on(echo).expect("it ends");
}

/// Computes until the running task is requested to give way.
fn until_asked() {
    while !coop::need_resched() {
        std::hint::spin_loop();
    }
}

#[test]
fn a_slice_is_extended_once_in_a_section_that_asks_for_it() {
    let executor = with_short_slices();
    let turns = Arc::new(AtomicU32::new(0));
    let seen = Arc::clone(&turns);
    let hog = executor.spawn(async move {
        let more = coop::extend_slice();
        let before = seen.load(Ordering::Relaxed);
        until_asked();
        coop::checkpoint().await;
        assert_eq!(seen.load(Ordering::Relaxed), before, "it goes on");
        // The tick ends that, and there is no second time; nor one without a wish, or after the section.
        let end_of_turn = async || {
            let before = seen.load(Ordering::Relaxed);
            while seen.load(Ordering::Relaxed) == before {
                until_asked();
                coop::checkpoint().await;
            }
        };
        end_of_turn().await;
        drop(more);
        end_of_turn().await;
        drop(coop::extend_slice());
        end_of_turn().await;
        seen.store(u32::MAX, Ordering::Relaxed);
    });
    let other = executor.spawn(async move {
        // It has a turn whenever the first one gives way.
        while turns.load(Ordering::Relaxed) != u32::MAX {
            turns.fetch_add(1, Ordering::Relaxed);
            coop::yield_now().await;
        }
    });
    executor.block_on(hog).expect("as it should be");
    executor.block_on(other).expect("it ends");
    assert_eq!(executor.stats().extensions, 1);
}

#[test]
fn a_section_that_used_its_extension_gives_way_behind_it() {
    let executor = with_short_slices();
    let stop = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&stop);
    let hog = executor.spawn(async move {
        let more = coop::extend_slice();
        until_asked();
        coop::checkpoint().await;
        drop(more);
        assert!(coop::need_resched(), "it used what it was granted");
        seen.store(true, Ordering::Relaxed);
    });
    let other = executor.spawn(async move {
        while !stop.load(Ordering::Relaxed) {
            coop::checkpoint().await;
        }
    });
    executor.block_on(hog).expect("as it should be");
    executor.block_on(other).expect("it ends");
    assert_eq!(executor.stats().extensions, 1);
}

#[test]
fn nothing_is_extended_where_no_tick_would_end_it() {
    let executor = Executor::builder().workers(1).hrtick(false).build();
    let executor = executor.expect("there are threads enough");
    let hog = executor.spawn(async {
        let _more = coop::extend_slice();
        let behind = task::spawn(async {});
        let timer = time::sleep(Duration::from_micros(50));
        let mut timer = std::pin::pin!(timer);
        poll_fn(|context| {
            let _pending = timer.as_mut().poll(context);
            Poll::Ready(())
        })
        .await;
        until_asked();
        coop::checkpoint().await;
        drop(behind);
    });
    executor.block_on(hog).expect("it ends");
    assert_eq!(executor.stats().extensions, 0);
    // Nor where no executor is.
    drop(coop::extend_slice());
}

#[test]
fn a_spawn_out_of_place_says_where_it_may_be() {
    let refused = |spawn: fn() -> task::JoinHandle<()>| panic_of(|| drop(spawn())).message;
    let text = refused(|| task::spawn(async {}));
    assert!(text.starts_with("no executor runs this code: "), "{text}");
    assert!(text.ends_with("or use the methods of `Executor`"), "{text}");
    let text = executor(1).block_on(async { refused(|| task::spawn_local(async {})) });
    assert!(text.starts_with("no worker runs this code: "), "{text}");
}
