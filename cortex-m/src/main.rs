//! A Cortex-M program that uses the timers of the Tickless core, also for embassy.
//!
//! The program starts on a bare board, runs its [tests](suite), writes a report through the debugger and ends with a
//! [code](exit::Code). `run.sh` runs the program in an emulator; `docs/platforms.md` shows the measurements. To port the core to another board, copy [`host`]; to port the embassy driver, copy [`driver`]. All
//! code that depends on the hardware is in [`board`].
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

/// The memory for the timers of the tests, in bytes.
const HEAP_BYTES: usize = 1 << 20;

/// Runs as the first function of the program, with interrupts enabled.
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
