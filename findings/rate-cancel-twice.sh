#!/usr/bin/env bash
# A reservation of golang.org/x/time/rate that is cancelled again gives its tokens back again.
#
# Version: golang.org/x/time 0.16.0.
#
# What a user expects: the documentation of Cancel says that the holder will not do what was reserved, and that the
# effects on the limit are reversed as far as later reservations allow. A second Cancel (a deferred one behind an
# explicit one, say) has nothing left to reverse, and two reservations that are both cancelled leave the limiter as
# it was before them.
# Seen: with an empty limiter of one token a second and a burst of ten, five tokens are reserved. Their first Cancel
# leaves 0 tokens, which is right, the second leaves 10, and ten events pass at once. Two reservations that are
# cancelled in the order in which they were made leave a token less than before, in the reverse order they leave none less.
#
# For a user: cancel a reservation in one place only, and the newest first.
#
# Exits with 0 while that is so, with 1 once an answer differs, with 3 where packages are missing.
set -euo pipefail
dir=$(mktemp -d)
trap 'chmod -R u+w "$dir"; rm -rf "$dir"' EXIT
. "$(dirname "$0")/support/go.sh" 1.26.0 <<'MOD'
golang.org/x/time v0.16.0
MOD
cat > main.go <<'GO'
package main

import (
	"fmt"
	"time"

	"golang.org/x/time/rate"
)

func main() {
	// All instants are given: no clock is read.
	now := time.Unix(1_000_000, 0)
	empty := func() *rate.Limiter {
		limiter := rate.NewLimiter(1, 10)
		limiter.AllowN(now, 10)
		return limiter
	}

	limiter := empty()
	reserved := limiter.ReserveN(now, 5)
	fmt.Println("five tokens reserved, wait:", reserved.DelayFrom(now))
	for times := 1; times <= 2; times++ {
		reserved.CancelAt(now)
		fmt.Printf("cancelled %d times: %v tokens\n", times, limiter.TokensAt(now))
	}
	passed := 0
	for limiter.AllowN(now, 1) {
		passed++
	}
	fmt.Println("events that pass at once:", passed)

	for _, order := range [][2]int{{0, 1}, {1, 0}} {
		limiter = empty()
		both := []*rate.Reservation{limiter.ReserveN(now, 1), limiter.ReserveN(now, 1)}
		both[order[0]].CancelAt(now)
		both[order[1]].CancelAt(now)
		fmt.Printf("both cancelled, number %d first: %v tokens\n", order[0]+1, limiter.TokensAt(now))
	}
}
GO
export GOTOOLCHAIN=local
build_go
./of-go | tee seen
cat > expected <<'TEXT'
five tokens reserved, wait: 5s
cancelled 1 times: 0 tokens
cancelled 2 times: 10 tokens
events that pass at once: 10
both cancelled, number 1 first: -1 tokens
both cancelled, number 2 first: 0 tokens
TEXT
diff expected seen && echo "as described: 6 of 6 lines"
