//! A timer for scripts: it notes when it fired.

use std::cell::RefCell;
use std::pin::Pin;
use std::rc::{Rc, Weak};

use tickless_core::base::TryCancel;
use tickless_core::hrtimer::{AlreadyExpired, Expired, HrTimer, Restart, Setup, Start};
use tickless_core::link::entry::State;
use tickless_core::platform::CpuId;
use tickless_core::time::{ClockId, Instant, Monotonic};
use tickless_core::trace::TimerId;
use tickless_sim::call::Call;

use crate::machine::{Config, Machine};

type Script<T> = Box<dyn FnMut(&mut Expired<'_, '_, T>) -> Restart>;

/// A timer that belongs to a machine, cancels itself when it is dropped, and remembers the times at which it fired.
pub struct TestTimer<C: Config, T: ClockId = Monotonic> {
    machine: Machine<C>,
    timer: Pin<Box<dyn Timer<C, T>>>,
    fired: Rc<RefCell<Vec<i64>>>,
}

/// A timer whose closure type is forgotten.
trait Timer<C: Config, T: ClockId> {
    fn start(self: Pin<&Self>, machine: &Machine<C>, start: Start<T>);
    fn start_checked(
        self: Pin<&Self>,
        machine: &Machine<C>,
        start: Start<T>,
    ) -> Result<(), AlreadyExpired>;
    fn try_cancel(self: Pin<&Self>, machine: &Machine<C>) -> TryCancel;
    fn cancel(self: Pin<&Self>, machine: &Machine<C>) -> bool;
    fn is_queued(&self) -> bool;
    fn is_active(&self) -> bool;
    fn cpu(self: Pin<&Self>, machine: &Machine<C>) -> Option<CpuId>;
    fn next_event_without(self: Pin<&Self>, machine: &Machine<C>, cpu: CpuId) -> i64;
    fn deadline(self: Pin<&Self>, machine: &Machine<C>) -> Option<i64>;
    fn state(&self) -> State;
    fn is_own_callback(self: Pin<&Self>, machine: &Machine<C>) -> bool;
    fn id(self: Pin<&Self>, machine: &Machine<C>) -> usize;
}

impl<C, T, F> Timer<C, T> for HrTimer<F, T>
where
    C: Config,
    T: ClockId,
    F: FnMut(&mut Expired<'_, '_, T>) -> Restart + Send + 'static,
{
    fn start(self: Pin<&Self>, machine: &Machine<C>, start: Start<T>) {
        machine.timers().start(self, start);
    }
    fn start_checked(
        self: Pin<&Self>,
        machine: &Machine<C>,
        start: Start<T>,
    ) -> Result<(), AlreadyExpired> {
        machine.timers().start_checked(self, start)
    }
    fn try_cancel(self: Pin<&Self>, machine: &Machine<C>) -> TryCancel {
        machine.timers().try_cancel(self)
    }
    fn cancel(self: Pin<&Self>, machine: &Machine<C>) -> bool {
        machine.timers().cancel(self)
    }
    fn is_queued(&self) -> bool {
        self.is_queued()
    }
    fn is_active(&self) -> bool {
        self.is_active()
    }
    fn cpu(self: Pin<&Self>, machine: &Machine<C>) -> Option<CpuId> {
        machine.timers().cpu_of(self)
    }
    fn next_event_without(self: Pin<&Self>, machine: &Machine<C>, cpu: CpuId) -> i64 {
        machine.timers().next_event_without(cpu, self).as_nanos()
    }
    fn deadline(self: Pin<&Self>, machine: &Machine<C>) -> Option<i64> {
        machine.timers().deadline(self).map(Instant::as_nanos)
    }
    fn state(&self) -> State {
        self.state()
    }
    fn is_own_callback(self: Pin<&Self>, machine: &Machine<C>) -> bool {
        machine.timers().is_own_callback(self)
    }
    fn id(self: Pin<&Self>, machine: &Machine<C>) -> usize {
        machine.timers().id_of(self)
    }
}

impl<C: Config, T: ClockId> std::fmt::Debug for TestTimer<C, T> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("TestTimer")
            .field("fired", &self.fired)
            .finish_non_exhaustive()
    }
}

