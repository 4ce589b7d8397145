//! A timer of the system in which a thread sleeps, on systems where it is more exact than condition variables.

/// A timer of the system together with a bell; one thread waits for both at once.
///
/// A wait MAY end before its time, or for no reason: the caller reads the clock, and waits again.
pub(crate) trait Sleeper: Send + Sync + Sized + 'static {
    /// Makes a sleeper for this thread; `None` if the system has none, or refuses.
    fn make() -> Option<Self>;

    /// Waits until another thread [rings](Self::ring), or `left` nanoseconds are over. Returns `false` if the system
    /// refuses to wait, for this and all later calls.
    ///
    /// Only the thread for which the sleeper was made calls this.
    fn sleep(&self, left: u64) -> bool;

    /// Ends the wait in progress, or the next one.
    fn ring(&self);
}
