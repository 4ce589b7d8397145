//! The interface that a host provides to the core.
//!
//! The core computes; the host says who executes, reads the clock, writes devices, and wakes other CPUs. Two traits say
//! how, both resolved at compile time: [`Port`] is what every host writes, and [`Platform`] are its policies and its
//! tuning, which all have defaults. In user space a *CPU* is a worker thread.
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
    /// The token that proves to the lock of the base that its owner takes it.
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

/// The way in which a canceller waits for a callback that executes elsewhere (spec CAN-5, CAN-6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waiting {
    /// The canceller polls. It is for hosts where a callback cannot be preempted, so that it ends soon.
    Spin,
    /// The canceller sleeps on the expiry lock of the base for soft callbacks, and polls for hard ones. It is for
    /// preemptible soft stages.
    SleepForSoft,
    /// The canceller sleeps on the expiry lock of the base for all callbacks. It is for user space, where any thread
    /// can be preempted.
    Sleep,
}

impl Waiting {
    /// Returns true if cancellers sleep while a callback runs, in the soft stage or not.
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
/// *Hard*: on the CPU, with timer delivery masked ([`Port::Lock`] masks it where it can happen). *Soft*: after hard
/// work, unmasked, one at a time on each CPU. *Task*: anything else. Unless said otherwise a method of this trait and
/// of
/// [`Platform`] MUST be callable from all of them, MUST NOT call back into the core, and MUST NOT block.
///
/// `examples/platform.rs` is such a host; the suites of `tickless-rig` say whether it is right.
pub trait Port: Sized {
    /// The lock of a base. Where timer interrupts can arrive it MUST mask them while it is held.
    type Lock: RawLock + Default;

    /// A lock whose waiters sleep. It is held around the callbacks of a base, so that a thread that cancels a running
    /// timer can wait for it.
    ///
    /// Used only when [`WAITING`](Platform::WAITING) says so; [`SpinLock`] will do otherwise.
    type ExpiryLock: RawLock + Default;

    /// Data that the host keeps for each CPU. It lies inside the [base](CpuBase::local), so that reaching it needs no
    /// look-up.
    type Local;

    /// Returns the executing CPU; `None` for a thread at the end of its life, which has no base any more.
    ///
    /// The answer MUST stay true until the caller gives up the CPU: the caller is pinned.
    fn this_cpu(&self) -> Option<ThisCpu<'_, Self>>;

    /// Returns the base of a CPU, always the same one, or `None` if there never was such a CPU.
    fn base(&self, cpu: CpuId) -> Option<&CpuBase<Self>>;

    /// Returns the monotonic time. MUST NOT be ahead of the true time, MUST NOT decrease on one CPU.
    ///
    /// A timer fires when this says that its time has come.
    fn now(&self) -> Instant;

    /// Writes the event device of the CPU of `base`, see [`EventDriver::write`](crate::event::EventDriver::write).
    /// Called with `base` locked, by that CPU or by a thread that executes its entry points.
    ///
    /// # Errors
    ///
    /// See [`EventDriver::write`](crate::event::EventDriver::write).
    fn write_device(&self, base: &CpuBase<Self>, write: DeviceWrite) -> Result<(), InPast>;

    /// Makes the CPU of `base` call [`retrigger`](crate::base::Timers::retrigger) soon, wherever it is.
    ///
    /// Called at most once until that call has begun (spec LOC-17), so a lost kick is a lost timer. MUST be harmless
    /// when the CPU is the caller's own.
    fn kick(&self, base: &CpuBase<Self>);
}

/// A host: a [`Port`] with policies and tuning.
///
/// All items have defaults, so that `impl Platform for MyHost {}` makes a host of a port. The defaults are right for
/// one CPU whose device [takes an instant](crate::event::DeviceConfig::software), whose only clock is the monotonic
/// one, and whose callbacks do not panic. The rules for methods are those of [`Port`].
pub trait Platform: Port {
    /// True if the rearm of the device at the end of an interrupt is left to a flush point (spec ).
    ///
    /// With `true` the host MUST call [`flush_deferred`](crate::base::Timers::flush_deferred) at every point of spec
    /// that it has. With `false` the interrupt writes the device itself.
    const DEFERRED_REARM: bool = false;

