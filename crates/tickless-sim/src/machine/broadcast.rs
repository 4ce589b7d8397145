//! Idle states in which a CPU's own device stops, and what wakes it there (spec 7.6).
//!
//! A profile says of which [states](crate::model::profile::IdleState::stops) that is true, and what [stands
//! in](BroadcastDevice). What was programmed in a device that stops is lost. The core's [`Broadcast`] keeps who sleeps
//! until when.

use std::cell::Cell;
use std::rc::{Rc, Weak};

use tickless_core::base::Timers;
use tickless_core::hrtimer::{Restart, Start};
use tickless_core::platform::CpuId;
use tickless_core::tick::{Broadcast, BroadcastExit, Busy, Carrier, Delivery, Entered};
use tickless_core::time::Instant;

use crate::machine::host::Host;
use crate::machine::machine::World;
use crate::machine::queue::What;
use crate::machine::timers::Exact;
use crate::model::broadcast::BroadcastDevice;
use crate::model::cost_model::CostedLock;
use crate::model::current_cpu;
use crate::model::profile::IdleState;
use crate::model::time::Picos;

/// Room for 4,096 CPUs.
const WORDS: usize = crate::model::topology::CPUS_MAX as usize / 64;

/// Who sleeps deeply, and what wakes them.
pub(crate) struct Wakener {
    timers: Rc<Timers<Host>>,
    broadcast: Broadcast<CostedLock, WORDS>,
    by: By,
}

enum By {
    Device(Device),
    Timer(Exact),
}

/// The device for all.
struct Device {
    fires: Cell<Picos>,
    /// When the next event for it comes.
    asked: Cell<Picos>,
    /// When the last write of it was done.
    written: Cell<Picos>,
    /// Where its interrupt goes.
    cpu: Cell<u32>,
}

impl Wakener {
    pub(crate) fn new(timers: &Rc<Timers<Host>>, stand_in: BroadcastDevice) -> Rc<Self> {
        Rc::new_cyclic(|wakener: &Weak<Self>| {
            let broadcast = Broadcast::new();
            let (carrier, by) = match stand_in {
                BroadcastDevice::Device => {
                    let device = Device {
                        fires: Cell::new(Picos::FOREVER),
                        asked: Cell::new(Picos::FOREVER),
                        written: Cell::new(Picos::ZERO),
                        cpu: Cell::new(0),
                    };
                    (Carrier::Oneshot, By::Device(device))
                }
                BroadcastDevice::Timer => {
                    let timer = carrier_timer(timers, Weak::clone(wakener));
                    (Carrier::Software, By::Timer(timer))
                }
            };
            let first = broadcast.set_carrier(CpuId(0), carrier, Instant::ZERO);
            debug_assert!(first.is_forever(), "nobody sleeps");
            Self {
                timers: Rc::clone(timers),
                broadcast,
                by,
            }
        })
    }

    fn host(&self) -> &Host {
        self.timers.platform()
    }

    /// Programs what stands in; its interrupt comes to the CPU that executes from now on.
    fn program(&self, when: Instant) {
        let By::Device(device) = &self.by else {
            unreachable!("a timer is started by whoever carries it");
        };
        current_cpu::charge(self.host().model.charges.slow_counter);
        device.cpu.set(current_cpu::cpu());
        device.written.set(current_cpu::cursor());
        device.fires.set(self.host().moment(when));
        self.ask(device, current_cpu::cursor());
    }

    fn ask(&self, device: &Device, not_before: Picos) {
        let at = device.fires.get();
        if at == Picos::FOREVER {
            return;
        }
        let at = at.max(not_before);
        if at < device.asked.get() {
            device.asked.set(at);
            let mut queue = self.host().queue.borrow_mut();
            queue.push(at, What::Broadcast, device.cpu.get(), 0);
        }
    }

    /// An event for the device of all came at `at`, for `cpu`; whether it fires there now.
    pub(crate) fn is_due(&self, cpu: u32, at: Picos) -> bool {
        let By::Device(device) = &self.by else {
            return false;
        };
        if device.asked.get() == at {
            device.asked.set(Picos::FOREVER);
        }
        if device.fires.get() <= at && device.cpu.get() == cpu {
            return true;
        }
        self.ask(device, at);
        false
    }

    /// Hands out what is due, on the CPU that executes: whether its own event is among that, and what comes next.
    fn handle(&self) -> (bool, Instant) {
        let now = self.host().read();
        let Delivery { program, wake, own } = self.broadcast.handle(CpuId(current_cpu::cpu()), now);
        for cpu in wake.iter() {
            self.host().send(cpu.0, What::Called);
        }
        (own, program)
    }

    /// When what stands in fires.
    fn fires(&self) -> Picos {
        match &self.by {
            By::Device(device) => device.fires.get(),
            By::Timer(timer) => {
                let stands = timer.pinned().deadline(&self.timers);
                self.host().moment(stands.unwrap_or(Instant::FOREVER))
            }
        }
    }

