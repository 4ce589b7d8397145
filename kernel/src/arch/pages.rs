//! The page tables of the kernel, which map each address to itself. The kernel may access all memory; programs in user
//! mode may access only the pages of user mode.
//!
//! ```text
//!   root    512 times 1 GiB     devices, and the memory above that of the kernel
//!   huge    512 times 2 MiB     the gigabyte of the kernel
//!   leaf    512 times 4 KiB     the two megabytes that user mode lies in: its code, its stacks, the kernel around them
//! ```
//!
//! # Safety
//!
//! *Tables*: the first CPU writes the tables once, before any CPU translates addresses by them. Afterwards only
//! processors read the tables.

use core::cell::UnsafeCell;
use core::ptr;

const PAGE: usize = 1 << 12;
const HUGE: usize = 1 << 21;
#[cfg(not(target_arch = "x86_64"))]
const GIGABYTE: usize = 1 << 30;

unsafe extern "C" {
    static __user_start: u8;
    static user_stacks: u8;
    static __user_end: u8;
}

/// The purpose of a range of memory, which decides the access rights in its entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Registers of devices, for the kernel.
    #[cfg(not(target_arch = "x86_64"))]
    Device,
    /// Memory of the kernel.
    Kernel,
    /// Instructions of user mode.
    Code,
    /// A stack of user mode.
    Stack,
}

#[repr(C, align(4096))]
pub(super) struct Table(UnsafeCell<[u64; 512]>);

// SAFETY: *tables*.
unsafe impl Sync for Table {}

impl Table {
    const fn new() -> Self {
        Self(UnsafeCell::new([0; 512]))
    }

    pub(super) fn address(&self) -> usize {
        self.0.get().addr()
    }

    fn write(&self, entries: impl Iterator<Item = u64>) {
        let mut all = [0; 512];
        for (place, entry) in all.iter_mut().zip(entries) {
            *place = entry;
        }
        // SAFETY: *tables*.
        unsafe { self.0.get().write(all) };
    }
}

#[cfg(not(target_arch = "x86_64"))]
static ROOT: Table = Table::new();
#[cfg(not(target_arch = "x86_64"))]
static HUGES: Table = Table::new();
static LEAVES: Table = Table::new();

/// Returns the address at which user mode begins.
pub(super) fn user_start() -> usize {
    ptr::addr_of!(__user_start).addr()
}

/// Writes the table of 4 KiB pages around user mode. `entry` makes the entry for an address and a purpose.
pub(super) fn write_leaves(entry: fn(usize, Purpose) -> u64) -> &'static Table {
    let code = user_start()..ptr::addr_of!(user_stacks).addr();
    let stacks = code.end..ptr::addr_of!(__user_end).addr();
    let begin = code.start & !(HUGE - 1);
    LEAVES.write((begin..begin + HUGE).step_by(PAGE).map(|address| {
        let purpose = if code.contains(&address) {
            Purpose::Code
        } else if stacks.contains(&address) {
            Purpose::Stack
        } else {
            Purpose::Kernel
        };
        entry(address, purpose)
    }));
    &LEAVES
}

/// Writes all tables, for the first `gigabytes`, and returns the address of the root. `entry` makes an entry that maps
/// memory, and receives a flag that is true for a single page; `table` makes an entry that refers to a table.
#[cfg(not(target_arch = "x86_64"))]
pub(super) fn write_all(
    gigabytes: usize,
    entry: fn(usize, Purpose) -> u64,
    leaf: fn(usize, Purpose) -> u64,
    table: fn(usize) -> u64,
) -> usize {
    let leaves = write_leaves(leaf).address();
    let user = user_start();
    let begin = user & !(GIGABYTE - 1);
    HUGES.write((begin..begin + GIGABYTE).step_by(HUGE).map(|address| {
        if address == user & !(HUGE - 1) {
            table(leaves)
        } else {
            entry(address, Purpose::Kernel)
        }
    }));
    ROOT.write((0..gigabytes).map(|gigabyte| match gigabyte * GIGABYTE {
        address if address == begin => table(HUGES.address()),
        address => entry(address, Purpose::Device),
    }));
    ROOT.address()
}
