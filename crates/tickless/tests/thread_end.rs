//! Tests of the end of a thread that runs its own timers, with its worker or driver in a thread-local, or leaked.
//!
//! The destructors of thread-locals run in an order that depends on the first uses of the thread-locals, so the
//! library's data of a thread has to outlive all of them.

mod support;

use std::cell::{Cell, RefCell};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;

use support::{Wakes, block_on, ms, on_thread, poll_idly, wait, waiting};
use tickless::time::sleep;
use tickless::{Driver, Worker, coarse};

/// The object with which a thread runs its timers.
enum Own {
    Nothing,
    Worker(Worker),
    Driver(Driver),
}

#[derive(Clone, Copy, Debug)]
enum ThreadKind {
    Foreign,
    Worker,
    #[cfg_attr(portable_host, expect(dead_code, reason = "there are no event loops"))]
    Driver,
}

#[cfg(not(portable_host))]
const KINDS: [ThreadKind; 3] = [ThreadKind::Foreign, ThreadKind::Worker, ThreadKind::Driver];
#[cfg(portable_host)]
const KINDS: [ThreadKind; 2] = [ThreadKind::Foreign, ThreadKind::Worker];

impl Own {
    fn make(kind: ThreadKind) -> Self {
        match kind {
            ThreadKind::Foreign => Self::Nothing,
            ThreadKind::Worker => Self::Worker(Worker::new().expect("the thread is free")),
            ThreadKind::Driver => Self::Driver(Driver::new().expect("the thread is free")),
        }
    }

    /// Waits for an exact and a coarse timer.
    fn use_it(&self) {
        let both = async {
            sleep(ms(2)).await;
            coarse::sleep(ms(2)).await;
        };
        match self {
            Self::Nothing => block_on(both),
            Self::Worker(worker) => {
                assert!(!worker.is_isolated());
                worker.block_on(both);
            }
            Self::Driver(driver) => {
                let mut both = Box::pin(both);
                while poll_idly(both.as_mut()).is_pending() {
                    wait(driver);
                    let _turn = driver.turn();
                }
            }
        }
    }
}

/// A value whose destructor signals that it runs, and waits until it may continue.
struct Pause(Sender<()>, Receiver<()>);

impl Drop for Pause {
    fn drop(&mut self) {
        self.0.send(()).expect("the test listens");
        self.1.recv().expect("the test answers");
    }
}

thread_local! {
    static OWN: RefCell<Own> = const { RefCell::new(Own::Nothing) };
    static PAUSE: RefCell<Option<Pause>> = const { RefCell::new(None) };
}

/// Starts a thread that ends with its worker or driver in a thread-local, which is dropped last.
fn ending(kind: ThreadKind) -> (thread::JoinHandle<()>, Receiver<()>, Sender<()>) {
    let (said, paused) = mpsc::channel();
    let (go_on, told) = mpsc::channel();
    let thread = thread::spawn(move || {
        // The last to be touched is dropped first.
        OWN.with(|_| ());
        PAUSE.set(Some(Pause(said, told)));
        OWN.set(Own::make(kind));
        OWN.with_borrow(Own::use_it);
    });
    (thread, paused, go_on)
}

#[test]
fn a_worker_in_a_thread_local_leaves_the_timers_of_other_threads_alone() {
    let _patience = support::begin();
    for &first in &KINDS[1..] {
        for second in KINDS {
            let (ends, paused, go_on) = ending(first);
            paused.recv().expect("it ends");
            let (stay, told) = mpsc::channel::<()>();
            let (said, began) = mpsc::channel();
            let other = thread::spawn(move || {
                let own = Own::make(second);
                own.use_it();
                said.send(()).expect("the test listens");
                told.recv().expect("the test answers");
                own.use_it();
            });
            began.recv().expect("the other thread's timers fire");
            go_on.send(()).expect("it waits");
            ends.join().expect("it ends without a panic");
            stay.send(()).expect("it waits");
            other.join().expect("its timers fire still");
        }
    }
}

/// A value that uses its worker or driver when the destructors of other thread-locals have run.
struct UsedAtTheEnd(Own, Sender<()>);

impl Drop for UsedAtTheEnd {
    fn drop(&mut self) {
        self.0.use_it();
        self.1.send(()).expect("the test listens");
    }
}

#[test]
#[cfg_attr(
    portable_host,
    ignore = "a worker is handed over before older thread-locals are dropped on the portable host"
)]
fn a_worker_in_a_thread_local_works_until_it_is_dropped() {
    thread_local!(static USED: RefCell<Option<UsedAtTheEnd>> = const { RefCell::new(None) });
    let _patience = support::begin();
    for kind in KINDS {
        let (said, used) = mpsc::channel();
        on_thread(move || {
            USED.with(|_| ());
            let own = Own::make(kind);
            own.use_it();
            USED.set(Some(UsedAtTheEnd(own, said)));
        });
        used.recv().expect("the destructor came to its end");
    }
}

#[test]
fn timers_of_a_thread_that_leaked_what_runs_them_fire() {
    thread_local!(static LEAKED: Cell<Option<&'static Own>> = const { Cell::new(None) });
    let _patience = support::begin();
    for kind in KINDS {
        let (wakes, waker) = Wakes::new();
        let timers = on_thread(move || {
            LEAKED.set(Some(Box::leak(Box::new(Own::make(kind)))));
            let exact = waiting(|| sleep(ms(3)), &waker);
            (exact, waiting(|| coarse::sleep(ms(3)), &waker))
        });
        support::until(|| wakes.count() == 2);
        drop(timers);
    }
}
