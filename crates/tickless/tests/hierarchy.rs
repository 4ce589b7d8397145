//! Tests of workers that fire each other's coarse timers, and of isolated workers, which do not. Each test has a
//! process of its own, because a worker of another test would fire the timers of this test.

mod support;

use std::any::Any;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::task::{Wake, Waker};
use std::thread::{self, ThreadId};
use std::time::Duration;

use support::{Wakes, in_own_process, ms, poll_with, until, us};
use tickless::coarse::{Sleep, sleep, sleep_until};
use tickless::time::Instant;
use tickless::wheel::{Restart, StartOutcome, WheelTimer};
use tickless::{IsolatedTimers, IsolationError, Unparker, Worker, Workers};

const HOUR: Duration = Duration::from_secs(3600);

/// Computes for a millisecond, without a sleep and without a turn.
fn compute() {
    let start = Instant::now();
    while start.elapsed() < ms(1) {
        std::hint::spin_loop();
    }
}

/// Queues a sleep for `waker` on this thread. If the machine is stopped for that long, the sleep may be over already.
fn queued(duration: Duration, waker: &Waker) -> Pin<Box<Sleep>> {
    let mut sleep = Box::pin(sleep(duration));
    if poll_with(sleep.as_mut(), waker).is_ready() {
        waker.wake_by_ref();
    }
    sleep
}

/// Returns a sleep of this thread that was not over when it was first polled, so that the thread that fires it wakes
/// `waker`.
fn armed(duration: Duration, waker: &Waker) -> Pin<Box<Sleep>> {
    support::waiting(|| sleep(duration), waker)
}

/// A waker that counts wake-ups, and records the threads that caused them.
#[derive(Default)]
struct Log {
    wakes: Wakes,
    threads: Mutex<Vec<ThreadId>>,
}

impl Log {
    fn new() -> (Arc<Self>, Waker) {
        let log = Arc::new(Self::default());
        let waker = Waker::from(Arc::clone(&log));
        (log, waker)
    }

    fn threads(&self) -> Vec<ThreadId> {
        self.threads.lock().expect("no panic").clone()
    }
}

impl Wake for Log {
    fn wake(self: Arc<Self>) {
        let mut threads = self.threads.lock().expect("no panic");
        threads.push(thread::current().id());
        drop(threads);
        self.wakes.note();
    }
}

/// A worker on a thread of its own, which parks until it is requested to end.
struct Sleeper {
    ends: Arc<AtomicBool>,
    parks: Arc<AtomicU64>,
    unparker: Unparker,
    thread: thread::JoinHandle<()>,
}

impl Sleeper {
    /// Starts the worker. `begin` runs first, and its result lives as long as the worker.
    fn start<T>(begin: impl FnOnce(&Worker) -> T + Send + 'static) -> Self {
        let (ends, parks) = (
            Arc::new(AtomicBool::new(false)),
            Arc::new(AtomicU64::new(0)),
        );
        let (sender, receiver) = std::sync::mpsc::channel();
        let thread = {
            let (ends, parks) = (Arc::clone(&ends), Arc::clone(&parks));
            thread::spawn(move || {
                let worker = Worker::new().expect("the thread is free");
                let _kept = begin(&worker);
                sender.send(worker.unparker()).expect("the test waits");
                while !ends.load(Ordering::Acquire) {
                    parks.fetch_add(1, Ordering::Release);
                    let _turn = worker.park();
                }
            })
        };
        let unparker = receiver.recv().expect("the worker begins");
        Self {
            ends,
            parks,
            unparker,
            thread,
        }
    }

    fn parks(&self) -> u64 {
        self.parks.load(Ordering::Acquire)
    }

    fn end(self) {
        self.ends.store(true, Ordering::Release);
        self.unparker.unpark();
        self.thread.join().expect("it does not panic");
    }
}

