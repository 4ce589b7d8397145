#!/usr/bin/env bash
# Three readers of pcapng take the unit or the offset of an interface's clock for another one, and report no error.
#
# Versions: the crate pcap-file 2.0.0, PyPI's scapy 2.8.0 and python-pcapng 2.1.1; dpkt 1.9.8 beside them.
#
# The draft of pcapng (section Interface Description Block) has if_tsresol name the unit of time stamps, a power of 10
# or of 2, which is a microsecond where the option is left out; if_tsoffset is in seconds and is added to each stamp.
# Expected before the first run: each reader that returns the time of a packet has done both.
# Seen, with files of one packet at 2026-01-01T00:00:00.25Z: dpkt is right. pcap-file takes each stamp for nanoseconds,
# so that a file without options lies in January 1970, and one in units of 2^-32 s in the year 2210. scapy and
# python-pcapng know the units, and leave the offset out.
#
# For a user: with pcap-file, read the two options and compute the time. Files in nanoseconds without an offset are
# safe with all four.
#
# Exits with 0 while that is so, with 1 once an answer differs, with 3 where packages are missing.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
command -v python3 > /dev/null || { echo "skipped: there is no python3" >&2; exit 3; }
. "$(dirname "$0")/support/crate.sh" <<'TOML'
pcap-file = "=2.0.0"
TOML
packages=(scapy==2.8.0 python-pcapng==2.1.1 dpkt==1.9.8)
python3 -m venv venv > log 2>&1 && venv/bin/pip install -q --no-compile "${packages[@]}" > log 2>&1 \
    || { echo "skipped: these packages cannot be had here" >&2; exit 3; }
cat > src/main.rs <<'RUST'
use pcap_file::pcapng::PcapNgReader;

fn main() {
    let data = std::fs::read(std::env::args().nth(1).expect("a file")).expect("a file");
    let mut reader = PcapNgReader::new(&data[..]).expect("a section");
    while let Some(block) = reader.next_block() {
        if let Some(packet) = block.expect("a block").into_enhanced_packet() {
            println!("{:.6}", packet.timestamp.as_secs_f64());
        }
    }
}
RUST
cat > readers.py <<'PYTHON'
import logging
import struct
import subprocess

logging.disable()
import dpkt
import pcapng
from scapy.utils import PcapNgReader

AT = 1767225600  # 2026-01-01T00:00:00Z
CASES = [
    ("no options", None, None, AT * 10**6 + 250_000),
    ("10^0 s", 0, None, AT),
    ("10^-3 s", 3, None, AT * 10**3 + 250),
    ("10^-9 s", 9, None, AT * 10**9 + 250_000_000),
    ("2^-10 s", 0x80 | 10, None, AT * 2**10 + 2**8),
    ("2^-32 s", 0x80 | 32, None, AT * 2**32 + 2**30),
    ("offset of an hour", None, 3600, (AT - 3600) * 10**6 + 250_000),
]


def block(kind, body):
    length = len(body) + 12
    return struct.pack("<II", kind, length) + body + struct.pack("<I", length)


def capture(unit, offset, stamp):
    options = b"" if unit is None else struct.pack("<HHI", 9, 1, unit)
    options += b"" if offset is None else struct.pack("<HHq", 14, 8, offset)
    section = block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1))
    interface = block(1, struct.pack("<HHI", 1, 0, 65535) + options + (bytes(4) if options else b""))
    packet = struct.pack("<IIIII", 0, stamp >> 32, stamp & 0xFFFFFFFF, 60, 60) + bytes(60)
    return section + interface + block(6, packet)


for name, unit, offset, stamp in CASES:
    with open("file", "wb") as file:
        file.write(capture(unit, offset, stamp))
    with open("file", "rb") as file:
        of_dpkt = next(iter(dpkt.pcapng.Reader(file)))[0]
    with open("file", "rb") as file:
        of_pcapng = [block.timestamp for block in pcapng.FileScanner(file) if hasattr(block, "timestamp")][0]
    with PcapNgReader("file") as reader:
        of_scapy = float(next(iter(reader)).time)
    seconds = subprocess.run(["./finding", "file"], check=True, capture_output=True, text=True).stdout
    times = [float(seconds), of_scapy, of_pcapng, of_dpkt]
    print(f"{name}:", *(f"{time:.6f}" for time in times))
PYTHON
build '^pcap-file '
venv/bin/pip list --disable-pip-version-check 2> log | grep -E '^(scapy|python-pcapng|dpkt) ' | sed 's/^/version: /'
echo "pcap-file, scapy, python-pcapng, dpkt:"
venv/bin/python readers.py | tee seen
cat > expected <<'TEXT'
no options: 1767225.600250 1767225600.250000 1767225600.250000 1767225600.250000
10^0 s: 1.767226 1767225600.000000 1767225600.000000 1767225600.000000
10^-3 s: 1767.225600 1767225600.250000 1767225600.250000 1767225600.250000
10^-9 s: 1767225600.250000 1767225600.250000 1767225600.250000 1767225600.250000
2^-10 s: 1809.639015 1767225600.250000 1767225600.250000 1767225600.250000
2^-32 s: 7590176157.727719 1767225600.250000 1767225600.250000 1767225600.250000
offset of an hour: 1767222.000250 1767222000.250000 1767222000.250000 1767225600.250000
TEXT
diff expected seen && echo "as described: 7 of 7 files"
