//! The functions of an executor that any thread may call for a task: to enqueue it, to remove it when it has ended, and
//! to abort it.

use super::current;
use super::header::{Header, Job, Keeper};
use super::settings::PanicPolicy;
use super::shared::Shared;
use crate::host::thread::now_lower;

impl Keeper for Shared {
    #[inline]
    fn id(&self) -> u64 {
        self.id
    }

    fn queue_woken(&self, job: Job) {
        if !self.is_here() {
            // It is the parent's.
            std::mem::forget(job);
            return;
        }
        let job = match &self.drawn {
            None => job,
            Some(drawn) => match drawn.push(job) {
                Ok(()) => {
                    if current::worker_of(self.id).is_none() {
                        self.places[0].unpark();
                    }
                    return;
                }
                // The queue of the place is closed too, and knows where the task ends.
                Err(job) => job,
            },
        };
        self.push_remote(job.metadata().worker(), job);
    }

    fn push(&self, job: Job) {
        self.pool.push(job);
    }

    fn end(&self, header: &Header) {
        if !self.is_here() {
            // The lists are the parent's.
            return;
        }
        let listed = header.listing.place();
        let runs_on = current::worker_of(self.id).filter(|_| current::is_running(header.address()));
        let mut waker = runs_on.and_then(|worker| {
            let slot = listed
                .filter(|(home, _)| *home == worker)
                .map(|(_, slot)| slot);
            self.places[worker].with(|scheduler| {
                if !current::has_ended() {
                    scheduler.finish(now_lower());
                }
                slot.and_then(|slot| scheduler.tasks.delist(slot))
            })
        });
        if let Some((home, slot)) = listed
            && runs_on != Some(home)
        {
            waker = self.places[home].lock().tasks.delist(slot);
        }
        if header.is_local {
            self.places[header.worker()].remove_local();
        }
        // Dropped here, with no lock held.
        drop(waker);
        if self.lifetime.retire() {
            self.settings.over.notify();
        }
    }

    fn panicked(&self) {
        self.settings.panics.add_one_remote();
        if self.settings.panic == PanicPolicy::ShutDown {
            self.stop();
        }
    }

    fn abort(&self, header: &Header) {
        let place = header.listing.abort();
        if !self.is_here() {
            return;
        }
        // A task that is not listed is about to be polled, or will find out when it is.
        if let Some((home, slot)) = place {
            let waker = self.places[home].lock().tasks.waker(slot);
            if let Some(waker) = waker {
                waker.wake();
            }
        }
    }
}
