//! The cost of sleeps that one thread arms and another thread drops.

use std::hint::black_box;
use std::pin::Pin;
use std::sync::Barrier;
use std::sync::mpsc::sync_channel;
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

use crate::harness::{Group, Options, Sink, subjects};
use crate::threads::{TOKIO, runtime, worker};

/// The numbers of timers that are passed to the other thread at a time.
const BATCHES: [u64; 3] = [16, 1_000, 16_000];

const SLEEP: Duration = Duration::from_secs(500);

/// The side whose thread is timed.
#[derive(Clone, Copy)]
enum Side {
    Arms,
    Drops,
}

pub(super) fn measure(options: &Options, sink: Sink<'_>) {
    for batch in BATCHES {
        for (side, verb) in [(Side::Arms, "arm"), (Side::Drops, "drop")] {
            let batches = (options.operations(320_000) / batch).max(2);
            let runtime = runtime();
            let group = Group::measure(
                format!("{verb} sleeps that one thread arms and another drops, {batch} at a time"),
                0,
                options,
                subjects![
                    "tickless" => {
                        let _worker = worker();
                        hand_over(side, batch, batches, || tickless::time::sleep(SLEEP))
                    },
                    "tickless::coarse" => {
                        let _worker = worker();
                        hand_over(side, batch, batches, || tickless::coarse::sleep(SLEEP))
                    },
                    TOKIO => {
                        let _entered = runtime.enter();
                        hand_over(side, batch, batches, || tokio::time::sleep(SLEEP))
                    },
                ],
            );
            sink(group.threads(2).at_most(1.0, TOKIO));
        }
    }
}

/// Returns the nanoseconds for one sleep on the given side.
fn hand_over<F: Future + Send>(side: Side, batch: u64, batches: u64, make: impl Fn() -> F) -> f64 {
    let (sender, receiver) = sync_channel::<Vec<Pin<Box<F>>>>(2);
    let start = Barrier::new(2);
    let mut spent = (Duration::ZERO, Duration::ZERO);
    std::thread::scope(|scope| {
        let dropped = &mut spent.1;
        let start = &start;
        scope.spawn(move || {
            start.wait();
            for sleeps in receiver {
                let began = Instant::now();
                drop(black_box(sleeps));
                *dropped += began.elapsed();
            }
        });
        start.wait();
        let mut context = Context::from_waker(Waker::noop());
        for _ in 0..batches {
            let mut sleeps: Vec<_> = (0..batch).map(|_| Box::pin(make())).collect();
            let began = Instant::now();
            for sleep in &mut sleeps {
                black_box(sleep.as_mut().poll(&mut context).is_pending());
            }
            spent.0 += began.elapsed();
            if sender.send(sleeps).is_err() {
                break;
            }
        }
        drop(sender);
    });
    let spent = match side {
        Side::Arms => spent.0,
        Side::Drops => spent.1,
    };
    spent.as_nanos() as f64 / (batch * batches) as f64
}
