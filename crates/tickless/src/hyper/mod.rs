//! Exact timers for hyper's servers and clients, and the idle timeout of a server's connections.

mod idle_timeout;

pub use idle_timeout::{IdleService, IdleStream, IdleTimeout, InFlight};

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant as StdInstant};

use hyper::rt::Sleep as HyperSleep;
use pin_project_lite::pin_project;

use crate::time::{self, Instant};

/// A timer for hyper: pass it to `http1::Builder::timer`, `http2::Builder::timer`, the builders of `hyper_util`, and
/// the pools of clients.
///
/// A connection that re-arms a timeout for every request does so in place, without an allocation.
///
/// ```
/// use hyper::rt::Timer as _;
///
/// # futures::executor::block_on(async {
/// let timer = tickless::hyper::Timer;
/// timer.sleep(std::time::Duration::from_micros(100)).await;
/// # });
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Timer;

pin_project! {
    /// A [`Sleep`](time::Sleep) with the traits that hyper requires.
    struct Sleep {
        #[pin]
        sleep: time::Sleep,
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        self.project().sleep.poll(context)
    }
}

impl HyperSleep for Sleep {}

impl hyper::rt::Timer for Timer {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn HyperSleep>> {
        Box::pin(Sleep {
            sleep: time::sleep(duration),
        })
    }

    fn sleep_until(&self, deadline: StdInstant) -> Pin<Box<dyn HyperSleep>> {
        Box::pin(Sleep {
            sleep: time::sleep_until(Instant::from_std(deadline)),
        })
    }

    /// Reads the clock of this library, which virtual time moves, as it moves the sleeps.
    fn now(&self) -> StdInstant {
        Instant::now().into_std()
    }

    fn reset(&self, sleep: &mut Pin<Box<dyn HyperSleep>>, deadline: StdInstant) {
        match sleep.as_mut().downcast_mut_pin::<Sleep>() {
            Some(ours) => ours.project().sleep.reset(Instant::from_std(deadline)),
            // Made by another timer: replaced.
            None => *sleep = self.sleep_until(deadline),
        }
    }
}
