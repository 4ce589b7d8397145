//! Loom cases for requests that are cleared while other requests are made.

use loom::sync::Arc;
use loom::thread;

use super::Resched;
use tickless_link::sync::{AtomicBool, Ordering};

/// A worker, and the requests of other threads to it.
struct Asked {
    resched: Resched,
    /// The changes that are announced: the worker has to end, and there is a descriptor.
    words: [AtomicBool; 2],
}

impl Asked {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            resched: Resched::new(),
            words: [AtomicBool::new(false), AtomicBool::new(false)],
        })
    }

    fn ask(&self, word: usize) {
        // Relaxed: ordered by the request.
        self.words[word].store(true, Ordering::Relaxed);
        self.resched.request();
    }

    /// Runs the scheduler and returns the words that it found.
    fn schedule(&self) -> [bool; 2] {
        self.resched.clear();
        // Relaxed: as above.
        [0, 1].map(|word| self.words[word].load(Ordering::Relaxed))
    }
}

/// Two threads write a change and request a schedule, while the worker clears an earlier request. If the worker does
/// not find a change then, the task that it polls next yields for that change.
#[test]
fn a_request_while_the_worker_schedules() {
    let mut builder = loom::model::Builder::new();
    // Without a bound it takes minutes: each thread has few operations, and there are three.
    builder.preemption_bound = Some(2);
    builder.check(|| {
        let asked = Asked::new();
        asked.resched.request();
        let others = [0, 1].map(|word| {
            let asked = Arc::clone(&asked);
            thread::spawn(move || asked.ask(word))
        });
        let found = asked.schedule();
        for other in others {
            other.join().unwrap();
        }
        let is_asked_again = asked.resched.is_requested();
        assert!(
            found == [true; 2] || is_asked_again,
            "the worker was asked, found {found:?}, and polls on"
        );
    });
}
