#!/usr/bin/env bash
# Two npm packages take a time 25 days ahead for one that is now, since Node's timers have 31 bits of milliseconds.
#
# Versions: npm's rxjs 7.8.2 and bottleneck 2.19.5; toad-scheduler 4.1.0 beside them.
#
# Node documents that setTimeout takes a delay above 2147483647 ms (24.8 days) for 1 ms. What a user expects of packages
# that take a date or a length: they divide it, or refuse it. The reference of rxjs has timer emit at the Date that it
# is given; the README of bottleneck has a job fail that runs longer than its expiration.
# Seen: rxjs's timer emits at once for a Date 25 days ahead, and bottleneck fails a job of 50 ms with the message that
# it timed out after 2160000000 ms. With 24 days both are right. toad-scheduler refuses an interval of 25 days. Node
# prints a warning, the packages do not.
#
# For a user: a reminder for next month fires today. Arm a timer of a day at most, and look at the clock again.
#
# Exits with 0 while that is so, with 1 once an answer differs, with 3 where packages are missing.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
for command in node npm; do
    command -v "$command" > /dev/null || { echo "skipped: there is no $command" >&2; exit 3; }
done
cd "$dir"
npm install --silent --no-audit --no-fund --cache "$dir/npm" rxjs@7.8.2 bottleneck@2.19.5 toad-scheduler@4.1.0 \
    > log 2>&1 || { echo "skipped: these packages cannot be had here" >&2; exit 3; }
cat > delays.js <<'JS'
const Bottleneck = require("bottleneck");
const { timer } = require("rxjs");
const { SimpleIntervalJob, Task, ToadScheduler } = require("toad-scheduler");

const day = 86400000;
const pause = (length) => new Promise((done) => setTimeout(done, length));

(async () => {
  for (const days of [24, 25]) {
    let emitted = false;
    const subscription = timer(new Date(Date.now() + days * day)).subscribe(() => (emitted = true));
    const job = new Bottleneck().schedule({ expiration: days * day }, () => pause(50));
    const outcome = await job.then(() => "the job is done", (error) => error.message);
    await pause(500);
    subscription.unsubscribe();
    console.log(`rxjs, ${days} days ahead, emitted within a second: ${emitted}`);
    console.log(`bottleneck, expiration of ${days} days: ${outcome}`);
    let refused = false;
    const scheduler = new ToadScheduler();
    try {
      scheduler.addSimpleIntervalJob(new SimpleIntervalJob({ days }, new Task("task", () => {})));
    } catch {
      refused = true;
    }
    scheduler.stop();
    console.log(`toad-scheduler, ${days} days, refused: ${refused}`);
  }
})();
JS
for name in rxjs bottleneck toad-scheduler; do
    echo "version: $name $(node -p "JSON.parse(require('fs').readFileSync('node_modules/$name/package.json')).version")"
done
node --no-warnings delays.js | tee seen
cat > expected <<'TEXT'
rxjs, 24 days ahead, emitted within a second: false
bottleneck, expiration of 24 days: the job is done
toad-scheduler, 24 days, refused: false
rxjs, 25 days ahead, emitted within a second: true
bottleneck, expiration of 25 days: This job timed out after 2160000000 ms.
toad-scheduler, 25 days, refused: true
TEXT
diff expected seen && echo "as described: 6 of 6 lines"
