#!/usr/bin/env bash
# A millisecond of the crate coarsetime is 976.56 microseconds long.
#
# Version: coarsetime 0.1.38.
#
# Expected before the first run: Duration::from_millis(n) is exact or off by less than one unit of 2^-32 s.
# Seen: from_millis divides its argument by 1,024. One millisecond is 976,562 ns, ten are 9,765,625 ns, 999 are
# 975,585,937 ns, and 1,001 are 1,000,976,562 ns: whole seconds are right, the rest is 2.3 % short. as_millis of what
# from_millis(999) made is 975, and a thousand times from_millis(1) add up to 976 ms.
#
# For a timer: a timeout of 900 ms that is written with from_millis ends 21 ms early. from_secs and conversions from the
# standard library's Duration of whole seconds are not concerned.
#
# Exits with 0 while that is so, with 1 once an answer differs, with 3 where the crate cannot be built.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
. "$(dirname "$0")/support/crate.sh" <<'TOML'
coarsetime = "=0.1.38"
TOML
cat > src/main.rs <<'RUST'
use coarsetime::Duration;

fn main() {
    for millis in [1, 10, 900, 999, 1000, 1001] {
        let made = Duration::from_millis(millis);
        println!("from_millis({millis}): {} ms, {} ns", made.as_millis(), made.as_nanos());
    }
    let mut sum = Duration::from_millis(0);
    for _ in 0..1000 {
        sum = sum + Duration::from_millis(1);
    }
    println!("1,000 times from_millis(1): {} ms", sum.as_millis());
}
RUST
build '^coarsetime ' --release
./finding | tee seen
cat > expected <<'TEXT'
from_millis(1): 0 ms, 976562 ns
from_millis(10): 9 ms, 9765625 ns
from_millis(900): 878 ms, 878906250 ns
from_millis(999): 975 ms, 975585937 ns
from_millis(1000): 1000 ms, 1000000000 ns
from_millis(1001): 1000 ms, 1000976562 ns
1,000 times from_millis(1): 976 ms
TEXT
diff expected seen && echo "as described: 7 of 7 lines"
