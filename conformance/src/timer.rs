//! Timers for suites: they note the times at which they fired.

use alloc::rc::{Rc, Weak};
use core::cell::RefCell;
use core::pin::Pin;

use tickless_core::base::TryCancel;
use tickless_core::coarse::{ArmError, Own, Tick, Timeout, WheelKind, WheelTimer};
use tickless_core::hrtimer::{Expired, HrTimer, Restart, Setup, Start, StartError, StartOutcome};
use tickless_core::link::entry::State;
use tickless_core::platform::CpuId;
use tickless_core::time::{ClockId, Instant, Monotonic};
use tickless_core::trace::TimerId;

use crate::call::Call;
use crate::host::Host;
use crate::owned::{CoarseCall, ExactCall};
use crate::prelude::*;
use crate::rig::Rig;

type Script<T> = Box<dyn FnMut(&mut Expired<'_, '_, T>) -> Restart>;

/// A timer that belongs to a rig, cancels itself when it is dropped, and remembers the times at which it fired.
pub struct TestTimer<H: Host, T: ClockId = Monotonic> {
    rig: Rig<H>,
    timer: Pin<Box<HrTimer<ExactCall<T>, T>>>,
    fired: Rc<RefCell<Vec<i64>>>,
}

impl<H: Host, T: ClockId> core::fmt::Debug for TestTimer<H, T> {
    fn fmt(&self, formatter: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        formatter
            .debug_struct("TestTimer")
            .field("fired", &self.fired)
            .finish_non_exhaustive()
    }
}

impl<H: Host> TestTimer<H> {
    /// Makes a timer on the monotonic clock with this callback.
    pub fn new(
        rig: &Rig<H>,
        callback: impl FnMut(&mut Expired<'_, '_, Monotonic>) -> Restart + 'static,
    ) -> Self {
        Self::with_setup(rig, Setup::new(), callback)
    }

    /// Makes a timer on the monotonic clock that fires once for each start.
    #[must_use]
    pub fn once(rig: &Rig<H>) -> Self {
        Self::new(rig, |_| Restart::No)
    }
}

impl<H: Host, T: ClockId> TestTimer<H, T> {
    /// Makes a timer with `setup`.
    pub fn with_setup(
        rig: &Rig<H>,
        setup: Setup,
        mut callback: impl FnMut(&mut Expired<'_, '_, T>) -> Restart + 'static,
    ) -> Self {
        let fired = Rc::new(RefCell::new(Vec::new()));
        let log = Rc::clone(&fired);
        let script: Script<T> = Box::new(move |expired| {
            log.borrow_mut().push(expired.read_clock().as_nanos());
            callback(expired)
        });
        let call = Call::new(script);
        let function: ExactCall<T> = Box::new(move |expired| {
            let run = |script: &mut Script<T>| script(expired);
            call.run(run).unwrap_or(Restart::No)
        });
        let timer = Box::pin(HrTimer::with_setup(setup, false, function));
        Self {
            rig: rig.clone(),
            timer,
            fired,
        }
    }

    /// Makes a timer in the hard stage that fires once for each start.
    #[must_use]
    pub fn once_on(rig: &Rig<H>) -> Self {
        Self::with_setup(rig, Setup::new(), |_| Restart::No)
    }

    /// Makes a timer with `setup` whose callback is given the timer itself.
    pub fn cyclic(
        rig: &Rig<H>,
        setup: Setup,
        mut callback: impl FnMut(&Self, &mut Expired<'_, '_, T>) -> Restart + 'static,
    ) -> Rc<Self> {
        Rc::new_cyclic(|own: &Weak<Self>| {
            let own = Weak::clone(own);
            Self::with_setup(rig, setup, move |expired| {
                let own = own.upgrade().expect("a timer that fires is alive");
                callback(&own, expired)
            })
        })
    }

    /// Starts the timer, and ignores the outcome.
    pub fn start(&self, start: Start<T>) {
        let _ = self.try_start(start);
    }

    /// Starts the timer, and returns the outcome.
    pub fn try_start(&self, start: Start<T>) -> StartOutcome {
        self.timer.as_ref().start(self.rig.timers(), start)
    }

    /// Starts the timer unless it is queued for an earlier time.
    pub fn start_if_earlier(&self, start: Start<T>) -> StartOutcome {
        let timer = self.timer.as_ref().timer_ref();
        timer.start_if_earlier(self.rig.timers(), start)
    }

    /// Starts the timer unless its time is over.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`HrTimer::start_checked`](tickless_core::hrtimer::HrTimer::start_checked).
    pub fn start_checked(&self, start: Start<T>) -> Result<StartOutcome, StartError> {
        let timers = self.rig.timers();
        self.timer.as_ref().start_checked(timers, start)
    }

