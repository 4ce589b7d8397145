//! Measures the lateness of sleeps of 500 µs on this system: by the library's own thread, by a worker, and by others.
//!
//! `cargo run -p tickless --example lateness`; with `--features portable` on Linux by the portable host, under wine by
//! `cargo xtask wine`.
#![expect(clippy::print_stdout, reason = "it shows what it measured")]

use std::time::{Duration, Instant};

use tickless::{Worker, time};

const LENGTH: Duration = Duration::from_micros(500);
const SLEEPS: usize = 400;

/// Sleeps in turn with the others, and prints how late the middle, the tenth and the ninetieth of a hundred are.
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let worker = Worker::new()?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()?;
    let (ask, asked) = std::sync::mpsc::channel::<()>();
    let (say, said) = std::sync::mpsc::channel::<Duration>();
    // A thread that is no worker: the library's own thread fires for it.
    let foreign = std::thread::spawn(move || {
        while asked.recv().is_ok() {
            let late = late(|| futures::executor::block_on(time::sleep(LENGTH)));
            if say.send(late).is_err() {
                break;
            }
        }
    });
    let mut all: [(&str, Vec<Duration>); 4] = [
        ("tickless, a thread", Vec::new()),
        ("tickless, a worker", Vec::new()),
        ("tokio::time", Vec::new()),
        ("std::thread::sleep", Vec::new()),
    ];
    for _ in 0..SLEEPS {
        ask.send(())?;
        all[0].1.push(said.recv()?);
        all[1].1.push(late(|| worker.block_on(time::sleep(LENGTH))));
        all[2].1.push(late(|| {
            runtime.block_on(async { tokio::time::sleep(LENGTH).await })
        }));
        all[3].1.push(late(|| std::thread::sleep(LENGTH)));
    }
    drop(ask);
    foreign.join().map_err(|_| "the thread panicked")?;
    println!("late after {SLEEPS} sleeps of {LENGTH:?}, in microseconds (less is better)");
    println!("{:20} {:>8} {:>8} {:>8}", "", "p10", "p50", "p90");
    for (name, mut late) in all {
        late.sort_unstable();
        let at = |percent: usize| late[late.len() * percent / 100].as_micros();
        println!("{name:20} {:>8} {:>8} {:>8}", at(10), at(50), at(90));
    }
    Ok(())
}

/// Returns by how much `sleep` was late, which is never early.
fn late(sleep: impl FnOnce()) -> Duration {
    let start = Instant::now();
    sleep();
    let elapsed = start.elapsed();
    assert!(elapsed >= LENGTH, "early: {elapsed:?}");
    elapsed.saturating_sub(LENGTH)
}
