#!/bin/sh
# Runs a program for Cortex-M in an emulator that counts instructions for time. A program for a Cortex-M0 runs on the
# board of the Cortex-M3, which executes all instructions of a Cortex-M0. The emulator runs on one processor, because on
# two its own threads race for its timers. A program that passed ends with 33, never 0: so does a machine that resets.
on=
command -v taskset > /dev/null && on="taskset --cpu-list $(taskset -cp $$ | sed 's/.*: //; s/[-,].*//')"
timeout -k 5 120 $on qemu-system-arm -machine mps2-an385 -nographic -no-reboot -monitor none -serial none -nic none \
    -icount shift=0,sleep=off -semihosting-config enable=on,target=native -kernel "$1"
case $? in
33) exit 0 ;;
35) echo "a test on Cortex-M failed" ;;
37) echo "the program on Cortex-M panicked" ;;
124 | 137) echo "the program on Cortex-M said nothing any more" ;;
*) echo "the machine ended without a word of the program" ;;
esac
exit 1
