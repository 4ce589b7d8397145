//! The differences between machines. Each machine's module has the same functions, and the rest of the kernel calls
//! only these. The module of the PC says what each does; the others say how theirs differ.

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "aarch64")]
pub(crate) use aarch64::*;

#[cfg(not(target_arch = "x86_64"))]
mod coupled;
#[cfg(not(target_arch = "x86_64"))]
pub(crate) use coupled::*;

mod interface;
mod pages;

pub(crate) use interface::*;

#[cfg(target_arch = "x86_64")]
mod x86_64;
#[cfg(target_arch = "x86_64")]
pub(crate) use x86_64::*;

#[cfg(target_arch = "riscv64")]
mod riscv64;
#[cfg(target_arch = "riscv64")]
pub(crate) use riscv64::*;
