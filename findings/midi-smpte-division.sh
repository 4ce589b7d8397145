#!/usr/bin/env bash
# Two readers of MIDI files give a note of one second a negative length, or none, where ticks are parts of a frame.
#
# Versions: PyPI's mido 1.3.3 and npm's @tonejs/midi 2.0.28; the crate midly 0.5.3 beside them.
#
# The Standard MIDI Files specification (header chunk, division) has two forms of time. With the highest bit clear a
# quarter note is divided; with it set the division holds the frames a second, negated, and the ticks in a frame. 0xE728
# is 25 frames of 40 ticks, which makes a tick a millisecond and needs no tempo.
# Expected before the first run: a note of 1000 ticks lasts a second, or the form is refused.
# Seen: mido takes the division for -6360 ticks in a quarter note: the file lasts -0.0786 s. @tonejs/midi returns NaN as
# the time and the length of the note. Neither reports an error. midly names 25 frames of 40 ticks.
#
# For a user: a player that sleeps for these lengths plays all at once. Look at the highest bit of byte 12 first.
#
# Exits with 0 while that is so, with 1 once an answer differs, with 3 where packages are missing.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
for command in node npm python3; do
    command -v "$command" > /dev/null || { echo "skipped: there is no $command" >&2; exit 3; }
done
. "$(dirname "$0")/support/crate.sh" <<'TOML'
midly = { version = "=0.5.3", default-features = false, features = ["alloc"] }
TOML
npm install --silent --no-audit --no-fund --cache "$dir/npm" @tonejs/midi@2.0.28 > log 2>&1 \
    || { echo "skipped: @tonejs/midi 2.0.28 cannot be had here" >&2; exit 3; }
python3 -m venv venv > log 2>&1 && venv/bin/pip install -q mido==1.3.3 > log 2>&1 \
    || { echo "skipped: mido 1.3.3 cannot be had here" >&2; exit 3; }
cat > src/main.rs <<'RUST'
fn main() {
    let data = std::fs::read("file.mid").expect("a file");
    println!("midly: {:?}", midly::Smf::parse(&data).expect("a MIDI file").header.timing);
}
RUST
cat > file.cjs <<'JS'
const { readFileSync } = require("node:fs");
const { Midi } = require("@tonejs/midi");

const [note] = new Midi(readFileSync("file.mid")).tracks[0].notes;
console.log(`@tonejs/midi: a note at ${note.time} s for ${note.duration} s`);
JS
cat > file.py <<'PYTHON'
import struct
import sys

import mido

# Note on, 1000 ticks, note off, end of track.
track = bytes.fromhex("00903c40 8768803c40 00ff2f00")
with open("file.mid", "wb") as file:
    file.write(b"MThd" + struct.pack(">IHHH", 6, 0, 1, int(sys.argv[1], 16)))
    file.write(b"MTrk" + struct.pack(">I", len(track)) + track)
print(f"mido: {mido.MidiFile('file.mid').length:.4f} s")
PYTHON
build '^midly '
echo "version: @tonejs/midi $(node -p 'JSON.parse(fs.readFileSync("node_modules/@tonejs/midi/package.json")).version')"
venv/bin/pip list --disable-pip-version-check 2> log | grep '^mido ' | sed 's/^/version: /'
# 500 ticks in a quarter note, at the tempo that holds where a file names none: half a second.
for division in 01f4 e728; do
    { venv/bin/python file.py "$division"; node file.cjs; ./finding; } | sed "s/^/$division, /"
done | tee seen
cat > expected <<'TEXT'
01f4, mido: 1.0000 s
01f4, @tonejs/midi: a note at 0 s for 1 s
01f4, midly: Metrical(u15(500))
e728, mido: -0.0786 s
e728, @tonejs/midi: a note at NaN s for NaN s
e728, midly: Timecode(Fps25, 40)
TEXT
diff expected seen && echo "as described: 6 of 6 lines"
