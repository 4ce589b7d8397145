# Sourced by findings about emulated boards: sets QEMU to the pinned emulator, unpacked below the folder $dir. The
# variable `emulator` names another one than that of ARM, `package` the package that it is in, and `modules` a second
# package with the parts that it loads.
emulator=${emulator:-qemu-system-arm}
version=1:7.2+dfsg-7+deb12u18+b3
package=${package:-qemu-system-arm}=$version
command -v python3 > /dev/null || { echo "skipped: there is no python3" >&2; exit 3; }
(cd "$dir" && apt-get download -qq "$package" ${modules:+"$modules=$version"} > log 2>&1) || { echo "skipped: $package cannot be had here" >&2; exit 3; }
for file in "$dir"/*.deb; do dpkg -x "$file" "$dir/unpacked"; done
export QEMU=$dir/unpacked/usr/bin/$emulator
ldd "$QEMU" | grep "not found" > "$dir/log" && { echo "skipped: the emulator needs $(head -1 "$dir/log")" >&2; exit 3; }
echo "version: $package"
PYTHONPATH=$(cd "$(dirname "$0")/support" && pwd)
export PYTHONPATH PYTHONDONTWRITEBYTECODE=1