    /// Shuts the timer down.
    pub fn shutdown(&self) -> bool {
        self.timer.as_ref().shutdown(self.rig.timers())
    }

    /// Tries to cancel the timer.
    #[must_use]
    pub fn try_cancel(&self) -> TryCancel {
        self.timer.as_ref().try_cancel(self.rig.timers())
    }

    /// Cancels the timer.
    pub fn cancel(&self) -> bool {
        self.timer.as_ref().cancel(self.rig.timers())
    }

    /// Returns true if the timer is queued.
    #[must_use]
    pub fn is_queued(&self) -> bool {
        self.timer.is_queued()
    }

    /// Returns true if the timer is queued or its callback runs.
    #[must_use]
    pub fn is_active(&self) -> bool {
        self.timer.is_active()
    }

    /// Returns the state of the timer in its life cycle.
    #[must_use]
    pub fn state(&self) -> State {
        self.timer.state()
    }

    /// Returns true if the executing CPU runs the timer's callback.
    #[must_use]
    pub fn is_own_callback(&self) -> bool {
        self.timer.as_ref().is_own_callback(self.rig.timers())
    }

    /// Returns the deadline of the timer, on its clock, while it is queued.
    #[must_use]
    pub fn deadline(&self) -> Option<i64> {
        let deadline = self.timer.as_ref().deadline(self.rig.timers());
        deadline.map(Instant::as_nanos)
    }

    /// Returns the CPU on which the timer is.
    #[must_use]
    pub fn cpu(&self) -> Option<u32> {
        self.timer.as_ref().cpu(self.rig.timers()).map(|cpu| cpu.0)
    }

    /// Returns the next event of `cpu` without this timer.
    #[must_use]
    pub fn next_event_without(&self, cpu: u32) -> i64 {
        let (timers, timer) = (self.rig.timers(), self.timer.as_ref());
        timers.next_event_without(CpuId(cpu), timer).as_nanos()
    }

    /// Returns the readings of the timer's clock, one for each firing.
    #[must_use]
    pub fn fired_at(&self) -> Vec<i64> {
        self.fired.borrow().clone()
    }

    /// Returns the name of the timer in traces.
    #[must_use]
    pub fn id(&self) -> TimerId {
        TimerId(self.timer.as_ref().id())
    }
}

impl<H: Host, T: ClockId> Drop for TestTimer<H, T> {
    fn drop(&mut self) {
        self.cancel();
    }
}

type CoarseScript = Box<dyn FnMut(&mut Timeout) -> Restart>;

/// A coarse timer that belongs to a rig, shuts itself down when it is dropped, and remembers the arguments of its
/// callback. Its operations take the rig's tick as the present time.
pub struct CoarseTimer<H: Host> {
    rig: Rig<H>,
    timer: Pin<Box<WheelTimer<CoarseCall>>>,
    fired: Rc<RefCell<Vec<Timeout>>>,
}

impl<H: Host> CoarseTimer<H> {
    /// Makes a timer for the wheel of `kind`.
    pub fn new(
        rig: &Rig<H>,
        kind: WheelKind,
        mut callback: impl FnMut(&mut Timeout) -> Restart + 'static,
    ) -> Self {
        let fired = Rc::new(RefCell::new(Vec::new()));
        let log = Rc::clone(&fired);
        let script: CoarseScript = Box::new(move |timeout| {
            log.borrow_mut().push(*timeout);
            callback(timeout)
        });
        let call = Call::new(script);
        let function: CoarseCall = Box::new(move |timeout| {
            let run = |script: &mut CoarseScript| script(timeout);
            call.run(run).unwrap_or(Restart::No)
        });
        Self {
            rig: rig.clone(),
            timer: Box::pin(WheelTimer::new(kind, function)),
            fired,
        }
    }

    /// Makes a timer that fires once for each arming.
    #[must_use]
    pub fn once(rig: &Rig<H>, kind: WheelKind) -> Self {
        Self::new(rig, kind, |_| Restart::No)
    }

    /// Makes a timer whose callback is given the timer itself.
    pub fn cyclic(
        rig: &Rig<H>,
        kind: WheelKind,
        mut callback: impl FnMut(&Self, &mut Timeout) -> Restart + 'static,
    ) -> Rc<Self> {
        Rc::new_cyclic(|own: &Weak<Self>| {
            let own = Weak::clone(own);
            Self::new(rig, kind, move |timeout| {
                let own = own.upgrade().expect("a timer that fires is alive");
                callback(&own, timeout)
            })
        })
    }

    /// Arms the timer.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`WheelTimer::arm`](tickless_core::coarse::WheelTimer::arm).
    pub fn arm(&self, expiry: u64) -> Result<(), ArmError> {
        let (timers, now) = (self.rig.timers(), self.rig.tick());
        self.timer.as_ref().arm(timers, now, Tick(expiry))
    }

