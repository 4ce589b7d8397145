//! The timers of `tokio::time`, in a multi-thread runtime.

use std::pin::Pin;
use std::sync::OnceLock;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::time::{Instant, Sleep, sleep_until};

use super::futures::SleepKind;

/// Calls `body` in the only runtime of the process, which lives as long as the process. All threads share the runtime,
/// as the threads of a program do.
pub(super) fn entered<R>(body: impl FnOnce() -> R) -> R {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    let runtime = RUNTIME.get_or_init(|| build(Builder::new_multi_thread().enable_time()));
    let _entered = runtime.enter();
    body()
}

fn build(builder: &mut Builder) -> Runtime {
    let runtime = builder.worker_threads(2).build();
    runtime.expect("a runtime of two threads can be built")
}

/// The timer that a runtime has by default: a wheel behind a lock.
#[derive(Debug)]
pub(crate) struct Default;

/// Implements the part that both timers of tokio share.
macro_rules! sleep_of_tokio {
    () => {
        type Sleep = Sleep;
        type Time = Instant;
        type Environment = ();

        #[inline]
        fn now() -> Instant {
            Instant::now()
        }

        #[inline]
        fn later(time: Instant, nanos: u64) -> Instant {
            time + Duration::from_nanos(nanos)
        }

        #[inline]
        fn make(deadline: Instant) -> Sleep {
            sleep_until(deadline)
        }

        #[inline]
        fn reset(sleep: Pin<&mut Sleep>, deadline: Instant) {
            sleep.reset(deadline);
        }

        fn is_over(sleep: &Sleep) -> bool {
            sleep.is_elapsed()
        }
    };
}

impl SleepKind for Default {
    sleep_of_tokio!();

    fn within<R>(body: impl FnOnce(&()) -> R) -> R {
        entered(|| body(&()))
    }
}

/// The timer of a runtime that was built with `enable_alt_timer`: each worker has a wheel. The benchmark uses this
/// timer from threads that are not workers, so a queue passes their requests to the workers.
#[cfg(tokio_unstable)]
#[derive(Debug)]
pub(crate) struct Alternative;

#[cfg(tokio_unstable)]
impl SleepKind for Alternative {
    sleep_of_tokio!();

    const IS_POLLED_AGAIN: bool = true;

    fn within<R>(body: impl FnOnce(&()) -> R) -> R {
        static RUNTIME: OnceLock<Runtime> = OnceLock::new();
        let runtime = RUNTIME.get_or_init(|| build(Builder::new_multi_thread().enable_alt_timer()));
        let _entered = runtime.enter();
        body(&())
    }
}
