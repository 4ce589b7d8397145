//! The subject `async_io::Timer`: a sorted map behind a lock, with a queue of requests in front of the map.

use std::pin::Pin;
use std::time::{Duration, Instant};

use async_io::Timer;

use super::futures::SleepKind;

#[derive(Debug)]
pub(crate) struct AsyncIo;

impl SleepKind for AsyncIo {
    type Sleep = Timer;
    type Time = Instant;
    type Environment = ();

    fn within<R>(body: impl FnOnce(&()) -> R) -> R {
        body(&())
    }

    #[inline]
    fn now() -> Instant {
        Instant::now()
    }

    #[inline]
    fn later(time: Instant, nanos: u64) -> Instant {
        time + Duration::from_nanos(nanos)
    }

    #[inline]
    fn make(deadline: Instant) -> Timer {
        Timer::at(deadline)
    }

    #[inline]
    fn reset(sleep: Pin<&mut Timer>, deadline: Instant) {
        sleep.get_mut().set_at(deadline);
    }

    /// Returns true if the timer fired and was polled afterwards, because only a poll changes its state.
    fn is_over(sleep: &Timer) -> bool {
        !sleep.will_fire()
    }
}
