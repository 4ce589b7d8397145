#!/usr/bin/env bash
# All series of delays that one backoff maker of tower makes are the same, jitter included.
#
# Version: tower 0.5.3.
#
# What a user expects: the jitter of ExponentialBackoffMaker differs from series to series, because each call
# of make_backoff begins a series for another client.
# Seen: make_backoff hands out a copy of the maker's random generator in the state that it has, and never moves it on.
# Three series of one maker have the same five delays, to the nanosecond. Those of another maker differ.
#
# For a service: requests that begin to fail at one instant, and whose policies take their backoff from one maker, are
# tried again at one instant each time, which jitter is there to prevent.
#
# Exits with 0 while that is so, with 1 once an answer differs, with 3 where the crate cannot be built.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
. "$(dirname "$0")/support/crate.sh" <<'TOML'
tokio = { version = "1", features = ["rt", "time", "test-util"] }
tower = { version = "=0.5.3", features = ["retry", "util"] }
TOML
cat > src/main.rs <<'RUST'
use std::time::Duration;

use tokio::time::Instant;
use tower::retry::backoff::{Backoff, ExponentialBackoffMaker, MakeBackoff};
use tower::util::rng::HasherRng;

type Maker = ExponentialBackoffMaker<HasherRng>;

fn maker() -> Maker {
    Maker::new(Duration::from_millis(10), Duration::from_secs(10), 0.9, HasherRng::new())
        .expect("bounds and a jitter below 1")
}

/// The first five delays of the maker's next series. Under a paused clock they are exact to tokio's millisecond.
async fn series(maker: &mut Maker) -> Vec<u128> {
    let mut backoff = maker.make_backoff();
    let mut delays = Vec::new();
    for _ in 0..5 {
        let delay = backoff.next_backoff();
        delays.push(delay.deadline().duration_since(Instant::now()).as_nanos());
        delay.await;
    }
    delays
}

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let mut one = maker();
        let first = series(&mut one).await;
        let others = [series(&mut one).await, series(&mut one).await];
        let distinct = first.windows(2).all(|pair| pair[0] != pair[1]);
        println!("five delays of a series differ from each other: {distinct}");
        println!("three series of one maker are the same: {}", others.iter().all(|other| *other == first));
        println!("a series of another maker is the same: {}", series(&mut maker()).await == first);
    });
}
RUST
build '^tower ' --release
./finding | tee seen
cat > expected <<'TEXT'
five delays of a series differ from each other: true
three series of one maker are the same: true
a series of another maker is the same: false
TEXT
diff expected seen && echo "as described: 3 of 3 lines"
