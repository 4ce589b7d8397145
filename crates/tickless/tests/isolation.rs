//! Tests of isolated workers as a set, and of their protection from the barriers of other threads, which interrupt
//! every CPU that runs the process.

mod support;

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;

use support::{in_own_process, on_thread, poll_idly};
use tickless::internals::{Linux, barriers};
use tickless::time::{Sleep, sleep};
use tickless::topology::CpuSet;
use tickless::{IsolateError, Parking, Worker, Workers};
use tickless_link::bias::{LockHost, REBIAS_AFTER};

/// Returns true if the kernel has barriers that interrupt other CPUs; otherwise prints that it has none, and returns
/// `false`.
fn kernel_has_barriers() -> bool {
    let has = Linux::barrier_works();
    if !has {
        support::skip(
            "interrupts of isolated CPUs",
            "the kernel has no membarrier, so that no lock is ever biased",
        );
    }
    has
}

fn armed() -> Pin<Box<Sleep>> {
    let mut sleep = Box::pin(sleep(std::time::Duration::from_secs(3600)));
    assert!(poll_idly(sleep.as_mut()).is_pending());
    sleep
}

/// Works as an owner thread until its lock is biased, and a little longer.
fn work_a_while() {
    for _ in 0..REBIAS_AFTER + 10 {
        drop(armed());
    }
}

/// Lets another thread cancel a timer that this thread armed; returns the number of barriers that this took.
fn cancelled_by_a_stranger() -> u64 {
    work_a_while();
    let timer = armed();
    let before = barriers();
    on_thread(move || drop(timer));
    barriers() - before
}

/// Runs `during` while a worker is isolated, then `after`.
fn beside_an_isolated_worker(during: impl FnOnce(), after: impl FnOnce()) {
    let _keeper = Worker::new().expect("the thread is free");
    let (isolated, told) = mpsc::channel();
    let (end, ended) = mpsc::channel::<()>();
    let quiet = thread::spawn(move || {
        let worker = Worker::with_parking(Parking::Spin).expect("the thread is free");
        worker.set_isolated(true).expect("the keeper stays");
        isolated.send(()).expect("the test waits for it");
        let _sender_gone = ended.recv();
        worker
            .set_isolated(false)
            .expect("ending it is possible always");
    });
    told.recv().expect("it was isolated");
    during();
    drop(end);
    quiet.join().expect("no panic");
    after();
}

#[test]
fn strangers_execute_no_barrier_while_a_worker_is_isolated() {
    in_own_process(
        "strangers_execute_no_barrier_while_a_worker_is_isolated",
        || {
            if !kernel_has_barriers() {
                return;
            }
            assert_eq!(cancelled_by_a_stranger(), 1, "what isolation prevents");
            work_a_while();
            beside_an_isolated_worker(
                || {
                    let before = barriers();
                    for _ in 0..5 {
                        assert_eq!(cancelled_by_a_stranger(), 0);
                        // A thread that came later.
                        assert_eq!(on_thread(cancelled_by_a_stranger), 0);
                    }
                    let _counts = tickless::stats();
                    assert_eq!(barriers(), before);
                },
                || assert_eq!(cancelled_by_a_stranger(), 1, "isolation is over"),
            );
        },
    );
}

#[test]
fn of_the_strangers_that_take_an_isolated_worker_s_own_lock_the_first_pays() {
    in_own_process(
        "of_the_strangers_that_take_an_isolated_worker_s_own_lock_the_first_pays",
        || {
            if !kernel_has_barriers() {
                return;
            }
            let _keeper = Worker::new().expect("the thread is free");
            on_thread(|| {
                let worker = Worker::new().expect("the thread is free");
                for _ in 0..2 {
                    worker.set_isolated(true).expect("the keeper stays");
                    assert_eq!(cancelled_by_a_stranger(), 1);
                    for _ in 0..3 {
                        assert_eq!(cancelled_by_a_stranger(), 0);
                    }
                    worker.set_isolated(false).expect("it is possible always");
                }
            });
        },
    );
}

