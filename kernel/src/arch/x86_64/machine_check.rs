//! Machine checks: the exception by which a processor reports an error of the hardware, and the records of the error.
//!
//! The exception comes at any instruction, masked or not. The processor leaves a record of each error in a bank of
//! registers. A status register reports if the interrupted code may continue. A machine check during another one shuts
//! the processor down, so a handler that returns clears the status last.
//!
//! # Safety
//!
//! *Instructions*: each instruction accesses the register that it names, and no memory of a program.

use core::arch::asm;
use core::arch::x86_64::__cpuid;
use core::fmt;

use super::instructions::{read_msr, write_msr};

const CAPABILITIES: u32 = 0x179;
const STATUS: u32 = 0x17a;
const CONTROL: u32 = 0x17b;
/// The registers of the banks, four for each: control, status, address, and the rest.
const BANKS: u32 = 0x400;

/// The bit of the capabilities that reports the control register.
const HAS_CONTROL: u64 = 1 << 8;
/// The bits of the status: the interrupted code may continue, and a machine check is in progress.
const RESTARTABLE: u64 = 1;
const IN_PROGRESS: u64 = 1 << 2;
/// The bits of a bank's status: the bank holds a record, and the processor did not correct the error.
const VALID: u64 = 1 << 63;
const UNCORRECTED: u64 = 1 << 61;

fn control_of(bank: u32) -> u32 {
    BANKS + 4 * bank
}

fn status_of(bank: u32) -> u32 {
    control_of(bank) + 1
}

fn banks() -> impl Iterator<Item = u32> {
    0..(read_msr(CAPABILITIES) & 0xff) as u32
}

/// Lets the executing CPU take machine checks. Until then an error shuts the processor down. Does nothing if the
/// processor has no machine checks.
pub(super) fn init() {
    const HAS_EXCEPTION: u32 = 1 << 7;
    const HAS_BANKS: u32 = 1 << 14;
    let has = __cpuid(1).edx;
    if has & HAS_BANKS != 0 {
        if read_msr(CAPABILITIES) & HAS_CONTROL != 0 {
            write_msr(CONTROL, u64::MAX);
        }
        for bank in banks() {
            // On some processors the first bank is the firmware's.
            if bank != 0 {
                write_msr(control_of(bank), u64::MAX);
            }
            write_msr(status_of(bank), 0);
        }
    }
    if has & HAS_EXCEPTION != 0 {
        // SAFETY: *instructions*.
        unsafe {
            asm!("mov {0}, cr4", "or {0}, 0x40", "mov cr4, {0}", out(reg) _, options(nostack));
        }
    }
}

/// The reason why the code that a machine check interrupted cannot continue.
#[derive(Debug)]
pub(crate) enum Lost {
    /// The processor does not know where to continue; its status.
    Unrestartable(u64),
    /// A bank, and its record of an error that the processor did not correct.
    Uncorrected(u32, u64),
}

impl fmt::Display for Lost {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unrestartable(status) => {
                write!(formatter, "status {status:#x} lets nothing continue")
            }
            Self::Uncorrected(bank, status) => {
                write!(formatter, "uncorrected error {status:#x} in bank {bank}")
            }
        }
    }
}

/// Reads the records of the machine check in progress. If the interrupted code may continue, clears the records and
/// ends the machine check.
///
/// # Errors
///
/// The reason why the interrupted code cannot continue.
pub(crate) fn end() -> Result<(), Lost> {
    let status = read_msr(STATUS);
    let recorded = |&bank: &u32| read_msr(status_of(bank)) & VALID != 0;
    for bank in banks().filter(recorded) {
        let record = read_msr(status_of(bank));
        if record & UNCORRECTED != 0 {
            return Err(Lost::Uncorrected(bank, record));
        }
        write_msr(status_of(bank), 0);
    }
    if status & RESTARTABLE == 0 {
        return Err(Lost::Unrestartable(status));
    }
    write_msr(STATUS, 0);
    Ok(())
}

/// The kind of a machine check that software raises.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Raised {
    /// The interrupted code may continue: a bank records an error that the processor corrected.
    Corrected,
    /// The interrupted code cannot continue.
    Unrestartable,
    /// A bank records an error that the processor did not correct.
    Uncorrected,
}

/// Raises a machine check on the executing CPU by an instruction.
///
/// It differs from one of the hardware in three ways. It comes behind an instruction of its own, not at any
/// instruction. The instruction, not the processor, is what calls the handler, so the status and the record are written
/// here; a real processor refuses such records, QEMU's translator accepts them. And a second one during the first does
/// not shut the processor down.
pub(crate) fn raise(kind: Raised) {
    record(kind);
    // SAFETY: *instructions*. The handler leaves all registers as they were, and what lies on the stack.
    unsafe { asm!("int 18") };
}

/// Writes the status and the record of an error.
pub(super) fn record(kind: Raised) {
    let (status, record) = match kind {
        Raised::Corrected => (IN_PROGRESS | RESTARTABLE, VALID),
        Raised::Unrestartable => (IN_PROGRESS, 0),
        Raised::Uncorrected => (IN_PROGRESS | RESTARTABLE, VALID | UNCORRECTED),
    };
    if let Some(bank) = banks().last() {
        write_msr(status_of(bank), record);
    }
    write_msr(STATUS, status);
}

/// Returns true if no record of an error is left.
pub(crate) fn is_clear() -> bool {
    read_msr(STATUS) == 0 && banks().all(|bank| read_msr(status_of(bank)) == 0)
}
