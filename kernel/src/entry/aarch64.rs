//! The entries of aarch64.

use crate::arch::{self, IPI, Interrupted, NONE, TIMER, WATCHDOG};
use crate::machine::machine;
use crate::{interrupt, user};

/// Handles every interrupt, with interrupts masked.
#[unsafe(no_mangle)]
extern "C" fn aarch64_interrupt(at: usize, state: u64) {
    let (entered, which) = arch::take_interrupt();
    let interrupted = Interrupted {
        at,
        was_user: state & 0xf == 0,
    };
    let number = (which & 0xff_ffff) as u32;
    if number >= NONE {
        interrupt::stray();
        return;
    }
    match number {
        TIMER => interrupt::timer(entered, interrupted),
        IPI => interrupt::ipi(entered),
        // Its line is up until the comparator or the control register is written.
        WATCHDOG if interrupt::try_watchdog() => arch::stop_watchdog(),
        WATCHDOG => interrupt::watchdog(machine().now()),
        _ => interrupt::stray(),
    }
    arch::end_interrupt(which);
    // The watchdog may come on top of any code, as on the other machines.
    if number != WATCHDOG {
        interrupt::exit(interrupted);
    }
}

/// Handles every system call and fault of user mode, with interrupts masked.
#[unsafe(no_mangle)]
extern "C" fn aarch64_user_trap(
    syndrome: u64,
    at: usize,
    address: usize,
    number: usize,
    argument: usize,
) -> user::Answer {
    const SYSTEM_CALL: u64 = 0x15;
    /// The kinds of faults for which the fault address register is valid.
    const FETCH: u64 = 0x20;
    const ACCESS: u64 = 0x24;
    match syndrome >> 26 {
        SYSTEM_CALL => user::system_call(number, argument, at),
        FETCH => user::fault(format_args!("executes what it may not"), at, Some(address)),
        ACCESS => user::fault(format_args!("touches what it may not"), at, Some(address)),
        kind => user::fault(format_args!("causes exception {kind:#x}"), at, None),
    }
}

/// Handles every exception that is not an interrupt: ends the run.
#[unsafe(no_mangle)]
extern "C" fn aarch64_fault(syndrome: u64, at: u64, address: u64) -> ! {
    interrupt::fault(format_args!(
        "exception {syndrome:#x} at {at:#x}, address {address:#x}"
    ))
}
