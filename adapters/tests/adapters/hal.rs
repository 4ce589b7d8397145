//! Tests of device drivers that wait by embedded-hal.

use std::time::{Duration, Instant};

use tickless_adapters::embedded_hal::Delay;

/// A driver of a device that accepts no command for a while after each command.
struct Device<D> {
    delay: D,
}

impl<D: embedded_hal::delay::DelayNs> Device<D> {
    fn command(&mut self) {
        self.delay.delay_ns(1_000);
        self.delay.delay_us(1_000);
        self.delay.delay_ms(1);
    }
}

impl<D: embedded_hal_async::delay::DelayNs> Device<D> {
    async fn command_async(&mut self) {
        self.delay.delay_ns(1_000).await;
        self.delay.delay_us(1_000).await;
        self.delay.delay_ms(1).await;
    }
}

const COMMAND: Duration = Duration::from_micros(2_001);

#[test]
fn a_blocking_driver_waits_as_long_as_it_says() {
    let started = Instant::now();
    Device { delay: Delay }.command();
    assert!(started.elapsed() >= COMMAND);
}

#[test]
fn an_async_driver_waits_as_long_as_it_says() {
    let started = Instant::now();
    futures::executor::block_on(Device { delay: Delay }.command_async());
    assert!(started.elapsed() >= COMMAND);
}
