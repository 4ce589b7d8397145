//! A Cortex-M program whose timers, and embassy's, are those of the Tickless core.
//!
//! It starts on a bare board, runs its [tests](suite), writes a report through the debugger and ends with a
//! [code](exit::Code). `cargo xtask cortex-m` builds and runs it in an emulator; `docs/platforms.md` shows what was
//! measured. A port of the core to another board copies [`host`], and of its embassy driver [`driver`]; everything that
//! knows the hardware is in [`board`].
#![no_std]
#![no_main]

extern crate alloc;

mod block_on;
mod board;
mod driver;
mod exit;
mod host;
mod suite;

use core::mem::MaybeUninit;
use core::panic::PanicInfo;

use cortex_m_rt::entry;
use embedded_alloc::LlffHeap as Heap;

use crate::exit::{Code, exit, say};

#[global_allocator]
static HEAP: Heap = Heap::empty();

/// Bytes of memory for the timers of the tests.
const HEAP_BYTES: usize = 1 << 20;

/// The first function, with interrupts let in.
#[entry]
fn start() -> ! {
    let memory =
        cortex_m::singleton!(: [MaybeUninit<u8>; HEAP_BYTES] = [MaybeUninit::uninit(); HEAP_BYTES]);
    let memory = memory.expect("a program starts once");
    // SAFETY: the memory is the heap's alone, for ever, and this is the one call.
    unsafe { HEAP.init(memory.as_mut_ptr().addr(), HEAP_BYTES) };
    host::start();
    exit(suite::run())
}

#[panic_handler]
fn panic(info: &PanicInfo<'_>) -> ! {
    cortex_m::interrupt::disable();
    say!("cortex-m: {info}");
    exit(Code::Panicked)
}
