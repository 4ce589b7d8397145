//! Delays for drivers of devices, blocking and async.

use std::time::Duration;

use tickless::time;

/// A delay for drivers that take a [`DelayNs`](::embedded_hal::delay::DelayNs), or its async kind.
///
/// Blocking, it has the thread sleep in the kernel: no processor is kept busy, and a delay of less than a sleep takes,
/// some 50 µs, is as long as that. Async, the task waits and others run.
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
