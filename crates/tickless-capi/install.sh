#!/bin/sh
# Builds the C interface, and puts libraries, headers and tickless.pc below a directory, where a compiler and
# pkg-config find them: crates/tickless-capi/install.sh /usr/local [PROFILE OF CARGO]
set -eu
prefix=${1:?the directory is missing, as in: install.sh /usr/local}
profile=${2:-release}
case $prefix in /*) ;; *) prefix=$PWD/$prefix ;; esac
cd "$(dirname "$0")/../.."
target=${CARGO_TARGET_DIR:-target}
case $profile in
dev) built=$target/debug ;;
# A directory of its own: the features that other packages need of the library would be in the build.
*) target=$target/install built=$target/$profile ;;
esac
cargo build --quiet --lib -p tickless-capi -p tickless-preload --profile "$profile" --target-dir "$target"
version=$(cargo pkgid -p tickless-capi | sed 's/.*[#@]//')
lib=$prefix/lib
mkdir -p "$lib/pkgconfig" "$prefix/include"
cp "$built/libtickless_capi.a" "$lib/libtickless.a"
cp "$built/libtickless_capi.so" "$lib/libtickless.so.$version"
cp "$built/libtickless_preload.so" "$lib/libtickless-preload.so"
# The name by which programs request the library; the build script sets it, too.
ln -sf "libtickless.so.$version" "$lib/libtickless.so.0"
ln -sf libtickless.so.0 "$lib/libtickless.so"
cp crates/tickless-capi/include/tickless*.h* "$prefix/include/"
cat >"$lib/pkgconfig/tickless.pc" <<EOF
prefix=$prefix
libdir=\${prefix}/lib
includedir=\${prefix}/include

Name: tickless
Description: exact and coarse timers
Version: $version
Libs: -L\${libdir} -ltickless
Libs.private: -lpthread -ldl -lm -lrt
Cflags: -I\${includedir}
EOF
# How large the libraries are, in bytes: machine code and the rest in the first columns, the sum in the fourth.
size "$lib/libtickless.so" "$lib/libtickless-preload.so"
size --totals "$lib/libtickless.a" | tail -n 1
