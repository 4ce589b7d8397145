//! The interface that a host provides to the core.
//!
//! The core computes. The host identifies the executing CPU, reads the clock, writes devices, and wakes other CPUs. Two
//! traits form the interface, and both are resolved at compile time. Every host writes [`Port`]. [`Platform`] contains
//! the host's policies and tuning, and all its items have defaults. In user space a *CPU* is a worker thread.
//!
//! The words MUST and MAY are meant as in RFC 2119.

use core::task::Waker;

use tickless_link::lock::{RawLock, SpinLock};

use crate::base::cpu_base::CpuBase;
use crate::base::expirer::BaseTypes;
use crate::clock::CounterId;
use crate::clock::{Offsets, SetSequence};
use crate::event::{DeviceState, DeviceWrite, InPast};
use crate::slots::moment::Moments;
pub use crate::slots::moment::Recent;
use crate::time::convert::Cycles;
use crate::time::{Instant, Span};
use crate::trace::Event;

pub use crate::cpu::CpuId;

/// The executing CPU, as [`Port::this_cpu`] returns it.
pub struct ThisCpu<'a, P: Port> {
    /// The base of the CPU.
    pub base: &'a CpuBase<P>,
    /// The token that proves to the lock of the base that the owner of the base takes the lock.
    pub token: Option<<P::Lock as RawLock>::Token>,
}

impl<P: Port> Clone for ThisCpu<'_, P> {
    #[inline]
    fn clone(&self) -> Self {
        *self
    }
}
impl<P: Port> Copy for ThisCpu<'_, P> {}

impl<P: Port> core::fmt::Debug for ThisCpu<'_, P> {
    fn fmt(&self, formatter: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        formatter
            .debug_tuple("ThisCpu")
            .field(&self.base.cpu())
            .finish()
    }
}

/// The way in which a canceller waits for a callback that another thread executes (spec CAN-5, CAN-6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waiting {
    /// The canceller polls. For hosts on which no callback can be preempted, so that each callback ends soon.
    Spin,
    /// The canceller sleeps on the expiry lock of the base for soft callbacks, and polls for hard callbacks. For hosts
    /// with a preemptible soft stage.
    SleepForSoft,
    /// The canceller sleeps on the expiry lock of the base for all callbacks. For user space, where any thread can be
    /// preempted.
    Sleep,
}

impl Waiting {
    /// Returns true if cancellers sleep while a callback runs. `soft` is true for a callback of the soft stage.
    pub(crate) const fn sleeps(self, soft: bool) -> bool {
        match self {
            Self::Spin => false,
            Self::SleepForSoft => soft,
            Self::Sleep => true,
        }
    }
}

/// The part of a host that every port implements: the executing CPU, a clock, a device, and a way to interrupt another
/// CPU.
///
/// # Contexts
///
/// *Hard* code runs on the CPU with timer delivery masked ([`Port::Lock`] masks it on hosts with timer interrupts).
/// *Soft* code runs after hard work, unmasked, one at a time on each CPU. All other code is *task* code. Unless its
/// documentation says otherwise, each method of this trait and of [`Platform`] MUST be callable from all three
/// contexts, MUST NOT call back into the core, and MUST NOT block.
///
/// `examples/platform.rs` is an example of a host. The suites of `tickless-conformance` test whether a host is correct.
pub trait Port: Sized {
    /// The lock of a base. On a host with timer interrupts the lock MUST mask them while it is held.
    type Lock: RawLock + Default;

    /// A lock whose waiters sleep. It is held around the callbacks of a base, so that a thread that cancels a running
    /// timer can wait for it.
    ///
    /// Used only if cancellers sleep, which [`WAITING`](Platform::WAITING) selects. Otherwise [`SpinLock`] suffices.
    type ExpiryLock: RawLock + Default;

    /// Data that the host keeps for each CPU. The data is stored inside the [base](CpuBase::local), so that an access
    /// needs no look-up.
    type Local;

