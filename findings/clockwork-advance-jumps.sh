#!/usr/bin/env bash
# A fake clock of clockwork jumps to the end of an advance at once: callbacks see that moment, and what they arm waits.
#
# Version: github.com/jonboulle/clockwork 0.5.0, beside github.com/benbjohnson/clock 1.3.5.
#
# Expected before the first run: an advance by 5 s runs the callback of 1 s at 1 s; a timer of one second that it arms
# fires at 2 s, within the same advance.
# Seen: with clockwork the callback of 1 s reads 5 s, and the timer that it arms is pending behind the advance, due at
# 6 s. With the mock of the other package the callbacks read 1 s and 2 s.
#
# For a user: a chain of timeouts, retries with a growing pause say, takes an advance for each of its links, and sees
# longer pauses than it asked for. Advance in steps no longer than the shortest pause.
#
# Exits with 0 while that is so, with 1 once an answer differs, with 3 where packages are missing.
set -euo pipefail
dir=$(mktemp -d)
trap 'chmod -R u+w "$dir"; rm -rf "$dir"' EXIT
. "$(dirname "$0")/support/go.sh" 1.20 <<'MOD'
github.com/benbjohnson/clock v1.3.5
github.com/jonboulle/clockwork v0.5.0
MOD
cat > main.go <<'GO'
package main

import (
	"fmt"
	"time"

	"github.com/benbjohnson/clock"
	"github.com/jonboulle/clockwork"
)

func report(name string, first time.Duration, second chan time.Duration) {
	select {
	case at := <-second:
		fmt.Printf("%s: the first callback reads %v, what it armed fired at %v\n", name, first, at)
	case <-time.After(200 * time.Millisecond):
		fmt.Printf("%s: the first callback reads %v, what it armed is pending\n", name, first)
	}
}

func main() {
	fake := clockwork.NewFakeClock()
	begin := fake.Now()
	first, armed, second := make(chan time.Duration, 1), make(chan bool), make(chan time.Duration, 1)
	fake.AfterFunc(time.Second, func() {
		first <- fake.Since(begin)
		fake.AfterFunc(time.Second, func() { second <- fake.Since(begin) })
		close(armed)
	})
	fake.Advance(5 * time.Second)
	<-armed
	report("clockwork", <-first, second)
	fake.Advance(time.Second)
	report("clockwork, a second later", 5*time.Second, second)

	mock := clock.NewMock()
	begin = mock.Now()
	first, second = make(chan time.Duration, 1), make(chan time.Duration, 1)
	mock.AfterFunc(time.Second, func() {
		first <- mock.Since(begin)
		mock.AfterFunc(time.Second, func() { second <- mock.Since(begin) })
	})
	mock.Add(5 * time.Second)
	report("clock", <-first, second)
}
GO
build_go
./of-go | tee seen
cat > expected <<'TEXT'
clockwork: the first callback reads 5s, what it armed is pending
clockwork, a second later: the first callback reads 5s, what it armed fired at 6s
clock: the first callback reads 1s, what it armed fired at 2s
TEXT
diff expected seen && echo "as described: 3 of 3 lines"
