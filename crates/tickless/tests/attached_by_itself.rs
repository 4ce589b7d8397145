//! Tests of tokio runtimes that nobody attaches: the first timer of a task does.
//!
//! Each test has a process of its own, because it looks at all reactors of the process.

mod support;

use std::future::poll_fn;
use std::panic;
use std::pin::Pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::Poll;
use std::thread;
use std::time::{Duration, Instant};

use futures::future::join_all;
use support::fork::fork;
use support::{assert_passed, block_on, in_own_process, ms, on_thread, us};
use tickless::inspect::{Reactor, ServedBy, snapshot};
use tickless::time::{Sleep, sleep};
use tickless::tokio::{AttachError, attach, detach};
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::task::{LocalSet, spawn_blocking};

const LONG: Duration = Duration::from_secs(3600);

fn current_thread() -> Runtime {
    let mut builder = Builder::new_current_thread();
    builder.enable_all().build().expect("a runtime")
}

fn multi_thread() -> Runtime {
    let mut builder = Builder::new_multi_thread();
    let runtime = builder.worker_threads(2).enable_all().build();
    runtime.expect("a runtime")
}

/// Makes a runtime without a reactor.
fn without_io() -> Runtime {
    let mut builder = Builder::new_multi_thread();
    let runtime = builder.worker_threads(2).enable_time().build();
    runtime.expect("a runtime")
}

fn reactors() -> Vec<Reactor> {
    snapshot().reactors
}

/// Returns the only reactor of the process.
fn reactor() -> Reactor {
    let [reactor] = <[Reactor; 1]>::try_from(reactors()).expect("there is one");
    reactor
}

/// Sleeps until a reactor fires a sleep; on a busy machine it may be late by more than the grace.
async fn until_a_reactor_fires() {
    let fired = || {
        reactors()
            .iter()
            .map(|reactor| reactor.expired)
            .sum::<u64>()
    };
    let before = fired();
    while fired() == before {
        let start = Instant::now();
        sleep(us(200)).await;
        assert_passed(start, us(200));
    }
}

/// Returns a sleep that this thread has started.
fn armed(duration: Duration) -> Pin<Box<Sleep>> {
    support::waiting_idly(|| sleep(duration))
}

/// Calls `body`, and returns how many panics were shown meanwhile.
fn panics_shown_by(body: impl FnOnce()) -> u32 {
    static SHOWN: AtomicU32 = AtomicU32::new(0);
    let previous = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        // Relaxed, here and below: a count.
        SHOWN.fetch_add(1, Ordering::Relaxed);
        previous(info);
    }));
    body();
    drop(panic::take_hook());
    SHOWN.load(Ordering::Relaxed)
}

#[test]
fn the_first_timer_of_a_task_attaches_its_runtime() {
    in_own_process("the_first_timer_of_a_task_attaches_its_runtime", || {
        let one = current_thread();
        one.block_on(async {
            assert!(reactors().is_empty());
            until_a_reactor_fires().await;
            assert!(attach().expect("it is").is_attached());
        });
        assert_eq!(reactors().len(), 1, "a call of `attach` finds the same");
        let many = multi_thread();
        let tasks = (0..10).map(|_| many.spawn(until_a_reactor_fires()));
        for result in many.block_on(join_all(tasks)) {
            result.expect("no panic");
        }
        assert_eq!(reactors().len(), 2);
    });
}

#[test]
fn tasks_of_a_local_set_attach_their_runtime() {
    in_own_process("tasks_of_a_local_set_attach_their_runtime", || {
        let (runtime, local) = (current_thread(), LocalSet::new());
        local.block_on(&runtime, async {
            let task = tokio::task::spawn_local(until_a_reactor_fires());
            task.await.expect("no panic");
        });
        assert_ne!(reactor().expired, 0);
    });
}