/// No sleeping worker is woken for coarse timers while another worker is awake.
#[test]
fn sixty_three_sleep_through_ten_thousand_timers_while_one_is_awake() {
    in_own_process(
        "sixty_three_sleep_through_ten_thousand_timers_while_one_is_awake",
        || {
            const TIMERS: u64 = 10_000;
            let (log, waker) = Log::new();
            let awake = Worker::new().expect("the thread is free");
            let sleepers: Vec<_> = (0..63)
                .map(|number| {
                    let waker = waker.clone();
                    Sleeper::start(move |_| {
                        let own = (0..TIMERS).filter(|timer| timer % 63 == number);
                        own.map(|timer| queued(ms(1_000 + timer * 7_919 % 2_000), &waker))
                            .collect::<Vec<_>>()
                    })
                })
                .collect();
            until(|| sleepers.iter().all(|sleeper| sleeper.parks() > 0));
            // What is due while they still go to sleep they run themselves.
            let before: Vec<_> = sleepers.iter().map(Sleeper::parks).collect();
            let at_most = u32::try_from(TIMERS).expect("it fits");
            while log.wakes.count() < at_most {
                let _turn = awake.turn();
                compute();
            }
            for (sleeper, before) in sleepers.iter().zip(before) {
                assert_eq!(sleeper.parks(), before, "no worker was woken");
            }
            drop(awake);
            for sleeper in sleepers {
                sleeper.end();
            }
        },
    );
}

/// The number of instants at which timers of all workers are due, and the number of workers.
const INSTANTS: u32 = 20;
const WORKERS: u32 = 16;

/// Returns the number of times that sleeping workers wake up for all instants together, which are `apart`.
fn wakes_for_instants(apart: Duration) -> u64 {
    let (log, waker) = Log::new();
    // In the finest level, a slot is a tick; each instant is one of a slot.
    let first = Instant::now() + ms(3_000);
    let sleepers: Vec<_> = (0..WORKERS)
        .map(|_| {
            let waker = waker.clone();
            Sleeper::start(move |_| {
                let at = (0..INSTANTS).map(|number| first + apart * number);
                at.map(|deadline| {
                    let mut sleep = Box::pin(sleep_until(deadline));
                    assert!(poll_with(sleep.as_mut(), &waker).is_pending(), "in seconds");
                    sleep
                })
                .collect::<Vec<_>>()
            })
        })
        .collect();
    until(|| log.wakes.count() == INSTANTS * WORKERS);
    // Each of them parked once to begin with.
    let parks = sleepers.iter().map(Sleeper::parks).sum::<u64>();
    for sleeper in sleepers {
        sleeper.end();
    }
    parks - u64::from(WORKERS)
}

/// One worker, and no other one of those that sleep, wakes up for each instant at which timers are due.
#[test]
fn one_wakes_up_for_all_that_is_due_at_an_instant() {
    const ENOUGH: u64 = INSTANTS as u64 + 2;
    in_own_process("one_wakes_up_for_all_that_is_due_at_an_instant", || {
        // A worker that loses its CPU when an instant comes may find a second one awake, for nothing. So much of that
        // is believed only if it happens each time, also where the instants are far apart.
        let mut wakes = Vec::new();
        let mut apart = ms(100);
        while wakes.len() < 5 && wakes.iter().all(|&wakes| wakes > ENOUGH) {
            wakes.push(wakes_for_instants(apart));
            apart *= 2;
        }
        assert!(
            wakes.iter().any(|&wakes| wakes <= ENOUGH),
            "{wakes:?} wake-ups for {INSTANTS} instants"
        );
    });
}

/// Another thread fires the timers that are due while a worker computes.
#[test]
fn a_worker_that_computes_strands_no_timer() {
    in_own_process("a_worker_that_computes_strands_no_timer", || {
        let (log, waker) = Log::new();
        let stuck = Worker::new().expect("the thread is free");
        let _own: Vec<_> = (0..100).map(|_| armed(ms(5), &waker)).collect();
        // No turn before all have fired.
        until(|| log.wakes.count() == 100);
        let own = thread::current().id();
        assert!(log.threads().iter().all(|thread| *thread != own));
        drop(stuck);
    });
}

