//! The report and the end of the program. Both use the calls of a debugger, which the emulator implements.

/// The exit code of the program. It is never 0, because a machine that resets itself exits with 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Code {
    Passed = 33,
    Failed = 35,
    Panicked = 37,
}

/// Writes a line of the report.
macro_rules! say {
    ($($text:tt)*) => {{
        // `hprintln` adds the end of the line to a literal, and a literal that it puts together captures no variable.
        cortex_m_semihosting::hprintln!("{}", format_args!($($text)*));
    }};
}
pub(crate) use say;

pub(crate) fn exit(code: Code) -> ! {
    /// The number of the debugger call that ends the program with an exit code.
    const EXIT_EXTENDED: usize = 0x20;
    /// The cause that the call requires for an end with an exit code.
    const APPLICATION_EXIT: u32 = 0x2_0026;
    let block = [APPLICATION_EXIT, code as u32];
    loop {
        // SAFETY: the call reads two words at the address of `block`.
        unsafe {
            cortex_m_semihosting::syscall1(EXIT_EXTENDED, block.as_ptr().addr());
        }
    }
}
