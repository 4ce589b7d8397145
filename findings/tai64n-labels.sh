#!/usr/bin/env bash
# Three tools read one TAI64N label as three different times, up to 27 seconds apart.
#
# Versions: Debian's daemontools 1:0.76-8.1 and s6 2.11.3.2-1, and the crate tai64 4.1.0.
#
# The description of TAI64 has a label count the seconds of TAI, so a reader that wants UTC subtracts the leap seconds
# of that date: 36 seconds at the start of 2016, 37 since 2017.
#
# Expected before the first run: all three read the label of 2016-01-01T00:00:00Z as that time, within a second; and
# what tai64n and s6-tai64n write in one moment differs by the time between.
# Seen: s6 reads 00:00:00. daemontools subtracts 10 seconds at any date and reads 00:00:26; the crate subtracts 37 at
# any date and reads 23:59:59 of the day before. A line that s6-tai64n marks now is read 27 seconds late by tai64nlocal.
#
# For a reader of such logs: ask which tool wrote them. Files of multilog and of s6-log cannot be merged by label.
#
# Exits with 0 while that is so, with 1 once an answer differs, with 3 where packages are missing.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
. "$(dirname "$0")/support/crate.sh" <<'TOML'
tai64 = "=4.1.0"
TOML
packages=(daemontools=1:0.76-8.1 s6=2.11.3.2-1 libskarnet2.13=2.13.1.1-1 libexecline2.9=2.9.3.0-1 libs6-2.11=2.11.3.2-1)
apt-get download -qq "${packages[@]}" > log 2>&1 || { echo "skipped: these packages cannot be had here" >&2; exit 3; }
for package in *.deb; do dpkg -x "$package" root; done
cat > src/main.rs <<'RUST'
use std::time::UNIX_EPOCH;

fn main() {
    let label = std::env::args().nth(1).expect("a label in hexadecimal");
    let label = u64::from_str_radix(&label, 16).expect("a label in hexadecimal");
    let time = tai64::Tai64N(tai64::Tai64(label), Default::default()).to_system_time();
    println!("{}", time.duration_since(UNIX_EPOCH).expect("a time since 1970").as_secs());
}
RUST
build '^tai64 '
for package in "${packages[@]}"; do echo "version: $package"; done
export LD_LIBRARY_PATH=root/usr/lib/x86_64-linux-gnu:root/lib/x86_64-linux-gnu TZ=UTC
label=$(printf '%016x' $(((1 << 62) + 1451606400 + 36)))
# Both tools end a time with nine digits of nanoseconds and the rest of the line.
daemontools=$(echo "@${label}00000000" | root/usr/bin/tai64nlocal)
s6=$(echo "@${label}00000000" | root/usr/bin/s6-tai64nlocal)
crate=$(date -u -d "@$(./finding "$label")" '+%F %T')
written=$(echo | root/usr/bin/tai64n | cut -c 2-17)
written_by_s6=$(echo | root/usr/bin/s6-tai64n | cut -c 2-17)
apart=$((0x$written_by_s6 - 0x$written))
{
    echo "label @${label}00000000:"
    echo "daemontools: ${daemontools%.*}"
    echo "s6: ${s6%.*}"
    echo "the crate: $crate"
    # The two labels are written one after the other, perhaps on both sides of a second.
    echo "s6 writes 27 or 28 seconds more than daemontools: $((apart == 27 || apart == 28))"
} | tee seen
cat > expected <<'TEXT'
label @400000005685c1a400000000:
daemontools: 2016-01-01 00:00:26
s6: 2016-01-01 00:00:00
the crate: 2015-12-31 23:59:59
s6 writes 27 or 28 seconds more than daemontools: 1
TEXT
diff expected seen && echo "as described: 5 of 5 lines"