/// The awake worker fires the timers of the others; while it computes, the library's expiry thread fires them.
#[test]
fn a_migrator_that_computes_strands_no_timer() {
    in_own_process("a_migrator_that_computes_strands_no_timer", || {
        let (log, waker) = Log::new();
        let stuck = Worker::new().expect("the thread is free");
        let sleeper = Sleeper::start(move |_| queued(ms(50), &waker));
        until(|| sleeper.parks() >= 1);
        until(|| log.wakes.count() == 1);
        drop(stuck);
        sleeper.end();
    });
}

/// Two timers for the same tick, of which the first to fire waits for the other. Their resources are freed when both
/// have fired.
struct WaitForEachOther(Vec<Pin<Box<dyn Any + Send>>>);

impl WaitForEachOther {
    fn arm(after: Duration, called: &Arc<AtomicU32>) -> Self {
        let at = Instant::now() + after;
        let timers = (0..2).map(|_| {
            let called = Arc::clone(called);
            let timer = Box::pin(WheelTimer::new(move |_| {
                called.fetch_add(1, Ordering::AcqRel);
                until(|| called.load(Ordering::Acquire) == 2);
                Restart::No
            }));
            assert!(timer.as_ref().start_if_idle(at).has_armed());
            timer as Pin<Box<dyn Any + Send>>
        });
        Self(timers.collect())
    }
}

/// The timers that a pass has not begun do not wait for a callback that does not end.
#[test]
fn a_callback_that_waits_holds_up_no_other_timer() {
    in_own_process("a_callback_that_waits_holds_up_no_other_timer", || {
        let called = Arc::new(AtomicU32::new(0));
        let worker = Worker::new().expect("the thread is free");
        let timers = WaitForEachOther::arm(ms(5), &called);
        while called.load(Ordering::Acquire) < 2 {
            let _turn = worker.park();
        }
        drop(worker);
        drop(timers.0);
    });
}

/// The other timers do not wait either when another worker calls the callback for the sleeping worker.
#[test]
fn a_worker_that_is_held_up_in_anothers_timer_holds_up_no_other() {
    let name = "a_worker_that_is_held_up_in_anothers_timer_holds_up_no_other";
    in_own_process(name, || {
        let called = Arc::new(AtomicU32::new(0));
        let awake = Worker::new().expect("the thread is free");
        let theirs = Arc::clone(&called);
        let sleeper = Sleeper::start(move |_| WaitForEachOther::arm(ms(50), &theirs));
        while called.load(Ordering::Acquire) < 2 {
            let _turn = awake.turn();
        }
        drop(awake);
        sleeper.end();
    });
}

/// No timer of other threads runs on an isolated worker, or wakes it.
#[test]
fn an_isolated_worker_is_left_alone() {
    in_own_process("an_isolated_worker_is_left_alone", || {
        let (log, waker) = Log::new();
        let others: Vec<_> = (0..3)
            .map(|_| {
                let waker = waker.clone();
                Sleeper::start(move |_| {
                    (0..500)
                        .map(|number| queued(ms(20 + number % 300), &waker))
                        .collect::<Vec<_>>()
                })
            })
            .collect();
        let isolated = Worker::new().expect("the thread is free");
        assert!(!isolated.is_isolated());
        for _ in 0..2 {
            assert_eq!(isolated.set_isolated(true), Ok(()));
            assert!(isolated.is_isolated());
        }
        let mut fired = 0;
        while log.wakes.count() < 1_500 {
            if isolated.is_due() {
                fired += isolated.turn().fired;
            }
            assert!(!isolated.was_unparked(), "no thread has business with it");
        }
        let own = thread::current().id();
        assert!(log.threads().iter().all(|thread| *thread != own));
        assert_eq!(fired, 0);
        for _ in 0..2 {
            assert_eq!(isolated.set_isolated(false), Ok(()));
            assert!(!isolated.is_isolated());
        }
        for other in others {
            other.end();
        }
    });
}

