//! The entries of x86-64.

use super::kernel_entry;
use crate::arch::{self, Interrupted, Own, machine_check};
use crate::exit::{Code, end};
use crate::{interrupt, user};

#[unsafe(no_mangle)]
extern "C" fn x86_64_entry(own: *mut Own, start_info: usize) -> ! {
    if let Err(reason) = arch::begin(own, start_info) {
        end(
            Code::Unusable,
            format_args!("kernel: this machine cannot be used: {reason}"),
        );
    }
    kernel_entry(arch::cpu())
}

/// Returns the position of an interrupt from the words that the processor pushed: the code segment says the mode.
fn interrupted(at: usize, code: u64) -> Interrupted {
    Interrupted {
        at,
        was_user: code & 3 != 0,
    }
}

#[unsafe(no_mangle)]
extern "C" fn x86_64_timer(at: usize, code: u64) {
    let entered = arch::counter();
    let interrupted = interrupted(at, code);
    interrupt::timer(entered, interrupted);
    arch::end_interrupt();
    interrupt::exit(interrupted);
}

#[unsafe(no_mangle)]
extern "C" fn x86_64_broadcast(at: usize, code: u64) {
    interrupt::broadcast(arch::counter());
    arch::end_interrupt();
    interrupt::exit(interrupted(at, code));
}

#[unsafe(no_mangle)]
extern "C" fn x86_64_call(at: usize, code: u64) {
    interrupt::ipi(arch::counter());
    arch::end_interrupt();
    interrupt::exit(interrupted(at, code));
}

/// Handles an interrupt that was withdrawn too late, of which the controller has no record.
#[unsafe(no_mangle)]
extern "C" fn x86_64_stray() {
    interrupt::stray();
}

/// Handles an NMI, which comes at any instruction: under a lock, and on top of a writer of the clock.
#[unsafe(no_mangle)]
extern "C" fn x86_64_nmi() {
    if interrupt::try_watchdog() {
        return;
    }
    if arch::is_limit_over() {
        interrupt::watchdog_on_top();
    } else {
        interrupt::masked();
    }
}

/// Handles a machine check, which comes at any instruction, on top of an NMI, too.
#[unsafe(no_mangle)]
extern "C" fn x86_64_machine_check(at: usize) {
    interrupt::machine_check(at, machine_check::end);
}

#[unsafe(no_mangle)]
extern "C" fn x86_64_system_call(number: usize, argument: usize, at: usize) -> user::Answer {
    user::system_call(number, argument, at)
}

/// Handles every exception of user mode except those that have a stack of their own.
#[unsafe(no_mangle)]
extern "C" fn x86_64_user_fault(vector: u64, code: u64, at: usize, address: usize) -> user::Answer {
    const PAGE_FAULT: u64 = 14;
    match vector {
        PAGE_FAULT if address == at => {
            user::fault(format_args!("executes what it may not"), at, Some(address))
        }
        PAGE_FAULT => user::fault(format_args!("touches what it may not"), at, Some(address)),
        _ => user::fault(
            format_args!("causes exception {vector} of code {code:#x}"),
            at,
            None,
        ),
    }
}

/// Handles every exception of the kernel except the NMI and the machine check.
#[unsafe(no_mangle)]
extern "C" fn x86_64_fault(vector: u64, code: u64, at: u64, address: u64) -> ! {
    interrupt::fault(format_args!(
        "exception {vector} of code {code:#x} at {at:#x}, address {address:#x}"
    ))
}
