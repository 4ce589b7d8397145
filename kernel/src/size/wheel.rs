//! The entry points of coarse timers, to measure their size.

use core::hint::black_box;
use core::pin::Pin;

use tickless_core::coarse::{Restart, Tick, Timeout, WheelKind, WheelTimer};
use tickless_core::platform::CpuId;

use crate::Core;

type Function = fn(&mut Timeout) -> Restart;

fn arm(core: Core, timer: &'static WheelTimer<Function>, now: u64, when: u64) -> bool {
    let armed = Pin::static_ref(timer).arm(core, Tick(now), Tick(when));
    armed.is_ok()
}

fn disarm(core: Core, timer: &'static WheelTimer<Function>) {
    let _was_armed = Pin::static_ref(timer).delete(core);
}

/// Does the work of each tick.
fn pass(core: Core, now: u64) {
    for kind in WheelKind::ALL {
        let _pass = core.run_wheel(CpuId(0), kind, Tick(now), u32::MAX);
    }
}

/// Brings a CPU online, lets it sleep, and wakes it up.
fn online(core: Core, now: u64) {
    core.wheel_online(CpuId(0), Tick(now));
}

fn sleep(core: Core, now: u64) {
    core.wheel_enter_idle(CpuId(0), Tick(now), |_| true);
}

fn wake(core: Core) {
    core.wheel_leave_idle(CpuId(0));
}

/// Keeps all functions of this module in the image.
pub(crate) fn keep() {
    black_box([
        arm as *const (),
        disarm as *const (),
        pass as *const (),
        online as *const (),
        sleep as *const (),
        wake as *const (),
    ]);
}