/// An isolated worker runs its own timers, and other workers do not fire them.
#[test]
fn an_isolated_worker_runs_its_own() {
    in_own_process("an_isolated_worker_runs_its_own", || {
        let (log, waker) = Log::new();
        let awake = Worker::new().expect("the thread is free");
        let isolated = {
            let waker = waker.clone();
            Sleeper::start(move |worker| {
                worker.set_isolated(true).expect("another is not");
                (0..50)
                    .map(|number| armed(ms(5 + number), &waker))
                    .collect::<Vec<_>>()
            })
        };
        until(|| {
            let _turn = awake.turn();
            log.wakes.count() == 50
        });
        let own = isolated.thread.thread().id();
        assert!(log.threads().iter().all(|thread| *thread == own));
        isolated.end();
    });
}

#[test]
fn what_an_isolated_worker_arms_may_go_to_another() {
    in_own_process("what_an_isolated_worker_arms_may_go_to_another", || {
        let (log, waker) = Log::new();
        let housekeeper = Sleeper::start(|_| ());
        until(|| housekeeper.parks() >= 1);
        let isolated = Worker::new().expect("the thread is free");
        isolated.set_isolated_timers(IsolatedTimers::GoToHousekeeping);
        isolated.set_isolated(true).expect("another is not");
        let mut sleeps: Vec<_> = (0..50)
            .map(|number| armed(ms(5 + number), &waker))
            .collect();
        assert_eq!(isolated.next_deadline(), None, "nothing is here");
        // Moved from here, it goes there again.
        let mut moved = queued(HOUR, &waker);
        moved.as_mut().reset(Instant::now() + ms(40));
        let mut fired = 51;
        until(|| log.wakes.count() == fired);
        let there = housekeeper.thread.thread().id();
        // The expiry thread only does what the housekeeper is late with, which may be all that there was.
        while !log.threads().contains(&there) {
            let _again = armed(ms(5), &waker);
            fired += 1;
            until(|| log.wakes.count() == fired);
        }
        let own = thread::current().id();
        assert!(log.threads().iter().all(|thread| *thread != own));
        // The next housekeeper, when that one is gone.
        housekeeper.end();
        let next = Sleeper::start(|_| ());
        for sleep in &mut sleeps {
            *sleep = armed(ms(5), &waker);
        }
        until(|| log.wakes.count() == fired + 50);
        assert!(log.threads().iter().all(|thread| *thread != own));
        // With the old policy they stay.
        isolated.set_isolated_timers(IsolatedTimers::Stay);
        let kept = queued(HOUR, &waker);
        assert!(isolated.next_deadline().is_some());
        drop((kept, isolated));
        next.end();
    });
}

/// Returns an exact sleep of this thread.
fn exactly(duration: Duration) -> Pin<Box<tickless::time::Sleep>> {
    let mut sleep = Box::pin(tickless::time::sleep(duration));
    assert!(poll_with(sleep.as_mut(), Waker::noop()).is_pending());
    sleep
}

#[test]
fn exact_timers_of_an_isolated_worker_go_to_one_that_need_not_program_for_them() {
    in_own_process(
        "exact_timers_of_an_isolated_worker_go_to_one_that_need_not_program_for_them",
        || {
            let housekeeper = Sleeper::start(|_| exactly(HOUR));
            until(|| housekeeper.parks() >= 1);
            let isolated = Worker::new().expect("the thread is free");
            isolated.set_isolated(true).expect("another is not");
            isolated.set_isolated_timers(IsolatedTimers::GoToHousekeeping);
            let goes = exactly(HOUR * 2);
            assert_eq!(isolated.next_deadline(), None, "it is there");
            // That one sleeps for longer: its sleep cannot be programmed from here.
            let sooner = exactly(HOUR / 2);
            assert!(isolated.next_deadline().is_some());
            drop((goes, sooner));
            assert!(tickless::worker::migration());
            tickless::worker::set_migration(false);
            let kept = (exactly(HOUR * 2), queued(HOUR, Waker::noop()));
            assert!(isolated.next_deadline().is_some(), "nothing moves");
            tickless::worker::set_migration(true);
            drop(kept);
            isolated.set_isolated(false).expect("it was");
            let own = exactly(HOUR * 2);
            assert!(isolated.next_deadline().is_some(), "it keeps house itself");
            drop((own, isolated));
            housekeeper.end();
        },
    );
}

