#!/bin/sh
# Prints the text and data of the core alone, in bytes, built for size: the exact queue, with the wheels, and with the
# hierarchy. kernel/size.sh TARGET; by default aarch64. The stack that the layout reserves is no data.
set -eu
cd "$(dirname "$0")/.."
target=${1:-aarch64-unknown-none-softfloat}
image=target/kernel/size/$target/release/tickless-kernel-size
for parts in 'size the exact queue' 'size-wheel with the wheels' 'size-hierarchy with the hierarchy'; do
    CARGO_PROFILE_RELEASE_OPT_LEVEL=z CARGO_PROFILE_RELEASE_LTO=fat cargo build --quiet --release \
        --manifest-path kernel/Cargo.toml --target "$target" --target-dir target/kernel/size \
        --bin tickless-kernel-size --features "${parts%% *}"
    copies=0
    for size in $(nm -S $image | awk '$4 ~ /^(memcpy|memmove|memset|memcmp|bcmp)$/ { print $2 }'); do
        copies=$((copies + 0x$size))
    done
    size -A $image | awk -v copies=$copies -v parts="${parts#* }" -v target="$target" '
        { size[$1] = $2 }
        END {
            data = size[".data"] + (size[".bss"] > 65536 ? size[".bss"] - 65536 : 0)
            print target ": " parts ": " size[".text"] - copies " bytes of text and " copies \
                " of memcpy and its like, " size[".rodata"] + 0 " of constants, " data " of data"
        }'
done
