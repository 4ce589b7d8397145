//! A timer of the system in which a thread sleeps, on systems where it is more exact than condition variables.

/// A timer of the system and a bell, on which one thread waits together.
///
/// A wait MAY end before its time, and for no reason: the caller looks at the clock, and waits again.
pub(crate) trait Sleeper: Send + Sync + Sized + 'static {
    /// Makes one for this thread; `None` if the system has none, or refuses.
    fn make() -> Option<Self>;

    /// Waits until another thread [rings](Self::ring), or `left` nanoseconds are over. Returns `false` if the system
    /// refuses to wait, now and from here on.
    ///
    /// Only the thread that it was made for calls this.
    fn sleep(&self, left: u64) -> bool;

    /// Ends the wait that goes on, or the next one.
    fn ring(&self);
}
