#!/bin/sh
# The archives that would be published: each is complete and described, and builds. Cargo makes each archive and resolves
# it against the others, but to build it cargo would take the sources of the others from a cache of the user, in which
# they could be those of an earlier tree. So the archives are unpacked under target/packaged, and a crate there depends
# on them, as a user's would: with all features of the library, without those of the adapters, whose dependencies are
# large. The tree may be dirty: what is checked is about to be committed.
#
# `xtask/package.sh release` then tries the release itself, as far as it goes without sending anything: it publishes all
# crates in the order of their dependencies as a dry run, which asks the registry, and makes the wheel. It ends with the
# commands of the release, or with what is missing.
set -eu
names=' tickless-capi tickless-core tickless-link tickless-macros tickless-sched tickless '
# Of the library's features, those that users have.
features=$(sed -n '/^\[features\]/,/^\[[^f]/s/^\([a-z-]*\) = \[.*/\1/p' crates/tickless/Cargo.toml | grep -vx internals)
version=$(sed -n '/^\[workspace.package\]/,/^\[w/s/^version = "\(.*\)"/\1/p' Cargo.toml)
target=${CARGO_TARGET_DIR:-$PWD/target}

# Refuses an archive that lacks what has to accompany its code, or carries tests, which need the whole repository.
look() {
    name=$1; shift
    listed=$(cargo package --list --allow-dirty "$@")
    for file in README.md LICENSE-MIT LICENSE-APACHE; do
        echo "$listed" | grep -qx "$file" || { echo "the archive of $name lacks $file; put it beside its Cargo.toml"; exit 1; }
    done
    if echo "$listed" | grep '^tests/'; then
        echo "the archive of $name carries tests; exclude \"/tests\" in its Cargo.toml"
        exit 1
    fi
}
packages=
for name in $names; do
    look "$name" -p "$name"
    packages="$packages -p $name"
done
look tickless-adapters --manifest-path adapters/Cargo.toml
# shellcheck disable=SC2086
cargo package --offline --allow-dirty --no-verify $packages
# No lock file: that would name versions of the other archives that no registry has yet.
cargo package --allow-dirty --no-verify --exclude-lockfile --manifest-path adapters/Cargo.toml --target-dir "$target"

# Sources of an earlier version stay nowhere; what was built stays.
sources=$target/packaged/sources
rm -rf "$sources" && mkdir -p "$sources/src" && : > "$sources/src/lib.rs"
# The versions of others that are there already: the build asks no registry.
cp Cargo.lock "$sources/"
{
    printf '[workspace]\n\n[package]\nname = "consumer"\nversion = "0.0.0"\nedition = "2024"\n\n[dependencies]\n'
    for name in $names tickless-adapters; do
        list=
        [ "$name" != tickless ] || list=$(for feature in $features; do printf '"%s", ' "$feature"; done)
        echo "$name = { version = \"=$version\", features = [$list] }"
    done
    printf '\n[patch.crates-io]\n'
    for name in $names tickless-adapters; do
        echo "$name = { path = \"$name-$version\" }"
    done
} > "$sources/Cargo.toml"
for name in $names tickless-adapters; do
    # With the time of now: all files of an archive have one of long ago, by which cargo would take them for built.
    tar -xmzf "$target/package/$name-$version.crate" -C "$sources"
done
cargo build --offline --manifest-path "$sources/Cargo.toml" --target-dir "$target/packaged/build"

if [ "${1:-}" = release ]; then
    # Against the library of this tree: the registry has it only when it is published.
    here="--config patch.crates-io.tickless.path=\"$PWD/crates/tickless\""
    # shellcheck disable=SC2086
    cargo publish --quiet --dry-run --allow-dirty --no-verify $packages
    # shellcheck disable=SC2086
    cargo publish --quiet --dry-run --allow-dirty --no-verify -p tickless-adapters --manifest-path adapters/Cargo.toml $here
    wheel=$(python3 crates/tickless-capi/python/backend.py "$target/package")
    # What no tool compares: a number in a text, and a package of another workspace.
    missing=
    grep -q "^## $version" CHANGELOG.md || missing="$missing a section of CHANGELOG.md for $version;"
    grep -q "tickless = \"${version%.*}\"" README.md || missing="$missing README's version ${version%.*};"
    for manifest in adapters laboratory kernel cortex-m; do
        grep -q "^version = \"$version\"" $manifest/Cargo.toml || missing="$missing the version of $manifest/Cargo.toml;"
    done
    address=$(sed -n 's/^repository = //p' Cargo.toml)
    [ "$address" != '""' ] || missing="$missing the address of the repository, in Cargo.toml;"
    [ "$(sed -n 's/^repository = //p' adapters/Cargo.toml)" = "$address" ] || missing="$missing the same in adapters/Cargo.toml;"
    git diff --quiet HEAD || missing="$missing a commit of what changed;"
    echo "The release: git tag v$version"
    echo "    cargo publish$packages"
    echo "    cargo publish -p tickless-adapters --manifest-path adapters/Cargo.toml"
    echo "    the wheel: $target/package/$wheel"
    [ -z "$missing" ] || { echo "Missing before it:${missing%;}"; exit 1; }
fi