    /// Returns the executing CPU; `None` for a thread that is ending and has no base any more.
    ///
    /// The result MUST stay true until the caller gives up the CPU, because the caller is pinned to the CPU.
    fn this_cpu(&self) -> Option<ThisCpu<'_, Self>>;

    /// Returns the base of a CPU, always the same base, or `None` if no such CPU ever existed.
    fn base(&self, cpu: CpuId) -> Option<&CpuBase<Self>>;

    /// Returns the monotonic time. MUST NOT be ahead of the true time, MUST NOT decrease on one CPU.
    ///
    /// A timer fires when this time has reached the timer's expiry.
    fn now(&self) -> Instant;

    /// Writes the event device of the CPU of `base`, see [`EventDriver::write`](crate::event::EventDriver::write).
    /// Called with `base` locked, by that CPU or by a thread that executes its entry points.
    ///
    /// # Errors
    ///
    /// See [`EventDriver::write`](crate::event::EventDriver::write).
    fn write_device(&self, base: &CpuBase<Self>, write: DeviceWrite) -> Result<(), InPast>;

    /// Makes the CPU of `base` call [`retrigger`](crate::base::Timers::retrigger) soon, whatever that CPU executes.
    ///
    /// Called at most once until that call has begun (spec LOC-17), so a lost kick is a lost timer. MUST also work if
    /// that CPU is the executing CPU.
    fn kick(&self, base: &CpuBase<Self>);
}

/// A host: a [`Port`] with policies and tuning.
///
/// All items have defaults, so that `impl Platform for MyHost {}` makes a host of a port. The defaults are right for
/// one CPU whose device [takes an instant](crate::event::DeviceConfig::software), whose only clock is the monotonic
/// clock, and whose callbacks do not panic. The rules for methods are those of [`Port`].
pub trait Platform: Port {
    /// True if the rearm of the device at the end of an interrupt is left to a flush point (spec ).
    ///
    /// With `true` the host MUST call [`flush_deferred`](crate::base::Timers::flush_deferred) at every flush point of
    /// spec that the host has. With `false` the interrupt writes the device itself.
    const DEFERRED_REARM: bool = false;

    /// The way in which a canceller waits for a callback.
    const WAITING: Waiting = Waiting::Spin;

    /// The number of callbacks after which an interrupt or a soft stage returns although more timers are due (spec
    ///
    ///
    /// The remaining timers fire soon, because the device is armed for a time in the past. Use `u32::MAX` if callbacks
    /// are trusted.
    const EXPIRY_BUDGET: u32 = u32::MAX;

    /// The number of callbacks after which a soft stage returns although more timers are due; it is raised again. Less
    /// than [`EXPIRY_BUDGET`](Self::EXPIRY_BUDGET) where the host gives the rest of the work to a thread.
    const SOFT_BUDGET: u32 = Self::EXPIRY_BUDGET;

    /// True if [`trace`](Platform::trace) has an effect. If false, the code that builds events is not compiled in.
    /// [`is_traced`](Platform::is_traced) switches tracing at run time.
    const TRACE: bool = false;

