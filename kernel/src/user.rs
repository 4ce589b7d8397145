//! User mode: a thread of the kernel executes a program without privileges, and continues in the kernel when the
//! program ends.
//!
//! [`execute`] leaves the kernel. Each interrupt, system call and fault of the program enters the kernel again, on the
//! stack of the thread, right below the frame of `execute`. So a thread in user mode is preempted as any other is. The
//! exit of an interrupt knows whether it returns to user mode: then its flush point is that of a return to user mode
//! (FLUSH-1), unless it chooses another thread. System calls flush nothing (FLUSH-2), because the exit of the last
//! interrupt carried out the write of the device.
//!
//! Programs lie in pages of their own, each with a page for its stack. The page tables give user mode access to these
//! pages alone: a program that touches the kernel ends, and the kernel continues.
//!
//! # Safety
//!
//! *Program*: the entries are in the pages of user mode. Nothing writes to the code in these pages, and Rust code has
//! no value there. *Stack*: when user mode ends, the stack pointer of the kernel is that of `execute` again (the
//! machine's `enter_user` left it to the entry), so nothing changed the frames of its callers.

use core::fmt;
use core::ptr;

use crate::arch;
use crate::console::say;
use crate::note::{Count, Note};

/// The number of programs that can run at once: each has a stack of its own.
pub(crate) const STACKS: usize = 8;
/// Bytes of each stack: a page.
const STACK: usize = 4096;

/// The system call that ends its program.
const EXIT: usize = 0;
/// The system call that works in the kernel for a number of rounds, and returns whether the program is to end.
const WORK: usize = 1;

unsafe extern "C" {
    static __user_start: u8;
    static user_stacks: u8;
    fn user_rounds();
    fn user_forever();
    fn user_reads();
    fn user_writes();
    fn user_jumps();
    fn user_usurps();
    fn user_asks();
    fn enter_user(entry: usize, stack: usize, first: usize, second: usize) -> Answer;
}

/// True if the programs are to end at their next system call that works.
pub(crate) static MUST_END: Note = Note::new();
pub(crate) static CALLS: Count = Count::new();

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Program {
    /// Counts down from its first argument and works in the kernel, alternately, until it is to end.
    Rounds,
    /// Runs for ever, and gives up the CPU at no point.
    Forever,
    /// Reads at its first argument.
    Reads,
    /// Writes at its first argument.
    Writes,
    /// Continues at its first argument.
    Jumps,
    /// Changes the state of the processor.
    Usurps,
    /// Makes a system call that does not exist.
    Asks,
}

impl Program {
    fn entry(self) -> usize {
        let entry = match self {
            Self::Rounds => user_rounds,
            Self::Forever => user_forever,
            Self::Reads => user_reads,
            Self::Writes => user_writes,
            Self::Jumps => user_jumps,
            Self::Usurps => user_usurps,
            Self::Asks => user_asks,
        };
        entry as *const () as usize
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    Exited(usize),
    /// The program did what user mode must not do, at an address, or 0 where no address was to blame.
    Faulted(usize),
}

/// The kernel's answer to a system call or a fault, in two registers: the fate of the program, and a value.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Answer {
    /// 0 if the program continues, with the value.
    fate: usize,
    value: usize,
}

const GOES_ON: usize = 0;
const EXITED: usize = 1;
const FAULTED: usize = 2;

/// Executes a program on the stack `place`, until the program ends. Called and returns with interrupts masked;
/// interrupts come in between.
///
/// # Panics
///
/// When no such stack exists.
pub(crate) fn execute(program: Program, place: usize, arguments: [usize; 2]) -> Ended {
    assert!(place < STACKS, "there are {STACKS} stacks");
    let stack = ptr::addr_of!(user_stacks).addr() + STACK * (place + 1);
    let [first, second] = arguments;
    // SAFETY: *program*, *stack*.
    let answer = unsafe { enter_user(program.entry(), stack, first, second) };
    match answer.fate {
        EXITED => Ended::Exited(answer.value),
        _ => Ended::Faulted(answer.value),
    }
}

/// Returns true if `address` is that of an instruction of a program.
pub(crate) fn holds(address: usize) -> bool {
    (ptr::addr_of!(__user_start).addr()..ptr::addr_of!(user_stacks).addr()).contains(&address)
}

/// Executes a system call of a program. Called masked.
pub(crate) fn system_call(number: usize, argument: usize, at: usize) -> Answer {
    CALLS.add(1);
    match number {
        EXIT => Answer {
            fate: EXITED,
            value: argument,
        },
        WORK => {
            arch::unmask();
            for round in 0..argument {
                core::hint::black_box(round);
            }
            arch::mask();
            Answer {
                fate: GOES_ON,
                value: usize::from(MUST_END.is_there()),
            }
        }
        _ => fault(format_args!("makes system call {number}"), at, None),
    }
}

/// Ends a program that did what user mode must not do. Called masked.
pub(crate) fn fault(what: fmt::Arguments<'_>, at: usize, address: Option<usize>) -> Answer {
    match address {
        Some(address) => say!("  user mode: ended at {at:#x}: it {what}, {address:#x}"),
        None => say!("  user mode: ended at {at:#x}: it {what}"),
    }
    Answer {
        fate: FAULTED,
        value: address.unwrap_or(0),
    }
}