    /// The way in which a canceller waits for a callback.
    const WAITING: Waiting = Waiting::Spin;

    /// The number of callbacks after which an interrupt or a soft stage returns although more timers are due (spec
    ///
    ///
    /// The timers that are left are due at once: the device is armed in the past. `u32::MAX` where callbacks are
    /// trusted.
    const EXPIRY_BUDGET: u32 = u32::MAX;

    /// True if [`trace`](Platform::trace) has an effect. If false, the events are not even built;
    /// [`is_traced`](Platform::is_traced) switches it at run time.
    const TRACE: bool = false;

    /// Returns [`this_cpu`](Port::this_cpu), but MAY return `None` although there is one, if finding it out takes a
    /// call.
    #[inline]
    fn this_cpu_if_known(&self) -> Option<ThisCpu<'_, Self>> {
        self.this_cpu()
    }

    /// Returns a monotonic time that MUST NOT be behind the true time.
    ///
    /// The start of a relative timer counts from here. Hosts whose clock has a granularity, or a cheap reading that is
    /// not exact, add the uncertainty, so that no timer is early (STYLE T2).
    fn now_upper(&self) -> Instant {
        self.now()
    }

    /// Returns the number of the present moment, an interval of the host's choice, without reading a clock. When a
    /// moment ends, the number changes to one that was never used before, and is not [`u64::MAX`]. `None` on a host
    /// without moments.
    ///
    /// Within one moment what is filed asks for [`recent`](Platform::recent) once.
    #[inline]
    fn moment(&self) -> Option<u64> {
        None
    }

    /// Returns a time that has passed and belongs to the present [`moment`](Platform::moment), with the number of that
    /// moment. A host that does not know the moment returns none with the time, and is called each time then.
    ///
    /// The distance of a timer, by which its slot is chosen, counts from here: the older the answer, the more often it
    /// is filed again. So the answer is as recent as can be said without a call.
    ///
    /// By default [`now`](Port::now).
    #[inline]
    fn recent(&self) -> Recent {
        Recent {
            moment: None,
            now: self.now(),
        }
    }

    /// Returns the monotonic time, and the present offsets if the clocks were set since `seen` (spec TIM-20).
    ///
    /// By default the other clocks show what the monotonic one shows, for ever.
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
    /// By default a device that is to be silent is told [`Instant::FOREVER`].
    fn set_device_state(&self, base: &CpuBase<Self>, state: DeviceState) {
        if matches!(state, DeviceState::Shutdown | DeviceState::OneshotStopped) {
            // No instant to come is in the past.
            let _written = self.write_device(base, DeviceWrite::Absolute(Instant::FOREVER));
        }
    }

    /// Calls `callback` once.
    ///
    /// Called without any lock of the core. MUST NOT unwind: a host in which callbacks can panic catches it here,
    /// counts and reports it; the core then takes the timer for stopped.
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
    /// By default kicks the CPU, which then MUST call it whenever it was kicked and behind each interrupt: it does
    /// nothing where nothing was raised.
    fn raise_soft(&self, base: &CpuBase<Self>) {
        self.kick(base);
    }

    /// Returns true if a timer that the CPU of `this` starts unpinned stays there (spec, cases 8 to 11). The
    /// timer is on that CPU, which executes, and whose base is locked. [`keep_local_by_table`] is the reference answer.
    ///
    /// By default it stays.
    fn keep_local(&self, this: &CpuBase<Self>) -> bool {
        let _ = this;
        true
    }

    /// Returns the CPU for a timer that does not stay: any online CPU, `this` if nothing is better. `this` is `None`
    /// when the executing CPU is offline; then the result MUST be another one. Called with a base locked.
    /// [`pick_target_by_table`] is the reference for a CPU that is online and a timer that is not pinned.
    ///
    /// By default the executing CPU, or CPU 0.
    fn pick_target(&self, this: Option<CpuId>, pinned: bool) -> CpuId {
        let _ = pinned;
        this.unwrap_or(CpuId(0))
    }

    /// Returns the other CPU that gets a global coarse timer which the CPU of `this` arms, for isolated CPUs that keep
    /// none. Called with a base locked. An offline CPU counts as none.
    #[inline]
    fn housekeeper(&self, this: &CpuBase<Self>) -> Option<CpuId> {
        let _ = this;
        None
    }