    /// Returns the same as [`this_cpu`](Port::this_cpu), but MAY return `None` if it takes a call to find the executing
    /// CPU.
    #[inline]
    fn this_cpu_if_known(&self) -> Option<ThisCpu<'_, Self>> {
        self.this_cpu()
    }

    /// Returns a monotonic time that MUST NOT be behind the true time.
    ///
    /// A relative timer counts from this time. A host with a coarse clock, or with a cheap but inexact reading, adds
    /// the uncertainty, so that no timer is early (STYLE T2).
    fn now_upper(&self) -> Instant {
        self.now()
    }

    /// Returns the number of the present moment, an interval of the host's choice, without reading a clock. When a
    /// moment ends, the number changes to a number that was never used before and is not [`u64::MAX`]. `None` on a host
    /// without moments.
    ///
    /// All starts of timers within one moment call [`recent`](Platform::recent) only once.
    #[inline]
    fn moment(&self) -> Option<u64> {
        None
    }

    /// Returns a time that has passed and belongs to the present [`moment`](Platform::moment), with the number of that
    /// moment. A host that does not know the moment returns the time without a number, and the core then calls it each
    /// time.
    ///
    /// The slot of a timer depends on its distance from this time. The older the time, the more often a timer is
    /// enqueued again. So the time should be as recent as the host can know without a call.
    ///
    /// By default the result is [`now`](Port::now).
    #[inline]
    fn recent(&self) -> Recent {
        Recent {
            moment: None,
            now: self.now(),
        }
    }

    /// Returns the monotonic time, and the present offsets if the clocks were set since `seen` (spec TIM-20).
    ///
    /// By default all other clocks always show the monotonic time.
    fn now_and_offsets(&self, seen: SetSequence) -> (Instant, Option<(SetSequence, Offsets)>) {
        let _ = seen;
        (self.now(), None)
    }

    /// Returns the value that `counter` will have at `when`, see
    /// [`EventDriver::cycles_at`](crate::event::EventDriver::cycles_at).
    fn cycles_at(&self, counter: CounterId, when: Instant) -> Option<Cycles> {
        let _ = (counter, when);
        None
    }

    /// Puts the event device of the CPU of `base` into a state, see
    /// [`EventDriver::set_state`](crate::event::EventDriver::set_state).
    ///
    /// By default the function programs a device that must be silent for [`Instant::FOREVER`].
    fn set_device_state(&self, base: &CpuBase<Self>, state: DeviceState) {
        if matches!(state, DeviceState::Shutdown | DeviceState::OneshotStopped) {
            // No instant to come is in the past.
            let _written = self.write_device(base, DeviceWrite::Absolute(Instant::FOREVER));
        }
    }

    /// Calls `callback` once.
    ///
    /// Called without any lock of the core. MUST NOT unwind: a host in which callbacks can panic catches the panic
    /// here, counts it and reports it. The core then treats the timer as stopped.
    fn call(&self, callback: &mut dyn FnMut()) {
        callback();
    }

    /// Wakes a task. Called without any lock of the core. MUST NOT unwind, see [`call`](Platform::call).
    fn wake(&self, waker: Waker) {
        waker.wake();
    }

    /// Makes the CPU of `base` call [`soft_interrupt`](crate::base::Timers::soft_interrupt) soon. Called by that
    /// CPU, or by a thread that executes its entry points, with `base` locked.
    ///
    /// The default kicks the CPU. With the default the CPU MUST call
    /// [`soft_interrupt`](crate::base::Timers::soft_interrupt) after each kick and after each interrupt. The call does
    /// nothing if the soft stage was not raised.
    fn raise_soft(&self, base: &CpuBase<Self>) {
        self.kick(base);
    }

    /// Returns true if an unpinned timer that the CPU of `this` starts stays on this CPU (spec, cases 8 to 11).
    /// Called on that CPU for a timer that is on it, with its base locked. [`keep_local_by_table`] is the reference
    /// implementation.
    ///
    /// By default the timer stays.
    fn keep_local(&self, this: &CpuBase<Self>) -> bool {
        let _ = this;
        true
    }

    /// Returns the CPU for a timer that does not stay on its CPU: any online CPU, or `this` if no other CPU is better.
    /// `this` is `None` when the executing CPU is offline; then the result MUST be another CPU. Called with a base
    /// locked. [`pick_target_by_table`] is the reference implementation for an online CPU and a timer that is not
    /// pinned.
    ///
    /// By default the result is the executing CPU, or CPU 0.
    fn pick_target(&self, this: Option<CpuId>, pinned: bool) -> CpuId {
        let _ = pinned;
        this.unwrap_or(CpuId(0))
    }

    /// Returns the CPU that gets a global coarse timer which the CPU of `this` arms, if `this` is an isolated CPU that
    /// keeps no global timers. Returns `None` if `this` keeps the timer. Called with a base locked. A result that is
    /// offline counts as `None`.
    #[inline]
    fn housekeeper(&self, this: &CpuBase<Self>) -> Option<CpuId> {
        let _ = this;
        None
    }

    /// Returns true if timers may move between CPUs at all (spec, cases 3 and 4).
    fn migration_enabled(&self) -> bool {
        true
    }

    /// Returns true if the CPU of `this` keeps the exact and coarse timers that it starts, according to
    /// [`keep_local`](Platform::keep_local) and [`housekeeper`](Platform::housekeeper). `false` means that the answer
    /// is not known.
    ///
    /// Called on the fast paths. A host that would need a call to find the answer returns `false`, because all fast
    /// paths would pay for the registers that the call needs to have saved.
    #[inline]
    fn try_keep_local_fast(&self, this: &CpuBase<Self>) -> bool {
        self.keep_local(this) && self.housekeeper(this).is_none()
    }

    /// Returns true if a restart may leave a queued timer in its place (spec ): between the same neighbours, under
    /// an older key, or in its far bucket. If false, a restart always dequeues and enqueues the timer.
    ///
    /// The setting is meant for experiments: it changes the cost of a start, not the time at which a timer fires. If
    /// false, a timer that is restarted for its present deadline is queued after the other timers with that deadline.
    /// The default costs nothing, because the compiler knows its result. MAY change at any time.
    #[inline]
    fn updates_in_place(&self) -> bool {
        true
    }

    /// Returns true if the core has to call [`note_lateness`](Platform::note_lateness) for each exact timer. Called
    /// once in each pass over the queues; MAY change at any time. The default costs nothing, because the compiler
    /// removes the calls.
    ///
    /// With `true` timers fire one by one, not in runs, which costs some 20 instructions more for each timer.
    #[inline]
    fn counts_lateness(&self) -> bool {
        false
    }

    /// Notes that an exact timer of the CPU of `base` fires in a pass that began `late` after the timer's soft expiry,
    /// which is the deadline of a timer without slack. Called with `base` locked, while
    /// [`counts_lateness`](Platform::counts_lateness) returns true. Not called for a timer that fires because its clock
    /// was set.
    #[inline]
    fn note_lateness(&self, base: &CpuBase<Self>, late: Span) {
        let _ = (base, late);
    }

    /// Pauses a thread that polls; `attempt` counts from 0.
    fn relax(&self, attempt: u32) {
        let _ = attempt;
        tickless_link::sync::spin_loop();
    }

    /// Returns true if events are traced now. If false, the core does not build events. The result MAY change at any
    /// time.
    ///
    /// By default the result is [`TRACE`](Platform::TRACE).
    #[inline]
    fn is_traced(&self) -> bool {
        Self::TRACE
    }

    /// Returns true if the expiry of a timer that is about to leave its queue is traced, with the base locked. After
    /// true, the core calls [`trace`](Platform::trace) on this CPU without the lock. So an operation of another CPU on
    /// the timer may be traced before the expiry. A host that orders the events of several CPUs assigns the sequence
    /// number of the expiry in this call.
    ///
    /// By default the result is [`is_expiry_traced`](Platform::is_expiry_traced).
    #[inline]
    fn traces_expiry(&self) -> bool {
        self.is_expiry_traced()
    }

    /// Returns true if expiries are traced now, and assigns nothing. A host that records expiries alone, so that starts
    /// and cancels cost nothing, returns true here and false in [`is_traced`](Platform::is_traced).
    ///
    /// By default the result is [`is_traced`](Platform::is_traced).
    #[inline]
    fn is_expiry_traced(&self) -> bool {
        self.is_traced()
    }

    /// Records an event of the trace (spec ). Called without locks where the specification demands it, and with
    /// the base locked otherwise.
    fn trace(&self, event: Event) {
        let _ = event;
    }
}

