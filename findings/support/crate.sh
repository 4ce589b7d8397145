# Sourced by findings about Rust crates: begins a package in the folder $dir, with the dependencies that standard input
# lists, and goes there. `build PATTERN [--release]` builds src/main.rs as ./finding, and prints the versions of the
# dependencies whose lines match.
cd "$dir"
mkdir src
{
    printf '[package]\nname = "finding"\nversion = "0.0.0"\nedition = "2021"\n\n[dependencies]\n'
    cat
    printf '\n[workspace]\n'
} > Cargo.toml
build() {
    # The program is looked for below this folder.
    unset CARGO_TARGET_DIR CARGO_BUILD_TARGET
    cargo build --quiet "${@:2}" || { echo "skipped: the crates do not build here" >&2; exit 3; }
    cargo tree --quiet --depth 1 --prefix none | grep -E "$1" | sed 's/^/version: /'
    cp target/*/finding finding
}
