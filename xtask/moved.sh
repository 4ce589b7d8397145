#!/bin/sh
# The tests of published crates, with this library in the place of tokio's time: xtask/moved.sh tokio-family, or tower,
# or published, which can be followed by the names of some of its crates.
# This repository contains no source of these crates: cargo fetches each, as for any program that depends on it, and a
# crate that it cannot fetch is named as skipped. Sources and tests are copied to target/moved, and their imports
# replaced. They pause the clock, which needs the feature tokio-test-util.
set -eu
library=$PWD/crates/tickless
place=$PWD/target/moved
mkdir -p "$place"

# Fetches a crate, and prints its directory.
fetched() {
    wants=$place/wants-$1
    mkdir -p "$wants/src" && : > "$wants/src/lib.rs"
    printf '[package]\nname = "wants"\nversion = "0.0.0"\nedition = "2024"\n[workspace]\n[dependencies]\n%s = "=%s"\n' \
        "$1" "$2" > "$wants/Cargo.toml"
    if ! cargo fetch --quiet --manifest-path "$wants/Cargo.toml" >&2; then
        echo "skipped: the tests of $1 $2, because cargo cannot fetch it" >&2
        exit 0
    fi
    ls -d "${CARGO_HOME:-$HOME/.cargo}"/registry/src/*/"$1-$2" | head -n 1
}

tower() {
    source=$(fetched tower 0.5.3)
    [ -n "$source" ] || exit 0
    rm -rf "$place/tower" && cp -r "$source" "$place/tower" && chmod -R u+w "$place/tower" && cd "$place/tower"
    rm -rf Cargo.lock Cargo.toml.orig examples
    files=$(grep -rl tokio::time src tests)
    # A suite in which nothing is replaced would prove nothing.
    [ "$(echo "$files" | wc -l)" -ge 10 ] || { echo "tower has too little to move"; exit 1; }
    # shellcheck disable=SC2086
    sed -i s/tokio::time/tickless::time/g $files
    printf '\n[workspace]\n\n[dependencies.tickless]\npath = "%s"\nfeatures = ["tokio-test-util"]\n' "$library" >> Cargo.toml
    cargo test --all-features --lib --tests --target-dir "$place/.."
}

# Copies the tests FILES of a crate of tokio, twice: for a runtime of tokio, and for our own executor, by
# `#[tickless::test]`. Tests of several threads keep their runtime.
copy() {
    package=$1 version=$2 features=$3; shift 3
    source=$(fetched "$package" "$version")
    [ -n "$source" ] || exit 0
    echo "$package = { version = \"=$version\", features = [$features] }" >> "$family/Cargo.toml"
    if [ -e "$source/tests/support/panic.rs" ]; then
        mkdir -p "$family/tests/support" && cp "$source/tests/support/panic.rs" "$family/tests/support/"
    fi
    both='use futures::StreamExt as _; use tickless::time::StreamExt as _;'
    for name; do
        sed "s/tokio::time/tickless::time/g; s/tokio_util::time/tickless::time/g
            s/use tokio_stream::StreamExt;/$both/
            s/use tokio_stream::{self as stream, StreamExt};/$both use tokio_stream as stream;/" \
            "$source/tests/$name.rs" > "$family/tests/in_tokio_$name.rs"
        if cmp -s "$source/tests/$name.rs" "$family/tests/in_tokio_$name.rs"; then
            echo "$source/tests/$name.rs has nothing to move"
            exit 1
        fi
        sed 's/#\[tokio::test/#[tickless::test/; s/#\[tickless::test(flavor/#[tokio::test(flavor/' \
            "$family/tests/in_tokio_$name.rs" > "$family/tests/own_$name.rs"
    done
}

tokio_family() {
    family=$place/tokio-family
    rm -rf "$family/tests" && mkdir -p "$family/tests" "$family/src" && : > "$family/src/lib.rs"
    # The features are those by which the tests select themselves.
    cat > "$family/Cargo.toml" <<MANIFEST
[package]
name = "tokio-family"
version = "0.0.0"
edition = "2021"

[workspace]

[features]
default = ["full", "io-util", "macros", "rt", "sync", "test-util", "time"]
full = []
io-util = []
macros = []
rt = []
rt-multi-thread = []
sync = []
test-util = []
time = []

[dependencies]
futures = "0.3"
rand = "0.9"
tokio-test = "0.4"
tickless = { path = "$library", features = ["macros", "stream", "tokio-test-util"] }
MANIFEST
    copy tokio 1.54.1 '"full", "test-util"' \
        time_interval time_panic time_pause time_rt time_sleep time_timeout
    copy tokio-util 0.7.20 '"time"' time_delay_queue
    copy tokio-stream 0.1.19 '"time"' chunks_timeout stream_chunks_timeout stream_timeout time_throttle
    # Behaviour that differs on purpose: time needs no runtime here, a queue does not wake its task when nothing is due,
    # and no value moves when room is given back.
    differs='--skip creating_sleep_outside_of_context --skip timeout_panic_caller --skip timeout_at_panic_caller
        --skip reset_later_after_slot_starts --skip reset_earlier_after_slot_starts --skip compact_remove_remapped_keys'
    # Tests that need tokio itself: its reactor, its budget of polls, or a runtime of several threads.
    alone='--skip long_wait_sleep_does_not --skip pause_time_in_task --skip paused_time_join_unix_datagram_and_sleep
        --skip paused_time_spawn_unix_datagram_and_sleep --skip stream_with_interval_poll_tick
        --skip timeout_is_not_exhausted_by_future'
    test="cargo test --no-fail-fast --manifest-path $family/Cargo.toml --target-dir target"
    echo "left out: $differs"
    # shellcheck disable=SC2086
    $test --test 'in_tokio_*' -- $differs && $test --test 'own_*' -- $differs $alone
}

# Replaces the imports of the time of tokio and tokio-util in the sources of the directory $1.
replace() {
    find "$1" -name '*.rs' -print0 | xargs -0 perl -0pi -e '
        my $inside = qr/(?:[^{}]|\{[^{}]*\})*?/;
        s/use tokio::\{($inside)\btime((?:::(?:\w+|\{[^{}]*\}))?)\s*(?:,|(?=\}))($inside)\};/use tickless::time$2; use tokio::{$1$3};/g;
        s/\btokio(?:_1|_util)?::time\b/tickless::time/g'
    grep -rq tickless::time "$1" --include='*.rs' || { echo "$1 has nothing to move"; exit 1; }
    printf '\n[dependencies.tickless]\npath = "%s"\nfeatures = ["stream", "tokio-test-util"]\n' "$library" >> "$1/Cargo.toml"
}

# Lints that are newer than a crate do not stop it.
# Tests the crate $1 of the version $2 as it is published and moved, with the arguments that follow, and prints how many
# tests of how many pass. `beside` names a crate below it that is moved too.
publish() {
    name=$1 version=$2; shift 2
    source=$(fetched "$name" "$version")
    [ -n "$source" ] || return 0
    line="$name $version:"
    for side in published moved; do
        copy=$place/$side-$name
        rm -rf "$copy" && cp -r "$source" "$copy" && chmod -R u+w "$copy"
        rm -rf "$copy/Cargo.lock" "$copy/Cargo.toml.orig" "$copy/benches" "$copy/examples" \
            "$copy/tests/compile_fail.rs"
        # Tables of programs that are left out, and a workspace of its own. What must not compile says nothing of time.
        perl -0pi -e 's/\n\[\[(?:bench|example|test(?=\]\]\nname = "compile_fail"))\]\]\n(?:[^\[\n][^\n]*\n)*//g' \
            "$copy/Cargo.toml"
        printf '\n[workspace]\n' >> "$copy/Cargo.toml"
        if [ $side = moved ]; then
            replace "$copy"
            if [ -n "$beside" ]; then
                below=$(fetched "${beside% *}" "${beside#* }")
                rm -rf "$copy/below" && cp -r "$below" "$copy/below" && chmod -R u+w "$copy/below" && replace "$copy/below"
                printf '\n[patch.crates-io]\n%s = { path = "below" }\n' "${beside% *}" >> "$copy/Cargo.toml"
            fi
        fi
        RUSTFLAGS='--cap-lints warn' cargo test --no-fail-fast --lib --tests "$@" --manifest-path "$copy/Cargo.toml" \
            --target-dir "$place/build" > "$copy.log" 2>&1 || true
        counts=$(sed -n 's/^test result: [A-Za-z]*\. \([0-9]*\) passed; \([0-9]*\) failed.*/\1 \2/p' "$copy.log" |
            awk '{ passed += $1; all += $1 + $2 } END { print passed + 0 " of " all + 0 }')
        line="$line $side $counts,"
        # What fails as it is published says nothing; what fails only when it is moved is a difference.
        sed -n 's/^test \(.*\) \.\.\. FAILED$/    \1/p; s/^error.*/    &/p' "$copy.log" | sort -u > "$copy.failed"
    done
    echo "${line%,}"
    cat "$place/moved-$name.failed"
    differs=$(comm -13 "$place/published-$name.failed" "$place/moved-$name.failed")
    case $counts-$differs in 0* | *-?*) bad=yes ;; esac
}

published() {
    wanted=" $* " bad=
    while read -r name version below arguments; do
        case $wanted in "  " | *" $name "*) ;; *) continue ;; esac
        beside=
        [ "$below" = - ] || beside=$(echo "$below" | tr @ ' ')
        # shellcheck disable=SC2086
        publish "$name" "$version" $arguments < /dev/null
    done <<LIST
tokio-retry 0.3.2 -
leaky-bucket 1.1.2 -
bb8 0.9.1 -
deadpool 0.13.1 deadpool-runtime@0.3.1 --features rt_tokio_1
tokio-cron-scheduler 0.15.1 -
tokio-graceful-shutdown 0.20.0 -
hyper-util 0.1.21 - --features full
tarpc 0.38.0 - --features full
rumqttc 0.25.1 - --no-default-features
quinn 0.11.12 -
tower-http 0.7.1 - --features metrics,on-early-drop,timeout
turmoil 0.7.2 -
picoserve 0.20.1 - --features tokio,ws,json
LIST
    [ -z "$bad" ]
}

case ${1:-} in
tower) tower ;;
tokio-family) tokio_family ;;
published) shift; published "$@" ;;
*) echo "xtask/moved.sh tokio-family, tower or published" >&2; exit 2 ;;
esac
