//! Parallel simulations: each takes one thread, and the machine has several CPUs.

use std::any::Any;
use std::num::NonZero;
use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;

/// The result of one piece of work, or the message of its panic.
pub(super) type Done<T> = Result<T, String>;

/// Executes the work `0..count` on all CPUs that this process may use, and returns the results in the order of the
/// numbers. The calling thread calls `finished` with the number of finished results, and with each result when it is
/// ready.
pub(super) fn each<T: Send>(
    count: usize,
    work: impl Fn(usize) -> T + Sync,
    mut finished: impl FnMut(usize, &Done<T>),
) -> Vec<Done<T>> {
    let threads = thread::available_parallelism().map_or(1, NonZero::get);
    let next = AtomicUsize::new(0);
    let (sender, receiver) = mpsc::channel();
    let mut results: Vec<Option<Done<T>>> = (0..count).map(|_| None).collect();
    thread::scope(|scope| {
        for _ in 0..threads.min(count) {
            let (sender, next, work) = (sender.clone(), &next, &work);
            scope.spawn(move || {
                loop {
                    // Relaxed: only the number matters, and each thread gets another one.
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= count {
                        break;
                    }
                    // A thread of its own, because one that panicked in the middle of a run cannot have another.
                    let done = thread::scope(|scope| caught(scope.spawn(|| work(number))));
                    if sender.send((number, done)).is_err() {
                        break;
                    }
                }
            });
        }
        drop(sender);
        for (done, (number, result)) in (1..).zip(receiver) {
            finished(done, &result);
            results[number] = Some(result);
        }
    });
    let missing = || Err("the thread ended".to_owned());
    results
        .into_iter()
        .map(|result| result.unwrap_or_else(missing))
        .collect()
}

/// Executes `work` on a thread of its own.
pub(super) fn apart<T: Send>(work: impl FnOnce() -> T + Send) -> Done<T> {
    thread::scope(|scope| caught(scope.spawn(work)))
}

fn caught<T>(thread: thread::ScopedJoinHandle<'_, T>) -> Done<T> {
    thread.join().map_err(|panicked| text_of(&*panicked))
}

/// Returns the panic message of a thread that ended without a result.
pub(super) fn story(thread: thread::JoinHandle<()>) -> String {
    let ended = thread.join();
    ended.map_or_else(|panicked| text_of(&*panicked), |()| "it ended".to_owned())
}

fn text_of(panicked: &(dyn Any + Send)) -> String {
    let text = panicked.downcast_ref::<&str>().map(ToString::to_string);
    text.or_else(|| panicked.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "it panicked".to_owned())
}

/// Suppresses the message of a panic while `work` runs, because the caller reports the panic.
pub(super) fn without_stories<T>(work: impl FnOnce() -> T) -> T {
    let before = panic::take_hook();
    panic::set_hook(Box::new(|_| {}));
    let result = panic::catch_unwind(AssertUnwindSafe(work));
    panic::set_hook(before);
    match result {
        Ok(result) => result,
        Err(panicked) => panic::resume_unwind(panicked),
    }
}

#[cfg(test)]
mod tests {
    use super::{apart, each};

    #[test]
    fn results_come_in_the_order_of_the_numbers() {
        let mut told = Vec::new();
        let results = each(20, |number| number * number, |done, _| told.push(done));
        let results: Vec<usize> = results.into_iter().map(|one| one.expect("done")).collect();
        assert_eq!(results[19], 361);
        assert!(results.is_sorted());
        assert_eq!(told, (1..=20).collect::<Vec<_>>());
        assert!(each(0, |_| (), |_, _| ()).is_empty());
    }

    #[test]
    fn a_panic_is_a_result() {
        let work = |number: usize| assert_ne!(number, 1, "not this one");
        let results = super::without_stories(|| each(3, work, |_, _| ()));
        assert!(results[0].is_ok() && results[2].is_ok());
        let story = results[1].as_ref().expect_err("it panicked");
        assert!(story.contains("not this one"), "{story}");
        assert_eq!(apart(|| 7), Ok(7));
    }
}
