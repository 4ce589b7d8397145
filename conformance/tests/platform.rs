//! Tests of the example of a platform, `examples/platform.rs`: it fires its timers in order, and the suites run on it.
//!
//! The test of a port has to write only what stands here: a clock that a suite sets, the CPU that executes, and the
//! time for which the device was armed.

use std::cell::Cell;
use std::sync::Mutex;
use std::sync::atomic::Ordering;

use tickless_conformance::{Capabilities, DeviceClass, Host};
use tickless_core::base::Timers;
use tickless_core::time::Instant;

#[path = "../../examples/platform.rs"]
#[expect(
    dead_code,
    reason = "the example is a program, of which a part is used here"
)]
mod platform;

use platform::{IS_CPU, PlainThread};

thread_local! {
    /// The reading of the host's clock.
    static NOW: Cell<i64> = const { Cell::new(0) };
}

/// The host of the example, with a clock that a suite sets.
struct PlainHost {
    timers: Timers<PlainThread>,
}

impl Host for PlainHost {
    type Platform = PlainThread;
    const NAME: &'static str = "the plain thread";
    const HAS: Capabilities = Capabilities::SOFT.and(Capabilities::PANICS);

    fn new(_cpus: u32, _class: DeviceClass) -> Self {
        NOW.set(0);
        IS_CPU.set(false);
        let timers = platform::new(|| Instant::from_nanos(NOW.get()));
        Self { timers }
    }
    fn timers(&self) -> &Timers<PlainThread> {
        &self.timers
    }
    fn this_cpu(&self) -> Option<u32> {
        IS_CPU.get().then_some(0)
    }
    fn set_this_cpu(&self, cpu: Option<u32>) {
        IS_CPU.set(cpu.is_some());
    }
    fn now(&self) -> i64 {
        NOW.get()
    }
    fn set_now(&self, now: i64) {
        NOW.set(now);
    }
    fn fires_at(&self, _cpu: u32) -> Option<i64> {
        let at = self.timers.platform().fires_at.load(Ordering::Relaxed);
        (at < i64::MAX).then_some(at)
    }
    fn set_fires_at(&self, _cpu: u32, at: Option<i64>) {
        let at = at.unwrap_or(i64::MAX);
        self.timers.platform().fires_at.store(at, Ordering::Relaxed);
    }
    fn is_kicked(&self, _cpu: u32) -> bool {
        self.timers.platform().kicked.load(Ordering::Relaxed)
    }
    fn take_kick(&self, _cpu: u32) -> bool {
        self.timers.platform().kicked.swap(false, Ordering::Relaxed)
    }
    fn interrupt(&self, _cpu: u32) -> bool {
        platform::turn(&self.timers);
        true
    }
}

#[test]
fn the_example_fires_its_timers_in_order() {
    static SAID: Mutex<Vec<String>> = Mutex::new(Vec::new());
    platform::demonstrate(|line| SAID.lock().expect("no holder panics").push(line.to_owned()));
    let said = SAID.lock().expect("no holder panics");
    assert_eq!(*said, ["exact, 1 ms", "exact, 2 ms", "coarse, 20 ms"]);
}

tickless_conformance::conformance!(PlainHost, skips: 187);
