//! Tests of an executor together with the rest of its process: bases that other threads used before, barriers, and
//! signals.
#![expect(unsafe_code, reason = "the test calls the system")]

use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use crate::support::{self, in_own_process};
use tickless::executor::io::Async;
use tickless::internals::{Linux, barriers};
use tickless::{Executor, Worker, coop};
use tickless_link::bias::{LockHost, REBIAS_AFTER};

const HOUR: Duration = Duration::from_secs(3600);

/// Returns an executor with one worker; the coarse timer that checks whether the worker is stuck is not due while the
/// test lasts.
fn executor() -> Executor {
    let builder = Executor::builder().workers(1).stuck_after(HOUR);
    builder.build().expect("there are threads enough")
}

/// Lets the worker use its queue alone for long, which makes the lock of the queue biased.
fn work_a_while(executor: &Executor) {
    let task = executor.spawn(async {
        for _ in 0..REBIAS_AFTER + 10 {
            coop::yield_now().await;
        }
    });
    executor.block_on(task).expect("it ends");
}

/// Spawns a task from this thread, under the lock of the queue; returns the number of barriers that this took.
fn spawned_by_a_stranger(executor: &Executor) -> u64 {
    let before = barriers();
    executor.spawn(async {}).detach();
    barriers() - before
}

/// Runs `body` while a worker is isolated.
fn beside_an_isolated_worker(body: impl FnOnce()) {
    let _keeper = Worker::new().expect("the thread is free");
    let (isolated, told) = mpsc::channel();
    let (end, ended) = mpsc::channel::<()>();
    let quiet = thread::spawn(move || {
        let worker = Worker::new().expect("the thread is free");
        worker.set_isolated(true).expect("the keeper stays");
        isolated.send(()).expect("the test waits for it");
        let _sender_gone = ended.recv();
        worker.set_isolated(false).expect("it is possible always");
    });
    told.recv().expect("it was isolated");
    body();
    drop(end);
    quiet.join().expect("no panic");
}

#[test]
fn strangers_at_a_run_queue_execute_no_barrier_while_a_worker_is_isolated() {
    in_own_process(
        "process::strangers_at_a_run_queue_execute_no_barrier_while_a_worker_is_isolated",
        || {
            if !Linux::barrier_works() {
                support::skip(
                    "interrupts of isolated CPUs",
                    "the kernel has no membarrier, so that no lock is ever biased",
                );
                return;
            }
            let executor = executor();
            work_a_while(&executor);
            assert_eq!(
                spawned_by_a_stranger(&executor),
                1,
                "what isolation prevents"
            );
            work_a_while(&executor);
            beside_an_isolated_worker(|| {
                assert_eq!(spawned_by_a_stranger(&executor), 0, "it was biased before");
                work_a_while(&executor);
                assert_eq!(spawned_by_a_stranger(&executor), 0, "it may not be again");
                let later = self::executor();
                work_a_while(&later);
                assert_eq!(spawned_by_a_stranger(&later), 0, "nor may another one");
            });
            work_a_while(&executor);
            assert_eq!(spawned_by_a_stranger(&executor), 1, "isolation is over");
        },
    );
}

/// The descriptor to which the handler writes, and the flag that it was called.
static WRITES_TO: AtomicI32 = AtomicI32::new(-1);
static WAS_CALLED: AtomicBool = AtomicBool::new(false);

extern "C" fn on_signal(_: libc::c_int) {
    let byte = 7_u8;
    let descriptor = WRITES_TO.load(Ordering::Relaxed);
    // SAFETY: the byte lives as long as the call, which a handler may make.
    unsafe { libc::write(descriptor, (&raw const byte).cast(), 1) };
    WAS_CALLED.store(true, Ordering::Relaxed);
}

/// A handler must not use a waker, which takes locks that its thread may hold: the handler writes to a pipe that a task
/// reads, and sets a flag that a task checks. The signal interrupts a worker that computes and a worker that sleeps.
#[test]
fn a_signal_handler_wakes_a_task_through_a_pipe() {
    in_own_process(
        "process::a_signal_handler_wakes_a_task_through_a_pipe",
        || {
            // SAFETY: all bytes zero is a valid `sigaction`: no flags, and an empty mask.
            let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
            action.sa_sigaction = on_signal as *const () as libc::sighandler_t;
            // SAFETY: the handler writes to a descriptor that stays open, and to a flag.
            let installed =
                unsafe { libc::sigaction(libc::SIGUSR1, &raw const action, std::ptr::null_mut()) };
            assert_eq!(installed, 0);
            let (reader, writer) = io::pipe().expect("a pipe");
            WRITES_TO.store(writer.as_raw_fd(), Ordering::Relaxed);
            let executor = executor();
            let reader =
                executor.block_on(async { Async::new(reader).expect("it can be watched") });
            let computes = executor.spawn(async {
                // SAFETY: its own thread is there, and the handler stays.
                unsafe { libc::raise(libc::SIGUSR1) };
                while !WAS_CALLED.load(Ordering::Relaxed) {
                    coop::checkpoint().await;
                }
            });
            let reads = executor.spawn(async move {
                let mut bytes = [0; 2];
                for byte in &mut bytes {
                    let read =
                        reader.read_with(|mut pipe| pipe.read_exact(std::slice::from_mut(byte)));
                    read.await.expect("it is open");
                }
                bytes
            });
            executor.block_on(computes).expect("it ends");
            // The worker sleeps, or is about to; the handler runs here.
            // SAFETY: as above.
            unsafe { libc::raise(libc::SIGUSR1) };
            assert_eq!(executor.block_on(reads).expect("it ends"), [7, 7]);
        },
    );
}
