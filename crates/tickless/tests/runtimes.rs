//! Tests of the same timers in every runtime, and without a runtime.

mod support;

use std::collections::HashSet;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use futures::future::join_all;
use support::{assert_passed, ms, on_thread, poll_idly, us};
use tickless::Worker;
use tickless::time::{self, interval, sleep, timeout};
use tickless_conformance::random::Random;

/// Uses a few timers in each way in which programs use them.
async fn a_bit_of_everything() {
    let start = Instant::now();
    sleep(us(300)).await;
    assert_passed(start, us(300));

    assert!(
        timeout(us(500), std::future::pending::<()>())
            .await
            .is_err()
    );
    assert_eq!(timeout(ms(1_000), async { 7 }).await, Ok(7));
    let slow = async {
        sleep(us(200)).await;
        8
    };
    assert_eq!(timeout(Duration::from_secs(60), slow).await, Ok(8));

    let mut ticks = interval(us(200));
    let first = ticks.tick().await;
    for tick in 1..5 {
        assert_eq!(ticks.tick().await, first + us(200) * tick);
    }

    let start = Instant::now();
    let all = (0..20).map(|number| async move {
        let start = Instant::now();
        sleep(us(100 * number)).await;
        assert_passed(start, us(100 * number));
    });
    join_all(all).await;
    assert_passed(start, us(1_900));
}

fn multi_thread(threads: usize) -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(threads)
        .enable_all()
        .build()
        .expect("a runtime")
}

#[test]
fn timers_work_on_one_thread_of_tokio() {
    let _patience = support::begin();
    support::in_tokio(async {
        a_bit_of_everything().await;
        let spawned = tokio::spawn(a_bit_of_everything());
        a_bit_of_everything().await;
        spawned.await.expect("it does not panic");
    });
}

#[test]
fn timers_work_in_a_tokio_runtime_without_any_driver() {
    let _patience = support::begin();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .expect("a runtime");
    runtime.block_on(a_bit_of_everything());
}

#[test]
fn timers_work_on_many_threads_of_tokio() {
    let _patience = support::begin();
    multi_thread(4).block_on(async {
        let tasks: Vec<_> = (0..16)
            .map(|_| tokio::spawn(a_bit_of_everything()))
            .collect();
        a_bit_of_everything().await;
        for task in tasks {
            task.await.expect("it does not panic");
        }
    });
}

#[test]
fn timers_work_in_tokios_blocking_threads() {
    let _patience = support::begin();
    multi_thread(2).block_on(async {
        let blocking = tokio::task::spawn_blocking(|| support::block_on(a_bit_of_everything()));
        blocking.await.expect("it does not panic");
    });
}

#[test]
fn timers_work_in_smol() {
    let _patience = support::begin();
    async_io::block_on(a_bit_of_everything());
    let executor = Arc::new(async_executor::Executor::new());
    let (stop, stopped) = tokio::sync::watch::channel(());
    let threads: Vec<_> = (0..3)
        .map(|_| {
            let (executor, mut stopped) = (Arc::clone(&executor), stopped.clone());
            thread::spawn(move || async_io::block_on(executor.run(stopped.changed())))
        })
        .collect();
    let tasks: Vec<_> = (0..12)
        .map(|_| executor.spawn(a_bit_of_everything()))
        .collect();
    async_io::block_on(async {
        for task in tasks {
            task.await;
        }
    });
    drop(stop);
    for thread in threads {
        let _closed = thread.join().expect("it does not panic");
    }
}

#[test]
fn timers_work_in_the_executors_of_futures() {
    let _patience = support::begin();
    futures::executor::block_on(a_bit_of_everything());
    let mut pool = futures::executor::LocalPool::new();
    pool.run_until(a_bit_of_everything());
}

#[test]
fn timers_work_without_any_runtime() {
    let _patience = support::begin();
    support::block_on(a_bit_of_everything());
}

