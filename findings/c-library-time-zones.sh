#!/usr/bin/env bash
# newlib takes São Paulo for a place six hours further east, and musl gives New York daylight time in January.
#
# Versions: Debian's libnewlib-arm-none-eabi 3.3.0-1.3+deb12u1 and musl 1.2.3-1; glibc of this machine beside them.
#
# POSIX (XBD 8.3, TZ) has had names in angle brackets since 2001, for zones that digits name, and zone
# files end in such strings: <-03>3 in São Paulo. POSIX of 2024 lets a rule's time be below 0, as Greenland's is.
# A rule may be left out, and the implementation then has one of its own.
# Expected before the first run: all three give the same times, in January and in July.
# Seen: glibc is right. newlib takes < for the name and -03 for the offset: 12:00 UTC is 15:00 in São Paulo in January,
# and in Nepal, <+0545>-5:45, the hour is -509. A rule with a time below 0 makes it summer all year. musl reads all
# these, and has summer time all year where there is no rule, as in EST5EDT.
#
# For a user: on a device with newlib, give a zone a name of letters. With musl, write the rule out.
#
# Exits with 0 while that is so, with 1 once an answer differs, with 3 where packages are missing.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
command -v gcc > /dev/null || { echo "skipped: there is no gcc" >&2; exit 3; }
cd "$dir"
packages=(gcc-arm-none-eabi=15:12.2.rel1-1 binutils-arm-none-eabi=2.40-2+18+b1 qemu-user=1:7.2+dfsg-7+deb12u18+b3
    libnewlib-arm-none-eabi=3.3.0-1.3+deb12u1 libnewlib-dev=3.3.0-1.3+deb12u1 musl-dev=1.2.3-1)
apt-get download -qq "${packages[@]}" > log 2>&1 || { echo "skipped: these packages cannot be had here" >&2; exit 3; }
mkdir root
for package in *.deb; do
    dpkg --fsys-tarfile "$package" | tar -x -C root --exclude '*/share/*' --exclude '*/thumb/v*'
done
cat > zones.c <<'C'
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

int main(void) {
    const time_t january = 1768478400, july = 1784116800; /* 2026-01-15 and 2026-07-15, 12:00 UTC */
    static char *const tried[] = {"BRT3", "<-03>3", "<+0545>-5:45", "WGT2WGST,M3.5.0/-1,M10.5.0/0", "AAA5BBB",
                                  "AAA5BBB,M3.2.0,M11.1.0"};
    for (unsigned i = 0; i < sizeof tried / sizeof *tried; i++) {
        char winter[40], summer[40];
        setenv("TZ", "UTC0", 1);
        tzset();
        setenv("TZ", tried[i], 1);
        tzset();
        strftime(winter, sizeof winter, "%H:%M %Z", localtime(&january));
        strftime(summer, sizeof summer, "%H:%M %Z", localtime(&july));
        printf("%s: %s, %s\n", tried[i], winter, summer);
    }
}
C
musl=root/usr/lib/x86_64-linux-musl
gcc zones.c -o of-glibc
gcc -static -nostdinc -isystem root/usr/include/x86_64-linux-musl -nostdlib $musl/crt1.o $musl/crti.o zones.c \
    $musl/libc.a -lgcc $musl/crtn.o -o of-musl
compiler=root/usr/lib/gcc/arm-none-eabi/12.2.1 newlib=root/usr/lib/arm-none-eabi/newlib
root/usr/bin/arm-none-eabi-gcc -marm -nostdinc -isystem $compiler/include -isystem root/usr/include/newlib -nostdlib \
    $newlib/rdimon-crt0.o $compiler/crti.o $compiler/crtbegin.o zones.c -L$newlib -L$compiler \
    -Wl,--start-group -lc -lgcc -lrdimon -Wl,--end-group $compiler/crtend.o $compiler/crtn.o -o of-newlib
for package in "${packages[@]:3}" "glibc $(getconf GNU_LIBC_VERSION | cut -d ' ' -f 2)"; do echo "version: $package"; done
{
    ./of-glibc | sed 's/^/glibc, /'
    ./of-musl | sed 's/^/musl, /'
    root/usr/bin/qemu-arm ./of-newlib | sed 's/^/newlib, /'
} | tee seen
cat > expected <<'TEXT'
glibc, BRT3: 09:00 BRT, 09:00 BRT
glibc, <-03>3: 09:00 -03, 09:00 -03
glibc, <+0545>-5:45: 17:45 +0545, 17:45 +0545
glibc, WGT2WGST,M3.5.0/-1,M10.5.0/0: 10:00 WGT, 11:00 WGST
glibc, AAA5BBB: 07:00 AAA, 08:00 BBB
glibc, AAA5BBB,M3.2.0,M11.1.0: 07:00 AAA, 08:00 BBB
musl, BRT3: 09:00 BRT, 09:00 BRT
musl, <-03>3: 09:00 -03, 09:00 -03
musl, <+0545>-5:45: 17:45 +0545, 17:45 +0545
musl, WGT2WGST,M3.5.0/-1,M10.5.0/0: 10:00 WGT, 11:00 WGST
musl, AAA5BBB: 08:00 BBB, 08:00 BBB
musl, AAA5BBB,M3.2.0,M11.1.0: 07:00 AAA, 08:00 BBB
newlib, BRT3: 09:00 BRT, 09:00 BRT
newlib, <-03>3: 15:00 <, 09:00 >
newlib, <+0545>-5:45: -509:00 <, 17:45 >
newlib, WGT2WGST,M3.5.0/-1,M10.5.0/0: 11:00 WGST, 11:00 WGST
newlib, AAA5BBB: 07:00 AAA, 08:00 BBB
newlib, AAA5BBB,M3.2.0,M11.1.0: 07:00 AAA, 08:00 BBB
TEXT
diff expected seen && echo "as described: 18 of 18 lines"