impl<P: Port> BaseTypes for P {
    type Lock = <P as Port>::Lock;
    type ExpiryLock = <P as Port>::ExpiryLock;
    type Local = <P as Port>::Local;
}

/// Returns the reference answer of [`Platform::keep_local`], by the table of spec, cases 8 to 11.
#[must_use]
pub const fn keep_local_by_table(
    isolated: bool,
    tick_stopped: bool,
    reschedule_pending: bool,
) -> bool {
    if isolated {
        return false;
    }
    if !tick_stopped {
        return true;
    }
    reschedule_pending
}

/// A housekeeping CPU, which may receive timers that another CPU starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Housekeeper {
    /// The CPU is awake: its tick runs or is about to run. It would [keep](keep_local_by_table) the timer if it had
    /// started the timer itself.
    Awake(CpuId),
    /// The CPU sleeps, and would have to wake up for the timer.
    Asleep(CpuId),
}

/// Returns the reference answer of [`Platform::pick_target`] (spec ): the first of `others` that is awake. If all
/// others sleep, the timer of an isolated CPU moves to the first of them, and the timer of any other CPU stays on
/// `this`.
///
/// `others` are the online housekeeping CPUs except `this`, the nearest first.
#[must_use]
pub fn pick_target_by_table(
    this: CpuId,
    isolated: bool,
    others: impl IntoIterator<Item = Housekeeper>,
) -> CpuId {
    let mut asleep = None;
    for other in others {
        match other {
            Housekeeper::Awake(cpu) => return cpu,
            Housekeeper::Asleep(cpu) => {
                asleep.get_or_insert(cpu);
            }
        }
    }
    asleep.filter(|_| isolated).unwrap_or(this)
}