impl<C: Config> TestTimer<C> {
    /// A timer on the monotonic clock with this callback.
    pub fn new(
        machine: &Machine<C>,
        callback: impl FnMut(&mut Expired<'_, '_, Monotonic>) -> Restart + 'static,
    ) -> Self {
        Self::with_setup(machine, Setup::new(), callback)
    }

    /// A timer on the monotonic clock that fires once for each start.
    #[must_use]
    pub fn once(machine: &Machine<C>) -> Self {
        Self::new(machine, |_| Restart::No)
    }
}

impl<C: Config, T: ClockId> TestTimer<C, T> {
    /// A timer made with `setup`.
    pub fn with_setup(
        machine: &Machine<C>,
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
        let function = move |expired: &mut Expired<'_, '_, T>| {
            let run = |script: &mut Script<T>| script(expired);
            call.run(run).unwrap_or(Restart::No)
        };
        let timer = Box::pin(HrTimer::with_setup(setup, false, function));
        Self {
            machine: machine.clone(),
            timer,
            fired,
        }
    }

    /// A timer in the hard stage that fires once for each start.
    #[must_use]
    pub fn once_on(machine: &Machine<C>) -> Self {
        Self::with_setup(machine, Setup::new(), |_| Restart::No)
    }

    /// A timer made with `setup` whose callback is given the timer itself.
    pub fn cyclic(
        machine: &Machine<C>,
        setup: Setup,
        mut callback: impl FnMut(&Self, &mut Expired<'_, '_, T>) -> Restart + 'static,
    ) -> Rc<Self> {
        Rc::new_cyclic(|own: &Weak<Self>| {
            let own = Weak::clone(own);
            Self::with_setup(machine, setup, move |expired| {
                let own = own.upgrade().expect("a timer that fires is alive");
                callback(&own, expired)
            })
        })
    }

    /// Starts it.
    pub fn start(&self, start: Start<T>) {
        self.timer.as_ref().start(&self.machine, start);
    }

    /// Starts it unless its time is over.
    ///
    /// # Errors
    ///
    /// See [`Timers::start_checked`](tickless_core::base::Timers::start_checked).
    pub fn start_checked(&self, start: Start<T>) -> Result<(), AlreadyExpired> {
        self.timer.as_ref().start_checked(&self.machine, start)
    }

    /// Tries to cancel it.
    #[must_use]
    pub fn try_cancel(&self) -> TryCancel {
        self.timer.as_ref().try_cancel(&self.machine)
    }

    /// Cancels it.
    pub fn cancel(&self) -> bool {
        self.timer.as_ref().cancel(&self.machine)
    }

    /// Whether it is queued.
    #[must_use]
    pub fn is_queued(&self) -> bool {
        self.timer.is_queued()
    }

    /// Whether it is queued or its callback runs.
    #[must_use]
    pub fn is_active(&self) -> bool {
        self.timer.is_active()
    }

    /// Its life cycle.
    #[must_use]
    pub fn state(&self) -> State {
        self.timer.state()
    }

    /// Whether its callback is what the executing CPU is in.
    #[must_use]
    pub fn is_own_callback(&self) -> bool {
        self.timer.as_ref().is_own_callback(&self.machine)
    }

    /// Its deadline, on its clock, while it is queued.
    #[must_use]
    pub fn deadline(&self) -> Option<i64> {
        self.timer.as_ref().deadline(&self.machine)
    }

    /// The CPU it is on.
    #[must_use]
    pub fn cpu(&self) -> Option<u32> {
        self.timer.as_ref().cpu(&self.machine).map(|cpu| cpu.0)
    }

    /// The next event of `cpu` without this timer.
    #[must_use]
    pub fn next_event_without(&self, cpu: u32) -> i64 {
        self.timer
            .as_ref()
            .next_event_without(&self.machine, CpuId(cpu))
    }

    /// What its clock showed each time it fired.
    #[must_use]
    pub fn fired_at(&self) -> Vec<i64> {
        self.fired.borrow().clone()
    }

    /// Its name in traces.
    #[must_use]
    pub fn id(&self) -> TimerId {
        TimerId(self.timer.as_ref().id(&self.machine))
    }
}

impl<C: Config, T: ClockId> Drop for TestTimer<C, T> {
    fn drop(&mut self) {
        self.cancel();
    }
}
