#!/usr/bin/env bash
# A token of the crate ratelimit is not there yet when the wait that it named is over.
#
# Version: ratelimit 2.0.0.
#
# Expected before the first run: where `try_wait` refuses and names a wait, the token is there once that time has gone
# by, or a nanosecond later, at each rate.
# Seen, on a clock that moves by exactly the wait named: at 10,000 a second the second try always succeeds. At 3 or 7 a
# second, and at millions, it is refused nearly each time, and names another wait; the last of several succeeds.
#
# For a user: a loop of refusal and sleep wakes up several times for one token. Add a microsecond to each wait.
#
# Exits with 0 while that is so, with 1 once an answer differs, with 3 where the crate cannot be built.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
. "$(dirname "$0")/support/crate.sh" <<'TOML'
ratelimit = "=2.0.0"
TOML
cat > src/main.rs <<'RUST'
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use ratelimit::{Clock, Ratelimiter, TryWaitError};

struct Steered(Rc<Cell<Duration>>);

impl Clock for Steered {
    fn elapsed(&self) -> Duration {
        self.0.get()
    }
}

fn main() {
    for rate in [3, 7, 10_000, 3_000_000] {
        let now = Rc::new(Cell::new(Duration::ZERO));
        let limiter = Ratelimiter::with_clock(rate, Steered(now.clone()));
        let (mut waits, mut refused_again) = (0, 0);
        while waits < 1_000 {
            if let Err(TryWaitError::Insufficient(wait)) = limiter.try_wait() {
                now.set(now.get() + wait);
                waits += 1;
                refused_again += u32::from(limiter.try_wait().is_err());
            }
        }
        let most = if refused_again > 500 { "most" } else { "few" };
        println!("{rate} a second: {refused_again} of {waits} refused again: {most}");
    }
}
RUST
build '^ratelimit ' --release
./finding | tee seen
diff <(echo "3 most 7 most 10000 few 3000000 most") <(sed 's/ a second.*: / /' seen | xargs) && echo "as described: 4 of 4 rates"
