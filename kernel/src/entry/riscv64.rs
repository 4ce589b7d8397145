//! The entries of riscv64.

use super::kernel_entry;
use crate::arch::{self, EXTERNAL, Interrupted, SOFTWARE, TIMER};
use crate::machine::machine;
use crate::{interrupt, user};

#[unsafe(no_mangle)]
extern "C" fn riscv64_entry(cpu: usize, hart: usize) -> ! {
    if cpu == 0 {
        arch::begin(hart);
    }
    kernel_entry(cpu)
}

/// Handles every trap except system calls and faults of user mode, with interrupts masked.
#[unsafe(no_mangle)]
extern "C" fn riscv64_trap(cause: u64, at: usize, value: u64, status: u64) {
    const WAS_KERNEL: u64 = 1 << 8;
    let entered = arch::counter();
    let interrupted = Interrupted {
        at,
        was_user: status & WAS_KERNEL == 0,
    };
    match cause {
        TIMER => interrupt::timer(entered, interrupted),
        SOFTWARE => {
            // Before it looks what is to be done: what comes later is another interrupt.
            arch::take_software();
            interrupt::ipi(entered);
        }
        EXTERNAL => {
            arch::take_watchdog();
            if !interrupt::try_watchdog() {
                interrupt::watchdog(machine().now());
            }
            return;
        }
        _ => interrupt::fault(format_args!("trap {cause:#x} at {at:#x}, value {value:#x}")),
    }
    interrupt::exit(interrupted);
}

/// Handles every system call and fault of user mode, with interrupts masked.
#[unsafe(no_mangle)]
extern "C" fn riscv64_user_trap(
    cause: u64,
    at: usize,
    address: usize,
    number: usize,
    argument: usize,
) -> user::Answer {
    const SYSTEM_CALL: u64 = 8;
    /// Faults of a fetch, a load and a store, by the memory or by the tables of pages.
    const FETCH: [u64; 2] = [1, 12];
    const ACCESS: [u64; 4] = [5, 7, 13, 15];
    match cause {
        SYSTEM_CALL => user::system_call(number, argument, at),
        cause if FETCH.contains(&cause) => {
            user::fault(format_args!("executes what it may not"), at, Some(address))
        }
        cause if ACCESS.contains(&cause) => {
            user::fault(format_args!("touches what it may not"), at, Some(address))
        }
        cause => user::fault(format_args!("causes exception {cause:#x}"), at, None),
    }
}
