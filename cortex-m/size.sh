#!/bin/sh
# Prints the text of a program with the exact queue alone, for a Cortex-M3: with a sorted queue, and with the far wheel
# in front of it. Functions that were inlined into others count there.
set -eu
cd "$(dirname "$0")/.."
image=target/thumbv7m-none-eabi/release/size
for features in '--no-default-features' ''; do
    cargo build --quiet --release --manifest-path cortex-m/Cargo.toml --target thumbv7m-none-eabi --target-dir target \
        --bin size $features
    text=$(size -A $image | awk '$1 == ".text" { print $2 }')
    own=0
    for size in $(nm -S $image | awk 'tolower($3) == "t" && /tickless_(core|link)/ { print $2 }'); do
        own=$((own + 0x$size))
    done
    what='with the far wheel'
    [ -z "$features" ] || what='the sorted queue'
    echo "$what: $text bytes of text, $own of them functions of core and link"
done
