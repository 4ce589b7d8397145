//! The interface that every measured subject implements.

/// A queue of timers that one thread uses. The number of a slot identifies a timer; the subject keeps the slots.
///
/// Each operation MUST do the same work as a program that uses the library: compute deadlines in the library's own
/// unit, read the library's own clock, and keep the handle or object of each timer.
pub(crate) trait Subject: Sized {
    /// A point of the subject's clock.
    type Time: Copy;
    /// The environment in which the subject is used, for example an entered runtime or a worker.
    type Environment;

    /// True if the timers of the subject fire; the timers of a lower limit do not.
    const FIRES: bool = true;
    /// True if a timer is a future, which can be dropped before it was polled.
    const IS_FUTURE: bool = false;

    /// Calls `body` where the subject can be used.
    fn within<R>(body: impl FnOnce(&Self::Environment) -> R) -> R;

    /// Does the periodic work that the library expects of a thread besides its operations, such as the turn of a
    /// worker. Called at each reading of the clock that serves many operations; the measurement includes this work.
    #[inline]
    fn serve(place: &Self::Environment) {
        let _has_no_duties = place;
    }

    /// Makes the subject with `slots` slots, and one more slot for [`arm_and_cancel`](Self::arm_and_cancel).
    ///
    /// If `counts` is true, the subject MUST count the timers that fire. If it is false, the subject MAY skip the count
    /// to save time.
    fn new(place: &Self::Environment, slots: usize, counts: bool) -> Self;

    /// Reads the clock.
    fn now(&mut self) -> Self::Time;

    /// Returns the point `nanos` nanoseconds after `time`.
    fn later(time: Self::Time, nanos: u64) -> Self::Time;

    /// Arms a timer in an empty slot. Returns true if the timer waits to fire.
    fn arm(&mut self, slot: usize, deadline: Self::Time) -> bool;

    /// Cancels the timer of a slot and leaves the slot empty. Returns true if the slot had a timer.
    fn cancel(&mut self, slot: usize) -> bool;

    /// Gives the timer of a slot another deadline, earlier or later.
    fn push_out(&mut self, slot: usize, deadline: Self::Time);

    /// Arms a timer and cancels it. Returns true if the timer waited to fire.
    fn arm_and_cancel(&mut self, deadline: Self::Time) -> bool;

    /// Makes a future and drops it without a poll.
    fn drop_unpolled(&mut self, deadline: Self::Time) {
        let _not_a_future = deadline;
    }

    /// Returns true if the timer of a slot waits to fire.
    fn is_armed(&mut self, slot: usize) -> bool;

    /// Fires due timers, or waits a little if other threads fire them. Returns the number of timers that fired since
    /// the subject was made. Called only if the subject counts.
    fn fire(&mut self, place: &Self::Environment) -> u64;
}
