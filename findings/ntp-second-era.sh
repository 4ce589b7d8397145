#!/usr/bin/env bash
# Two libraries read NTP's time from 2036 on as 1900, and report no error.
#
# Versions: PyPI's ntplib 0.4.0 and npm's ntp-packet-parser 0.5.0; github.com/beevik/ntp 1.6.0 beside them.
#
# An NTP timestamp has 32 bits of seconds, which begin again at 0 on 2036-02-07 at 06:28:16 UTC. RFC 4330 (3) has a
# client take a timestamp whose highest bit is 0 for one of that second era, and RFC 5905 (6) has it take the era from
# the time it knows.
#
# Expected before the first run: all three read a reply whose timestamps are 4 seconds as 2036-02-07 06:28:20 UTC.
# Seen: beevik/ntp does. ntplib and ntp-packet-parser say 1900-01-01 00:00:04, and ntplib's offset says so too: it is
# that of the local clock to 1900. Neither reports an error. The timestamp that ntplib makes
# of a time after that date, for a request, is a number that does not fit 32 bits.
#
# For a user: take 2^32 seconds more where the year that comes back is before 1968.
#
# Exits with 0 while that is so, with 1 once an answer differs, with 3 where packages are missing.
set -euo pipefail
dir=$(mktemp -d)
trap '[ ! -s "$dir/pid" ] || kill "$(cat "$dir/pid")" 2> /dev/null; chmod -R u+w "$dir"; rm -rf "$dir"' EXIT
for command in node npm python3; do
    command -v "$command" > /dev/null || { echo "skipped: there is no $command" >&2; exit 3; }
done
. "$(dirname "$0")/support/go.sh" 1.21 <<'MOD'
github.com/beevik/ntp v1.6.0
MOD
python3 -m venv venv > log 2>&1 && venv/bin/pip install -q ntplib==0.4.0 > log 2>&1 \
    || { echo "skipped: ntplib 0.4.0 cannot be had here" >&2; exit 3; }
npm install --silent --no-audit --no-fund --cache "$dir/npm" ntp-packet-parser@0.5.0 > log 2>&1 \
    || { echo "skipped: ntp-packet-parser 0.5.0 cannot be had here" >&2; exit 3; }
cat > main.go <<'GO'
package main

import (
	"fmt"
	"os"

	"github.com/beevik/ntp"
)

func main() {
	reply, err := ntp.Query("127.0.0.1:" + os.Args[1])
	if err != nil {
		panic(err)
	}
	fmt.Println("beevik/ntp:", reply.Time.UTC().Format("2006-01-02 15:04:05"))
}
GO
build_go
# Answers requests on this machine, each with 4 seconds of the second era. It ends by itself.
cat > server.py <<'PYTHON'
import socket
import struct

server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
server.bind(("127.0.0.1", 0))
server.settimeout(60)
with open("port", "w") as file:
    print(server.getsockname()[1], file=file)
for _ in range(10):
    try:
        request, client = server.recvfrom(100)
    except TimeoutError:
        break
    head = struct.pack("!BBbbIIIII", 0x24, 2, 6, -20, 0, 0, 0x7F000001, 1, 0)
    server.sendto(head + request[40:48] + struct.pack("!IIII", 4, 0, 4, 0), client)
PYTHON
python3 server.py &
echo $! > pid
for _ in $(seq 50); do
    [ ! -s port ] || break
    sleep 0.1
done
cat > era.py <<'PYTHON'
import datetime
import sys

import ntplib

reply = ntplib.NTPClient().request("127.0.0.1", port=int(sys.argv[1]))
begin = datetime.datetime(1970, 1, 1)
print("ntplib:", begin + datetime.timedelta(seconds=reply.tx_time))
print("ntplib, by its offset:", "a century behind" if reply.offset < -100 * 365 * 86400 else reply.offset)
late = datetime.datetime(2036, 2, 7, 6, 28, 20)
seconds = ntplib.system_to_ntp_time((late - begin).total_seconds())
print("ntplib, seconds of a timestamp of 2036-02-07 06:28:20:", int(seconds), "of at most", 2**32 - 1)
PYTHON
cat > era.js <<'JS'
const { NtpPacketParser } = require("ntp-packet-parser");
const packet = Buffer.alloc(48);
packet.writeUInt32BE(0x240206ec, 0);
packet.writeUInt32BE(1, 16);
packet.writeUInt32BE(4, 32);
packet.writeUInt32BE(4, 40);
const time = NtpPacketParser.parse(packet).transmitTimestamp;
console.log("ntp-packet-parser:", time.toISOString().slice(0, 19).replace("T", " "));
JS
echo "version: $(venv/bin/pip list --disable-pip-version-check 2> /dev/null | grep '^ntplib ')"
echo "version: ntp-packet-parser $(node -p 'require("ntp-packet-parser/package.json").version')"
{
    ./of-go "$(cat port)"
    venv/bin/python era.py "$(cat port)"
    node era.js
} | tee seen
cat > expected <<'TEXT'
beevik/ntp: 2036-02-07 06:28:20
ntplib: 1900-01-01 00:00:04
ntplib, by its offset: a century behind
ntplib, seconds of a timestamp of 2036-02-07 06:28:20: 4294967300 of at most 4294967295
ntp-packet-parser: 1900-01-01 00:00:04
TEXT
diff expected seen && echo "as described: 5 of 5 lines"