    /// When the last write of the device that stands in was done. That takes as long as reading the slow counter: what
    /// it was told for an instant within this time fires when the write is done, and so it does for other CPUs, which
    /// found it programmed early enough. A timer that stands in is a part of its CPU, which is looked at for itself.
    fn written(&self) -> Option<Picos> {
        match &self.by {
            By::Device(device) => Some(device.written.get()),
            By::Timer(_) => None,
        }
    }

    /// `cpu` takes part.
    pub(crate) fn online(&self, cpu: u32) {
        self.broadcast.online(CpuId(cpu), false);
    }

    /// `cpu`, which executes, has left; what it carried is with others.
    pub(crate) fn offline(&self, cpu: u32) {
        let heir = match &self.by {
            By::Device(_) => None,
            By::Timer(timer) => timer.pinned().cpu(&self.timers),
        };
        let heir = heir.unwrap_or_else(|| CpuId(self.host().housekeeper_but(cpu)));
        let carried = self.broadcast.offline(CpuId(cpu), heir);
        match &self.by {
            By::Device(device) if device.cpu.get() == cpu => {
                device.cpu.set(heir.0);
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
}

/// The exact timer that stands in for the devices of others.
fn carrier_timer(timers: &Rc<Timers<Host>>, wakener: Weak<Wakener>) -> Exact {
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

impl World {
    /// `cpu`, which executes, is about to sleep in the state `idle`: in which it really does.
    pub(crate) fn go_deep(&self, cpu: u32, idle: usize) -> usize {
        if !self.states[idle].stops {
            return idle;
        }
        if self.hands_over(cpu) {
            self.timers.platform().site(cpu).is_deep.set(true);
            self.timers.stop_device(CpuId(cpu));
            return idle;
        }
        let goes_on = |state: &IdleState| !state.stops;
        self.states[..idle].iter().rposition(goes_on).unwrap_or(0)
    }

    /// Whether `cpu`, which executes, may stop its device: somebody else wakes it.
    fn hands_over(&self, cpu: u32) -> bool {
        let Some(wakener) = &self.wakener else {
            return false;
        };
        let base = self.timers.platform().base_of(cpu);
        match (
            wakener.broadcast.enter(CpuId(cpu), base.armed()),
            &wakener.by,
        ) {
            (Ok(Entered::Program(when)), _) => wakener.program(when),
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

    /// `cpu`, which executes, wakes, for whatever reason.
    pub(crate) fn leave_deep(&self, cpu: u32) {
        let site = self.timers.platform().site(cpu);
        if !site.is_deep.take() {
            return;
        }
        let Some(wakener) = &self.wakener else {
            return;
        };
        let now = self.timers.platform().shows();
        match wakener.broadcast.exit(CpuId(cpu), now) {
            BroadcastExit::Program => {
                self.timers.switch_device_on(CpuId(cpu));
                self.timers.retrigger(CpuId(cpu));
            }
            BroadcastExit::SwitchOn => {
                self.timers.switch_device_on(CpuId(cpu));
                let base = self.timers.platform().base_of(cpu);
                site.awaits_call.set(!base.armed().is_forever());
            }
            BroadcastExit::WasAwake => {}
        }
    }

    /// The device of all interrupts `cpu`, at `at`.
    pub(crate) fn broadcast_fires(&mut self, cpu: u32, at: Picos) {
        let Some(wakener) = self.wakener.clone() else {
            return;
        };
        if let By::Device(device) = &wakener.by {
            device.fires.set(Picos::FOREVER);
        }
        let (own, next) = wakener.handle();
        if !next.is_forever() {
            wakener.program(next);
        }
        if own {
            self.called(cpu, at);
        }
    }

    /// `cpu` is called, at `at`: it does what its own device would have made it do.
    pub(crate) fn called(&mut self, cpu: u32, at: Picos) {
        let host = self.timers.platform();
        host.site(cpu).awaits_call.set(false);
        host.watch.borrow_mut().counts.broadcasts += 1;
        self.device_fires(cpu, at, true);
    }

    /// When the last write of what interrupts `cpu` was done: of its own device, or of the one that stands in, which
    /// another CPU may have written.
    pub(crate) fn written(&self, cpu: u32) -> Picos {
        let site = self.timers.platform().site(cpu);
        let stand_in = self.wakener.as_ref().filter(|_| site.is_deep.get());
        let written = stand_in.and_then(|wakener| wakener.written());
        written.unwrap_or(site.written.at.get())
    }

    /// When `cpu` is interrupted for what it waits for: by its own device, or by what stands in.
    pub(crate) fn fires(&self, cpu: u32) -> Picos {
        let site = self.timers.platform().site(cpu);
        match &self.wakener {
            Some(wakener) if site.is_deep.get() => current_cpu::looking(|| wakener.fires()),
            _ => site.fires.get(),
        }
    }
}
