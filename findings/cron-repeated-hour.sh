#!/usr/bin/env bash
# Two cron crates answer with an instant that is not later than the one asked about.
#
# Versions: cron 0.16.0 and croner 3.0.1; cron-parser 0.12.0 beside them, which does not. With chrono 0.4.45 and
# chrono-tz 0.10.4.
#
# Expected before the first run: the next occurrence of an hourly rule is always later than the instant asked about,
# and the rule fires in each real hour.
# Seen: in Europe/Berlin on 2026-10-25 the hour from 02:00 to 03:00 comes twice. Asked in its second pass (01:10 UTC) for
# the next occurrence of "30 * * * *", cron and croner answer 00:30 UTC, which has passed. Asked in a row from before
# the change, both leave 01:30 UTC out: the hourly rule pauses for two hours.
#
# For a scheduler: a loop that sleeps until the answer and asks again with the current time runs without pause for the
# rest of that hour. Check that the answer is later, or ask in UTC.
#
# Exits with 0 while that is so, with 1 once an answer differs, with 3 where the crates cannot be built.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
. "$(dirname "$0")/support/crate.sh" <<'TOML'
chrono = { version = "=0.4.45", default-features = false, features = ["clock"] }
chrono-tz = "=0.10.4"
cron = "=0.16.0"
croner = "=3.0.1"
cron-parser = "=0.12.0"
TOML
cat > src/main.rs <<'RUST'
use chrono::{DateTime, TimeZone, Utc};
use chrono_tz::{Europe::Berlin, Tz};
use std::str::FromStr;

type At = DateTime<Tz>;

fn show(name: &str, case: &str, mut at: At, times: usize, next: impl Fn(&At) -> At) {
    let mut line = format!("{name}, {case}:");
    for _ in 0..times {
        let answer = next(&at);
        let mark = if answer > at { "" } else { " (not later)" };
        line += &format!(" {}{mark}", answer.with_timezone(&Utc).format("%H:%M"));
        at = answer;
    }
    println!("{line}");
}

fn main() {
    let utc = |day, hour, minute| {
        let at = Utc.with_ymd_and_hms(2026, 10, day, hour, minute, 0).unwrap();
        at.with_timezone(&Berlin)
    };
    let seconds = cron::Schedule::from_str("0 30 * * * *").unwrap();
    let cron = |at: &At| seconds.after(at).next().unwrap();
    let rule = croner::Cron::from_str("30 * * * *").unwrap();
    let croner = |at: &At| rule.find_next_occurrence(at, false).unwrap();
    let parser = |at: &At| cron_parser::parse("30 * * * *", at).unwrap();
    for (case, at, times) in [("from 23:10", utc(24, 23, 10), 4), ("from 01:10", utc(25, 1, 10), 2)] {
        show("cron", case, at, times, cron);
        show("croner", case, at, times, croner);
        show("cron-parser", case, at, times, parser);
    }
}
RUST
build '^(chrono|chrono-tz|cron|croner|cron-parser) ' --release
./finding | tee seen
cat > expected <<'TEXT'
cron, from 23:10: 23:30 00:30 02:30 03:30
croner, from 23:10: 23:30 00:30 02:30 03:30
cron-parser, from 23:10: 23:30 00:30 01:30 02:30
cron, from 01:10: 00:30 (not later) 02:30
croner, from 01:10: 00:30 (not later) 02:30
cron-parser, from 01:10: 01:30 02:30
TEXT
diff expected seen && echo "as described: 6 of 6 lines"
