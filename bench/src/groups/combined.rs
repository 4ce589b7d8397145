//! What combining the reads of a slow counter brings, on an emulated one.

use std::hint::black_box;
use std::sync::Barrier;
use std::thread;

use super::Sink;
use crate::harness::{Group, Options, Subject, time};
use crate::slow_counter::{Direct, Joined, Read, SlowRegister};

/// Of all threads together: a round takes some tens of milliseconds.
const READS: u64 = 30_000;
const THREADS: [u32; 3] = [2, 4, 8];
const DIRECT: &str = "each thread reads it itself";

/// Nanoseconds from one read to the next, of all threads together.
fn aggregate(counter: &impl Read, threads: u32, reads: u64) -> f64 {
    let start = Barrier::new(threads as usize + 1);
    let each = reads.div_ceil(u64::from(threads));
    thread::scope(|scope| {
        let readers = (0..threads).map(|_| {
            scope.spawn(|| {
                start.wait();
                for _ in 0..each {
                    black_box(counter.read());
                }
            })
        });
        let readers: Vec<_> = readers.collect();
        start.wait();
        time(each * u64::from(threads), || {
            for reader in readers {
                reader.join().expect("reading does not panic");
            }
        })
    })
}

fn subject<'a>(
    options: &Options,
    name: &'static str,
    counter: &'a impl Read,
    threads: u32,
) -> Subject<'a> {
    let reads = options.operations(READS);
    (name, Box::new(move || aggregate(counter, threads, reads)))
}

pub(super) fn measure(options: &Options, sink: Sink<'_>) {
    let register = SlowRegister::new();
    let direct = Direct(&register);
    let joined = Joined::new(&register);
    for threads in THREADS {
        let operation = "a read of an emulated counter of 1.5 us, of all threads together";
        let subjects = vec![
            subject(options, "tickless", &joined, threads),
            subject(options, DIRECT, &direct, threads),
        ];
        sink(Group::measure(operation, 1, options, subjects).threads(threads));
    }
}
