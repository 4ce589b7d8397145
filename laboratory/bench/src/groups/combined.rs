//! The gain of combining the reads of a slow counter, measured on an emulated counter.

use std::hint::black_box;
use std::sync::Barrier;
use std::thread;
use std::time::Instant;

use super::Sink;
use crate::harness::{Group, Options, Subject};
use crate::slow_counter::{Direct, Joined, Read, SlowRegister};

/// The number of reads of all threads together: a round takes some tens of milliseconds.
const READS: u64 = 30_000;
const THREADS: [u32; 3] = [2, 4, 8];
const DIRECT: &str = "each thread reads it itself";

/// Returns the nanoseconds from one read to the next, over all threads together.
fn aggregate(counter: &impl Read, threads: u32, reads: u64) -> f64 {
    let together = Barrier::new(threads as usize);
    let each = reads.div_ceil(u64::from(threads));
    let spans: Vec<_> = thread::scope(|scope| {
        let readers = (0..threads).map(|_| {
            scope.spawn(|| {
                together.wait();
                let begin = Instant::now();
                for _ in 0..each {
                    black_box(counter.read());
                }
                (begin, Instant::now())
            })
        });
        let readers: Vec<_> = readers.collect();
        let joined = readers.into_iter().map(thread::ScopedJoinHandle::join);
        joined
            .map(|span| span.expect("reading does not panic"))
            .collect()
    });
    // From the first that began to the last that ended, as they say it: the thread that started them may come late.
    let begin = spans.iter().map(|(begin, _)| *begin).min();
    let end = spans.iter().map(|(_, end)| *end).max();
    let spent = begin
        .zip(end)
        .map_or(f64::NAN, |(begin, end)| (end - begin).as_nanos() as f64);
    #[expect(clippy::cast_precision_loss, reason = "for printing")]
    {
        spent / (each * u64::from(threads)) as f64
    }
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