/// Returns the number of timers of the worker with this system id.
fn timers_of(id: u32) -> usize {
    let snapshot = tickless::inspect::snapshot();
    let thread = snapshot.threads.iter().find(|one| one.id == Some(id));
    thread.expect("it has a base").timers.len()
}

/// Returns the number of workers that count as idle. A worker that is about to park does not count yet.
fn idle_workers() -> usize {
    let [_, workers] = tickless::inspect::snapshot().hierarchies;
    let members = workers.groups.iter().flat_map(|group| &group.members);
    members.filter(|member| member.is_idle).count()
}

#[test]
#[cfg_attr(portable_host, ignore = "no numbers of threads on the portable host")]
fn what_an_isolated_worker_arms_goes_to_one_that_is_awake() {
    in_own_process(
        "what_an_isolated_worker_arms_goes_to_one_that_is_awake",
        || {
            let asleep = Sleeper::start(|_| exactly(HOUR));
            until(|| asleep.parks() >= 1 && idle_workers() == 1);
            let isolated = Worker::new().expect("the thread is free");
            isolated.set_isolated_timers(IsolatedTimers::GoToHousekeeping);
            isolated.set_isolated(true).expect("another is not");
            let first = queued(HOUR, Waker::noop());
            // It begins when the first one has been chosen, and does not park.
            let (sender, receiver) = std::sync::mpsc::channel();
            let ends = Arc::new(AtomicBool::new(false));
            let awake = thread::spawn({
                let ends = Arc::clone(&ends);
                move || {
                    let _worker = Worker::new().expect("the thread is free");
                    let own = exactly(HOUR);
                    let id = rustix::thread::gettid().as_raw_nonzero().get();
                    sender
                        .send(u32::try_from(id).expect("positive"))
                        .expect("the test waits");
                    while !ends.load(Ordering::Acquire) {
                        thread::sleep(ms(1));
                    }
                    drop(own);
                }
            });
            let awake_id = receiver.recv().expect("it begins");
            // The first one woke the worker that it went to, which is awake until it parks again.
            until(|| asleep.parks() >= 2 && idle_workers() == 1);
            let later: Vec<_> = (0..10).map(|_| queued(HOUR, Waker::noop())).collect();
            let exact = exactly(HOUR * 2);
            assert_eq!(
                timers_of(awake_id),
                12,
                "its own, ten coarse ones, and an exact one"
            );
            ends.store(true, Ordering::Release);
            drop((first, later, exact));
            awake.join().expect("it does not panic");
            drop(isolated);
            asleep.end();
        },
    );
}

#[test]
fn all_but_one_may_be_isolated() {
    in_own_process("all_but_one_may_be_isolated", || {
        let (log, waker) = Log::new();
        let workers = Workers::builder().workers(8).spawn({
            let (barrier, waker) = (Arc::new(Barrier::new(8)), waker);
            move |worker, _| {
                barrier.wait();
                let result = worker.set_isolated(true);
                barrier.wait();
                let mine = queued(ms(10), &waker);
                while !mine.is_elapsed() {
                    // A timer of the one that is not isolated may be run by the expiry thread, which unparks no worker.
                    let _tick = support::waiting_idly(|| tickless::time::sleep(ms(1)));
                    let _turn = worker.park();
                }
                barrier.wait();
                result
            }
        });
        let results: Vec<_> = workers
            .expect("threads can be had")
            .join()
            .into_iter()
            .map(|ended| ended.expect("no panic"))
            .collect();
        let refused: Vec<_> = results.iter().filter_map(|result| result.err()).collect();
        assert_eq!(refused, [IsolationError::LastWorker]);
        assert!(refused[0].to_string().contains("the last worker"));
        assert_eq!(log.wakes.count(), 8);
    });
}