#[test]
fn a_worker_that_is_no_longer_isolated_spares_those_that_are() {
    in_own_process(
        "a_worker_that_is_no_longer_isolated_spares_those_that_are",
        || {
            if !kernel_has_barriers() {
                return;
            }
            beside_an_isolated_worker(
                || {
                    on_thread(|| {
                        let worker = Worker::new().expect("the thread is free");
                        worker.set_isolated(true).expect("the keeper stays");
                        work_a_while();
                        worker.set_isolated(false).expect("it is possible always");
                        assert_eq!(cancelled_by_a_stranger(), 0);
                        // Ends isolated: what it had reserved belongs to no thread.
                        worker.set_isolated(true).expect("the keeper stays");
                        work_a_while();
                    });
                    assert_eq!(on_thread(cancelled_by_a_stranger), 0);
                },
                || assert_eq!(cancelled_by_a_stranger(), 1, "all of them are over"),
            );
        },
    );
}

/// Returns the kernel's count of the interrupts by which other CPUs made `cpu` execute a function; `None` if the kernel
/// shows no count.
fn calls_of(cpu: u32) -> Option<u64> {
    let text = std::fs::read_to_string("/proc/interrupts").ok()?;
    // CPUs that are offline have no column.
    let column = text
        .lines()
        .next()?
        .split_whitespace()
        .position(|name| name == format!("CPU{cpu}"))?;
    let line = text
        .lines()
        .find(|line| line.trim_start().starts_with("CAL:"))?;
    line.split_whitespace().nth(column + 1)?.parse().ok()
}

fn pin(cpu: u32) {
    let mut set = rustix::thread::CpuSet::new();
    set.set(cpu as usize);
    rustix::thread::sched_setaffinity(None, &set).expect("it is one of this process's CPUs");
}

/// Returns two CPUs that this process may use; the interrupts of the second CPU are counted.
fn two_cpus() -> Option<(u32, u32)> {
    let allowed = rustix::thread::sched_getaffinity(None).ok()?;
    let mut cpus = (0..1024).filter(|cpu| allowed.is_set(*cpu as usize));
    let (first, second) = (cpus.next()?, cpus.next()?);
    calls_of(second).map(|_| (first, second))
}

/// Returns the number of times that the kernel preempted a thread of this process.
fn preemptions_of(thread: u32) -> u64 {
    let path = format!("/proc/self/task/{thread}/status");
    let text = std::fs::read_to_string(path).expect("the thread lives");
    let count = text
        .lines()
        .find_map(|line| line.strip_prefix("nonvoluntary_ctxt_switches:"));
    let count = count.expect("the kernel counts them").trim();
    count.parse().expect("a number")
}

/// An isolated worker that polls on a CPU of its own.
struct Polling {
    cpu: u32,
    thread: u32,
    turns: Arc<AtomicU64>,
    end: mpsc::Sender<()>,
    worker: thread::JoinHandle<()>,
}

impl Polling {
    fn start(cpu: u32) -> Self {
        let (isolated, told) = mpsc::channel();
        let (end, ended) = mpsc::channel::<()>();
        let turns = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&turns);
        let worker = thread::spawn(move || {
            pin(cpu);
            let worker = Worker::with_parking(Parking::Spin).expect("the thread is free");
            worker.set_isolated(true).expect("the keeper stays");
            let number = rustix::thread::gettid().as_raw_nonzero().get();
            let told = isolated.send(number.unsigned_abs());
            told.expect("the test waits for it");
            while ended.try_recv() == Err(mpsc::TryRecvError::Empty) {
                if worker.is_due() {
                    let _nothing_is_armed_here = worker.turn();
                }
                count.fetch_add(1, Ordering::Relaxed);
            }
        });
        let thread = told.recv().expect("it was isolated");
        Self {
            cpu,
            thread,
            turns,
            end,
            worker,
        }
    }

    /// Returns the number of calls that other CPUs made on the worker's CPU during `body`; `None` if the worker did not
    /// run all the time. In that case the calls may have interrupted another process instead of the worker.
    fn calls_during(&self, body: impl FnOnce()) -> Option<u64> {
        let calls = || calls_of(self.cpu).expect("it could be read before");
        let preemptions = preemptions_of(self.thread);
        let turns = self.turns.load(Ordering::Relaxed);
        support::until(|| self.turns.load(Ordering::Relaxed) != turns);
        let before = calls();
        body();
        let made = calls() - before;
        (preemptions_of(self.thread) == preemptions).then_some(made)
    }

    fn stop(self) {
        drop(self.end);
        self.worker.join().expect("no panic");
    }
}

