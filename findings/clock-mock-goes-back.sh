#!/usr/bin/env bash
# A fake clock of the Go package clock goes back when a timer with a negative length is made.
#
# Version: github.com/benbjohnson/clock 1.3.5.
#
# What a user expects: the README says that the mock does what Go's package time does, and that it is moved with Add. A
# timer of negative length (`After(deadline.Sub(now))` of a deadline in the past) fires at once, and time stays.
# Seen: the timer fires at once, and the clock then shows the timer's deadline: with -10 minutes it is ten minutes
# earlier. A timer of a minute that was armed before does not fire when a minute is added, but after eleven.
# A negative AfterFunc waits, unlike that of package time, until the next timer is made, and that moves the clock back.
#
# For a user: a test in which one deadline is past shifts each other timeout. Ask for no less than zero.
#
# Exits with 0 while that is so, with 1 once an answer differs, with 3 where packages are missing.
set -euo pipefail
dir=$(mktemp -d)
trap 'chmod -R u+w "$dir"; rm -rf "$dir"' EXIT
. "$(dirname "$0")/support/go.sh" 1.20 <<'MOD'
github.com/benbjohnson/clock v1.3.5
MOD
cat > main.go <<'GO'
package main

import (
	"fmt"
	"time"

	"github.com/benbjohnson/clock"
)

func main() {
	begin := time.Now()
	<-time.After(-10 * time.Minute)
	fmt.Println("package time, After(-10 min), goes back:", time.Now().Before(begin))

	mock := clock.NewMock()
	mock.Add(time.Hour)
	start := mock.Now()
	other := mock.Timer(time.Minute)
	<-mock.After(-10 * time.Minute)
	fmt.Println("mock, After(-10 min), moves by", mock.Since(start))
	mock.Add(time.Minute)
	fmt.Println("a minute later the timer of a minute has fired:", len(other.C) == 1)
	mock.Add(10 * time.Minute)
	fmt.Println("eleven minutes later it has fired:", len(other.C) == 1)

	start = mock.Now()
	mock.AfterFunc(-10*time.Minute, func() {})
	fmt.Println("mock, AfterFunc(-10 min), moves by", mock.Since(start))
	mock.Timer(time.Minute)
	fmt.Println("mock, Timer(1 min) after it, moves by", mock.Since(start))
}
GO
build_go
./of-go | tee seen
cat > expected <<'TEXT'
package time, After(-10 min), goes back: false
mock, After(-10 min), moves by -10m0s
a minute later the timer of a minute has fired: false
eleven minutes later it has fired: true
mock, AfterFunc(-10 min), moves by 0s
mock, Timer(1 min) after it, moves by -10m0s
TEXT
diff expected seen && echo "as described: 6 of 6 lines"
