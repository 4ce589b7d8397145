//! Tests of the end of an executor and of foreign code that panics, as other tasks and threads see them.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Poll, Wake, Waker};
use std::thread;
use std::time::Duration;

use tickless::task;
use tickless::{Executor, coop, time};

use crate::executor;
use crate::support::{begin, until, waiting};

/// A value in a local future, which is counted when it is dropped.
struct Counted {
    dropped: Arc<AtomicUsize>,
    _stays_on_its_thread: Rc<Cell<u32>>,
}

impl Counted {
    fn new(dropped: &Arc<AtomicUsize>) -> Self {
        Self {
            dropped: Arc::clone(dropped),
            _stays_on_its_thread: Rc::default(),
        }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.dropped.fetch_add(1, Ordering::SeqCst);
    }
}

/// Returns a future that waits for ever, and stores its waker in `wakers` at each poll.
fn leaves_waker(
    wakers: Arc<Mutex<Vec<Waker>>>,
    counted: Counted,
) -> impl Future<Output = ()> + 'static {
    let mut is_left = false;
    poll_fn(move |context| {
        let _part = &counted;
        if !is_left {
            is_left = true;
            wakers
                .lock()
                .expect("no panic")
                .push(context.waker().clone());
        }
        Poll::Pending
    })
}

/// Local tasks wait in the queue of a worker while the executor ends, by a drop or by a shutdown.
#[test]
fn local_tasks_that_are_queued_are_dropped_at_the_end() {
    let _patience = begin();
    for (count, by_shutdown) in [(1, false), (3, false), (3, true)] {
        let executor = executor(1);
        let dropped = Arc::new(AtomicUsize::new(0));
        let counts = Arc::clone(&dropped);
        let wakers = Arc::new(Mutex::new(Vec::new()));
        let (began, begins) = mpsc::channel();
        executor
            .spawn(async move {
                for _ in 0..count {
                    let task = leaves_waker(Arc::clone(&wakers), Counted::new(&counts));
                    task::spawn_local(task).detach();
                }
                while wakers.lock().expect("no panic").len() < count {
                    coop::yield_now().await;
                }
                let wakers = std::mem::take(&mut *wakers.lock().expect("no panic"));
                wakers.into_iter().for_each(Waker::wake);
                began.send(()).expect("the test waits");
                // The worker is kept until the executor ends, so that the tasks are queued then.
                thread::sleep(Duration::from_millis(50));
            })
            .detach();
        begins.recv().expect("the task began");
        if by_shutdown {
            executor.shutdown(Duration::from_millis(1));
        }
        drop(executor);
        assert_eq!(dropped.load(Ordering::SeqCst), count);
    }
}

/// Lets another thread wake local tasks without pause while their executor ends: the thread may be at any point of
/// `wake` then.
fn wake_while_it_ends(rounds: usize, run: impl Fn(Box<dyn FnOnce() + Send>) -> Box<dyn FnOnce()>) {
    const TASKS: usize = 16;
    for _ in 0..rounds {
        let ends = executor(1);
        let dropped = Arc::new(AtomicUsize::new(0));
        let wakers = Arc::new(Mutex::new(Vec::new()));
        let (counts, leaves) = (Arc::clone(&dropped), Arc::clone(&wakers));
        let handles = ends
            .block_on(ends.spawn(async move {
                let local = |_| {
                    let task = leaves_waker(Arc::clone(&leaves), Counted::new(&counts));
                    task::spawn_local(task)
                };
                (0..TASKS).map(local).collect::<Vec<_>>()
            }))
            .expect("it ends");
        until(|| wakers.lock().expect("no panic").len() == TASKS);
        let woken = std::mem::take(&mut *wakers.lock().expect("no panic"));
        let (stop, began) = (
            Arc::new(AtomicBool::new(false)),
            Arc::new(AtomicBool::new(false)),
        );
        let (stops, begins) = (Arc::clone(&stop), Arc::clone(&began));
        let join = run(Box::new(move || {
            while !stops.load(Ordering::SeqCst) {
                woken.iter().for_each(Waker::wake_by_ref);
                begins.store(true, Ordering::SeqCst);
            }
        }));
        until(|| began.load(Ordering::SeqCst));
        drop(ends);
        stop.store(true, Ordering::SeqCst);
        join();
        assert_eq!(dropped.load(Ordering::SeqCst), TASKS);
        for handle in handles {
            assert!(handle.is_finished());
        }
    }
}

#[test]
fn a_thread_that_wakes_local_tasks_while_their_executor_ends_leaves_none_behind() {
    let _patience = begin();
    wake_while_it_ends(200, |body| {
        let thread = thread::spawn(body);
        Box::new(move || thread.join().expect("it does not panic"))
    });
}

#[test]
fn a_worker_of_another_executor_that_wakes_them_drops_none() {
    let _patience = begin();
    let other = Arc::new(executor(1));
    wake_while_it_ends(200, |body| {
        let task = other.spawn(async move { body() });
        let other = Arc::clone(&other);
        Box::new(move || other.block_on(task).expect("it does not panic"))
    });
}

/// A value that panics when it is dropped.
struct PanicsInDrop;

impl Drop for PanicsInDrop {
    fn drop(&mut self) {
        panic!("in the drop of a result");
    }
}

#[test]
fn a_result_that_panics_in_its_drop_is_counted_and_all_goes_on() {
    let _patience = begin();
    let executor = executor(1);
    executor.spawn(async { PanicsInDrop }).detach();
    until(|| executor.stats().panics == 1);
    // The handle goes when the result is there.
    let task = executor.spawn(async { PanicsInDrop });
    until(|| task.is_finished());
    drop(task);
    assert_eq!(executor.stats().panics, 2);
    assert_eq!(
        executor
            .block_on(executor.spawn(async { 1 }))
            .expect("it ends"),
        1
    );
}

/// A timer calls the waker in a turn, in which a thread cannot block.
#[test]
fn block_on_panics_in_a_waker_that_a_timer_wakes() {
    struct Blocks {
        executor: Executor,
        panicked: AtomicUsize,
    }
    impl Wake for Blocks {
        fn wake(self: Arc<Self>) {
            let blocks = catch_unwind(AssertUnwindSafe(|| self.executor.block_on(async {})));
            let sleeps = catch_unwind(AssertUnwindSafe(|| {
                self.executor
                    .block_on(time::sleep(Duration::from_millis(1)));
            }));
            let count = usize::from(blocks.is_err()) + usize::from(sleeps.is_err());
            self.panicked.store(count + 1, Ordering::SeqCst);
        }
    }
    let _patience = begin();
    let blocks = Arc::new(Blocks {
        executor: executor(1),
        panicked: AtomicUsize::new(0),
    });
    let waker = Waker::from(Arc::clone(&blocks));
    let _sleep = waiting(|| time::sleep(Duration::from_millis(1)), &waker);
    until(|| blocks.panicked.load(Ordering::SeqCst) > 0);
    assert_eq!(blocks.panicked.load(Ordering::SeqCst), 3, "both panic");
}
