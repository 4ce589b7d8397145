//! A comparison of `tokio::time` and `tickless::time` on the same programs, which differ in a `use` alone. The programs
//! run in a tokio runtime with two workers. The timers of Tickless are fired by the expiry thread, or by the reactor of
//! the runtime if it is attached.

use std::hint::black_box;
use std::pin::{Pin, pin};
use std::sync::Barrier;
use std::sync::mpsc::sync_channel;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use super::{Sink, TOKIO, runtime, worker};
use crate::harness::{Group, Options, each, time};

/// A duration so long that no timer fires during a measurement.
const FAR: Duration = Duration::from_secs(30);

const ATTACHED: &str = "tickless, attached to the reactor";

/// The number of sleeps in programs with many sleeps.
const SLEEPS: usize = 1_000;

/// The programs, each of which returns nanoseconds for one of its operations.
struct Programs {
    drop_unpolled: fn(&Options) -> f64,
    ready_at_once: fn(&Options) -> f64,
    cancel_heavy: fn(&Options) -> f64,
    push_out_heavy: fn(&Options) -> f64,
    blocked_worker: fn(&Options) -> f64,
    cross_cancel: fn(&Options) -> f64,
}

/// A future that is ready at its second poll, like an answer that arrives while its timeout is armed.
#[derive(Default)]
struct SecondPoll(bool);

