//! The cost of a base lock in both of its modes, and its cost for a thread that does not own the base.

use std::hint::black_box;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use tickless::internals::Linux;
use tickless_link::bias::{BiasedLock, LockHost, REBIAS_AFTER};
use tickless_link::lock::Lock;

use crate::rounds::{Group, subjects};
use crate::threads::{each, time};

type Base = Lock<BiasedLock<Linux>, u64>;

/// Measures lock and unlock: by the owner in both modes, and of a standard mutex.
fn owner(group: &mut Group<'_>) {
    let biased = Base::new(BiasedLock::new(), 0);
    let ordinary = Base::new(BiasedLock::new(), 0);
    let plain = Mutex::new(0_u64);
    let token = biased.raw().claim().expect("no other owner");
    for _ in 0..=REBIAS_AFTER {
        *biased.lock(Some(token)) += 1;
    }
    assert!(biased.raw().is_biased() || !Linux::barrier_works());
    let operations = group.operations(2_000_000);
    group.measure(
        [("lock and unlock, uncontended", 0, 1)],
        subjects![
            "tickless" => each(operations, || *black_box(biased.lock(Some(token))) += 1),
            "tickless, in ordinary mode" => each(operations, || *black_box(ordinary.lock(None)) += 1),
            "std::sync::Mutex" => each(operations, || {
                if let Ok(mut value) = plain.lock() {
                    *black_box(&mut *value) += 1;
                }
            }),
        ],
    );
    biased.raw().disown(token);
}

/// Measures the first acquisition of a biased lock by a stranger, with the owner running on another CPU and with the
/// owner asleep.
fn stranger(group: &mut Group<'_>) {
    let operations = group.operations(200);
    let cost = |busy: bool| {
        let lock = Base::new(BiasedLock::new(), 0);
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            if busy {
                scope.spawn(|| {
                    while !stop.load(Ordering::Relaxed) {
                        std::hint::spin_loop();
                    }
                });
                thread::yield_now();
            }
            let token = lock.raw().claim().expect("no other owner");
            // A stranger on this very thread: the owner is outside, so it waits for the barrier alone.
            let mut spent = 0.0;
            for _ in 0..operations {
                for _ in 0..REBIAS_AFTER {
                    drop(lock.lock(Some(token)));
                }
                spent += time(1, || drop(lock.lock(None)));
            }
            stop.store(true, Ordering::Relaxed);
            lock.raw().disown(token);
            #[expect(clippy::cast_precision_loss, reason = "for printing")]
            {
                spent / operations as f64
            }
        })
    };
    group.measure(
        [("a stranger takes it", 0, 1)],
        subjects![
            "tickless" => cost(false),
            "tickless, while another thread of the process runs" => cost(true),
        ],
    );
}

pub(super) fn measure(group: &mut Group<'_>) {
    owner(group);
    stranger(group);
}
