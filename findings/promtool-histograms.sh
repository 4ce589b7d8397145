#!/usr/bin/env bash
# `promtool check metrics` finds nothing wrong with histograms that no query can use.
#
# Version: Debian's prometheus 2.42.0+ds-5+deb12u1.
#
# Expected before the first run: the command, whose help says that it lints metrics for consistency and correctness,
# refuses a histogram without the bucket +Inf, one whose buckets fall, one whose last bucket is not its count, and one
# series with two values.
# Seen: it says nothing about any of them and exits with 0. It does notice a metric without a help text, and exits with 3.
#
# For the author of an exporter: the command checks names and texts. Test the sums of buckets yourself.
#
# Exits with 0 while that is so, with 1 once an answer differs, with 3 where packages are missing.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
package=prometheus=2.42.0+ds-5+deb12u1
(cd "$dir" && apt-get download -qq "$package" > log 2>&1) || { echo "skipped: $package cannot be had here" >&2; exit 3; }
dpkg -x "$dir"/*.deb "$dir/unpacked"
echo "version: $package"
as_described=1
look() {
    code=0
    "$dir/unpacked/usr/bin/promtool" check metrics > "$dir/said" 2>&1 || code=$?
    echo "$1: exits with $code, says: $(head -1 "$dir/said")"
    [ "$code" = "$2" ] || as_described=0
}
look "no help text" 3 <<'TEXT'
late_total 3
TEXT
look "no bucket +Inf" 0 <<'TEXT'
# HELP late_seconds How late timers were.
# TYPE late_seconds histogram
late_seconds_bucket{le="1"} 2
late_seconds_sum 1
late_seconds_count 3
TEXT
look "buckets that fall" 0 <<'TEXT'
# HELP late_seconds How late timers were.
# TYPE late_seconds histogram
late_seconds_bucket{le="1"} 5
late_seconds_bucket{le="2"} 3
late_seconds_bucket{le="+Inf"} 5
late_seconds_sum 1
late_seconds_count 5
TEXT
look "another count" 0 <<'TEXT'
# HELP late_seconds How late timers were.
# TYPE late_seconds histogram
late_seconds_bucket{le="1"} 5
late_seconds_bucket{le="+Inf"} 5
late_seconds_sum 1
late_seconds_count 7
TEXT
look "two values" 0 <<'TEXT'
# HELP late_total Late timers.
# TYPE late_total counter
late_total 1
late_total 2
TEXT
[ $as_described = 1 ]
