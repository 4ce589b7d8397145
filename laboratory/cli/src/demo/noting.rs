//! A timer for hyper that records how late the timeouts of connections fire.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use hyper::rt::{Sleep, Timer};

use super::tally::{Desk, Late, Part};

/// A timer for hyper that passes everything on to another timer, and records when its sleeps end.
#[derive(Clone, Debug)]
pub(crate) struct Noting<M> {
    timer: M,
    /// The distribution in which the ends are recorded.
    of: fn(&mut Part) -> &mut Late,
    desk: Arc<Desk>,
}

impl<M> Noting<M> {
    pub(crate) fn new(timer: M, of: fn(&mut Part) -> &mut Late, desk: Arc<Desk>) -> Self {
        Self { timer, of, desk }
    }
}

struct NotingSleep {
    sleep: Pin<Box<dyn Sleep>>,
    deadline: Instant,
    of: fn(&mut Part) -> &mut Late,
    desk: Arc<Desk>,
}

impl Future for NotingSleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        ready!(self.sleep.as_mut().poll(context));
        let now = Instant::now();
        (self.of)(&mut self.desk.tally().part()).record(self.deadline, now);
        Poll::Ready(())
    }
}

impl Sleep for NotingSleep {}

impl<M: Timer> Timer for Noting<M> {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Sleep>> {
        self.sleep_until(Instant::now() + duration)
    }

    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn Sleep>> {
        Box::pin(NotingSleep {
            sleep: self.timer.sleep_until(deadline),
            deadline,
            of: self.of,
            desk: Arc::clone(&self.desk),
        })
    }

    fn reset(&self, sleep: &mut Pin<Box<dyn Sleep>>, deadline: Instant) {
        match sleep.as_mut().downcast_mut_pin::<NotingSleep>() {
            Some(ours) => {
                let ours = ours.get_mut();
                self.timer.reset(&mut ours.sleep, deadline);
                ours.deadline = deadline;
            }
            // Made by another timer: replaced.
            None => *sleep = self.sleep_until(deadline),
        }
    }
}
