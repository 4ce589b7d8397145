//! Timers that one thread arms and another thread cancels.

use std::future::Future;
use std::pin::Pin;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Waker};
use std::time::Instant;

use super::futures::SleepKind;
use crate::random::Delays;
use crate::subject::{Across, Subject};

/// The number of timers in a batch: so many that the cost of passing the batch on is negligible for one timer.
const BATCH: usize = 256;
/// The number of batches that circulate between the threads: with more than two, neither thread waits for the other all
/// the time.
const BATCHES: usize = 4;

fn each(nanos: u128, batches: u32) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "for printing")]
    {
        nanos as f64 / (f64::from(batches) * BATCH as f64)
    }
}

/// Runs both sides on two threads. Batches circulate between `arm` and `cancel`. The first tenth of the batches is not
/// counted.
fn run<B: Send>(
    batches: u32,
    full: Vec<B>,
    arm: impl FnOnce(&mut dyn FnMut(&mut dyn FnMut(&mut B))) + Send,
    cancel: impl FnOnce(&mut dyn FnMut(&mut dyn FnMut(&mut B))) + Send,
) -> Across {
    let (to_cancel, armed) = sync_channel(BATCHES);
    let (to_arm, empty) = sync_channel(BATCHES);
    for batch in full {
        to_arm.send(batch).expect("there is room for all");
    }
    let pass = |from: Receiver<B>, to: SyncSender<B>, visit: &mut dyn FnMut(&mut B)| {
        let warm = batches / 10;
        let mut nanos = 0;
        for number in 0..batches + warm {
            let Ok(mut batch) = from.recv() else { break };
            let start = Instant::now();
            visit(&mut batch);
            if number >= warm {
                nanos += start.elapsed().as_nanos();
            }
            // The other side is done when it has seen them all.
            let _done = to.send(batch);
        }
        nanos
    };
    let (mut arming, mut cancelling) = (0, 0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut ends = Some((empty, to_cancel));
            arm(&mut |visit| {
                if let Some((from, to)) = ends.take() {
                    arming = pass(from, to, visit);
                }
            });
        });
        scope.spawn(|| {
            let mut ends = Some((armed, to_arm));
            cancel(&mut |visit| {
                if let Some((from, to)) = ends.take() {
                    cancelling = pass(from, to, visit);
                }
            });
        });
    });
    Across {
        arm: each(arming, batches),
        cancel: each(cancelling, batches),
    }
}

/// Measures boxed futures; the empty boxes are returned to the arming thread and filled again.
pub(super) fn futures<K: SleepKind>(batches: u32) -> Across {
    let batch =
        || -> Vec<Pin<Box<Option<K::Sleep>>>> { (0..BATCH).map(|_| Box::pin(None)).collect() };
    run(
        batches,
        (0..BATCHES).map(|_| batch()).collect(),
        |loops| {
            K::within(|_| {
                let mut delays = Delays::new(1);
                let mut context = Context::from_waker(Waker::noop());
                loops(&mut |batch| {
                    let now = K::now();
                    for slot in batch {
                        let deadline = K::later(now, delays.random());
                        slot.set(Some(K::make(deadline)));
                        let sleep = slot.as_mut().as_pin_mut();
                        let poll = sleep.map(|sleep| sleep.poll(&mut context).is_pending());
                        std::hint::black_box(poll);
                    }
                });
            });
        },
        |loops| {
            K::within(|_| {
                loops(&mut |batch| {
                    for slot in batch {
                        slot.set(None);
                    }
                });
            });
        },
    )
}

/// Measures a queue in a `std::sync::Mutex`, which is locked for each operation.
pub(super) fn by_mutex<S: Subject + Send>(batches: u32) -> Across {
    let shared = S::within(|place| Mutex::new(S::new(place, SLOTS, false)));
    let lock = || shared.lock().unwrap_or_else(PoisonError::into_inner);
    by_slots::<S>(
        batches,
        || lock().now(),
        |slot, deadline| lock().arm(slot, deadline),
        |slot| lock().cancel(slot),
    )
}

/// The number of slots in all batches.
pub(super) const SLOTS: usize = BATCH * BATCHES;

/// Measures timers that both threads identify by their slots: one thread calls `now` and `arm`, the other thread calls
/// `cancel`.
pub(super) fn by_slots<S: Subject>(
    batches: u32,
    now: impl Fn() -> S::Time + Send,
    arm: impl Fn(usize, S::Time) -> bool + Send,
    cancel: impl Fn(usize) -> bool + Send,
) -> Across {
    let slots = |number: usize| -> Vec<usize> { (number * BATCH..(number + 1) * BATCH).collect() };
    run(
        batches,
        (0..BATCHES).map(slots).collect(),
        move |loops| {
            S::within(|_| {
                let mut delays = Delays::new(1);
                loops(&mut |batch| {
                    let now = now();
                    for slot in batch {
                        let deadline = S::later(now, delays.random());
                        std::hint::black_box(arm(*slot, deadline));
                    }
                });
            });
        },
        move |loops| {
            S::within(|_| {
                loops(&mut |batch| {
                    for slot in batch {
                        std::hint::black_box(cancel(*slot));
                    }
                });
            });
        },
    )
}
