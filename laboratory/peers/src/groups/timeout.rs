//! The cost of a timeout around a future that is ready at its first poll.

use std::future::Future;
use std::hint::black_box;
use std::pin::pin;
use std::task::{Context, Waker};
use std::time::Duration;

use crate::rounds::{Group, subjects};
use crate::subjects::TOKIO;
use crate::threads::{each, runtime, worker};

fn poll(future: impl Future) {
    let mut context = Context::from_waker(Waker::noop());
    black_box(pin!(future).poll(&mut context).is_pending());
}

pub(super) fn measure(group: &mut Group<'_>) {
    let _worker = worker();
    let runtime = runtime();
    let _entered = runtime.enter();
    let operations = group.operations(1_000_000);
    let limit = Duration::from_secs(5);
    group.measure(
        [("", 0, 1)],
        subjects![
            "tickless" => each(operations, || poll(tickless::time::timeout(limit, async {}))),
            TOKIO => each(operations, || poll(tokio::time::timeout(limit, async {}))),
        ],
    );
}
