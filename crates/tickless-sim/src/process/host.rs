//! The core's host of a user-space process in virtual time.

use std::cell::{Cell, OnceCell};
use std::rc::Rc;

use tickless_conformance::tables::PlainLock;
use tickless_core::base::{CpuBase, Timers};
use tickless_core::event::{DeviceConfig, DeviceState, DeviceWrite, InPast};
use tickless_core::hrtimer::is_far;
use tickless_core::platform::{CpuId, Platform, Port, Recent, ThisCpu, Waiting};
use tickless_core::time::Instant;
use tickless_core::trace::Event;

use crate::model::cost_model::{CacheLine, CostModel, CostedLock};
use crate::model::costs::Charges;
use crate::model::current_cpu;

/// Lines of a base, besides that of its lock, that a thread writes when it arms or cancels a timer there.
const LINES_OF_BASE: u64 = 2;

/// The largest number of timers that a turn fires.
pub(super) const TURN_BUDGET: u32 = 4_096;

/// The host's data for one thread.
#[derive(Debug)]
pub(crate) struct WorkerLocal {
    /// The device's deadline: the end of the next sleep.
    pub(crate) fires: Cell<Instant>,
    /// The lines of the base.
    lines: CacheLine,
}

/// The host of a process. Each request of the core costs the executing thread a modelled time.
#[derive(Debug)]
pub(crate) struct ProcessHost {
    pub(crate) model: Rc<CostModel>,
    bases: Vec<OnceCell<CpuBase<Self>>>,
}

impl ProcessHost {
    pub(crate) fn new(model: &Rc<CostModel>, threads: u32) -> Self {
        Self {
            model: Rc::clone(model),
            bases: (0..threads).map(|_| OnceCell::new()).collect(),
        }
    }

    pub(crate) fn make_bases(&self, timers: &Timers<Self>) {
        for cell in &self.bases {
            let local = WorkerLocal {
                fires: Cell::new(Instant::FOREVER),
                lines: CacheLine::default(),
            };
            let placed = cell.set(timers.new_base(DeviceConfig::software("park-deadline"), local));
            assert!(placed.is_ok(), "one base for each thread");
        }
    }

    pub(crate) fn charges(&self) -> &Charges {
        &self.model.charges
    }

    pub(crate) fn local(&self, cpu: CpuId) -> &WorkerLocal {
        let base = self.bases[cpu.0 as usize].get();
        base.expect("every thread has a base").local()
    }

    /// Reads the clock.
    pub(crate) fn glance(&self) -> Instant {
        current_cpu::charge(self.charges().counter);
        current_cpu::cursor().instant()
    }

    /// Returns true if a timer for `deadline` is queued in the far wheel.
    fn goes_far(deadline: i64) -> bool {
        is_far(
            current_cpu::cursor().instant(),
            Instant::from_nanos(deadline),
        )
    }

    fn touches(&self, cpu: CpuId) {
        self.local(cpu).lines.write(&self.model, LINES_OF_BASE);
    }
}

impl Port for ProcessHost {
    type Lock = CostedLock;
    type ExpiryLock = PlainLock;
    type Local = WorkerLocal;

    fn this_cpu(&self) -> Option<ThisCpu<'_, Self>> {
        let base = self.bases.get(current_cpu::cpu() as usize)?.get()?;
        Some(ThisCpu { base, token: None })
    }

    fn base(&self, cpu: CpuId) -> Option<&CpuBase<Self>> {
        self.bases.get(cpu.0 as usize)?.get()
    }

    fn now(&self) -> Instant {
        self.glance()
    }

    fn write_device(&self, base: &CpuBase<Self>, write: DeviceWrite) -> Result<(), InPast> {
        current_cpu::charge(self.charges().device_write);
        if let DeviceWrite::Absolute(when) = write {
            base.local().fires.set(when);
        }
        Ok(())
    }

    /// Does nothing: the worker checks its timers when it wakes, because no thread moves a timer of another thread
    /// forward.
    fn kick(&self, _base: &CpuBase<Self>) {
        current_cpu::charge(self.charges().ipi_send);
    }
}

impl Platform for ProcessHost {
    const DEFERRED_REARM: bool = true;
    const WAITING: Waiting = Waiting::Sleep;
    const EXPIRY_BUDGET: u32 = TURN_BUDGET;
    const TRACE: bool = true;

    /// Returns the thread's last clock reading, without a cost.
    fn recent(&self) -> Recent {
        Recent {
            moment: None,
            now: current_cpu::cursor().instant(),
        }
    }

    fn set_device_state(&self, base: &CpuBase<Self>, state: DeviceState) {
        if state == DeviceState::Shutdown {
            base.local().fires.set(Instant::FOREVER);
        }
    }

    fn trace(&self, event: Event) {
        if current_cpu::cpu() == current_cpu::NO_CPU {
            return;
        }
        let charges = self.charges();
        match event {
            Event::WheelArm { cpu, .. } => {
                self.touches(cpu);
                current_cpu::charge(charges.wheel_arm);
            }
            Event::WheelCancel { cpu, .. } => {
                self.touches(cpu);
                current_cpu::charge(charges.wheel_cancel);
            }
            Event::WheelExpire { .. } => current_cpu::charge(charges.wheel_expire),
            Event::Start {
                cpu,
                hard,
                was_armed,
                stood,
                ..
            } => {
                self.touches(cpu);
                current_cpu::charge(if !stood.is_kept() && Self::goes_far(hard) {
                    charges.far_start()
                } else {
                    charges.start(was_armed, stood.is_kept())
                });
            }
            // Nearly all that are taken back are far still.
            Event::Cancel { cpu, .. } => {
                self.touches(cpu);
                current_cpu::charge(charges.wheel_cancel);
            }
            // Firing is one path for both kinds of timers.
            Event::ExpireEntry { cpu, .. } => {
                self.touches(cpu);
                current_cpu::charge(charges.tree_erase + charges.wheel_expire);
            }
            _ => {}
        }
    }
}