    /// Returns true if timers move between CPUs at all (spec, cases 3 and 4).
    fn migration_enabled(&self) -> bool {
        true
    }

    /// Returns true if the CPU of `this` keeps what it starts, exact and coarse, as
    /// [`keep_local`](Platform::keep_local) and [`housekeeper`](Platform::housekeeper) say it; `false` says nothing.
    ///
    /// Asked on the shortest paths: a host that needs a call to know says `false`, for what that would need to have
    /// saved all of them would pay.
    #[inline]
    fn try_keep_local_fast(&self, this: &CpuBase<Self>) -> bool {
        self.keep_local(this) && self.housekeeper(this).is_none()
    }

    /// Returns true if a restart may leave a queued timer in its place (spec ): between the same neighbours, under
    /// an older key, or in its far bucket. If false, a restart always dequeues and enqueues the timer.
    ///
    /// For experiments alone: it changes what a start costs, not when anything fires. Of timers with equal deadlines
    /// one that is started for the deadline that it has goes behind the others then. The default costs nothing, because
    /// the compiler sees it. MAY change at any time.
    #[inline]
    fn updates_in_place(&self) -> bool {
        true
    }

    /// Returns true if the core has to call [`note_lateness`](Platform::note_lateness) for each exact timer. Called
    /// once in each pass over the queues; MAY change at any time. The default costs nothing, because the compiler
    /// removes the calls.
    ///
    /// With `true` timers fire one by one, not in runs: some 20 instructions more for each.
    #[inline]
    fn counts_lateness(&self) -> bool {
        false
    }

    /// Notes that an exact timer of the CPU of `base` fires in a pass that began `late` after the timer's soft expiry,
    /// which is the deadline of a timer without slack. Called with `base` locked while
    /// [`counts_lateness`](Platform::counts_lateness), for each timer but those that fire because their clock was set.
    #[inline]
    fn note_lateness(&self, base: &CpuBase<Self>, late: Span) {
        let _ = (base, late);
    }

    /// Pauses a thread that polls; `attempt` counts from 0.
    fn relax(&self, attempt: u32) {
        let _ = attempt;
        tickless_link::sync::spin_loop();
    }

    /// Returns true if events are traced now: without it they are not even put together. The answer MAY change at any
    /// time.
    ///
    /// By default [`TRACE`](Platform::TRACE).
    #[inline]
    fn is_traced(&self) -> bool {
        Self::TRACE
    }

    /// Returns true if the expiry of a timer that is about to leave its queue is traced, with the base locked. Then
    /// [`trace`](Platform::trace) follows on this CPU, without the lock, and what another CPU does to the timer
    /// meanwhile may be traced before it. A host that orders the events of several CPUs draws the number of the expiry
    /// here.
    ///
    /// By default [`is_traced`](Platform::is_traced).
    #[inline]
    fn traces_expiry(&self) -> bool {
        self.is_traced()
    }

    /// Takes an event of the trace (spec ). Called without locks where the specification demands it, else with the
    /// base locked.
    fn trace(&self, event: Event) {
        let _ = event;
    }
}

impl<P: Port> BaseTypes for P {
    type Lock = <P as Port>::Lock;
    type ExpiryLock = <P as Port>::ExpiryLock;
    type Local = <P as Port>::Local;
}

/// Returns the default answer of [`Platform::keep_local`]: the table of spec, cases 8 to 11.
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
    /// The CPU would [keep](keep_local_by_table) the timer if it were its own: its tick runs, or is about to.
    Awake(CpuId),
    /// The CPU sleeps, and would have to wake up.
    Asleep(CpuId),
}

/// Returns the default answer of [`Platform::pick_target`] (spec ): the first of `others` that is awake. If all
/// sleep, the timer of an isolated CPU goes to the first of them, and that of any other CPU stays with `this`.
///
/// `others` are the online housekeeping CPUs without `this`, the nearest first.
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

/// A host with no CPU, no device and a clock that stands still.
///
/// It satisfies the contract of [`Port`] and [`Platform`] to the letter and does nothing: for compile tests, and as a
/// start for a port.
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
