#!/usr/bin/env bash
# Ten seconds in microseconds and ten seconds of a 32,768 Hz clock are neither equal, less nor greater in fugit.
#
# Version: fugit 0.6.0.
#
# What a user expects: the README says that durations with different bases are compared by multiplication, with u32 as
# with u64. Both values fit in their u32, so that ten seconds equal ten seconds and are less than an hour.
# Seen: the comparison brings both to a common base within the same u32, which for these two bases ends at 8.39 s. From
# there on `==`, `<`, `>`, `<=` and `>=` are all false, without a panic, in debug builds too. Milliseconds and the same
# clock get to 1,048 s; with u64 the comparison holds. const_eq and const_partial_cmp name the overflow; the operators,
# which call them, have no word about it.
#
# For firmware: `elapsed >= timeout` is never true after 8.39 s, and `elapsed < timeout` never holds for a timeout
# beyond that. Convert both sides to one base first, or use u64.
#
# Exits with 0 while that is so, with 1 once an answer differs, with 3 where the crate cannot be built.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
. "$(dirname "$0")/support/crate.sh" <<'TOML'
fugit = "=0.6.0"
TOML
cat > src/main.rs <<'RUST'
use fugit::Duration;

/// Shows each comparison of `$elapsed` seconds with `$timeout` seconds that holds.
macro_rules! compare {
    ($integer:ty, $elapsed:expr, $per_second:expr, $timeout:expr) => {
        let elapsed = Duration::<$integer, 1, $per_second>::from_ticks($elapsed * $per_second);
        let timeout = Duration::<$integer, 1, 32_768>::from_ticks($timeout * 32_768);
        let holds: Vec<&str> = [
            ("==", elapsed == timeout),
            ("<", elapsed < timeout),
            ("<=", elapsed <= timeout),
            (">", elapsed > timeout),
            (">=", elapsed >= timeout),
        ]
        .into_iter()
        .filter_map(|(name, holds)| holds.then_some(name))
        .collect();
        println!(
            "{}: {} s in 1/{} s, {} s in 1/32768 s: {}",
            stringify!($integer), $elapsed, $per_second, $timeout, holds.join(" ")
        );
    };
}

fn main() {
    compare!(u32, 8, 1_000_000, 8);
    compare!(u32, 10, 1_000_000, 10);
    compare!(u32, 10, 1_000_000, 3_600);
    compare!(u32, 3_600, 1_000_000, 10);
    compare!(u32, 1_048, 1_000, 1_048);
    compare!(u32, 3_600, 1_000, 10);
    compare!(u64, 10, 1_000_000, 10);
    compare!(u64, 10, 1_000_000, 3_600);
}
RUST
build '^fugit v'
./finding | sed 's/ *$//' | tee seen
cat > expected <<'TEXT'
u32: 8 s in 1/1000000 s, 8 s in 1/32768 s: == <= >=
u32: 10 s in 1/1000000 s, 10 s in 1/32768 s:
u32: 10 s in 1/1000000 s, 3600 s in 1/32768 s:
u32: 3600 s in 1/1000000 s, 10 s in 1/32768 s:
u32: 1048 s in 1/1000 s, 1048 s in 1/32768 s: == <= >=
u32: 3600 s in 1/1000 s, 10 s in 1/32768 s:
u64: 10 s in 1/1000000 s, 10 s in 1/32768 s: == <= >=
u64: 10 s in 1/1000000 s, 3600 s in 1/32768 s: < <=
TEXT
diff expected seen && echo "as described: 8 of 8 lines"