/// tokio tells by a panic that a runtime has no reactor. Nobody is shown it, and each runtime is asked once.
#[test]
fn a_runtime_without_io_is_not_attached_and_no_panic_is_shown() {
    let test = "a_runtime_without_io_is_not_attached_and_no_panic_is_shown";
    in_own_process(test, || {
        let shown = panics_shown_by(|| {
            let one = Builder::new_current_thread().build().expect("a runtime");
            for runtime in [one, without_io()] {
                let several = (0..20).map(|_| runtime.spawn(sleep(us(300))));
                for result in runtime.block_on(join_all(several)) {
                    result.expect("no panic");
                }
                // The task that remembers the answer stays.
                while runtime.metrics().num_alive_tasks() > 1 {
                    thread::yield_now();
                }
                assert_eq!(runtime.metrics().num_alive_tasks(), 1);
                let asked = runtime
                    .block_on(async { attach() })
                    .expect_err("no reactor");
                assert!(
                    matches!(asked, AttachError::NoIo) && asked.to_string().contains("enable_io")
                );
            }
        });
        assert_eq!(shown, 0);
        assert!(reactors().is_empty());
    });
}

/// Neither the thread of `block_on` on a multi-thread runtime, nor threads for blocking work, nor a thread that has
/// merely entered the runtime would be woken by its reactor.
#[test]
fn threads_that_are_no_workers_attach_nothing() {
    in_own_process("threads_that_are_no_workers_attach_nothing", || {
        let runtime = multi_thread();
        runtime.block_on(async {
            sleep(us(300)).await;
            let blocking = spawn_blocking(|| {
                block_on(sleep(us(300)));
                Handle::current().block_on(sleep(us(300)));
            });
            blocking.await.expect("no panic");
        });
        let _inside = runtime.enter();
        block_on(sleep(us(300)));
        assert!(reactors().is_empty());
    });
}

#[test]
fn a_detached_runtime_stays_so_and_others_are_attached() {
    let test = "a_detached_runtime_stays_so_and_others_are_attached";
    in_own_process(test, || {
        assert!(matches!(detach(), Err(AttachError::NoRuntime)));
        for runtime in [current_thread(), multi_thread()] {
            let sleeps = || async {
                for _ in 0..5 {
                    sleep(us(200)).await;
                }
            };
            let attached = || {
                let all = reactors().into_iter();
                let detached = |reactor: &Reactor| reactor.served_by == ServedBy::FallbackForEver;
                all.filter(|reactor| !detached(reactor)).count()
            };
            let tasks = async move {
                // Before its first timer, and twice.
                detach().expect("a runtime");
                detach().expect("a runtime");
                sleeps().await;
                assert_eq!(attached(), 0);
                let attachment = attach().expect("it is asked for");
                until_a_reactor_fires().await;
                attachment.detach();
                sleeps().await;
                assert!(!attachment.is_attached());
                assert_eq!(attached(), 0);
                assert!(attach().expect("again").is_attached());
                detach().expect("a runtime");
                sleeps().await;
                assert_eq!(attached(), 0);
                // What keeps it so is a task; that of the earlier times has ended.
                while Handle::current().metrics().num_alive_tasks() > 2 {
                    tokio::task::yield_now().await;
                }
            };
            runtime.block_on(runtime.spawn(tasks)).expect("no panic");
        }
        on_thread(|| current_thread().block_on(until_a_reactor_fires()));
    });
}

/// The thread had timers before its runtime, and later those of another runtime.
#[test]
fn a_thread_drives_several_runtimes() {
    in_own_process("a_thread_drives_several_runtimes", || {
        let mut outside = armed(ms(100));
        block_on(sleep(us(300)));
        let (first, second) = (current_thread(), current_thread());
        for runtime in [&first, &second, &first, &second] {
            runtime.block_on(until_a_reactor_fires());
        }
        assert_eq!(reactors().len(), 2);
        drop(second);
        first.block_on(until_a_reactor_fires());
        drop(first);
        let alive = |reactor: &Reactor| reactor.served_by == ServedBy::Reactor;
        assert!(!reactors().iter().any(alive));
        current_thread().block_on(until_a_reactor_fires());
        block_on(outside.as_mut());
    });
}

/// The reactor of the outer runtime fires the timers of the inner one, because its other worker polls it.
#[test]
fn a_runtime_inside_of_another_has_its_timers() {
    in_own_process("a_runtime_inside_of_another_has_its_timers", || {
        let outer = multi_thread();
        let task = outer.spawn(async {
            until_a_reactor_fires().await;
            tokio::task::block_in_place(|| current_thread().block_on(until_a_reactor_fires()));
            until_a_reactor_fires().await;
        });
        outer.block_on(task).expect("no panic");
    });
}

