#!/bin/sh
# Compares the C interface with the committed one, by libabigail. `compare.sh --write` commits the present interface.
#
# A program that was linked against an older library uses the structures and calls of the older header. So the headers,
# and not the crate, define the interface: they are compiled into a library of empty functions, which abidw describes
# and abidiff compares. The symbols of the real library show that it exports these functions, and no others.
set -eu
cd "$(dirname "$0")/../../.."
include=crates/tickless-capi/include
baseline=crates/tickless-capi/abi/0.abi
place=${CARGO_TARGET_DIR:-target}/abi
mkdir -p "$place"
prototypes() {
    grep -hE '^(int|uint32_t) tickless_.*\);$' $include/tickless.h $include/tickless-posix.h
}
{
    echo '#include "tickless.h"'
    echo '#include "tickless-posix.h"'
    prototypes | sed 's/;$/ { return 0; }/'
} >"$place/interface.c"
# The description is the same wherever it was made.
gcc -std=c99 -D_POSIX_C_SOURCE=200809L -g -O0 -shared -fPIC -w "-fdebug-prefix-map=$place=." -I $include \
    -o "$place/libinterface.so" "$place/interface.c"
if [ "${1:-}" = --write ]; then
    abidw --no-corpus-path --no-comp-dir-path --no-show-locs --out-file $baseline "$place/libinterface.so"
fi
abidiff $baseline "$place/libinterface.so" || {
    echo "The C interface is not the one of $baseline. A change that old programs survive: compare.sh --write."
    echo "Any other: a new TICKLESS_ABI_VERSION, soname and baseline."
    exit 1
}
cargo build --quiet -p tickless-capi --lib
prototypes | sed -E 's/^[a-z0-9_]+ (tickless_[a-z0-9_]+)\(.*/\1/' | sort >"$place/declared"
nm -D --defined-only "${CARGO_TARGET_DIR:-target}/debug/libtickless_capi.so" |
    awk '$3 ~ /^tickless_/ { print $3 }' | sort >"$place/exported"
diff "$place/declared" "$place/exported" || {
    echo "Above: < is declared and not exported, > is exported and not declared."
    exit 1
}
echo "The interface is that of $baseline, and the library exports what the headers declare."
