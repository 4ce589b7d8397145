//! The treatment of devices that lose their programming, in a sleep of the machine or in deep idle (spec ).

use crate::base::state::DeferredRearm;
use crate::base::timers::Timers;
use crate::cpu::CpuId;
use crate::event::DeviceState;
use crate::platform::Platform;
use crate::time::Instant;

impl<P: Platform> Timers<P> {
    /// Prepares `cpu` for a sleep of the machine: its device will lose its programming.
    ///
    /// Called on `cpu` with timer delivery masked. A deferred rearm is dropped (spec FLUSH-9):
    /// [`resume`](Timers::resume) programs the device again.
    pub fn suspend(&self, cpu: CpuId) {
        let Some(mut held) = self.lock(cpu) else {
            return;
        };
        held.state.deferred = DeferredRearm::Clear;
        held.set_armed(Instant::FOREVER);
        held.set_device_state(DeviceState::Shutdown);
    }

    /// Arms `cpu` again after a sleep of the machine (spec TIM-38, TIM-41). Called on `cpu` with timer delivery masked,
    /// after the offsets of the clocks were set.
    pub fn resume(&self, cpu: CpuId) {
        let Some(mut held) = self.lock(cpu) else {
            return;
        };
        held.set_device_state(DeviceState::Oneshot);
        held.state.hang = false;
        held.set_armed(Instant::FOREVER);
        held.refresh_offsets();
        held.reevaluate(false);
    }

    /// Notes that the device of `cpu` stops and loses its programming, in an idle state that `cpu` is about to enter
    /// (spec C-7.6). The host has to [shut it down](DeviceState::Shutdown).
    ///
    /// The armed value stays. Another device, for example a [broadcast device](crate::tick::Broadcast), wakes the CPU
    /// at that time. Called on `cpu` with timer delivery masked, and with no deferred rearm.
    pub fn stop_device(&self, cpu: CpuId) {
        let Some(mut held) = self.lock(cpu) else {
            return;
        };
        held.set_device_state(DeviceState::Shutdown);
    }

    /// Switches the device of `cpu` on again after it was [stopped](Timers::stop_device). No event is programmed.
    ///
    /// The host calls [`retrigger`](Timers::retrigger) next, unless an interrupt for the event of `cpu` is pending.
    /// Called on `cpu` with timer delivery masked, before any other operation on its timers.
    pub fn switch_device_on(&self, cpu: CpuId) {
        let Some(mut held) = self.lock(cpu) else {
            return;
        };
        held.set_device_state(DeviceState::Oneshot);
        // The interrupt that was to end the backoff was lost with the device.
        held.state.hang = false;
    }
}
