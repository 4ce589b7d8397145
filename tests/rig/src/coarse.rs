//! A coarse timer for scripts: it notes what it was told.

use std::cell::RefCell;
use std::pin::Pin;
use std::rc::{Rc, Weak};

use tickless_core::base::TryCancel;
use tickless_core::coarse::{ArmError, Kind, Rearm, ShutDown, Tick, Timeout, WheelTimer};
use tickless_core::link::entry::State;
use tickless_core::platform::CpuId;
use tickless_sim::call::Call;

use crate::machine::{Config, Machine};

type Script = Box<dyn FnMut(&Timeout) -> Rearm>;
type Function = Box<dyn FnMut(&Timeout) -> Rearm + Send>;

/// A coarse timer that belongs to a machine, shuts itself down when it is dropped, and remembers what it was told when
/// it fired. Its operations take the tick of the machine for now.
pub struct CoarseTimer<C: Config> {
    machine: Machine<C>,
    timer: Pin<Box<WheelTimer<Function>>>,
    fired: Rc<RefCell<Vec<Timeout>>>,
}

impl<C: Config> CoarseTimer<C> {
    /// A timer made for the wheel of `kind`.
    pub fn new(
        machine: &Machine<C>,
        kind: Kind,
        mut callback: impl FnMut(&Timeout) -> Rearm + 'static,
    ) -> Self {
        let fired = Rc::new(RefCell::new(Vec::new()));
        let log = Rc::clone(&fired);
        let script: Script = Box::new(move |timeout| {
            log.borrow_mut().push(*timeout);
            callback(timeout)
        });
        let call = Call::new(script);
        let function: Function = Box::new(move |timeout| {
            let run = |script: &mut Script| script(timeout);
            call.run(run).unwrap_or(Rearm::No)
        });
        Self {
            machine: machine.clone(),
            timer: Box::pin(WheelTimer::new(kind, function)),
            fired,
        }
    }

    /// A timer that fires once for each arming.
    #[must_use]
    pub fn once(machine: &Machine<C>, kind: Kind) -> Self {
        Self::new(machine, kind, |_| Rearm::No)
    }

    /// A timer whose callback is given the timer itself.
    pub fn cyclic(
        machine: &Machine<C>,
        kind: Kind,
        mut callback: impl FnMut(&Self, &Timeout) -> Rearm + 'static,
    ) -> Rc<Self> {
        Rc::new_cyclic(|own: &Weak<Self>| {
            let own = Weak::clone(own);
            Self::new(machine, kind, move |timeout| {
                let own = own.upgrade().expect("a timer that fires is alive");
                callback(&own, timeout)
            })
        })
    }

    /// Arms it.
    ///
    /// # Errors
    ///
    /// See [`Timers::arm`](tickless_core::base::Timers::arm); the same for the others.
    pub fn arm(&self, expiry: u64) -> Result<(), ArmError> {
        let (timers, now) = (self.machine.timers(), self.machine.tick());
        timers.arm(self.timer.as_ref(), now, Tick(expiry))
    }

    /// Arms it pinned.
    ///
    /// # Errors
    ///
    /// See [`arm`](Self::arm).
    pub fn arm_local(&self, expiry: u64) -> Result<(), ArmError> {
        let (timers, now) = (self.machine.timers(), self.machine.tick());
        timers.arm_local(self.timer.as_ref(), now, Tick(expiry))
    }

    /// Arms it movable.
    ///
    /// # Errors
    ///
    /// See [`arm`](Self::arm).
    pub fn arm_global(&self, expiry: u64) -> Result<(), ArmError> {
        let (timers, now) = (self.machine.timers(), self.machine.tick());
        timers.arm_global(self.timer.as_ref(), now, Tick(expiry))
    }

    /// Arms it on a CPU.
    ///
    /// # Errors
    ///
    /// See [`arm`](Self::arm).
    pub fn arm_on(&self, cpu: u32, expiry: u64) -> Result<(), ArmError> {
        let (timers, now) = (self.machine.timers(), self.machine.tick());
        timers.arm_on(self.timer.as_ref(), CpuId(cpu), now, Tick(expiry))
    }

    /// Modifies it.
    ///
    /// # Errors
    ///
    /// See [`arm`](Self::arm).
    pub fn modify(&self, expiry: u64) -> Result<bool, ShutDown> {
        let (timers, now) = (self.machine.timers(), self.machine.tick());
        timers.modify(self.timer.as_ref(), now, Tick(expiry))
    }

    /// Modifies it if it is queued.
    pub fn modify_if_active(&self, expiry: u64) -> bool {
        let (timers, now) = (self.machine.timers(), self.machine.tick());
        timers.modify_if_active(self.timer.as_ref(), now, Tick(expiry))
    }

    /// Makes it fire earlier.
    ///
    /// # Errors
    ///
    /// See [`arm`](Self::arm).
    pub fn reduce(&self, expiry: u64) -> Result<bool, ShutDown> {
        let (timers, now) = (self.machine.timers(), self.machine.tick());
        timers.reduce(self.timer.as_ref(), now, Tick(expiry))
    }

    /// Deletes it.
    pub fn delete(&self) -> bool {
        self.machine.timers().delete(self.timer.as_ref())
    }

    /// Deletes it unless it runs.
    #[must_use]
    pub fn try_delete_sync(&self) -> TryCancel {
        self.machine.timers().try_delete_sync(self.timer.as_ref())
    }

    /// Deletes it and waits.
    pub fn delete_sync(&self) -> bool {
        self.machine.timers().delete_sync(self.timer.as_ref())
    }

    /// Shuts it down.
    pub fn shutdown(&self) -> bool {
        self.machine.timers().shutdown(self.timer.as_ref())
    }

    /// Shuts it down and waits.
    pub fn shutdown_sync(&self) -> bool {
        self.machine.timers().shutdown_sync(self.timer.as_ref())
    }

    /// Whether it is queued.
    #[must_use]
    pub fn is_queued(&self) -> bool {
        self.timer.is_queued()
    }

    /// Its life cycle.
    #[must_use]
    pub fn state(&self) -> State {
        self.timer.state()
    }

    /// The CPU and the wheel it is on.
    #[must_use]
    pub fn wheel(&self) -> Option<(u32, Kind)> {
        let wheel = self.machine.timers().wheel_of(self.timer.as_ref());
        wheel.map(|(cpu, kind)| (cpu.0, kind))
    }

    /// What it was told each time it fired.
    #[must_use]
    pub fn fired(&self) -> Vec<Timeout> {
        self.fired.borrow().clone()
    }

    /// The ticks in which it fired.
    #[must_use]
    pub fn fired_at(&self) -> Vec<u64> {
        self.fired
            .borrow()
            .iter()
            .map(|timeout| timeout.now.0)
            .collect()
    }
}

impl<C: Config> std::fmt::Debug for CoarseTimer<C> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("CoarseTimer")
            .field("timer", &self.timer)
            .field("fired", &self.fired_at())
            .finish_non_exhaustive()
    }
}

impl<C: Config> Drop for CoarseTimer<C> {
    fn drop(&mut self) {
        self.shutdown_sync();
    }
}