/// Other processes may call the CPU too. So the test passes if the counter shows no call for one of many barriers.
#[test]
fn the_kernel_counts_no_calls_of_an_isolated_cpu() {
    in_own_process("the_kernel_counts_no_calls_of_an_isolated_cpu", || {
        let Some((here, quiet)) = two_cpus().filter(|_| kernel_has_barriers()) else {
            support::skip(
                "interrupts of isolated CPUs",
                "it takes two CPUs and a line CAL in /proc/interrupts",
            );
            return;
        };
        pin(here);
        let _keeper = Worker::new().expect("the thread is free");
        // Threads that begin and end cause calls of their own.
        let (give, given) = mpsc::channel::<Pin<Box<Sleep>>>();
        let (is_done, done) = mpsc::channel();
        let stranger = thread::spawn(move || {
            for timer in given {
                drop(timer);
                is_done.send(()).expect("the test waits for it");
            }
        });
        let cancel_there = |timer| {
            give.send(timer).expect("the stranger lives");
            done.recv().expect("the stranger lives");
        };
        let polling = Polling::start(quiet);
        let (mut watched, mut spared) = (0, false);
        for _ in 0..200 {
            work_a_while();
            let timer = armed();
            let made = polling.calls_during(|| cancel_there(timer));
            watched += u32::from(made.is_some());
            spared |= made == Some(0);
        }
        polling.stop();
        drop(give);
        stranger.join().expect("no panic");
        if watched == 0 {
            support::skip(
                "interrupts of isolated CPUs",
                &format!("other processes never left CPU {quiet} alone"),
            );
            return;
        }
        assert!(spared, "each of {watched} cancels called CPU {quiet}");
    });
}

/// Workers on the first CPUs of this process, which take turns until they are stopped, and report whether they are
/// isolated.
struct Crew {
    workers: Workers<()>,
    stop: Arc<[AtomicBool]>,
    isolated: Arc<[AtomicBool]>,
    cpus: Vec<u32>,
}

impl Crew {
    /// Starts one worker on each of `cpus` CPUs; prints a message and returns `None` if this process may not use as
    /// many CPUs.
    fn start(cpus: usize, parking: Parking) -> Option<Self> {
        let allowed = rustix::thread::sched_getaffinity(None).ok()?;
        let used: Vec<u32> = (0..1024)
            .filter(|cpu| allowed.is_set(*cpu as usize))
            .take(cpus)
            .collect();
        if used.len() < cpus {
            support::skip(
                "interrupts of isolated CPUs",
                &format!("it takes {cpus} CPUs"),
            );
            return None;
        }
        let flags = || -> Arc<[AtomicBool]> { (0..cpus).map(|_| AtomicBool::new(false)).collect() };
        let (stop, isolated) = (flags(), flags());
        let (stopped, says) = (Arc::clone(&stop), Arc::clone(&isolated));
        let builder = Workers::builder()
            .pin(used.iter().copied().collect())
            .parking(parking);
        let workers = builder.spawn(move |worker, number| {
            while !stopped[number].load(Ordering::Acquire) {
                let _turn = worker.park();
                says[number].store(worker.is_isolated(), Ordering::Release);
            }
        });
        Some(Self {
            workers: workers.expect("these CPUs are ours"),
            stop,
            isolated,
            cpus: used,
        })
    }

    fn set(&self, numbers: &[usize]) -> CpuSet {
        numbers.iter().map(|number| self.cpus[*number]).collect()
    }

    /// Fails unless exactly the workers `numbers` are isolated.
    fn are_isolated(&self, numbers: &[usize]) {
        for (number, isolated) in self.isolated.iter().enumerate() {
            self.workers.unparkers()[number].unpark();
            support::until(|| isolated.load(Ordering::Acquire) == numbers.contains(&number));
        }
    }

    fn stop_one(&self, number: usize) {
        self.stop[number].store(true, Ordering::Release);
        self.workers.unparkers()[number].unpark();
    }

    fn stop(self) {
        for number in 0..self.stop.len() {
            self.stop_one(number);
        }
        for ended in self.workers.join() {
            ended.expect("no panic");
        }
    }
}

