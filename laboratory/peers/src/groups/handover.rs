//! The cost of sleeps that one thread arms and another thread drops.

use std::hint::black_box;
use std::pin::Pin;
use std::sync::Barrier;
use std::sync::mpsc::sync_channel;
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

use crate::rounds::{Group, Subject};
use crate::subjects::TOKIO;
use crate::threads::{runtime, worker};

/// The numbers of timers that are passed to the other thread at a time, with the names of the two threads' parts.
const BATCHES: [(u64, [&str; 2]); 3] = [
    (16, ["arm, 16 at a time", "drop, 16 at a time"]),
    (1_000, ["arm, 1,000 at a time", "drop, 1,000 at a time"]),
    (16_000, ["arm, 16,000 at a time", "drop, 16,000 at a time"]),
];

const SLEEP: Duration = Duration::from_secs(500);

pub(super) fn measure(group: &mut Group<'_>) {
    let runtime = runtime();
    for (batch, parts) in BATCHES {
        let batches = (group.operations(320_000) / batch).max(2);
        let subjects: Vec<Subject<'_, 2>> = vec![
            (
                "tickless",
                Box::new(|| {
                    let _worker = worker();
                    hand_over(batch, batches, || tickless::time::sleep(SLEEP))
                }),
            ),
            (
                "tickless::coarse",
                Box::new(|| {
                    let _worker = worker();
                    hand_over(batch, batches, || tickless::coarse::sleep(SLEEP))
                }),
            ),
            (
                TOKIO,
                Box::new(|| {
                    let _entered = runtime.enter();
                    hand_over(batch, batches, || tokio::time::sleep(SLEEP))
                }),
            ),
        ];
        group.measure(parts.map(|part| (part, 0, 2)), subjects);
    }
}

/// Returns the nanoseconds for one sleep of the thread that arms, and of the one that drops.
fn hand_over<F: Future + Send>(batch: u64, batches: u64, make: impl Fn() -> F) -> [f64; 2] {
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
    [spent.0, spent.1].map(|spent| spent.as_nanos() as f64 / (batch * batches) as f64)
}
