//! The cost of a base lock in both of its modes, and its cost for a thread that does not own the base.

use std::hint::black_box;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use tickless::internals::Linux;
use tickless_link::bias::{BiasedLock, LockHost, REBIAS_AFTER};
use tickless_link::lock::Lock;

use crate::harness::{Group, Options, Sink, each, subjects, time};

type Base = Lock<BiasedLock<Linux>, u64>;

/// Measures lock and unlock: by the owner in both modes, and of a standard mutex.
fn owner(options: &Options) -> Group {
    let biased = Base::new(BiasedLock::new(), 0);
    let ordinary = Base::new(BiasedLock::new(), 0);
    let plain = Mutex::new(0_u64);
    let token = biased.raw().claim().expect("no other owner");
    for _ in 0..=REBIAS_AFTER {
        *biased.lock(Some(token)) += 1;
    }
    assert!(biased.raw().is_biased() || !Linux::barrier_works());
    let operations = options.operations(2_000_000);
    let group = Group::measure(
        "lock and unlock, uncontended",
        0,
        options,
        subjects![
            "tickless" => each(operations, || *black_box(biased.lock(Some(token))) += 1),
            "the same in ordinary mode" => each(operations, || *black_box(ordinary.lock(None)) += 1),
            "std::sync::Mutex" => each(operations, || {
                if let Ok(mut value) = plain.lock() {
                    *black_box(&mut *value) += 1;
                }
            }),
        ],
    );
    biased.raw().disown(token);
    group
}

/// Measures the first acquisition of a biased lock by a stranger, with the owner running on another CPU and with the
/// owner asleep.
fn stranger(options: &Options) -> Group {
    let operations = options.operations(200);
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
    Group::measure(
        "a stranger takes a biased lock, which becomes ordinary",
        0,
        options,
        subjects![
            "tickless" => cost(false),
            "the same while another thread of the process runs" => cost(true),
        ],
    )
}

pub(super) fn measure(options: &Options, sink: Sink<'_>) {
    sink(owner(options));
    sink(stranger(options));
}