#[test]
fn the_isolated_workers_are_a_set() {
    in_own_process("the_isolated_workers_are_a_set", || {
        for parking in [Parking::Sleep, Parking::Spin] {
            let Some(crew) = Crew::start(2, parking) else {
                return;
            };
            crew.are_isolated(&[]);
            // The two change places: the one that joins goes first, or the other could not leave.
            for isolated in [&[1][..], &[0], &[1], &[1], &[]] {
                let set = crew.set(isolated);
                crew.workers.isolate(&set).expect("one is left");
                crew.are_isolated(isolated);
            }
            let all = crew.workers.isolate(&crew.set(&[0, 1]));
            assert!(matches!(all, Err(IsolateError::LastWorker)), "{all:?}");
            crew.are_isolated(&[]);
            let strange: CpuSet = [1023].into_iter().collect();
            let refused = crew.workers.isolate(&strange);
            assert!(
                matches!(refused, Err(IsolateError::NoWorkerThere { .. })),
                "{refused:?}"
            );
            crew.stop();
        }
    });
}

/// A worker that other code started counts as a worker that is not isolated, too.
#[test]
fn all_workers_of_a_set_may_be_isolated_beside_another_worker() {
    in_own_process(
        "all_workers_of_a_set_may_be_isolated_beside_another_worker",
        || {
            let Some(crew) = Crew::start(1, Parking::Sleep) else {
                return;
            };
            assert!(crew.workers.isolate(&crew.set(&[0])).is_err());
            let other = Worker::new().expect("the thread is free");
            crew.workers
                .isolate(&crew.set(&[0]))
                .expect("the other is left");
            crew.are_isolated(&[0]);
            assert!(other.set_isolated(true).is_err(), "now it is the last");
            crew.workers
                .isolate(&CpuSet::new())
                .expect("it is possible always");
            other.set_isolated(true).expect("the crew is left");
            crew.are_isolated(&[]);
            crew.stop();
        },
    );
}

/// Each worker waits for a turn of the other worker, which takes this turn although it waits too.
#[test]
fn workers_that_change_the_set_of_each_other_do_not_wait_for_ever() {
    in_own_process(
        "workers_that_change_the_set_of_each_other_do_not_wait_for_ever",
        || {
            let _keeper = Worker::new().expect("the thread is free");
            let crews: Option<Vec<_>> = (0..2).map(|_| Crew::start(1, Parking::Sleep)).collect();
            let Some(crews) = crews.map(Arc::new) else {
                return;
            };
            let changers: Vec<_> = (0..2)
                .map(|own| {
                    let crews = Arc::clone(&crews);
                    thread::spawn(move || {
                        let worker = Worker::new().expect("the thread is free");
                        for round in 0..50 {
                            let other: &Crew = &crews[1 - own];
                            let set = other.set(if round % 2 == 0 { &[0] } else { &[] });
                            other.workers.isolate(&set).expect("the keeper is left");
                            let _turn = worker.turn();
                        }
                    })
                })
                .collect();
            for changer in changers {
                changer.join().expect("no panic");
            }
            let crews = Arc::into_inner(crews).expect("the changers have ended");
            crews.into_iter().for_each(Crew::stop);
        },
    );
}

#[test]
fn a_worker_that_ended_is_not_waited_for() {
    in_own_process("a_worker_that_ended_is_not_waited_for", || {
        let Some(crew) = Crew::start(2, Parking::Sleep) else {
            return;
        };
        // Asking makes this thread one that counts, too.
        let _first = tickless::stats();
        let before = tickless::stats().threads;
        crew.stop_one(1);
        support::until(|| tickless::stats().threads < before);
        crew.workers
            .isolate(&crew.set(&[1]))
            .expect("it changes nothing");
        let refused = crew.workers.isolate(&crew.set(&[0]));
        assert!(
            matches!(refused, Err(IsolateError::LastWorker)),
            "{refused:?}"
        );
        crew.stop();
    });
}

#[test]
fn workers_that_are_pinned_nowhere_are_not_isolated_by_cpu() {
    let workers = Workers::builder().workers(1).spawn(|_, _| ());
    let workers = workers.expect("a thread can be had");
    let refused = workers.isolate(&CpuSet::new());
    assert!(
        matches!(refused, Err(IsolateError::NotPinned)),
        "{refused:?}"
    );
}
