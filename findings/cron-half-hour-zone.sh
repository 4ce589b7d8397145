#!/usr/bin/env bash
# Two cron packages of Go go wrong where summer time is half an hour: one leaves a day out, one fires at another minute.
#
# Versions: github.com/robfig/cron/v3 3.0.1 and github.com/reugn/go-quartz 0.15.2; github.com/hashicorp/cronexpr 1.1.3
# beside them.
#
# Expected before the first run: on Lord Howe Island 2026-10-04 goes from 02:00 to 02:30, and the hour at 03:00 is
# whole. A daily rule for 03:00 runs on that day, and an hourly rule for minute 15 fires at that minute only. On
# 2026-04-05, which goes from 02:00 back to 01:30, a daily rule for 02:00 runs once.
# Seen: robfig/cron has no 03:00 and no 03:10 on 2026-10-04, and no 02:00 on 2026-04-05; its documentation says only
# that jobs within the leap ahead are not run. go-quartz fires the hourly rule for minute 15 at 02:45. cronexpr answers
# as expected.
#
# For a user: a daily job is missing on two days of a year, and nothing reports it. Schedule in UTC, or at noon.
#
# Exits with 0 while that is so, with 1 once an answer differs, with 3 where packages are missing.
set -euo pipefail
dir=$(mktemp -d)
trap 'chmod -R u+w "$dir"; rm -rf "$dir"' EXIT
. "$(dirname "$0")/support/go.sh" 1.21 <<'MOD'
github.com/hashicorp/cronexpr v1.1.3
github.com/reugn/go-quartz v0.15.2
github.com/robfig/cron/v3 v3.0.1
MOD
cat > main.go <<'GO'
package main

import (
	"fmt"
	"time"
	_ "time/tzdata"

	"github.com/hashicorp/cronexpr"
	"github.com/reugn/go-quartz/quartz"
	"github.com/robfig/cron/v3"
)

func check[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func main() {
	island := check(time.LoadLocation("Australia/Lord_Howe"))
	for _, ask := range []struct {
		minute, hour string
		month, day   int
	}{{"0", "3", 10, 3}, {"10", "3", 10, 3}, {"0", "2", 4, 4}, {"15", "*", 10, 4}} {
		from := time.Date(2026, time.Month(ask.month), ask.day, 0, 30, 0, 0, island)
		line := ask.minute + " " + ask.hour + " * * "
		robfig := check(cron.ParseStandard(line + "*"))
		trigger := check(quartz.NewCronTriggerWithLoc("0 "+line+"?", island))
		expression := check(cronexpr.Parse(line + "*"))
		for _, asked := range []struct {
			name string
			next func(time.Time) time.Time
		}{
			{"robfig/cron", robfig.Next},
			{"go-quartz", func(at time.Time) time.Time { return time.Unix(0, check(trigger.NextFireTime(at.UnixNano()))) }},
			{"cronexpr", expression.Next},
		} {
			fmt.Printf("%s*, %s:", line, asked.name)
			at := from
			for i := 0; i < 3; i++ {
				at = asked.next(at).In(island)
				fmt.Print(at.Format(" 01-02T15:04-07:00"))
			}
			fmt.Println()
		}
	}
}
GO
build_go
./of-go | tee seen
cat > expected <<'TEXT'
0 3 * * *, robfig/cron: 10-03T03:00+10:30 10-05T03:00+11:00 10-06T03:00+11:00
0 3 * * *, go-quartz: 10-03T03:00+10:30 10-04T03:00+11:00 10-05T03:00+11:00
0 3 * * *, cronexpr: 10-03T03:00+10:30 10-04T03:00+11:00 10-05T03:00+11:00
10 3 * * *, robfig/cron: 10-03T03:10+10:30 10-05T03:10+11:00 10-06T03:10+11:00
10 3 * * *, go-quartz: 10-03T03:10+10:30 10-04T03:10+11:00 10-05T03:10+11:00
10 3 * * *, cronexpr: 10-03T03:10+10:30 10-04T03:10+11:00 10-05T03:10+11:00
0 2 * * *, robfig/cron: 04-04T02:00+11:00 04-06T02:00+10:30 04-07T02:00+10:30
0 2 * * *, go-quartz: 04-04T02:00+11:00 04-05T02:00+10:30 04-06T02:00+10:30
0 2 * * *, cronexpr: 04-04T02:00+11:00 04-05T02:00+10:30 04-06T02:00+10:30
15 * * * *, robfig/cron: 10-04T01:15+10:30 10-04T03:15+11:00 10-04T04:15+11:00
15 * * * *, go-quartz: 10-04T01:15+10:30 10-04T02:45+11:00 10-04T03:15+11:00
15 * * * *, cronexpr: 10-04T01:15+10:30 10-04T03:15+11:00 10-04T04:15+11:00
TEXT
diff expected seen && echo "as described: 12 of 12 lines"
