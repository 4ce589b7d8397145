# Sourced by findings about Go modules, with the version of Go: begins a module in the folder $dir, which requires the
# modules that standard input lists, and goes there. `build_go` builds main.go as ./of-go, and prints the versions of the
# modules.
command -v go > /dev/null || { echo "skipped: there is no go" >&2; exit 3; }
cd "$dir"
cat > modules
{
    printf 'module finding\n\ngo %s\n\nrequire (\n' "$1"
    cat modules
    printf ')\n'
} > go.mod
build_go() {
    export GOPATH=$dir/go GOFLAGS=-mod=mod GOCACHE=$dir/cache
    go build -o of-go . 2> log || { echo "skipped: $(head -1 log)" >&2; exit 3; }
    while read -r module _; do echo "version: $(go list -m "$module")"; done < modules
}
