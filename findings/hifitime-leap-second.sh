#!/usr/bin/env bash
# hifitime takes the leap second 23:59:60, makes it 23:59:59, and counts one second where two went by.
#
# Version: hifitime 4.3.2.
#
# What a user expects: the README (Leap second support) says that a UTC date can be shown as 23:59:60 on the days of a
# leap second, and names 2016-12-31 23:59:60 UTC as a valid date. It reads back as it was given, lies one second behind
# 23:59:59, and from 23:59:59 to midnight there are two seconds.
# Seen: the date is accepted as text and as numbers, and is the same epoch as 23:59:59, in UTC and in TAI. The
# difference of the two UTC epochs around it is one second, a second added to 23:59:59 is midnight, and a TimeSeries in
# steps of a second has two epochs. The same two epochs in TAI are two seconds apart.
#
# For a user: events within the leap second fall together with those a second before. Convert to TAI before a difference
# is taken or a step is made.
#
# Exits with 0 while that is so, with 1 once an answer differs, with 3 where the crate cannot be built.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
. "$(dirname "$0")/support/crate.sh" <<'TOML'
hifitime = "=4.3.2"
TOML
cat > src/main.rs <<'RUST'
use std::str::FromStr;

use hifitime::{Epoch, TimeScale, TimeSeries, TimeUnits};

fn main() {
    let before = Epoch::from_gregorian_utc(2016, 12, 31, 23, 59, 59, 0);
    let leap = Epoch::from_gregorian_utc(2016, 12, 31, 23, 59, 60, 0);
    let after = Epoch::from_gregorian_utc(2017, 1, 1, 0, 0, 0, 0);
    let tai = |epoch: Epoch| epoch.to_time_scale(TimeScale::TAI);
    let read = Epoch::from_str("2016-12-31T23:59:60 UTC").expect("the date of the README");
    println!("the leap second is shown as {leap}, and as {read} if read from text");
    println!("from 23:59:59 to the leap second: {}, in TAI {}", leap - before, tai(leap) - tai(before));
    println!("from 23:59:59 to midnight: {}, in TAI {}", after - before, tai(after) - tai(before));
    println!("a second after 23:59:59: {}", before + 1.seconds());
    println!("epochs in steps of a second: {}", TimeSeries::inclusive(before, after, 1.seconds()).count());
}
RUST
build '^hifitime v'
./finding | tee seen
cat > expected <<'TEXT'
the leap second is shown as 2016-12-31T23:59:59 UTC, and as 2016-12-31T23:59:59 UTC if read from text
from 23:59:59 to the leap second: 0 ns, in TAI 0 ns
from 23:59:59 to midnight: 1 s, in TAI 2 s
a second after 23:59:59: 2017-01-01T00:00:00 UTC
epochs in steps of a second: 2
TEXT
diff expected seen && echo "as described: 5 of 5 lines"
