#!/usr/bin/env bash
# The order in which tokio-util's DelayQueue gives equal deadlines back depends on how far away they were.
#
# Versions: tokio-util 0.7.20 with tokio 1.54.1.
#
# Expected before the first run: entries with the same deadline come back in the order in which they were inserted, or
# always in the reverse one.
# Seen, under a paused clock: five entries due in 5 ms come back last in, first out; five that are due in 500 ms come
# back first in, first out; due in 5 s, last in, first out again. Each level of the wheel that the entries pass on their
# way reverses the order once. Deadlines within one millisecond count as equal, so what is due 800 microseconds earlier
# can come back later.
#
# For a user: order within a DelayQueue must not carry meaning, not even for entries of the same call.
#
# Exits with 0 while that is so, with 1 once an answer differs, with 3 where the crates cannot be built.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
. "$(dirname "$0")/support/crate.sh" <<'TOML'
futures-util = { version = "0.3", default-features = false }
tokio = { version = "=1.54.1", features = ["rt", "test-util", "time"] }
tokio-util = { version = "=0.7.20", features = ["time"] }
TOML
cat > src/main.rs <<'RUST'
use futures_util::StreamExt;
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::time::DelayQueue;

async fn show(case: &str, deadlines: [Duration; 5]) {
    let mut queue = DelayQueue::new();
    let now = Instant::now();
    for (entry, after) in deadlines.into_iter().enumerate() {
        queue.insert_at(entry, now + after);
    }
    let mut order = Vec::new();
    while let Some(expired) = queue.next().await {
        order.push(expired.into_inner());
    }
    println!("{case}: {order:?}");
}

fn main() {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        show("five in 5 ms", [Duration::from_millis(5); 5]).await;
        show("five in 500 ms", [Duration::from_millis(500); 5]).await;
        show("five in 5 s", [Duration::from_secs(5); 5]).await;
        let within = [100, 300, 500, 700, 900].map(Duration::from_micros);
        show("in 100, 300, 500, 700, 900 us", within).await;
    });
}
RUST
build '^tokio' --release
./finding | tee seen
cat > expected <<'TEXT'
five in 5 ms: [4, 3, 2, 1, 0]
five in 500 ms: [0, 1, 2, 3, 4]
five in 5 s: [4, 3, 2, 1, 0]
in 100, 300, 500, 700, 900 us: [4, 3, 2, 1, 0]
TEXT
diff expected seen && echo "as described: 4 of 4 lines"
