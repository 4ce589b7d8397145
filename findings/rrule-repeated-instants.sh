#!/usr/bin/env bash
# Three libraries for recurrence rules give one instant twice where summer time begins, and two of them go back.
#
# Versions: github.com/teambition/rrule-go 1.8.2, the crate rrule 0.14.0, and npm's rrule 2.8.1.
#
# RFC 5545 has a rule make a set of instances in order of time (3.8.5.3), and has a local time that does not exist stand
# for the one with the offset before the gap (3.3.5). What falls together is one instance of that set.
#
# Expected before the first run: in Europe/Berlin on 2026-03-29, which goes from 02:00 to 03:00, the instances of an
# hourly rule from 00:30 increase, an hour apart each.
# Seen: rrule-go and the crate have 03:30 twice. Of a rule for each half hour they give 03:00, 03:30, 03:00, 03:30: the
# third of these is before the second. npm's rrule, in a process whose zone is UTC, has 23:30 UTC twice, for 00:30 and
# 01:30 in Berlin: it changes the offset an hour before the zone does.
#
# For a scheduler: a job that is armed for each instance runs twice, and a loop that waits for the next one is given a
# time that has passed. Drop each instance that is not later than the last.
#
# Exits with 0 while that is so, with 1 once an answer differs, with 3 where packages are missing.
set -euo pipefail
dir=$(mktemp -d)
trap 'chmod -R u+w "$dir"; rm -rf "$dir"' EXIT
for command in node npm; do
    command -v "$command" > /dev/null || { echo "skipped: there is no $command" >&2; exit 3; }
done
support=$(cd "$(dirname "$0")/support" && pwd)
. "$support/crate.sh" <<'TOML'
rrule = "=0.14.0"
TOML
cat > src/main.rs <<'RUST'
fn main() {
    for (name, start, rule) in [
        ("each hour", "003000", "HOURLY"),
        ("each half hour", "010000", "MINUTELY;INTERVAL=30"),
    ] {
        let text = format!("DTSTART;TZID=Europe/Berlin:20260329T{start}\nRRULE:FREQ={rule};COUNT=6");
        print!("the crate rrule, {name}:");
        for at in text.parse::<rrule::RRuleSet>().expect("a rule").all(6).dates {
            print!(" {}", at.with_timezone(&rrule::Tz::UTC).format("%dT%H:%MZ"));
        }
        println!();
    }
}
RUST
. "$support/go.sh" 1.21 <<'MOD'
github.com/teambition/rrule-go v1.8.2
MOD
cat > main.go <<'GO'
package main

import (
	"fmt"
	"time"
	_ "time/tzdata"

	"github.com/teambition/rrule-go"
)

func main() {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		panic(err)
	}
	for _, rule := range []struct {
		name      string
		frequency rrule.Frequency
		interval  int
		start     time.Time
	}{
		{"each hour", rrule.HOURLY, 1, time.Date(2026, 3, 29, 0, 30, 0, 0, berlin)},
		{"each half hour", rrule.MINUTELY, 30, time.Date(2026, 3, 29, 1, 0, 0, 0, berlin)},
	} {
		made, err := rrule.NewRRule(rrule.ROption{
			Freq: rule.frequency, Interval: rule.interval, Count: 6, Dtstart: rule.start,
		})
		if err != nil {
			panic(err)
		}
		fmt.Printf("rrule-go, %s:", rule.name)
		for _, instance := range made.All() {
			fmt.Print(instance.UTC().Format(" 02T15:04Z"))
		}
		fmt.Println()
	}
}
GO
cat > rules.js <<'JS'
const { RRule } = require("rrule");
const rule = new RRule({
  freq: RRule.HOURLY,
  count: 6,
  tzid: "Europe/Berlin",
  dtstart: new Date(Date.UTC(2026, 2, 29, 0, 30)),
});
console.log("npm's rrule, each hour:", rule.all().map((at) => at.toISOString().slice(8, 16) + "Z").join(" "));
JS
build_go
npm install --silent --no-audit --no-fund --cache "$dir/npm" rrule@2.8.1 > log 2>&1 \
    || { echo "skipped: rrule 2.8.1 of npm cannot be had here" >&2; exit 3; }
build '^rrule '
echo "version: npm's rrule $(node -p 'require("rrule/package.json").version')"
{
    ./of-go
    ./finding
    TZ=UTC node rules.js
} | tee seen
cat > expected <<'TEXT'
rrule-go, each hour: 28T23:30Z 29T00:30Z 29T01:30Z 29T01:30Z 29T02:30Z 29T03:30Z
rrule-go, each half hour: 29T00:00Z 29T00:30Z 29T01:00Z 29T01:30Z 29T01:00Z 29T01:30Z
the crate rrule, each hour: 28T23:30Z 29T00:30Z 29T01:30Z 29T01:30Z 29T02:30Z 29T03:30Z
the crate rrule, each half hour: 29T00:00Z 29T00:30Z 29T01:00Z 29T01:30Z 29T01:00Z 29T01:30Z
npm's rrule, each hour: 28T23:30Z 28T23:30Z 29T00:30Z 29T01:30Z 29T02:30Z 29T03:30Z
TEXT
diff expected seen && echo "as described: 5 of 5 lines"
