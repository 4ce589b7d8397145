//! Idle states in which a CPU's own device stops, and the device that wakes the CPU from them (spec C-7.6).
//!
//! A profile names the [states](crate::IdleState::stops) in which the device stops, and the [device](BroadcastDevice)
//! that wakes CPUs from them. The programmed event of a device that stops is lost. The core records until when each CPU
//! sleeps.

use std::cell::Cell;
use std::rc::{Rc, Weak};

use tickless_conformance::wakener::Wakener;
use tickless_core::base::Timers;
use tickless_core::hrtimer::{Restart, Start};
use tickless_core::platform::CpuId;
use tickless_core::tick::{BroadcastExit, Busy, Carrier, Delivery, Entered};
use tickless_core::time::Instant;

use crate::machine::host::Host;
use crate::machine::queue::EventKind;
use crate::machine::timers::{Exact, Operations};
use crate::model::broadcast::BroadcastDevice;
use crate::model::cost_model::CostedLock;
use crate::model::current_cpu;
use crate::model::profile::IdleState;
use crate::model::time::Picos;

/// The CPUs that sleep deeply, and the device or timer that wakes them.
pub(crate) struct BroadcastWakener {
    timers: Rc<Timers<Host>>,
    wakener: Wakener<CostedLock, Picos>,
    by: By,
}

enum By {
    Device(Device),
    Timer(Exact),
}

/// The machine's record of the broadcast device, besides its deadline.
struct Device {
    /// The time of the next simulator event for the device.
    asked: Cell<Picos>,
    /// The time at which the last write of the device was done.
    written: Cell<Picos>,
}

impl BroadcastWakener {
    pub(super) fn new(timers: &Rc<Timers<Host>>, device: BroadcastDevice) -> Rc<Self> {
        Rc::new_cyclic(|wakener: &Weak<Self>| {
            let (carrier, by) = match device {
                BroadcastDevice::Device => {
                    let device = Device {
                        asked: Cell::new(Picos::FOREVER),
                        written: Cell::new(Picos::ZERO),
                    };
                    (Carrier::Oneshot, By::Device(device))
                }
                BroadcastDevice::Timer => {
                    let timer = carrier_timer(timers, Weak::clone(wakener));
                    (Carrier::Software, By::Timer(timer))
                }
            };
            let wakener = Wakener::new();
            wakener.set_carrier(0, carrier, Instant::ZERO, |_| {
                unreachable!("no CPU sleeps yet")
            });
            Self {
                timers: Rc::clone(timers),
                wakener,
                by,
            }
        })
    }

    fn host(&self) -> &Host {
        self.timers.platform()
    }

    /// Writes the device for `when`, on the executing CPU. Returns the time at which the device fires.
    fn write(&self, when: Instant) -> Picos {
        let By::Device(device) = &self.by else {
            unreachable!("a timer is started by the CPU that carries it");
        };
        current_cpu::charge(self.host().model.charges.slow_counter);
        device.written.set(current_cpu::cursor());
        self.host().moment(when)
    }

    /// Requests a simulator event for the time at which the device fires, unless an earlier event is pending.
    fn ask(&self, device: &Device, not_before: Picos) {
        let Some(at) = self.wakener.fires() else {
            return;
        };
        let at = at.max(not_before);
        if at < device.asked.get() {
            device.asked.set(at);
            let cpu = self.wakener.cpu();
            self.host().push(at, EventKind::Broadcast, cpu, 0);
        }
    }

    /// Requests a simulator event for the time at which the device fires that the executing CPU programmed.
    fn programmed(&self) {
        if let By::Device(device) = &self.by {
            self.ask(device, current_cpu::cursor());
        }
    }

    /// Handles a simulator event for the device, which came at `at` for `cpu`. Returns true if the device fires on
    /// `cpu` now.
    pub(super) fn is_due(&self, cpu: u32, at: Picos) -> bool {
        let By::Device(device) = &self.by else {
            return false;
        };
        if device.asked.get() == at {
            device.asked.set(Picos::FOREVER);
        }
        let is_due = self.wakener.is_due(cpu, at);
        if !is_due {
            self.ask(device, at);
        }
        is_due
    }

    /// Handles the due sleepers, on the executing CPU. Returns whether this CPU's own event is due, and the next
    /// deadline.
    fn handle(&self) -> (bool, Instant) {
        let now = self.host().read();
        let Delivery { program, wake, own } = self.wakener.handle(current_cpu::cpu(), now);
        for cpu in wake.iter() {
            self.host().send(cpu.0, EventKind::Called);
        }
        (own, program)
    }

    /// Handles the device's interrupt on the executing CPU. Returns true if this CPU's own event is due.
    pub(super) fn device_fires(&self) -> bool {
        self.wakener.stop();
        let (own, next) = self.handle();
        let cpu = current_cpu::cpu();
        self.wakener.program(cpu, next, |when| self.write(when));
        self.programmed();
        own
    }

    /// Returns the time at which the device, or the timer that replaces the device, fires.
    fn fires(&self) -> Picos {
        match &self.by {
            By::Device(_) => self.wakener.fires().unwrap_or(Picos::FOREVER),
            By::Timer(timer) => {
                let stands = timer.pinned().deadline(&self.timers);
                self.host().moment(stands.unwrap_or(Instant::FOREVER))
            }
        }
    }

