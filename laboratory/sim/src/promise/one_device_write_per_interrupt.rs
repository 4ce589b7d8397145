//! `one_device_write_per_interrupt`: a timer interrupt writes its device once at most (INV-12).
//!
//! Checked at each flush point that carries out the rearm of an interrupt.

/// Describes the violation if an interrupt, together with the scheduler after it, programmed the device more than once.
pub(crate) fn programmed(writes: u32) -> Option<String> {
    (writes > 1).then(|| format!("its timer interrupt wrote the device {writes} times"))
}
