//! `one_device_write_per_interrupt`: a timer interrupt writes its device once at most (INV-12).
//!
//! Checked at each flush point that pays what an interrupt owes.

/// Describes the violation if an interrupt, with the scheduler behind it, programmed the device more than once.
pub(crate) fn programmed(writes: u32) -> Option<String> {
    (writes > 1).then(|| format!("its timer interrupt wrote the device {writes} times"))
}