#[test]
fn timers_work_on_a_worker() {
    let _patience = support::begin();
    Worker::new()
        .expect("the thread is free")
        .block_on(a_bit_of_everything());
}

/// The thread of another runtime may be a worker, which runs the timers of this runtime between the polls.
#[test]
fn a_worker_runs_the_timers_of_an_executor_on_its_thread() {
    let _patience = support::begin();
    let worker = Worker::new().expect("the thread is free");
    let executor = async_executor::LocalExecutor::new();
    let tasks = [(); 5].map(|()| executor.spawn(a_bit_of_everything()));
    worker.block_on(executor.run(join_all(tasks)));
}

/// Each sleep of a task is queued on the thread that polls it, whichever thread that is.
///
/// Which thread polls a task next is tokio's choice, and on one CPU the same thread may poll it for long: the test
/// repeats its rounds until a task has moved.
#[test]
fn tasks_migrate_between_threads_while_they_sleep() {
    let _patience = support::begin();
    let runtime = multi_thread(4);
    let moved = Arc::new(AtomicU32::new(0));
    while moved.load(Ordering::Relaxed) == 0 {
        runtime.block_on(async {
            let tasks: Vec<_> = (0..64_u64)
                .map(|seed| tokio::spawn(wander(seed, Arc::clone(&moved))))
                .collect();
            for task in tasks {
                task.await.expect("it does not panic");
            }
        });
    }
}

/// Sleeps forty times for a little, with a longer sleep queued on each thread in turn; counts in `moved` if several
/// threads polled it.
async fn wander(seed: u64, moved: Arc<AtomicU32>) {
    let mut random = Random::new(seed);
    let mut threads = HashSet::new();
    // Before the sleep is made: it counts from later, however long the thread loses its CPU in between.
    let start = Instant::now();
    let mut long = pin!(sleep(ms(15)));
    for _ in 0..40 {
        threads.insert(thread::current().id());
        let short = us(random.below(300));
        let begin = Instant::now();
        sleep(short).await;
        assert_passed(begin, short);
        // Polled wherever the task is now, and left there.
        if poll_idly(long.as_mut()).is_ready() {
            assert_passed(start, ms(15));
        }
        tokio::task::yield_now().await;
    }
    if !long.is_elapsed() {
        long.await;
    }
    assert_passed(start, ms(15));
    if threads.len() > 1 {
        moved.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn io_of_tokio_is_limited_in_time() {
    let _patience = support::begin();
    multi_thread(2).block_on(async {
        let listener = tokio::net::TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0)))
            .await
            .expect("a port");
        let address = listener.local_addr().expect("an address");
        assert!(timeout(ms(3), listener.accept()).await.is_err());
        let client = tokio::spawn(async move {
            sleep(ms(1)).await;
            tokio::net::TcpStream::connect(address).await
        });
        let accepted = timeout(Duration::from_secs(20), listener.accept()).await;
        accepted.expect("in time").expect("a connection");
        client.await.expect("it does not panic").expect("connected");
    });
}

#[test]
fn a_future_goes_from_one_runtime_to_another() {
    let _patience = support::begin();
    let start = Instant::now();
    let mut sleep = Box::pin(sleep(ms(6)));
    let first = support::in_tokio(timeout(ms(1), sleep.as_mut()));
    assert!(first.is_err() || start.elapsed() >= ms(6));
    let sleep = on_thread(move || {
        let mut sleep = sleep;
        let first = async_io::block_on(timeout(ms(1), sleep.as_mut()));
        assert!(first.is_err() || start.elapsed() >= ms(6));
        sleep
    });
    Worker::new().expect("the thread is free").block_on(sleep);
    assert_passed(start, ms(6));
}

#[test]
fn instants_agree_in_all_of_them() {
    let _patience = support::begin();
    let here = time::Instant::now();
    let there = on_thread(time::Instant::now);
    assert!(here <= there);
    assert!(there <= time::Instant::now());
}