/// A host with no CPU, no device and a stopped clock.
///
/// It satisfies the contract of [`Port`] and [`Platform`] to the letter and does nothing. Compile tests use it, and a
/// new port can begin with it.
#[derive(Debug, Default)]
pub struct NullPlatform;

impl Port for NullPlatform {
    type Lock = SpinLock;
    type ExpiryLock = SpinLock;
    type Local = ();

    fn this_cpu(&self) -> Option<ThisCpu<'_, Self>> {
        None
    }
    fn base(&self, _cpu: CpuId) -> Option<&CpuBase<Self>> {
        None
    }
    fn now(&self) -> Instant {
        Instant::ZERO
    }
    fn write_device(&self, _base: &CpuBase<Self>, _write: DeviceWrite) -> Result<(), InPast> {
        Ok(())
    }
    fn kick(&self, _base: &CpuBase<Self>) {}
}

impl Platform for NullPlatform {}

impl<P: Platform> Moments for P {
    #[inline(always)]
    fn moment(&self) -> Option<u64> {
        Platform::moment(self)
    }
    #[inline(always)]
    fn recent(&self) -> Recent {
        Platform::recent(self)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{CpuId, Housekeeper, pick_target_by_table};

    #[test]
    fn a_timer_goes_to_the_nearest_cpu_that_is_awake_and_else_from_isolated_ones_alone() {
        let [asleep, awake] = [Housekeeper::Asleep, Housekeeper::Awake];
        let picks = |isolated, others: &[Housekeeper]| {
            pick_target_by_table(CpuId(0), isolated, others.iter().copied()).0
        };
        let mixed = [asleep(CpuId(3)), awake(CpuId(2)), awake(CpuId(1))];
        assert_eq!(
            [false, true].map(|isolated| picks(isolated, &mixed)),
            [2, 2]
        );
        let sleepers = [asleep(CpuId(3)), asleep(CpuId(2))];
        assert_eq!(
            [false, true].map(|isolated| picks(isolated, &sleepers)),
            [0, 3]
        );
        assert_eq!([false, true].map(|isolated| picks(isolated, &[])), [0, 0]);
    }
}