impl Future for SecondPoll {
    type Output = u32;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<u32> {
        if std::mem::replace(&mut self.0, true) {
            return Poll::Ready(42);
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

fn poll_once(future: Pin<&mut impl Future>) -> bool {
    let mut context = Context::from_waker(Waker::noop());
    black_box(future.poll(&mut context).is_ready())
}

/// Defines the programs for one of the two libraries, with the same code for both.
macro_rules! programs {
    ($($time:ident)::+) => {
        Programs {
            drop_unpolled: |options| {
                use $($time)::+ as time;
                each(options.operations(1_000_000), || drop(black_box(time::sleep(FAR))))
            },
            ready_at_once: |options| {
                use $($time)::+ as time;
                each(options.operations(1_000_000), || {
                    let ready = pin!(time::timeout(FAR, std::future::ready(42)));
                    poll_once(ready);
                })
            },
            cancel_heavy: |options| {
                use $($time)::+ as time;
                let operations = options.operations(300_000);
                let requests = async {
                    for _ in 0..operations {
                        black_box(time::timeout(FAR, SecondPoll::default()).await.is_ok());
                    }
                };
                let handle = tokio::runtime::Handle::current();
                self::time(operations, || handle.block_on(requests))
            },
            push_out_heavy: |options| {
                use $($time)::+ as time;
                let operations = options.operations(1_000_000);
                let mut sleeps: Vec<_> = (0..SLEEPS).map(|_| Box::pin(time::sleep(FAR))).collect();
                for sleep in &mut sleeps {
                    poll_once(sleep.as_mut());
                }
                let rounds = (operations / SLEEPS as u64).max(1);
                self::time(rounds * SLEEPS as u64, || {
                    for _ in 0..rounds {
                        for sleep in &mut sleeps {
                            sleep.as_mut().reset(time::Instant::now() + FAR);
                            poll_once(sleep.as_mut());
                        }
                    }
                })
            },
            blocked_worker: |options| {
                use $($time)::+ as time;
                let naps = options.operations(200).max(20);
                let handle = tokio::runtime::Handle::current();
                let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
                let blocks = {
                    let stop = std::sync::Arc::clone(&stop);
                    // A task that keeps its worker for 5 ms at a time.
                    handle.spawn(async move {
                        // Relaxed: a flag.
                        while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                            std::thread::sleep(Duration::from_millis(5));
                            tokio::task::yield_now().await;
                        }
                    })
                };
                let late = handle.block_on(handle.spawn(async move {
                    let mut late = Duration::ZERO;
                    for _ in 0..naps {
                        let due = Instant::now() + Duration::from_millis(1);
                        time::sleep_until(due.into()).await;
                        late += due.elapsed();
                    }
                    late
                }));
                stop.store(true, std::sync::atomic::Ordering::Relaxed);
                let _ended = handle.block_on(blocks);
                let late = late.expect("a task that sleeps does not panic");
                late.as_secs_f64() * 1e9 / naps as f64
            },
            cross_cancel: |options| {
                use $($time)::+ as time;
                let batches = options.operations(200_000) / SLEEPS as u64;
                cross_cancel(batches.max(2), || time::sleep(FAR))
            },
        }
    };
}

/// Returns the nanoseconds for one sleep while each of two threads arms sleeps that the other thread drops. The slower
/// thread decides.
fn cross_cancel<F: Future + Send>(batches: u64, make: impl Fn() -> F + Sync) -> f64 {
    let handle = tokio::runtime::Handle::current();
    let (to_first, of_first) = sync_channel::<Vec<Pin<Box<F>>>>(2);
    let (to_second, of_second) = sync_channel::<Vec<Pin<Box<F>>>>(2);
    let start = Barrier::new(2);
    let exchange = |sender: std::sync::mpsc::SyncSender<Vec<Pin<Box<F>>>>,
                    receiver: std::sync::mpsc::Receiver<Vec<Pin<Box<F>>>>| {
        let _inside = handle.enter();
        let mut spent = Duration::ZERO;
        start.wait();
        for _ in 0..batches {
            let mut sleeps: Vec<_> = (0..SLEEPS).map(|_| Box::pin(make())).collect();
            let began = Instant::now();
            for sleep in &mut sleeps {
                poll_once(sleep.as_mut());
            }
            spent += began.elapsed();
            if sender.send(sleeps).is_err() {
                break;
            }
            let Ok(others) = receiver.recv() else { break };
            let began = Instant::now();
            drop(black_box(others));
            spent += began.elapsed();
        }
        spent
    };
    let spent = std::thread::scope(|scope| {
        let exchange = &exchange;
        let other = scope.spawn(move || exchange(to_first, of_second));
        let own = exchange(to_second, of_first);
        own.max(other.join().expect("it does not panic"))
    });
    spent.as_secs_f64() * 1e9 / (batches * SLEEPS as u64) as f64
}

const TICKLESS_PROGRAMS: Programs = programs!(tickless::time);
const TOKIO_PROGRAMS: Programs = programs!(tokio::time);

pub(super) fn measure(options: &Options, sink: Sink<'_>) {
    // The clock is measured before it is used.
    drop(worker());
    let plain = runtime();
    let attached = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime can be built");
    let doorbell = attached.block_on(async { tickless::tokio::attach() });
    // Each program, how many threads it has, and how much of tokio's time it may take.
    type Program = fn(&Programs) -> fn(&Options) -> f64;
    let all: [(&str, Program, u32, f64); 6] = [
        (
            "drop a sleep before its first poll",
            |all| all.drop_unpolled,
            1,
            0.5,
        ),
        (
            "a timeout around a future that is ready at once",
            |all| all.ready_at_once,
            1,
            0.5,
        ),
        (
            "cancel-heavy: a timeout that its future beats",
            |all| all.cancel_heavy,
            1,
            0.5,
        ),
        (
            "push-out-heavy: a thousand sleeps reset in turn",
            |all| all.push_out_heavy,
            1,
            0.5,
        ),
        (
            "lateness of sleeps beside a blocked worker",
            |all| all.blocked_worker,
            2,
            1.0,
        ),
        (
            "two threads drop each other's sleeps",
            |all| all.cross_cancel,
            2,
            1.0,
        ),
    ];
    for (name, program, threads, limit) in all {
        let within = |runtime: &tokio::runtime::Runtime, programs: &Programs| {
            let _inside = runtime.enter();
            program(programs)(options)
        };
        let mut subjects: Vec<crate::harness::Subject<'_>> = vec![
            ("tickless", Box::new(|| within(&plain, &TICKLESS_PROGRAMS))),
            (TOKIO, Box::new(|| within(&plain, &TOKIO_PROGRAMS))),
        ];
        if doorbell.is_ok() {
            subjects.insert(
                1,
                (ATTACHED, Box::new(|| within(&attached, &TICKLESS_PROGRAMS))),
            );
        }
        let group = Group::measure(name, 0, options, subjects);
        sink(group.threads(threads).at_most(limit, TOKIO));
    }
}
