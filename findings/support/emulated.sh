# Sourced by findings about emulated boards: sets QEMU to the pinned emulator, unpacked below the folder $dir. The
# variable `emulator` names another one than that of ARM, and `package` the package that it is in.
emulator=${emulator:-qemu-system-arm}
package=${package:-qemu-system-arm}=1:7.2+dfsg-7+deb12u18+b3
command -v python3 > /dev/null || { echo "skipped: there is no python3" >&2; exit 3; }
(cd "$dir" && apt-get download -qq "$package" > log 2>&1) || { echo "skipped: $package cannot be had here" >&2; exit 3; }
dpkg -x "$dir"/*.deb "$dir/unpacked"
export QEMU=$dir/unpacked/usr/bin/$emulator
ldd "$QEMU" | grep "not found" > "$dir/log" && { echo "skipped: the emulator needs $(head -1 "$dir/log")" >&2; exit 3; }
echo "version: $package"
PYTHONPATH=$(cd "$(dirname "$0")/support" && pwd)
export PYTHONPATH PYTHONDONTWRITEBYTECODE=1