    /// Arms the timer pinned.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`arm`](Self::arm).
    pub fn arm_local(&self, expiry: u64) -> Result<(), ArmError> {
        let (timers, now) = (self.rig.timers(), self.rig.tick());
        self.timer.as_ref().arm_local(timers, now, Tick(expiry))
    }

    /// Arms the timer movable.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`arm`](Self::arm).
    pub fn arm_global(&self, expiry: u64) -> Result<(), ArmError> {
        let (timers, now) = (self.rig.timers(), self.rig.tick());
        self.timer.as_ref().arm_global(timers, now, Tick(expiry))
    }

    /// Arms the timer on a given CPU.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`arm`](Self::arm).
    pub fn arm_on(&self, cpu: u32, expiry: u64) -> Result<(), ArmError> {
        let (timers, now) = (self.rig.timers(), self.rig.tick());
        self.timer
            .as_ref()
            .arm_on(timers, CpuId(cpu), now, Tick(expiry))
    }

    /// Modifies the timer.
    pub fn modify(&self, expiry: u64) -> StartOutcome {
        let (timers, now) = (self.rig.timers(), self.rig.tick());
        self.timer.as_ref().modify(timers, now, Tick(expiry))
    }

    /// Modifies the timer if it stays in its slot on the executing CPU.
    pub fn modify_in_slot(&self, expiry: u64) -> bool {
        let timer = self.timer.as_ref();
        timer.modify_in_slot(self.rig.timers(), Tick(expiry))
    }

    /// Modifies the timer if it belongs to the executing CPU.
    #[must_use]
    pub fn modify_own(&self, expiry: u64) -> Option<Own> {
        let (timers, now) = (self.rig.timers(), self.rig.tick());
        self.timer.as_ref().modify_own(timers, now, Tick(expiry))
    }

    /// Modifies the timer if it is queued.
    pub fn modify_if_active(&self, expiry: u64) -> StartOutcome {
        let (timers, now) = (self.rig.timers(), self.rig.tick());
        self.timer
            .as_ref()
            .modify_if_active(timers, now, Tick(expiry))
    }

    /// Makes the timer fire earlier.
    pub fn reduce(&self, expiry: u64) -> StartOutcome {
        let (timers, now) = (self.rig.timers(), self.rig.tick());
        self.timer.as_ref().reduce(timers, now, Tick(expiry))
    }

    /// Deletes the timer.
    pub fn delete(&self) -> bool {
        self.timer.as_ref().delete(self.rig.timers())
    }

    /// Deletes the timer unless its callback runs.
    #[must_use]
    pub fn try_delete_sync(&self) -> TryCancel {
        self.timer.as_ref().try_delete_sync(self.rig.timers())
    }

    /// Deletes the timer and waits for its callback to end.
    pub fn delete_sync(&self) -> bool {
        self.timer.as_ref().delete_sync(self.rig.timers())
    }

    /// Shuts the timer down.
    pub fn shutdown(&self) -> bool {
        self.timer.as_ref().shutdown(self.rig.timers())
    }

    /// Shuts the timer down and waits for its callback to end.
    pub fn shutdown_sync(&self) -> bool {
        self.timer.as_ref().shutdown_sync(self.rig.timers())
    }

    /// Returns true if the timer is queued.
    #[must_use]
    pub fn is_queued(&self) -> bool {
        self.timer.is_queued()
    }

    /// Returns the state of the timer in its life cycle.
    #[must_use]
    pub fn state(&self) -> State {
        self.timer.state()
    }

    /// Returns the CPU and the wheel on which the timer is.
    #[must_use]
    pub fn wheel(&self) -> Option<(u32, WheelKind)> {
        let wheel = self.timer.as_ref().wheel(self.rig.timers());
        wheel.map(|(cpu, kind)| (cpu.0, kind))
    }

    /// Returns the arguments of the timer's callback, one for each firing.
    #[must_use]
    pub fn fired(&self) -> Vec<Timeout> {
        self.fired.borrow().clone()
    }

    /// Returns the ticks in which the timer fired.
    #[must_use]
    pub fn fired_at(&self) -> Vec<u64> {
        self.fired
            .borrow()
            .iter()
            .map(|timeout| timeout.now.0)
            .collect()
    }
}

impl<H: Host> core::fmt::Debug for CoarseTimer<H> {
    fn fmt(&self, formatter: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        formatter
            .debug_struct("CoarseTimer")
            .field("timer", &self.timer)
            .field("fired", &self.fired_at())
            .finish_non_exhaustive()
    }
}

impl<H: Host> Drop for CoarseTimer<H> {
    fn drop(&mut self) {
        self.shutdown_sync();
    }
}
