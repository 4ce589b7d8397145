//! The parameters of a run: a line of `name=value`, which the emulator puts into memory.
//!
//! # Safety
//!
//! *Page*: the emulator fills the page before the machine starts. The bytes after the text are zero, and nothing writes
//! to the page.

use core::ffi::CStr;
use core::ptr;

unsafe extern "C" {
    static __parameters: u8;
}

/// The parameters of a run, from its command line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Parameters {
    /// The number of CPUs of the machine.
    pub(crate) cpus: u32,
    /// The names of the tests to run, with commas between them; `None` for all tests.
    pub(crate) test: Option<&'static str>,
    /// True if one instruction takes one nanosecond: times are exact, and asserted.
    pub(crate) is_exact: bool,
    /// True if the device is programmed with delays, even where it could compare with a deadline.
    pub(crate) is_relative: bool,
}

impl Parameters {
    /// Reads the parameters that the emulator left. A parameter that is missing or makes no sense has its default.
    pub(crate) fn read() -> Self {
        let page = ptr::addr_of!(__parameters).cast();
        // SAFETY: *page*.
        let text = unsafe { CStr::from_ptr(page) };
        let text = text.to_str().unwrap_or_default();
        let mut parameters = Self {
            cpus: 1,
            test: None,
            is_exact: false,
            is_relative: false,
        };
        for word in text.split_ascii_whitespace() {
            match word.split_once('=').unwrap_or((word, "")) {
                ("cpus", count) => parameters.cpus = count.parse().unwrap_or(1),
                ("test", name) => parameters.test = Some(name),
                ("icount", _) => parameters.is_exact = true,
                ("relative", _) => parameters.is_relative = true,
                _ => {}
            }
        }
        parameters
    }
}
