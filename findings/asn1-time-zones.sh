#!/usr/bin/env bash
# Three npm packages read a time of ASN.1 with a zone up to fifteen days off, and PyPI's pyasn1 half an hour as 0.5 s.
#
# Versions: npm's asn1js 4.0.0, node-forge 1.4.3 and asn1.js 5.4.1, PyPI's pyasn1 0.6.5; asn1crypto 1.5.1 beside them.
#
# X.680 (GeneralizedTime) ends a time with Z or with the difference to UTC, as LDAP does (RFC 4517, 3.3.13): noon with
# -0500 is 17:00 UTC. A fraction is one of the last part that is written, so that 2026010110.5Z is half past ten.
# Expected before the first run: each gives the instant, or an error for what it cannot do.
# Seen: noon of 2026-01-20 with -0500 is 2026-01-05T07:00Z for asn1js. node-forge drops the minutes of +0530, asn1.js
# the whole difference, and fractions as well. pyasn1 knows the difference, and takes each fraction for one of a second.
# asn1crypto is right. Only node-forge refuses one of the times, the fraction of an hour.
#
# For a user: certificates always end in Z (RFC 5280), times of other protocols need not. Convert those by hand.
#
# Exits with 0 while that is so, with 1 once an answer differs, with 3 where packages are missing.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
for command in node npm python3; do
    command -v "$command" > /dev/null || { echo "skipped: there is no $command" >&2; exit 3; }
done
cd "$dir"
npm install --silent --no-audit --no-fund --cache "$dir/npm" asn1js@4.0.0 node-forge@1.4.3 asn1.js@5.4.1 > log 2>&1 \
    || { echo "skipped: these npm packages cannot be had here" >&2; exit 3; }
python3 -m venv venv > log 2>&1 && venv/bin/pip install -q pyasn1==0.6.5 asn1crypto==1.5.1 > log 2>&1 \
    || { echo "skipped: these PyPI packages cannot be had here" >&2; exit 3; }
cat > times.mjs <<'JS'
import asn1 from "asn1.js";
import * as asn1js from "asn1js";
import forge from "node-forge";

const Time = asn1.define("Time", function () {
  this.gentime();
});
const shown = (read) => {
  try {
    return read().toISOString().slice(5, 21);
  } catch (error) {
    return "error";
  }
};
for (const text of process.argv.slice(2)) {
  const data = Buffer.from([0x18, text.length, ...Buffer.from(text)]);
  const times = [
    () => asn1js.fromBER(new Uint8Array(data).buffer).result.toDate(),
    () => forge.asn1.generalizedTimeToDate(forge.asn1.fromDer(data.toString("binary")).value),
    () => new Date(Time.decode(data, "der")),
  ];
  console.log(times.map(shown).join(" "));
}
JS
cat > times.py <<'PYTHON'
import datetime
import sys

from asn1crypto import core
from pyasn1.codec.ber import decoder

for text in sys.argv[1:]:
    data = bytes([0x18, len(text)]) + text.encode()
    times = [decoder.decode(data)[0].asDateTime, core.GeneralizedTime.load(data).native]
    print(*(time.astimezone(datetime.timezone.utc).strftime("%m-%dT%H:%M:%S.%f")[:16] for time in times))
PYTHON
times=(20260120120000Z 20260120120000.5Z 20260120120000-0500 20260120120000+0100 20260120120000+0530 2026012010.5Z)
echo "versions: $(node -p '["asn1js", "node-forge", "asn1.js"].map((name) => name + " " +
    JSON.parse(fs.readFileSync(`node_modules/${name}/package.json`)).version).join(", ")')"
venv/bin/pip list --disable-pip-version-check 2> log | grep -E '^(pyasn1|asn1crypto) ' | sed 's/^/version: /'
echo "asn1js, node-forge, asn1.js, pyasn1, asn1crypto:"
export TZ=UTC
paste -d ' ' <(printf '%s:\n' "${times[@]}") <(node times.mjs "${times[@]}") <(venv/bin/python times.py "${times[@]}") |
    tee seen
cat > expected <<'TEXT'
20260120120000Z: 01-20T12:00:00.0 01-20T12:00:00.0 01-20T12:00:00.0 01-20T12:00:00.0 01-20T12:00:00.0
20260120120000.5Z: 01-20T12:00:00.5 01-20T12:00:00.5 01-20T12:00:00.0 01-20T12:00:00.5 01-20T12:00:00.5
20260120120000-0500: 01-05T07:00:00.0 01-20T17:00:00.0 01-20T12:00:00.0 01-20T17:00:00.0 01-20T17:00:00.0
20260120120000+0100: 01-05T13:00:00.0 01-20T11:00:00.0 01-20T12:00:00.0 01-20T11:00:00.0 01-20T11:00:00.0
20260120120000+0530: 01-05T17:30:00.0 01-20T07:00:00.0 01-20T12:00:00.0 01-20T06:30:00.0 01-20T06:30:00.0
2026012010.5Z: 01-20T10:30:00.0 error 01-20T10:00:00.0 01-20T10:00:00.5 01-20T10:30:00.0
TEXT
diff expected seen && echo "as described: 6 of 6 times"
