//! The functions that the machine enters: the start of a CPU, interrupts, system calls and faults.
//!
//! The first instructions of each of them are assembly of [`arch`](crate::arch), which calls these functions by their
//! symbols. So the code of a machine names nothing of the kernel above it.

use crate::machine;
use crate::parameters::Parameters;
use crate::{arch, processors, suite, watch};

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "riscv64")]
mod riscv64;
#[cfg(target_arch = "x86_64")]
mod x86_64;

/// The first function of each CPU, on its own stack, masked.
#[unsafe(no_mangle)]
extern "C" fn kernel_entry(cpu: usize) -> ! {
    if cpu != 0 {
        processors::secondary();
    }
    let parameters = Parameters::read();
    let machine = machine::start(&parameters);
    watch::begin(machine);
    arch::unmask();
    let code = suite::run(machine, &parameters);
    arch::exit(code as u32)
}
