//! The tables that the processor needs before it takes an interrupt: segments, a task state, the interrupt table.
//!
//! # Safety
//!
//! *Own*: the data of a CPU (`Own`) is written before the CPU runs, or by the CPU itself while it starts; afterwards
//! only the processor writes to it. *Table*: the interrupt table is written by the first CPU before it unmasks
//! interrupts and before it starts another CPU. *Instructions*: each instruction loads the register that it names, from
//! memory that is never freed.

use core::arch::asm;
use core::cell::UnsafeCell;
use core::mem::offset_of;

use alloc::boxed::Box;

use crate::stack::stack;

use super::instructions::write_msr;

unsafe extern "C" {
    pub(super) fn entry_nmi();
    pub(super) fn entry_machine_check();
}

/// The vector of the device of each CPU.
pub(super) const TIMER: u8 = 0xe0;
/// The vector of the comparator that wakes CPUs whose own timer is stopped.
pub(super) const BROADCAST: u8 = 0xe4;
/// The vector by which CPUs interrupt each other.
pub(super) const CALL: u8 = 0xe8;
const SYSTEM_CALL: u8 = 0x80;
/// The vector of interrupts that were withdrawn too late.
pub(super) const STRAY: u8 = 0xff;

/// The register with the address of the [`Own`] of the executing CPU.
pub(super) const GS_BASE: u32 = 0xc000_0101;

const NMI: usize = 2;
const DOUBLE_FAULT: usize = 8;
const MACHINE_CHECK: usize = 18;
/// Bytes of each stack of the interrupts that may come at any instruction.
const STACK: usize = 16 * 1024;
const CODE: u64 = 0x08;
const TASK: u16 = 0x20;

/// The data of one CPU. Its number is at offset 0, where `gs` points to.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Own {
    pub(super) cpu: usize,
    segments: [u64; 7],
    /// The task state: in words of four bytes, because its fields of eight are not aligned.
    task: [u32; 26],
}

/// The entries from and to user mode read the stack of the kernel at this offset from `gs`.
const _: () = assert!(offset_of!(Own, task) + 4 == 68);

impl Own {
    pub(super) const fn new(cpu: usize) -> Self {
        Self {
            cpu,
            segments: [
                0,
                0x00af_9a00_0000_ffff,
                0x00cf_9200_0000_ffff,
                // The data of user mode, the task state in two, and the code of user mode.
                0x00cf_f200_0000_ffff,
                0,
                0,
                0x00af_fa00_0000_ffff,
            ],
            task: [0; 26],
        }
    }

    /// Allocates the data of a CPU that is to be started; the data is never freed.
    pub(super) fn leak(cpu: usize) -> &'static mut Self {
        Box::leak(Box::new(Self::new(cpu)))
    }

    /// Gives the CPU its stacks for the NMI, the double fault and the machine check.
    fn fill(&mut self) {
        let own = (&raw const *self).addr();
        for place in 0..3 {
            // The last word is the way to this.
            let top = stack(STACK) - 16;
            // SAFETY: *own*: the stack is the CPU's own, and nothing runs on it yet.
            unsafe { (top as *mut usize).write(own) };
            let top = top as u64;
            let [low, high] = halves(top);
            self.task[9 + 2 * place] = low;
            self.task[10 + 2 * place] = high;
        }
        let task = (&raw const self.task).addr() as u64;
        let limit = (size_of_val(&self.task) - 1) as u64;
        self.segments[4] =
            limit | (task & 0xff_ffff) << 16 | 0x89 << 40 | (task >> 24 & 0xff) << 56;
        self.segments[5] = task >> 32;
        // The task has no permissions for ports: they begin behind its end.
        self.task[25] = (size_of_val(&self.task) as u32) << 16;
    }
}

fn halves(value: u64) -> [u32; 2] {
    [value as u32, (value >> 32) as u32]
}

#[repr(C, packed)]
struct Pointer {
    limit: u16,
    base: u64,
}

#[repr(align(16))]
struct Table(UnsafeCell<[[u64; 2]; 256]>);

// SAFETY: *table*.
unsafe impl Sync for Table {}

static TABLE: Table = Table(UnsafeCell::new([[0; 2]; 256]));

/// Writes the interrupt table, once.
pub(super) fn write_table() {
    unsafe extern "C" {
        fn entry_exceptions();
        fn entry_timer();
        fn entry_call();
        fn entry_broadcast();
        fn entry_stray();
        fn entry_system_call();
    }
    let address = |entry: unsafe extern "C" fn()| entry as *const () as usize;
    let mut gates = [[0; 2]; 256];
    for (vector, place) in gates.iter_mut().enumerate() {
        *place = match vector {
            NMI => gate(address(entry_nmi), 1),
            DOUBLE_FAULT => gate(address(entry_exceptions) + 16 * vector, 2),
            MACHINE_CHECK => gate(address(entry_machine_check), 3),
            ..32 => gate(address(entry_exceptions) + 16 * vector, 0),
            _ if vector == usize::from(SYSTEM_CALL) => {
                let [low, high] = gate(address(entry_system_call), 0);
                // User mode may execute it.
                [low | 3 << 45, high]
            }
            _ if vector == usize::from(TIMER) => gate(address(entry_timer), 0),
            _ if vector == usize::from(CALL) => gate(address(entry_call), 0),
            _ if vector == usize::from(BROADCAST) => gate(address(entry_broadcast), 0),
            _ => gate(address(entry_stray), 0),
        };
    }
    // SAFETY: *table*.
    unsafe { TABLE.0.get().write(gates) };
}

/// Returns the gate of an interrupt that masks others. The interrupt uses the stack of this number or, for 0, the stack
/// that is in use.
fn gate(entry: usize, stack: u64) -> [u64; 2] {
    let entry = entry as u64;
    let low = entry & 0xffff | CODE << 16 | stack << 32 | 0x8e << 40 | (entry >> 16 & 0xffff) << 48;
    [low, entry >> 32]
}

/// Points the executing CPU to its own data.
pub(super) fn find_own(own: *const Own) {
    write_msr(GS_BASE, own.addr() as u64);
}

/// Loads segments, task state and interrupt table of the executing CPU.
///
/// # Safety
///
/// `own` belongs to the executing CPU, which calls this once, and is never freed.
pub(super) unsafe fn load(own: *mut Own) {
    // SAFETY: *own*.
    let own = unsafe { &mut *own };
    own.fill();
    let segments = Pointer {
        limit: (size_of_val(&own.segments) - 1) as u16,
        base: own.segments.as_ptr().addr() as u64,
    };
    let table = Pointer {
        limit: 0xfff,
        base: TABLE.0.get().addr() as u64,
    };
    // SAFETY: *instructions*.
    unsafe {
        asm!(
            "lgdt [{segments}]",
            "ltr {task:x}",
            "lidt [{table}]",
            segments = in(reg) &raw const segments,
            table = in(reg) &raw const table,
            task = in(reg) TASK,
            options(nostack),
        );
    }
}