/// The worker that was to wake up for all workers ends, in all possible ways.
#[test]
fn a_promised_wakeup_outlives_its_worker() {
    in_own_process("a_promised_wakeup_outlives_its_worker", || {
        for _ in 0..30 {
            let (log, waker) = Log::new();
            let sleepers: Vec<_> = (0..4)
                .map(|number| {
                    let waker = waker.clone();
                    Sleeper::start(move |_| queued(ms(10 + number), &waker))
                })
                .collect();
            // All but the one that happens to be the last here end.
            let mut sleepers = sleepers.into_iter();
            let last = sleepers.next();
            for sleeper in sleepers {
                sleeper.end();
            }
            // Those that ended dropped theirs, if they had not fired.
            until(|| log.wakes.count() >= 1);
            if let Some(last) = last {
                last.end();
            }
        }
    });
}

/// A worker is isolated and released a hundred thousand times, under load.
#[test]
fn isolation_is_toggled_under_load() {
    in_own_process("isolation_is_toggled_under_load", || {
        let (log, waker) = Log::new();
        let steady = Sleeper::start(|_| ());
        let loads: Vec<_> = (0..3)
            .map(|number| {
                let waker = waker.clone();
                thread::spawn(move || {
                    let worker = Worker::new().expect("the thread is free");
                    for round in 0..200 {
                        let sleeps = (0..10).map(|timer| {
                            queued(us(200 * timer + 100 * number + 10 * round), &waker)
                        });
                        let sleeps: Vec<_> = sleeps.collect();
                        while !sleeps.iter().all(|sleep| sleep.is_elapsed()) {
                            let _tick = support::waiting_idly(|| tickless::time::sleep(ms(1)));
                            let _turn = worker.park();
                        }
                    }
                })
            })
            .collect();
        let toggled = Worker::new().expect("the thread is free");
        let mut own = queued(ms(1), &waker);
        let mut queued_again = 0;
        for number in 0..100_000 {
            toggled
                .set_isolated(number % 2 == 0)
                .expect("one is steady");
            if number % 500 == 0 {
                let _turn = toggled.turn();
                if own.is_elapsed() {
                    own = queued(ms(1), &waker);
                    queued_again += 1;
                }
            }
        }
        for load in loads {
            load.join().expect("it does not panic");
        }
        until(|| {
            let _turn = toggled.turn();
            own.is_elapsed()
        });
        let all = 3 * 200 * 10 + queued_again + 1;
        until(|| log.wakes.count() == all);
        drop(toggled);
        steady.end();
    });
}

/// Workers start and end while other threads use timers, and arm timers of other threads.
#[test]
fn workers_come_and_go_under_load() {
    in_own_process("workers_come_and_go_under_load", || {
        let fired = Arc::new(AtomicU32::new(0));
        let threads: Vec<_> = (0..4)
            .map(|number| {
                let fired = Arc::clone(&fired);
                thread::spawn(move || {
                    for round in 0..60_u64 {
                        let worker = Worker::new().expect("the thread is free");
                        if (round + number) % 7 == 0 {
                            // The last one that is not isolated may be this.
                            let _refused = worker.set_isolated(true);
                        }
                        let counted = Arc::clone(&fired);
                        let timer = Box::pin(WheelTimer::new(move |_| {
                            counted.fetch_add(1, Ordering::Relaxed);
                            Restart::No
                        }));
                        assert_eq!(
                            timer.as_ref().start(ms(1 + round % 5)),
                            StartOutcome::Started
                        );
                        if round % 3 == 0 {
                            // The thread that comes for one that is no worker any more.
                            drop(worker);
                            until(|| !timer.as_ref().is_active());
                        } else {
                            let (wakes, waker) = Wakes::new();
                            let _brief = queued(us(round * 50), &waker);
                            worker.block_on(async {
                                sleep(ms(1)).await;
                                tickless::time::sleep(us(300)).await;
                            });
                            until(|| {
                                let _turn = worker.turn();
                                wakes.count() == 1 && !timer.as_ref().is_active()
                            });
                        }
                    }
                })
            })
            .collect();
        for thread in threads {
            thread.join().expect("it does not panic");
        }
        assert_eq!(fired.load(Ordering::Relaxed), 4 * 60);
    });
}
