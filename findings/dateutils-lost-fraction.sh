#!/usr/bin/env bash
# dateutils' ddiff takes nanoseconds of dates with a time, and answers with whole seconds and nine zeros.
#
# Version: Debian's dateutils 0.4.10-1.
#
# The manual page of ddiff lists %N, the nanoseconds, among what the input format and the output format may hold.
#
# Expected before the first run: from 10:00:00.75 to 10:00:01.25 it is 0.500000000 seconds, with a date and without one.
# Seen: without a date it is. With one it is 0.000000000, and %N alone says 000000000; from one day to the next it is
# 86400.000000000. Half a second is lost without a word, and so are 0.999999999 seconds. dadd keeps the nanoseconds of
# the same text.
#
# For a reader of time stamps in a log: take the difference of the seconds and of the fractions apart, or ask another
# tool.
#
# Exits with 0 while that is so, with 1 once an answer differs, with 3 where packages are missing.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
package=dateutils=0.4.10-1
apt-get download -qq "$package" > log 2>&1 || { echo "skipped: $package cannot be had here" >&2; exit 3; }
dpkg -x ./*.deb root
echo "version: $package"
# Asks for the difference of two texts of one input format.
between() {
    echo "$2 to $3, as $4: $(root/usr/bin/dateutils.ddiff -i "$1" -f "$4" "$2" "$3")"
}
time=%H:%M:%S.%N
date=%FT$time
{
    between "$time" 10:00:00.750000000 10:00:01.250000000 %S.%N
    between "$date" 2026-01-01T10:00:00.750000000 2026-01-01T10:00:01.250000000 %S.%N
    between "$date" 2026-01-01T10:00:00.750000000 2026-01-01T10:00:01.250000000 %N
    between "$date" 2026-01-01T10:00:00.000000000 2026-01-01T10:00:00.999999999 %S.%N
    between "$date" 2026-01-01T10:00:00.750000000 2026-01-02T10:00:01.250000000 %S.%N
    later=$(root/usr/bin/dateutils.dadd -i "$date" -f "$date" 2026-01-01T10:00:00.750000000 1s)
    echo "a second later, by dadd: $later"
} | tee seen
cat > expected <<'TEXT'
10:00:00.750000000 to 10:00:01.250000000, as %S.%N: 0.500000000
2026-01-01T10:00:00.750000000 to 2026-01-01T10:00:01.250000000, as %S.%N: 0.000000000
2026-01-01T10:00:00.750000000 to 2026-01-01T10:00:01.250000000, as %N: 000000000
2026-01-01T10:00:00.000000000 to 2026-01-01T10:00:00.999999999, as %S.%N: 0.000000000
2026-01-01T10:00:00.750000000 to 2026-01-02T10:00:01.250000000, as %S.%N: 86400.000000000
a second later, by dadd: 2026-01-01T10:00:01.750000000
TEXT
diff expected seen && echo "as described: 6 of 6 lines"
