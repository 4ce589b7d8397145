//! A kernel whose timers are those of the Tickless core: real interrupts, real devices, several CPUs.
//!
//! The kernel starts on a bare machine, brings its CPUs up, runs its [tests](suite) on them, writes a report to the
//! serial line and ends with a [code](exit::Code). `cargo xtask kernel` builds the kernel and runs it in an emulator;
//! `docs/kernel.md` shows its parts and the measurements on it.
//!
//! A port of the core to another kernel copies [`host`], [`interrupt`], [`idle`] and [`machine`]; all code that depends
//! on the hardware is in [`arch`].
#![no_std]
#![no_main]

extern crate alloc;

mod arch;
mod clock;
mod console;
#[cfg(target_arch = "x86_64")]
mod deep;
mod embassy;
mod exit;
mod heap;
mod host;
mod idle;
mod interrupt;
mod isolation;
mod late;
mod lock;
mod machine;
mod parameters;
#[cfg(feature = "conformance")]
mod played;
mod suite;
mod thread;
mod trace;
mod user;

use core::panic::PanicInfo;

use crate::console::last_line;
use crate::exit::Code;
use crate::parameters::Parameters;

/// The first function of each CPU, on its own stack, masked.
#[unsafe(no_mangle)]
extern "C" fn kernel_entry(cpu: usize) -> ! {
    if cpu != 0 {
        machine::secondary();
    }
    let parameters = Parameters::read();
    let machine = machine::start(&parameters);
    arch::unmask();
    let code = suite::run(machine, &parameters);
    arch::exit(code as u32)
}

#[panic_handler]
fn panic(info: &PanicInfo<'_>) -> ! {
    arch::mask();
    last_line(format_args!("kernel: CPU {} panicked: {info}", arch::cpu()));
    arch::exit(Code::Panicked as u32)
}
