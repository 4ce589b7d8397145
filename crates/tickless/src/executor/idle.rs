//! The set of idle workers. A thread that queues new work claims an idle worker and wakes it.
//!
//! A wake-up could get lost: a worker has checked all queues and is about to park, while another thread queues a task
//! and finds that every worker is busy. Against that, each side writes its own word and then reads the other side's
//! word (Dekker's pattern), with a full fence in between on both sides:
//!
//! - A thread that queues a task first increments the count that workers read, and then checks for idle workers.
//! - A worker first announces that it is idle, and then reads the counts again. It parks only if no task waits.
//!
//! In any order of these steps, at least one side sees the other. Only the thread that clears a worker's bit has
//! claimed the worker, so that several tasks that are queued at once wake several workers. Loom runs this code
//! unchanged (`model.rs`).

use tickless_link::sync::{AtomicU64, Ordering, fence};

#[cfg(all(test, loom))]
mod model;

/// The number of workers for each word.
const BITS: usize = 64;

/// The idle workers, one bit each.
#[derive(Debug)]
pub(crate) struct Idle {
    words: Box<[AtomicU64]>,
}

impl Idle {
    /// Creates the set of so many workers, none of which is idle.
    pub(crate) fn new(workers: usize) -> Self {
        let words = workers.div_ceil(BITS);
        Self {
            words: (0..words).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    /// Notes that the worker is idle. The worker checks for work once more after this call, and parks only then.
    pub(crate) fn enter(&self, worker: usize) {
        // Relaxed: ordered by the fence, which pairs with the one in `any`.
        self.words[worker / BITS].fetch_or(1 << (worker % BITS), Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// Notes that the worker is busy again, whether or not a thread claimed it.
    pub(crate) fn leave(&self, worker: usize) {
        // Relaxed: a thread that still finds it idle wakes it for nothing.
        self.words[worker / BITS].fetch_and(!(1 << (worker % BITS)), Ordering::Relaxed);
    }

    /// Returns whether a worker is idle. The caller has counted its task in the count that workers read.
    #[inline]
    pub(crate) fn any(&self) -> bool {
        // Pairs with the fence in `enter`: a worker whose bit is not seen here sees what was counted before.
        fence(Ordering::SeqCst);
        // Relaxed: see above.
        self.words
            .iter()
            .any(|word| word.load(Ordering::Relaxed) != 0)
    }

    /// Returns whether this worker is idle. The caller called [`any`](Self::any) before.
    pub(crate) fn is_idle(&self, worker: usize) -> bool {
        // Relaxed: see `any`; the claim decides.
        self.words[worker / BITS].load(Ordering::Relaxed) & 1 << (worker % BITS) != 0
    }

    /// Claims this worker, if it is idle. The caller then unparks it.
    pub(crate) fn claim(&self, worker: usize) -> bool {
        let bit = 1 << (worker % BITS);
        // Relaxed: the notification that follows orders.
        self.words[worker / BITS].fetch_and(!bit, Ordering::Relaxed) & bit != 0
    }

    /// Claims the first idle worker from `worker` on, if there is one. The caller then unparks it.
    pub(crate) fn claim_near(&self, worker: usize) -> Option<usize> {
        let count = self.words.len();
        let (first, offset) = (worker / BITS, worker % BITS);
        (0..=count).find_map(|step| {
            let index = (first + step) % count;
            // The word of `worker` comes twice: from its bit on at first, as a whole in the end.
            let mask = if step == 0 { !0 << offset } else { !0 };
            self.claim_in(index, mask)
        })
    }

    fn claim_in(&self, index: usize, mask: u64) -> Option<usize> {
        loop {
            // Relaxed: the exchange below decides.
            let idle = self.words[index].load(Ordering::Relaxed) & mask;
            if idle == 0 {
                return None;
            }
            let worker = index * BITS + idle.trailing_zeros() as usize;
            if self.claim(worker) {
                return Some(worker);
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_idle_worker_that_is_next_is_claimed_once() {
        let idle = Idle::new(130);
        assert!(!idle.any());
        assert_eq!(idle.claim_near(0), None);
        for worker in [3, 70, 129] {
            idle.enter(worker);
        }
        assert!(idle.any());
        assert_eq!(idle.claim_near(71), Some(129));
        assert_eq!(idle.claim_near(71), Some(3));
        assert!(idle.claim(70));
        assert!(!idle.claim(70));
        assert_eq!(idle.claim_near(71), None);
        idle.enter(3);
        idle.leave(3);
        assert!(!idle.any());
    }

    #[test]
    fn a_worker_before_the_one_that_asks_is_claimed_too() {
        let idle = Idle::new(4);
        idle.enter(1);
        assert_eq!(idle.claim_near(3), Some(1));
    }
}