/// A task that is dropped when its runtime shuts down starts the runtime's first timers.
#[test]
fn the_first_timer_is_started_while_the_runtime_shuts_down() {
    struct AtDrop;
    impl Drop for AtDrop {
        fn drop(&mut self) {
            drop(armed(LONG));
            let mut queued = armed(us(300));
            block_on(queued.as_mut());
        }
    }
    let test = "the_first_timer_is_started_while_the_runtime_shuts_down";
    in_own_process(test, || {
        for runtime in [current_thread(), multi_thread()] {
            let started = runtime.spawn(async {
                let _at_drop = AtDrop;
                std::future::pending::<()>().await;
            });
            runtime.block_on(tokio::task::yield_now());
            drop(runtime);
            assert!(block_on(started).is_err());
        }
        let alive = |reactor: &Reactor| reactor.served_by == ServedBy::Reactor;
        assert!(!reactors().iter().any(alive));
    });
}

/// A thread that has left its runtime, which nothing polls then, starts an earlier timer, perhaps in another runtime: the
/// expiry thread fires it at once in time, and the reactor fires the timers again when the runtime is driven.
#[test]
fn a_timer_outside_of_the_runtime_does_not_wait_for_it() {
    in_own_process(
        "a_timer_outside_of_the_runtime_does_not_wait_for_it",
        || {
            let (runtime, detached) = (current_thread(), current_thread());
            detached.block_on(async { detach().expect("a runtime") });
            for is_in_another in [false, true, false] {
                let _later = runtime.block_on(async {
                    until_a_reactor_fires().await;
                    Some(armed(LONG))
                });
                let mut outside = match is_in_another {
                    true => detached.block_on(poll_fn(|_| Poll::Ready(armed(ms(1))))),
                    false => armed(ms(1)),
                };
                assert_eq!(reactor().served_by, ServedBy::FallbackWhileStalled);
                block_on(outside.as_mut());
                let before = reactor().expired;
                block_on(sleep(us(300)));
                assert_eq!(reactor().expired, before);
            }
        },
    );
}

/// Only the program knows which runtimes of the child are not its parent's.
#[test]
fn in_the_child_of_a_fork_no_runtime_is_attached_by_itself() {
    let test = "in_the_child_of_a_fork_no_runtime_is_attached_by_itself";
    in_own_process(test, || {
        let (attached, other) = (current_thread(), current_thread());
        attached.block_on(async {
            until_a_reactor_fires().await;
            let child = fork(|| {
                let elsewhere = || other.block_on(sleep(us(300)));
                thread::scope(|scope| scope.spawn(elsewhere).join()).expect("no panic");
                on_thread(|| current_thread().block_on(sleep(us(300))));
                assert!(reactors().is_empty());
                on_thread(|| {
                    current_thread().block_on(async {
                        attach().expect("a runtime of its own");
                        until_a_reactor_fires().await;
                    });
                });
            });
            until_a_reactor_fires().await;
            child.join();
        });
        assert_eq!(reactors().len(), 1);
    });
}

/// The reactor of the parent rings on, whatever the child does with its copy of the runtime.
#[test]
fn a_child_that_drops_the_runtime_takes_nothing_from_its_parent() {
    let test = "a_child_that_drops_the_runtime_takes_nothing_from_its_parent";
    in_own_process(test, || {
        let runtime = current_thread();
        runtime.block_on(until_a_reactor_fires());
        let mut own = Some(runtime);
        let child = fork(|| {
            let runtime = own.take().expect("it is there");
            runtime.block_on(sleep(us(300)));
            drop(runtime);
        });
        child.join();
        own.expect("the parent's").block_on(until_a_reactor_fires());
    });
}

#[test]
#[cfg(feature = "tokio-test-util")]
fn timers_of_a_paused_clock_attach_nothing() {
    in_own_process("timers_of_a_paused_clock_attach_nothing", || {
        let mut builder = Builder::new_current_thread();
        let paused = builder.enable_all().start_paused(true).build();
        paused.expect("a runtime").block_on(sleep(LONG));
        assert!(reactors().is_empty());
    });
}
