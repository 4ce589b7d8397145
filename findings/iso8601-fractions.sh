#!/usr/bin/env bash
# A minute and a half of ISO 8601 is no time at all for one crate, and a time of day loses its milliseconds in another.
#
# Versions: iso8601 0.6.6, iso8601-duration 0.2.0, beside speedate 0.18.0.
#
# What a user expects: ISO 8601-1 (duration, decimal fraction of the lowest component) allows PT1.5M and PT0.5H. A
# parser returns 90 s and 1800 s, or an error. A length in seconds with three decimals, as other programs write it,
# comes back to the millisecond.
# Seen: iso8601 drops a fraction of minutes or hours together with its whole part and reports success: PT1.5M and PT0.5H
# are 0 s, PT1H1.5M is one hour. P1.5D is an error. iso8601-duration keeps 24 bits of seconds: PT36000.001S becomes
# 36000 s, PT86399.999S a whole day, PT16777217S a second less, and PT1.05S ends 48 ns early.
#
# For a user: a configured timeout of PT1.5M fires at once. Give whole numbers of the lowest unit, and look at the sum.
#
# Exits with 0 while that is so, with 1 once an answer differs, with 3 where the crates cannot be built.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
. "$(dirname "$0")/support/crate.sh" <<'TOML'
iso8601 = "=0.6.6"
iso8601-duration = "=0.2.0"
speedate = "=0.18.0"
TOML
cat > src/main.rs <<'RUST'
use std::time::Duration;

fn show(length: Option<Duration>) -> String {
    length.map_or("error".to_string(), |length| format!("{length:?}"))
}

fn main() {
    let texts = [
        "PT90S", "PT1M30S", "PT1.5M", "PT0.5H", "PT1H1.5M", "P1.5D", "PT36000.001S", "PT86399.999S", "PT16777217S",
        "PT1.05S",
    ];
    for text in texts {
        let first = iso8601::duration(text).ok().map(Duration::from);
        let second = iso8601_duration::Duration::parse(text).ok().and_then(|length| length.to_std());
        let third = speedate::Duration::parse_str(text).ok().map(|length| {
            let micros = length.signed_total_seconds() * 1_000_000 + i64::from(length.signed_microseconds());
            Duration::from_micros(micros.unsigned_abs())
        });
        println!("{text}: {}, {}, {}", show(first), show(second), show(third));
    }
}
RUST
build '^(iso8601|iso8601-duration|speedate) v'
./finding | tee seen
cat > expected <<'TEXT'
PT90S: 90s, 90s, 90s
PT1M30S: 90s, 90s, 90s
PT1.5M: 0ns, 90s, 90s
PT0.5H: 0ns, 1800s, 1800s
PT1H1.5M: 3600s, 3690s, 3690s
P1.5D: error, 129600s, 129600s
PT36000.001S: 36000.001s, 36000s, 36000.001s
PT86399.999S: 86399.999s, 86400s, 86399.999s
PT16777217S: 16777217s, 16777216s, 16777217s
PT1.05S: 1.05s, 1.049999952s, 1.05s
TEXT
diff expected seen && echo "as described: 10 of 10 lines"
