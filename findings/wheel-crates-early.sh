#!/usr/bin/env bash
# Two crates with timer wheels fire up to a tick early.
#
# Versions: hierarchical_hash_wheel_timer 1.4.0, timerwheel 0.1.0.
#
# Expected before the first run: a delay that is no multiple of the wheel's tick is rounded up, and the tick in progress
# is added, so that no timer fires before its delay is over.
# Seen: the first of them drops what is below a millisecond. Its timer that is driven by hand fires a delay of 1.999 ms
# after 1 ms, one of 0.999 ms at once, and a period of 1.5 ms 150 times in 150 ms. With ticks of 10 ms, about half of
# the timers of the second fire before their delay is over, by up to a tick.
#
# For a user: whoever reads the clock in a callback sees that it is not time yet. Add a tick to each delay.
#
# Exits with 0 while that is so, with 1 once an answer differs, with 3 where the crates cannot be built.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
. "$(dirname "$0")/support/crate.sh" <<'TOML'
hierarchical_hash_wheel_timer = "=1.4.0"
timerwheel = "=0.1.0"
uuid = { version = "1", features = ["v4"] }
TOML
cat > src/main.rs <<'RUST'
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use hierarchical_hash_wheel_timer::manual_timer::ManualTimer;
use hierarchical_hash_wheel_timer::{ClosureTimer, TimerReturn};
use uuid::Uuid;

/// Returns the microseconds after which a delay of so many ends, counted one by one.
fn ends_after(delay: u64) -> u64 {
    let timer = ManualTimer::for_uuid_closures();
    let fired = Arc::new(AtomicU32::new(0));
    let counter = fired.clone();
    timer.timer_ref().schedule_action_once(Uuid::new_v4(), Duration::from_micros(delay), move |_| {
        counter.fetch_add(1, Ordering::Relaxed);
    });
    (1..).find(|_| {
        timer.advance_by(Duration::from_micros(1));
        fired.load(Ordering::Relaxed) == 1
    })
    .unwrap()
}

fn main() {
    for delay in [999, 1_000, 1_999, 5_999] {
        println!("{delay} us end after {} us", ends_after(delay));
    }
    let timer = ManualTimer::for_uuid_closures();
    let fired = Arc::new(AtomicU32::new(0));
    let counter = fired.clone();
    let period = Duration::from_micros(1_500);
    timer.timer_ref().schedule_action_periodic(Uuid::new_v4(), period, period, move |_| {
        counter.fetch_add(1, Ordering::Relaxed);
        TimerReturn::Reschedule(())
    });
    timer.advance_by(Duration::from_millis(150));
    println!("1500 us came {} times in 150 ms", fired.load(Ordering::Relaxed));

    let timer = timerwheel::Timer::builder().tick(Duration::from_millis(10)).bucket_count(64).build().unwrap();
    let early = Arc::new(Mutex::new(Vec::new()));
    let held: Vec<_> = (0..40)
        .map(|number| {
            let (early, begin) = (early.clone(), Instant::now());
            let delay = Duration::from_micros(5_000 + number * 7_300);
            let fire = move || early.lock().unwrap().push(delay.saturating_sub(begin.elapsed()));
            timer.schedule(delay, fire).unwrap()
        })
        .collect();
    while early.lock().unwrap().len() < held.len() {
        thread::sleep(Duration::from_millis(20));
    }
    let early = early.lock().unwrap();
    let most = early.iter().max().unwrap();
    eprintln!("timerwheel: {} of 40 early, by up to {most:?}", early.iter().filter(|early| !early.is_zero()).count());
    println!("some early: {}", *most > Duration::from_millis(1));
}
RUST
build 'wheel' --release
./finding | tee seen
cat > expected <<'TEXT'
999 us end after 1 us
1000 us end after 1000 us
1999 us end after 1000 us
5999 us end after 5000 us
1500 us came 150 times in 150 ms
some early: true
TEXT
diff expected seen && echo "as described: 6 of 6 lines"
