//! The one interface of all measured subjects.

/// A queue of timers, as one thread uses it. Timers are known by their slots, which the subject keeps.
///
/// Each operation MUST do what a program that uses this library would have to: compute deadlines in the library's own
/// unit, read its own clock, and hold on to whatever stands for a timer.
pub(crate) trait Subject: Sized {
    /// A point of the subject's clock.
    type Time: Copy;
    /// The place that the subject is used in: a runtime that was entered, a worker.
    type Place;

    /// True if its timers fire; those of a limit do not.
    const FIRES: bool = true;
    /// True if a timer is a future, which can be dropped before it was polled.
    const IS_FUTURE: bool = false;

    /// Calls `body` where the subject can be used.
    fn within<R>(body: impl FnOnce(&Self::Place) -> R) -> R;

    /// Does what the library expects of a thread now and then, beside its operations: a worker takes its turn. Called
    /// whenever the clock is read that serves many operations, and measured with them.
    #[inline]
    fn serve(place: &Self::Place) {
        let _has_no_duties = place;
    }

    /// Makes the subject with so many slots, and one more for [`arm_and_cancel`](Self::arm_and_cancel).
    ///
    /// With `counts`, firing MUST be counted; without, it MAY cost less.
    fn new(place: &Self::Place, slots: usize, counts: bool) -> Self;

    /// Reads the clock.
    fn now(&mut self) -> Self::Time;

    /// The point so many nanoseconds after another one.
    fn later(time: Self::Time, nanos: u64) -> Self::Time;

    /// Arms the timer of a slot that is empty; says whether it waits to fire.
    fn arm(&mut self, slot: usize, deadline: Self::Time) -> bool;

    /// Takes the timer of a slot back and leaves the slot empty; says whether there was one.
    fn cancel(&mut self, slot: usize) -> bool;

    /// Gives the timer of a slot another deadline, earlier or later.
    fn push_out(&mut self, slot: usize, deadline: Self::Time);

    /// Arms a timer and takes it back; says whether it waited to fire.
    fn arm_and_cancel(&mut self, deadline: Self::Time) -> bool;

    /// Makes a future and drops it.
    fn drop_unpolled(&mut self, deadline: Self::Time) {
        let _not_a_future = deadline;
    }

    /// Returns true if the timer of a slot waits to fire.
    fn is_armed(&mut self, slot: usize) -> bool;

    /// Fires what is due, or waits a little for those that do it on other threads; how many fired since the subject was
    /// made. Only if it counts.
    fn fire(&mut self, place: &Self::Place) -> u64;

    /// Arms on one thread and cancels on another, so many batches of timers: nanoseconds for each of both.
    ///
    /// `None` if the library has no such thing.
    fn across_threads(batches: u32) -> Option<Across> {
        let _unused = batches;
        None
    }
}

/// The cost of handing timers to another thread, in nanoseconds for each.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Across {
    pub(crate) arm: f64,
    pub(crate) cancel: f64,
}
