#!/usr/bin/env bash
# Go, Python and one crate begin summer time 27 seconds late with a zone file that lists leap seconds.
#
# Versions: Debian's tzdata 2026f-0+deb12u1 (the files under right/), the crates jiff 0.2.46, tz-rs 0.7.3 and chrono
# 0.4.45; Go and Python as installed.
#
# RFC 9636 (2 and 3.2) has the times of a TZif file count the leap seconds that the file lists. A reader with POSIX time
# subtracts them; a reader that counts them as well (Debian's date does) is given other times in the first place.
#
# Expected before the first run: with POSIX time, right/Europe/Berlin goes to summer time on 2026-03-29 at 01:00:00 UTC,
# as Europe/Berlin does.
# Seen: tz-rs and chrono do that. Go's time, Python's zoneinfo and jiff show 02:00:26+01:00 in between, a local time
# that does not exist, and change at 01:00:27 UTC. None of the three reports that it passed over the leap seconds.
#
# For a user: times in the 27 seconds after each change are wrong by an hour. Use the files without leap seconds.
#
# Exits with 0 while that is so, with 1 once an answer differs, with 3 where packages are missing.
set -euo pipefail
dir=$(mktemp -d)
trap 'chmod -R u+w "$dir"; rm -rf "$dir"' EXIT
for command in go python3; do
    command -v "$command" > /dev/null || { echo "skipped: there is no $command" >&2; exit 3; }
done
. "$(dirname "$0")/support/crate.sh" <<'TOML'
chrono = { version = "=0.4.45", default-features = false, features = ["clock"] }
jiff = "=0.2.46"
tz-rs = "=0.7.3"
TOML
package=tzdata=2026f-0+deb12u1
apt-get download -qq "$package" > log 2>&1 || { echo "skipped: $package cannot be had here" >&2; exit 3; }
dpkg -x ./*.deb root
cat > src/main.rs <<'RUST'
use chrono::{DateTime, Local};

const ZONE: &str = "right/Europe/Berlin";
const FORMAT: &str = "%H:%M:%S%:z";

fn main() {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().expect("a zone file");
    let data = std::fs::read(&path).expect("a zone file");
    let jiff = jiff::tz::TimeZone::tzif(ZONE, &data).expect("a TZif file");
    let tz_rs = tz::TimeZone::from_tz_data(&data).expect("a TZif file");
    std::env::set_var("TZ", &path);
    let (mut jiffs, mut chronos, mut tz_rss) = (String::new(), String::new(), String::new());
    for second in arguments {
        let second: i64 = second.parse().expect("a POSIX time");
        let at = jiff::Timestamp::from_second(second).expect("in range").to_zoned(jiff.clone());
        jiffs += &format!(" {}", at.strftime(FORMAT));
        let at = DateTime::from_timestamp(second, 0).expect("in range").with_timezone(&Local);
        chronos += &format!(" {}", at.format(FORMAT));
        let at = tz::DateTime::from_timespec(second, 0, tz_rs.as_ref()).expect("in range");
        let hours = at.local_time_type().ut_offset() / 3600;
        tz_rss += &format!(" {:02}:{:02}:{:02}+{hours:02}:00", at.hour(), at.minute(), at.second());
    }
    println!("tz-rs:{tz_rss}\nchrono:{chronos}\njiff:{jiffs}");
}
RUST
cat > main.go <<'GO'
package main

import (
	"fmt"
	"os"
	"strconv"
	"time"
)

func main() {
	data, err := os.ReadFile(os.Args[1])
	if err != nil {
		panic(err)
	}
	zone, err := time.LoadLocationFromTZData("right/Europe/Berlin", data)
	if err != nil {
		panic(err)
	}
	fmt.Print("Go:")
	for _, argument := range os.Args[2:] {
		second, err := strconv.ParseInt(argument, 10, 64)
		if err != nil {
			panic(err)
		}
		fmt.Print(time.Unix(second, 0).In(zone).Format(" 15:04:05-07:00"))
	}
	fmt.Println()
}
GO
cat > zone.py <<'PYTHON'
import datetime
import sys
import zoneinfo

with open(sys.argv[1], "rb") as file:
    zone = zoneinfo.ZoneInfo.from_file(file)
times = [datetime.datetime.fromtimestamp(int(second), zone) for second in sys.argv[2:]]
print("Python:", *(time.isoformat()[11:] for time in times))
PYTHON
build '^(chrono|jiff|tz-rs) '
echo "version: $package, $(go version | cut -d' ' -f3), $(python3 --version)"
GOCACHE=$dir/cache go build -o zone main.go
file=$dir/root/usr/share/zoneinfo/right/Europe/Berlin
# The second before 01:00:00 UTC of 2026-03-29, that time itself, and those 26 and 27 seconds later.
seconds=(1774745999 1774746000 1774746026 1774746027)
{
    ./finding "$file" "${seconds[@]}"
    ./zone "$file" "${seconds[@]}"
    python3 zone.py "$file" "${seconds[@]}"
} | tee seen
cat > expected <<'TEXT'
tz-rs: 01:59:59+01:00 03:00:00+02:00 03:00:26+02:00 03:00:27+02:00
chrono: 01:59:59+01:00 03:00:00+02:00 03:00:26+02:00 03:00:27+02:00
jiff: 01:59:59+01:00 02:00:00+01:00 02:00:26+01:00 03:00:27+02:00
Go: 01:59:59+01:00 02:00:00+01:00 02:00:26+01:00 03:00:27+02:00
Python: 01:59:59+01:00 02:00:00+01:00 02:00:26+01:00 03:00:27+02:00
TEXT
diff expected seen && echo "as described: 5 of 5 lines"
