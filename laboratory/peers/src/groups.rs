//! The groups whose subjects have measurements of their own, because what is compared is no queue of timers.

use crate::operation::Operation;
use crate::rounds::Group;

mod behind_sleeps;
pub(crate) mod clock;
pub(crate) mod executor;
mod handover;
pub(crate) mod lateness;
mod locks;
mod poll;
mod timeout;

pub(crate) fn measure(group: &mut Group<'_>) {
    match group.operation {
        Operation::BehindSleeps => behind_sleeps::measure(group),
        Operation::TimeoutReady => timeout::measure(group),
        Operation::Handover => handover::measure(group),
        Operation::Poll => poll::measure(group),
        Operation::BaseLock => locks::measure(group),
        Operation::Clock => clock::measure(group),
        Operation::Executor => executor::measure(group),
        Operation::Lateness => lateness::measure(group),
        of_queues => unreachable!("{of_queues:?} is measured in turns"),
    }
}
