#!/usr/bin/env bash
# tokio-cron-scheduler runs a job of 1.5 s each second, and a job of 0.3 s a single time.
#
# Version: tokio-cron-scheduler 0.15.1.
#
# What a user expects: the documentation of Job::new_repeated and Job::new_one_shot takes a Duration, and names no unit
# for it. Two runs are 1.5 s apart, up to half a second later for the scheduler's own tick; a job of 0.3 s runs again.
# Seen: the scheduler keeps whole seconds and drops the rest. A job of 1.5 s runs each second, one of 2.9 s each two
# seconds. One of 0.3 s has a period of zero: it runs once, and then never again, without an error. A single run in
# 1.9 s comes before its time.
#
# For a user: give whole seconds. Even then the first run may come up to a second early.
#
# Exits with 0 while that is so, with 1 once an answer differs, with 3 where the crate cannot be built.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
. "$(dirname "$0")/support/crate.sh" <<'TOML'
tokio = { version = "1", features = ["macros", "rt-multi-thread", "time"] }
tokio-cron-scheduler = "=0.15.1"
TOML
cat > src/main.rs <<'RUST'
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

use tokio_cron_scheduler::{Job, JobScheduler};

#[tokio::main]
async fn main() {
    let scheduler = JobScheduler::new().await.expect("a scheduler");
    // Begin 0.6 s into a second of the wall clock, so that each run of this program sees the same.
    let fraction = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970").subsec_millis();
    tokio::time::sleep(Duration::from_millis(u64::from((1_600 - fraction) % 1_000))).await;
    let start = Instant::now();
    let mut series = Vec::new();
    for (millis, repeated) in [(300, true), (1_500, true), (2_900, true), (1_900, false)] {
        let runs = Arc::new(Mutex::new(Vec::new()));
        let seen = runs.clone();
        let note = move |_, _: JobScheduler| seen.lock().expect("no panic").push(start.elapsed().as_secs_f64());
        let period = Duration::from_millis(millis);
        let job = if repeated { Job::new_repeated(period, note) } else { Job::new_one_shot(period, note) };
        scheduler.add(job.expect("a valid job")).await.expect("a started store");
        series.push((millis, repeated, runs));
    }
    scheduler.start().await.expect("a start");
    tokio::time::sleep(Duration::from_millis(9_300)).await;
    for (millis, repeated, runs) in series {
        let runs = runs.lock().expect("no panic");
        let gaps: Vec<f64> = runs.windows(2).map(|pair| (pair[1] - pair[0]).round()).collect();
        if repeated && gaps.is_empty() {
            println!("each {millis} ms: {} run in 9 s", runs.len());
        } else if repeated {
            let same = gaps.iter().all(|gap| *gap == gaps[0]);
            println!("each {millis} ms: runs about {} s apart, each time: {same}", gaps[0]);
        } else {
            let early = runs[0] < millis as f64 / 1_000.0;
            println!("once in {millis} ms: {} run, before its time: {early}", runs.len());
        }
    }
}
RUST
build '^tokio-cron'
./finding | tee seen
cat > expected <<'TEXT'
each 300 ms: 1 run in 9 s
each 1500 ms: runs about 1 s apart, each time: true
each 2900 ms: runs about 2 s apart, each time: true
once in 1900 ms: 1 run, before its time: true
TEXT
diff expected seen && echo "as described: 4 of 4 lines"
