//! An executor for the tests, which polls some tasks until all of them have finished, and sleeps while no task is
//! woken.

use core::future::Future;
use core::pin::Pin;
use core::sync::atomic::{AtomicBool, Ordering};
use core::task::{Context, Poll, RawWaker, RawWakerVTable, Waker};

use crate::board;

/// The most tasks of one [`block_on`].
const TASKS: usize = 20;

/// A flag for each task, true if the task was woken.
static WOKEN: [AtomicBool; TASKS] = [const { AtomicBool::new(false) }; TASKS];

/// The table of a waker whose data is the flag of its task.
const TABLE: RawWakerVTable =
    RawWakerVTable::new(|note| RawWaker::new(note, &TABLE), wake, wake, |_| {});

fn wake(note: *const ()) {
    // SAFETY: the data of a waker is made in `waker` alone, out of a note that lives for ever.
    let note = unsafe { &*note.cast::<AtomicBool>() };
    // Relaxed: one processor.
    note.store(true, Ordering::Relaxed);
}

fn waker(note: &'static AtomicBool) -> Waker {
    // SAFETY: the functions of the table do nothing but set the note, from wherever they are called.
    unsafe { Waker::from_raw(RawWaker::new((&raw const *note).cast(), &TABLE)) }
}

/// Polls `tasks` until all of them have finished.
///
/// # Panics
///
/// If there are more than `TASKS` tasks.
pub(crate) fn block_on(tasks: &mut [Pin<&mut dyn Future<Output = ()>>]) {
    assert!(tasks.len() <= TASKS, "there are {TASKS} wakers");
    let mut over = [false; TASKS];
    for note in &WOKEN[..tasks.len()] {
        note.store(true, Ordering::Relaxed);
    }
    loop {
        for (number, task) in tasks.iter_mut().enumerate() {
            let note = &WOKEN[number];
            if over[number] || !note.load(Ordering::Relaxed) {
                continue;
            }
            // Before the poll: a wake-up that comes from here on is for another one.
            note.store(false, Ordering::Relaxed);
            let waker = waker(note);
            over[number] = matches!(
                task.as_mut().poll(&mut Context::from_waker(&waker)),
                Poll::Ready(())
            );
        }
        if over[..tasks.len()].iter().all(|&is_over| is_over) {
            return;
        }
        board::wait_unless(|| {
            WOKEN[..tasks.len()]
                .iter()
                .any(|note| note.load(Ordering::Relaxed))
        });
    }
}
