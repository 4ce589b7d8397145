#!/bin/sh
# Runs a cargo command for another system: xtask/on.sh SYSTEM test -p tickless --test any_host, or all suites of a kind
# of Linux: xtask/on.sh SYSTEM suites. Systems: aarch64 and riscv64 (by qemu-user, with Debian's linkers), i686 and musl
# (by this machine), wine (Windows: shows that the port is right; clock and sleeps are those of the system below).
set -eu
system=$1; shift
skips=
# An emulator that other tests share is slow: seconds after which a test counts as hung.
emulated() {
    export TICKLESS_EMULATOR="$1" QEMU_LD_PREFIX="$2" TICKLESS_PATIENCE=300
    # An emulator takes longer for these than they have.
    skips='one_wakes_up_for_all_that_is_due_at_an_instant the_descriptor_is_set_about_once_for_a_wake_up
        timers_that_a_turn_has_started_set_the_descriptor_once tasks::a_million_tasks_at_once'
    # Version 7.2 starts no thread in the child of a fork of a process that has threads, and ends it with 127.
    skips="$skips a_callback_of_another_thread_counts_as_finished_in_the_child a_child_sleeps_whose_clock_is_ahead
        a_child_sleeps_whose_clock_is_behind a_child_takes_the_bases_of_threads_that_it_does_not_have
        a_child_that_may_open_nothing_lives a_child_that_may_start_no_thread_executes_another_program
        a_child_uses_timers_for_the_first_time a_child_whose_clock_is_behind_reads_it_where_its_parent_was
        a_generation_of_forks_costs_little_memory a_thread_forks_again_when_its_thread_local_values_are_gone
        a_wake_up_of_one_process_is_not_taken_by_the_other a_worker_that_forks_is_a_worker_in_both_processes
        both_processes_go_on_using_timers coarse_timers_of_an_ended_thread_fire_in_both_processes
        forks_meet_other_threads_in_the_middle_of_everything the_descriptors_of_event_loops_are_two_after_a_fork
        timers_of_other_threads_are_not_queued_in_the_child
        timers_of_the_forking_thread_and_of_ended_ones_fire_in_both_processes
        reactor::a_thread_of_an_attached_runtime_forks reactor::forks_meet_runtimes_in_the_middle_of_everything
        fork::a_child_that_was_forked_in_a_poll_ends_with_it fork::the_child_of_a_fork_has_no_executor"
}
case $system in
aarch64)
    target=aarch64-unknown-linux-gnu
    emulated qemu-aarch64 /usr/aarch64-linux-gnu
    export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
    export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER=qemu-aarch64
    ;;
riscv64)
    target=riscv64gc-unknown-linux-gnu
    emulated qemu-riscv64 /usr/riscv64-linux-gnu
    export CARGO_TARGET_RISCV64GC_UNKNOWN_LINUX_GNU_LINKER=riscv64-linux-gnu-gcc
    export CARGO_TARGET_RISCV64GC_UNKNOWN_LINUX_GNU_RUNNER=qemu-riscv64
    ;;
i686)
    # Few machines have the libraries of 32 bits.
    target=i686-unknown-linux-gnu
    export CARGO_TARGET_I686_UNKNOWN_LINUX_GNU_LINKER=i686-linux-gnu-gcc
    export CARGO_TARGET_I686_UNKNOWN_LINUX_GNU_RUSTFLAGS=-Ctarget-feature=+crt-static
    ;;
musl) target=x86_64-unknown-linux-musl ;;
wine)
    # The standard library imports ProcessPrng, which wine 8 lacks: a library that calls the older function.
    target=x86_64-pc-windows-gnu
    export CARGO_TARGET_X86_64_PC_WINDOWS_GNU_RUNNER=wine WINEDEBUG=-all
    export WINEPATH="$PWD/target/wine" WINEPREFIX="$PWD/target/wine/prefix"
    mkdir -p target/wine
    x86_64-w64-mingw32-gcc -shared -nostdlib -Wl,-e,0 -o target/wine/bcryptprimitives.dll -x c - -ladvapi32 <<'C'
__declspec(dllimport) unsigned char __stdcall SystemFunction036(void *buffer, unsigned long length);
__declspec(dllexport) int __stdcall ProcessPrng(unsigned char *buffer, unsigned long long length) {
    while (length != 0) {
        unsigned long part = length > 0x10000000 ? 0x10000000 : (unsigned long)length;
        if (!SystemFunction036(buffer, part)) return 0;
        buffer += part;
        length -= part;
    }
    return 1;
}
C
    ;;
*) echo "there is no system $system: aarch64, riscv64, i686, musl, wine" >&2; exit 2 ;;
esac
if [ "$1" != suites ]; then
    command=$1; shift
    exec cargo "$command" --target $target "$@"
fi
all=
for test in $skips; do
    echo "left out by the emulator: $test"
    all="$all --skip $test"
done
status=0
cargo test --target $target -p tickless-link -p tickless-core -p tickless-sched --lib -- $all || status=1
cargo test --target $target -p tickless --tests --features hyper,macros,stream,tokio --no-fail-fast \
    -- $all || status=1
exit $status
