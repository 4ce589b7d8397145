//! Threads, each with a stack of its own; a CPU executes one thread at a time.
//!
//! A switch saves the registers that a call preserves on the stack of the thread that leaves, and restores them from
//! the stack of the other thread. A thread that was preempted also has the registers that the interrupt saved on its
//! stack. It continues at the end of the interrupt that took the CPU from it.
//!
//! # Safety
//!
//! *Turns*: the stack pointer of a thread is stored while the thread does not run, and the switch that lets the thread
//! run takes it. So no two CPUs, and no two switches, use the same stack. *Stack*: the memory of a stack is used for
//! nothing else, and a thread is started again only while it does not run.

use core::sync::atomic::{AtomicUsize, Ordering};

use crate::arch::{self, FRAME};
use crate::stack::stack;

/// Bytes of a stack: for the body, an interrupt, its soft stage, and an interrupt on top of the soft stage.
const STACK: usize = 32 * 1024;
/// The value of an unused word of a stack.
const UNUSED: usize = 0x5a5a_5a5a_5a5a_5a5a;

unsafe extern "C" {
    fn switch_stacks(keep: *mut usize, other: usize);
    fn thread_begins();
}

#[derive(Debug)]
pub(crate) struct Thread {
    /// The upper end of the thread's stack; 0 for the first thread of a CPU, which has the stack of the start.
    top: usize,
    /// Bytes of its stack.
    size: usize,
    /// The stack pointer of the thread while it does not run; 0 while it runs.
    pointer: AtomicUsize,
}

impl Thread {
    /// Makes the thread that the executing CPU already runs.
    pub(crate) const fn running() -> Self {
        Self {
            top: 0,
            size: 0,
            pointer: AtomicUsize::new(0),
        }
    }

    /// Makes a thread with a stack, without a body yet.
    pub(crate) fn new() -> Self {
        Self::with_stack(STACK)
    }

    /// Makes a thread with a stack of `size` bytes, without a body yet.
    pub(crate) fn with_stack(size: usize) -> Self {
        let top = stack(size);
        for place in (top - size..top).step_by(8) {
            // SAFETY: *stack*.
            unsafe { (place as *mut usize).write(UNUSED) };
        }
        Self {
            top,
            size,
            pointer: AtomicUsize::new(0),
        }
    }

    /// Returns the number of bytes of the thread's stack that were ever used.
    pub(crate) fn used(&self) -> usize {
        let is_unused = |place: &usize| {
            // SAFETY: *stack*: the thread does not run, and another word is as good.
            let word = unsafe { (*place as *const usize).read_volatile() };
            word == UNUSED
        };
        let places = (self.top - self.size..self.top).step_by(8);
        self.size - 8 * places.take_while(is_unused).count()
    }

    /// Starts a thread with `body(argument)`. The thread does not run, and never continues at its former position.
    ///
    /// # Panics
    ///
    /// When it has no stack.
    pub(crate) fn begin(&self, body: fn(usize), argument: usize) {
        assert!(self.top > FRAME.words * 8, "it has no stack of its own");
        let bottom = self.top - FRAME.words * 8;
        let mut words = [0; 16];
        words[FRAME.first] = body as *const () as usize;
        words[FRAME.second] = argument;
        words[FRAME.goes_on] = thread_begins as *const () as usize;
        for (place, &word) in words[..FRAME.words].iter().enumerate() {
            // SAFETY: *stack*: the words lie at its upper end.
            unsafe { ((bottom + 8 * place) as *mut usize).write(word) };
        }
        // Relaxed: a thread runs on the CPU that began it.
        self.pointer.store(bottom, Ordering::Relaxed);
    }
}

/// Continues with `to` in place of `from`, which executes this. Called and returns with interrupts masked: another
/// switch happens in between.
///
/// # Panics
///
/// When `to` runs, or has no body to execute.
pub(crate) fn switch(from: &Thread, to: &Thread) {
    // Relaxed: as in `begin`.
    let other = to.pointer.swap(0, Ordering::Relaxed);
    assert!(other != 0, "a thread runs once at a time");
    // SAFETY: *turns*: what was kept is the pointer of a thread that does not run, whose frame a switch or `begin`
    // wrote.
    unsafe { switch_stacks(from.pointer.as_ptr(), other) };
}

#[unsafe(no_mangle)]
extern "C" fn kernel_thread(body: usize, argument: usize) -> ! {
    arch::unmask();
    // SAFETY: `begin` wrote it: a function.
    let body = unsafe { core::mem::transmute::<usize, fn(usize)>(body) };
    body(argument);
    panic!("the body of a thread has an end");
}
