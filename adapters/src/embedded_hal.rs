//! Delays for device drivers, blocking and async.

use std::time::Duration;

use tickless::time;

/// A delay for drivers that take a [`DelayNs`](::embedded_hal::delay::DelayNs), or the async variant of that trait.
///
/// A blocking delay puts the thread to sleep in the kernel and keeps no processor busy. A sleep takes some 50 µs at
/// least, so a shorter delay lasts that long. During an async delay other tasks run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Delay;

impl ::embedded_hal::delay::DelayNs for Delay {
    fn delay_ns(&mut self, ns: u32) {
        time::blocking::sleep(Duration::from_nanos(ns.into()));
    }

    fn delay_us(&mut self, us: u32) {
        time::blocking::sleep(Duration::from_micros(us.into()));
    }

    fn delay_ms(&mut self, ms: u32) {
        time::blocking::sleep(Duration::from_millis(ms.into()));
    }
}

impl ::embedded_hal_async::delay::DelayNs for Delay {
    async fn delay_ns(&mut self, ns: u32) {
        time::sleep(Duration::from_nanos(ns.into())).await;
    }

    async fn delay_us(&mut self, us: u32) {
        time::sleep(Duration::from_micros(us.into())).await;
    }

    async fn delay_ms(&mut self, ms: u32) {
        time::sleep(Duration::from_millis(ms.into())).await;
    }
}