    /// Returns the time at which the last write of the device was done. A write takes as long as reading the slow
    /// counter: a deadline within this time fires when the write is done, for the executing CPU and for other CPUs,
    /// which found the device programmed early enough. A timer in place of the device belongs to a CPU, which is
    /// checked separately, so the result is `None`.
    fn written(&self) -> Option<Picos> {
        match &self.by {
            By::Device(device) => Some(device.written.get()),
            By::Timer(_) => None,
        }
    }

    /// Notes that `cpu` is online, and may sleep deeply.
    pub(super) fn online(&self, cpu: u32) {
        self.wakener.online(cpu);
    }

    /// Notes that the executing `cpu` went offline. Other CPUs have taken over its duties.
    pub(super) fn offline(&self, cpu: u32) {
        let heir = match &self.by {
            By::Device(_) => None,
            By::Timer(timer) => timer.pinned().cpu(&self.timers),
        };
        let heir = heir.unwrap_or_else(|| CpuId(self.host().housekeeper_but(cpu)));
        let was_interrupted = self.wakener.cpu() == cpu;
        let carried = self.wakener.offline(cpu, heir.0);
        match &self.by {
            By::Device(device) if was_interrupted => {
                device.asked.set(Picos::FOREVER);
                self.ask(device, current_cpu::cursor());
            }
            By::Device(_) => {}
            By::Timer(_) => {
                if carried.is_some() {
                    // It may sleep so deeply that its device, which has to go on now, is stopped.
                    self.timers.request_retrigger(heir);
                }
            }
        }
    }

    /// Returns true if `cpu`, which executes, may stop its device because another CPU wakes it.
    fn hands_over(&self, cpu: u32) -> bool {
        let event = self.host().base_of(cpu).armed();
        let entered = self.wakener.enter(cpu, event, |when| self.write(when));
        match (entered, &self.by) {
            (Ok(Entered::Program(_)), _) => self.programmed(),
            (Ok(Entered::Covered | Entered::OwnWakeup(_)), _) => {}
            (Err(Busy::TakesOver(when)), By::Timer(timer)) => {
                timer.may_leave_armed();
                timer.start(Start::at(when));
                return false;
            }
            (Err(_), _) => return false,
        }
        true
    }
}

/// The exact timer that wakes others in place of a device.
fn carrier_timer(timers: &Rc<Timers<Host>>, wakener: Weak<BroadcastWakener>) -> Exact {
    Exact::scripted(timers, move |expired| {
        let Some(wakener) = wakener.upgrade() else {
            return Restart::No;
        };
        // The own event needs nothing: this is an interrupt of the own device.
        let (_own, next) = wakener.handle();
        if next.is_forever() {
            return Restart::No;
        }
        expired.set_deadline(next);
        Restart::Yes
    })
}

/// Prepares the executing `cpu` for a sleep in the state `idle`. Returns the state in which it really sleeps.
pub(super) fn go_deep(
    wakener: Option<&BroadcastWakener>,
    timers: &Timers<Host>,
    states: &[IdleState],
    cpu: u32,
    idle: usize,
) -> usize {
    if !states[idle].stops {
        return idle;
    }
    if wakener.is_some_and(|wakener| wakener.hands_over(cpu)) {
        timers.platform().local(cpu).is_deep.set(true);
        timers.stop_device(CpuId(cpu));
        return idle;
    }
    let goes_on = |state: &IdleState| !state.stops;
    states[..idle].iter().rposition(goes_on).unwrap_or(0)
}

/// Notes that the executing `cpu` wakes, for any reason.
pub(super) fn leave_deep(wakener: Option<&BroadcastWakener>, timers: &Timers<Host>, cpu: u32) {
    let host = timers.platform();
    let local = host.local(cpu);
    if !local.is_deep.take() {
        return;
    }
    let Some(wakener) = wakener else {
        return;
    };
    match wakener.wakener.exit(cpu, host.shows()) {
        BroadcastExit::Program => {
            timers.switch_device_on(CpuId(cpu));
            timers.retrigger(CpuId(cpu));
        }
        BroadcastExit::SwitchOn => {
            timers.switch_device_on(CpuId(cpu));
            let armed = host.base_of(cpu).armed();
            local.awaits_call.set(!armed.is_forever());
        }
        BroadcastExit::WasAwake => {}
    }
}

/// The interrupt that a CPU waits for.
#[derive(Clone, Copy)]
pub(super) struct Interrupts {
    pub(super) fires: Picos,
    /// The time at which the last write for it was done.
    pub(super) written: Picos,
}

/// Returns the interrupt that wakes `cpu`: the interrupt of its own device or, while its own device is stopped, of the
/// broadcast device, which another CPU may have written.
pub(super) fn interrupts(wakener: Option<&BroadcastWakener>, host: &Host, cpu: u32) -> Interrupts {
    let local = host.local(cpu);
    let own = local.written.at.get();
    match wakener.filter(|_| local.is_deep.get()) {
        Some(wakener) => Interrupts {
            fires: current_cpu::looking(|| wakener.fires()),
            written: wakener.written().unwrap_or(own),
        },
        None => Interrupts {
            fires: local.fires.get(),
            written: own,
        },
    }
}
