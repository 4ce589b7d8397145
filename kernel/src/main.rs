//! A kernel whose timers are those of the Tickless core: real interrupts, real devices, several CPUs.
//!
//! The kernel starts on a bare machine, brings its CPUs up, runs its [tests](suite) on them, writes a report to the
//! serial line and ends with a [code](exit::Code). `cargo xtask kernel` builds the kernel and runs it in an emulator;
//! `docs/kernel.md` shows its parts and the measurements on it.
//!
//! A port of the core to another kernel copies [`host`], [`interrupt`], [`idle`] and [`machine`], and [`tasks`] where it
//! has threads; none of them calls a test. All code that depends on the hardware is in [`arch`]. The arrows between the
//! files make no circle (`cargo xtask structure kernel`).
#![no_std]
#![no_main]

extern crate alloc;

mod arch;
mod classes;
mod clock;
mod console;
#[cfg(target_arch = "x86_64")]
mod deep;
mod entry;
mod exit;
mod fault;
mod heap;
mod host;
mod idle;
mod interrupt;
mod isolation;
mod late;
mod lock;
mod machine;
mod note;
mod parameters;
#[cfg(feature = "conformance")]
mod played;
mod processors;
mod serial;
mod soft;
mod stack;
mod suite;
mod tasks;
mod thread;
mod trace;
mod user;
mod watch;

use core::panic::PanicInfo;

use crate::exit::{Code, end};

#[panic_handler]
fn panic(info: &PanicInfo<'_>) -> ! {
    arch::mask();
    end(
        Code::Panicked,
        format_args!("kernel: CPU {} panicked: {info}", arch::cpu()),
    )
}
