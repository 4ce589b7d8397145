#!/usr/bin/env bash
# Two libraries for iCalendar add 24 hours as a day of the wall clock, and end an hour early in spring.
#
# Versions: PyPI's icalendar 7.3.2 and npm's ical.js 2.2.1.
#
# RFC 5545 (3.3.6) has weeks and days of a duration nominal, and hours, minutes and seconds exact. It gives the case of
# a change to summer time itself: such a day is 23 hours long, and 24 hours stay 24.
# Expected before the first run: an event in Berlin from 2026-03-28T12:00 with DURATION:PT24H ends 24 hours later, at
# 13:00 on the 29th; with P1D at 12:00, 23 hours later. An alarm with TRIGGER:-PT24H goes off 24 hours before.
# Seen: both end PT24H at 12:00, after 23 hours, as they do P1D; in autumn it lasts 25 hours. P1DT1H ends at 13:00,
# which is right. icalendar sets off the alarm at -PT24H 23 hours before an event of the 29th.
#
# For a user: a reminder by hours is an hour off, and two programs differ on the end of a night shift. Add hours in UTC.
#
# Exits with 0 while that is so, with 1 once an answer differs, with 3 where packages are missing.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
for command in node npm python3; do
    command -v "$command" > /dev/null || { echo "skipped: there is no $command" >&2; exit 3; }
done
cd "$dir"
npm install --silent --no-audit --no-fund --cache "$dir/npm" ical.js@2.2.1 > log 2>&1 \
    || { echo "skipped: ical.js 2.2.1 cannot be had here" >&2; exit 3; }
python3 -m venv venv > log 2>&1 && venv/bin/pip install -q icalendar==7.3.2 tzdata==2026.2 > log 2>&1 \
    || { echo "skipped: icalendar 7.3.2 cannot be had here" >&2; exit 3; }
cat > calendar.ics <<'ICS'
BEGIN:VCALENDAR
VERSION:2.0
PRODID:-//finding//EN
BEGIN:VTIMEZONE
TZID:Europe/Berlin
BEGIN:DAYLIGHT
TZOFFSETFROM:+0100
TZOFFSETTO:+0200
TZNAME:CEST
DTSTART:19810329T020000
RRULE:FREQ=YEARLY;BYMONTH=3;BYDAY=-1SU
END:DAYLIGHT
BEGIN:STANDARD
TZOFFSETFROM:+0200
TZOFFSETTO:+0100
TZNAME:CET
DTSTART:19961027T030000
RRULE:FREQ=YEARLY;BYMONTH=10;BYDAY=-1SU
END:STANDARD
END:VTIMEZONE
BEGIN:VEVENT
UID:1
DTSTAMP:20260101T000000Z
DTSTART;TZID=Europe/Berlin:BEGINT120000
DURATION:LENGTH
SUMMARY:watch
END:VEVENT
BEGIN:VEVENT
UID:2
DTSTAMP:20260101T000000Z
DTSTART;TZID=Europe/Berlin:20260329T120000
SUMMARY:after the change
BEGIN:VALARM
ACTION:DISPLAY
DESCRIPTION:soon
TRIGGER:-LENGTH
END:VALARM
END:VEVENT
END:VCALENDAR
ICS
sed -i 's/$/\r/' calendar.ics
cat > ends.mjs <<'JS'
import { readFileSync } from "node:fs";
import ICAL from "ical.js";

const calendar = new ICAL.Component(ICAL.parse(readFileSync("this.ics", "utf8")));
ICAL.TimezoneService.register(calendar.getFirstSubcomponent("vtimezone"));
const event = new ICAL.Event(calendar.getFirstSubcomponent("vevent"));
const hours = (event.endDate.toUnixTime() - event.startDate.toUnixTime()) / 3600;
console.log(`ical.js: ${event.endDate}, ${hours} h later`);
JS
cat > ends.py <<'PYTHON'
from datetime import timezone
from pathlib import Path

from icalendar import Calendar


def apart(begin, end):
    return (end.astimezone(timezone.utc) - begin.astimezone(timezone.utc)).total_seconds() / 3600


event, later = Calendar.from_ical(Path("this.ics").read_bytes()).walk("VEVENT")
print(f"icalendar: {event.end:%FT%T}, {apart(event.start, event.end):g} h later")
alarm = later.alarms.times[0].trigger
print(f"icalendar: alarm {apart(alarm, later.start):g} h before")
PYTHON
echo "version: ical.js $(node -p 'JSON.parse(fs.readFileSync("node_modules/ical.js/package.json")).version')"
venv/bin/pip list --disable-pip-version-check 2> log | grep '^icalendar ' | sed 's/^/version: /'
for case in 20260328,PT24H 20260328,P1D 20260328,P1DT1H 20261024,PT24H; do
    sed "s/BEGINT/${case%,*}T/; s/LENGTH/${case#*,}/" calendar.ics > this.ics
    { venv/bin/python ends.py; node ends.mjs; } | sed "s/^/${case/,/ }, /"
done | tee seen
cat > expected <<'TEXT'
20260328 PT24H, icalendar: 2026-03-29T12:00:00, 23 h later
20260328 PT24H, icalendar: alarm 23 h before
20260328 PT24H, ical.js: 2026-03-29T12:00:00, 23 h later
20260328 P1D, icalendar: 2026-03-29T12:00:00, 23 h later
20260328 P1D, icalendar: alarm 23 h before
20260328 P1D, ical.js: 2026-03-29T12:00:00, 23 h later
20260328 P1DT1H, icalendar: 2026-03-29T13:00:00, 24 h later
20260328 P1DT1H, icalendar: alarm 24 h before
20260328 P1DT1H, ical.js: 2026-03-29T13:00:00, 24 h later
20261024 PT24H, icalendar: 2026-10-25T12:00:00, 25 h later
20261024 PT24H, icalendar: alarm 23 h before
20261024 PT24H, ical.js: 2026-10-25T12:00:00, 25 h later
TEXT
diff expected seen && echo "as described: 12 of 12 lines"
