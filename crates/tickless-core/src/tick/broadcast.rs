//! A device that wakes CPUs whose own device stops in deep idle (spec C-7.6).
//!
//! Before a CPU enters a state in which its device stops it hands over when it has to wake up; the *broadcast device*
//! fires for the earliest of these times, wherever, and the CPU that handles it sends the others an interrupt. A
//! promise to the hierarchy is part of the CPU's next event, so it is carried like any other (spec C-4.14).
//!
//! # Ground rules
//!
//! - One lock protects everything here. Nothing is called under it: each operation returns what the host has to do
//!   with which device, and the host does so before it unmasks timer delivery.
//! - [`enter`](Broadcast::enter), [`exit`](Broadcast::exit) and [`interrupt`](Broadcast::interrupt) are called by the
//!   CPU itself, with timer delivery masked.
//! - The device is programmed at or before every event in it, but for those that are over and whose handler has not
//!   run yet.

use core::fmt;

use tickless_link::lock::{Guard, Lock, RawLock};

use super::mask::{CpuMask, WORD};
use crate::cpu::CpuId;
use crate::time::{Instant, Span};

/// The device that wakes CPUs whose own device is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carrier {
    /// A device that fires at a fixed rate with this period.
    Periodic(Span),
    /// A device that is programmed for each event.
    Oneshot,
    /// An exact timer of one of the CPUs, whose own device must go on.
    Software,
}

/// The duties of a CPU that may sleep deeply. It MUST stop its own device by
/// [`Timers::stop_device`](crate::base::Timers::stop_device): if the record still had an event as programmed, timers
/// would be lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "devices have to be stopped and programmed"]
pub enum Entered {
    /// The CPU has to stop its own device.
    Covered,
    /// The CPU has to stop its own device, and to program the broadcast device for this instant. If possible, it
    /// directs the interrupt of the broadcast device to itself.
    Program(Instant),
    /// The CPU has to stop its own device, and to program its wake-up device for this instant.
    OwnWakeup(Instant),
}

/// The reasons why a CPU has to choose an idle state in which its own device goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Busy {
    /// The system has no broadcast device.
    NoCarrier,
    /// An interrupt is on its way to this CPU.
    Forced,
    /// The timer that acts as the broadcast device is on this CPU, which wakes the others.
    Carries,
    /// The CPU has the earliest event, so it carries the timer that acts as the broadcast device: it has to start that
    /// timer for this instant.
    TakesOver(Instant),
}

/// The duties of a CPU that leaves a deep idle state.
/// [`Timers::switch_device_on`](crate::base::Timers::switch_device_on) switches its own device on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "the device has to be switched on and programmed"]
pub enum BroadcastExit {
    /// The CPU's own device went on, so there is nothing to do.
    WasAwake,
    /// The CPU has to switch its own device on, and not to program it: either there is no event, or the interrupt for
    /// it is on its way, and another one would only come in between.
    SwitchOn,
    /// The CPU has to switch its own device on, and to program it for its next wake-up, as
    /// [`Timers::retrigger`](crate::base::Timers::retrigger) does.
    Program,
}

/// The duties of the CPU that handles the broadcast device, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "CPUs are asleep until they are woken"]
pub struct Delivery<const WORDS: usize> {
    /// The instant to program the broadcast device for; [`Instant::FOREVER`] for none. A periodic device needs no
    /// programming.
    pub program: Instant,
    /// The CPUs to send an interrupt, in which they do the work of their own device's interrupt.
    pub wake: CpuMask<WORDS>,
    /// True if the handling CPU has to do that work too.
    pub own: bool,
}

/// A look at the state.
pub(super) struct Look<const WORDS: usize> {
    pub(super) carrier: Option<Carrier>,
    pub(super) next: Instant,
    pub(super) bound: Option<CpuId>,
    pub(super) sleeping: CpuMask<WORDS>,
    pub(super) pending: CpuMask<WORDS>,
}

struct State<const WORDS: usize> {
    /// `None` as long as there has not been one.
    carrier: Option<Carrier>,
    /// Time that the carrier is programmed for.
    next: Instant,
    /// CPU of the software carrier.
    bound: Option<CpuId>,
    /// The CPUs whose own device is stopped, for which the broadcast device fires.
    sleeping: CpuMask<WORDS>,
    /// CPUs among them that were sent an interrupt.
    pending: CpuMask<WORDS>,
    /// CPUs that came back by themselves, late, and get their interrupt all the same.
    forced: CpuMask<WORDS>,
    /// CPUs that sleep until the next period of a periodic carrier.
    waiting: CpuMask<WORDS>,
    /// CPUs that have a wake-up device of their own.
    independent: CpuMask<WORDS>,
    online: CpuMask<WORDS>,
    /// Wake-up times of sleeping CPUs; `FOREVER` once they were sent an interrupt.
    events: [[Instant; WORD]; WORDS],
}

impl<const WORDS: usize> State<WORDS> {
    fn event(&mut self, cpu: CpuId) -> &mut Instant {
        let (word, bit) = CpuMask::<WORDS>::place(cpu);
        &mut self.events[word][bit]
    }

    /// The earliest event of those who sleep.
    fn first(&mut self) -> Instant {
        let mut first = Instant::FOREVER;
        for cpu in self.sleeping.iter() {
            first = first.min(*self.event(cpu));
        }
        first
    }

    /// The carrier's next event, from those that are left. Forced interrupts are due as soon as they are forced.
    fn reprogram(&mut self, now: Instant) -> Instant {
        let first = self.first();
        self.next = if self.forced.is_empty() {
            first
        } else {
            first.min(now)
        };
        self.next
    }
}

/// The CPUs that sleep deeply, the ends of their sleeps, and the device that wakes them. It has room for `64 * WORDS`
/// CPUs.
///
/// # Cost
///
/// One lock each. Handling looks at every CPU that sleeps. 512 bytes for each 64 CPUs, and their masks.
pub struct Broadcast<L: RawLock, const WORDS: usize> {
    state: Lock<L, State<WORDS>>,
}

impl<L: RawLock + Default, const WORDS: usize> Broadcast<L, WORDS> {
    /// Makes the state without online CPUs and without a broadcast device.
    #[must_use]
    pub fn new() -> Self {
        let state = State {
            carrier: None,
            next: Instant::FOREVER,
            bound: None,
            sleeping: CpuMask::NONE,
            pending: CpuMask::NONE,
            forced: CpuMask::NONE,
            waiting: CpuMask::NONE,
            independent: CpuMask::NONE,
            online: CpuMask::NONE,
            events: [[Instant::FOREVER; WORD]; WORDS],
        };
        Self {
            state: Lock::new(L::default(), state),
        }
    }
}

impl<L: RawLock + Default, const WORDS: usize> Default for Broadcast<L, WORDS> {
    fn default() -> Self {
        Self::new()
    }
}

impl<L: RawLock, const WORDS: usize> Broadcast<L, WORDS> {
    fn lock(&self) -> Guard<'_, L, State<WORDS>> {
        self.state.lock(None)
    }

    /// Adds `cpu`. `is_independent` is true if it has a wake-up device of its own.
    pub fn online(&self, cpu: CpuId, is_independent: bool) {
        let mut state = self.lock();
        state.online.insert(cpu);
        if is_independent {
            state.independent.insert(cpu);
        } else {
            state.independent.remove(cpu);
        }
    }

    /// Removes `cpu`, which is awake or will never be again. The broadcast device goes on for the others: if it was a
    /// timer on that CPU, `heir` starts it for the returned instant.
    #[must_use = "the carrier has to go on elsewhere"]
    pub fn offline(&self, cpu: CpuId, heir: CpuId) -> Option<Instant> {
        let mut state = self.lock();
        for mask in [Self::sleeping, Self::pending, Self::forced, Self::waiting] {
            mask(&mut state).remove(cpu);
        }
        state.online.remove(cpu);
        if state.bound != Some(cpu) {
            return None;
        }
        state.bound = Some(heir);
        Some(state.next)
    }

    const fn sleeping(state: &mut State<WORDS>) -> &mut CpuMask<WORDS> {
        &mut state.sleeping
    }
    const fn pending(state: &mut State<WORDS>) -> &mut CpuMask<WORDS> {
        &mut state.pending
    }
    const fn forced(state: &mut State<WORDS>) -> &mut CpuMask<WORDS> {
        &mut state.forced
    }
    const fn waiting(state: &mut State<WORDS>) -> &mut CpuMask<WORDS> {
        &mut state.waiting
    }

    /// Replaces the broadcast device or its mode, and returns the instant to program it for. A periodic device needs no
    /// programming; a software one starts on `cpu`, the caller.
    ///
    /// A CPU that waited for a period of the old device sleeps until the next one would have come. No other CPU
    /// changes: an awake CPU that counted as asleep would not pass on its next event (R39).
    ///
    /// There is no way back to no device, because a CPU may rely on it.
    #[must_use = "the new device has to be programmed"]
    pub fn set_carrier(&self, cpu: CpuId, carrier: Carrier, now: Instant) -> Instant {
        let mut state = self.lock();
        let before = state.carrier.replace(carrier);
        state.bound = (carrier == Carrier::Software).then_some(cpu);
        let moves = match (before, carrier) {
            (Some(Carrier::Periodic(period)), Carrier::Oneshot | Carrier::Software) => Some(period),
            _ => None,
        };
        if let Some(period) = moves {
            for cpu in state.waiting.iter() {
                state.sleeping.insert(cpu);
                *state.event(cpu) = now.saturating_add(period);
            }
            state.waiting = CpuMask::NONE;
        }
        match carrier {
            Carrier::Oneshot | Carrier::Software => state.reprogram(now),
            Carrier::Periodic(_) => Instant::FOREVER,
        }
    }

    /// Passes the next event of `cpu`, which is about to enter an idle state in which its own device stops, to the
    /// broadcast device.
    ///
    /// # Errors
    ///
    /// The reason why it must choose another state. It counts as awake then, and its own device goes on.
    pub fn enter(&self, cpu: CpuId, event: Instant) -> Result<Entered, Busy> {
        let mut state = self.lock();
        if state.independent.contains(cpu) {
            return Ok(Entered::OwnWakeup(event));
        }
        match state.carrier {
            None => return Err(Busy::NoCarrier),
            Some(Carrier::Periodic(_)) => {
                state.waiting.insert(cpu);
                return Ok(Entered::Covered);
            }
            Some(Carrier::Software) if state.bound == Some(cpu) => return Err(Busy::Carries),
            Some(Carrier::Oneshot | Carrier::Software) => {}
        }
        // Before anything is stopped: it is about to be woken.
        if state.forced.contains(cpu) {
            return Err(Busy::Forced);
        }
        let is_software = state.carrier == Some(Carrier::Software);
        let is_first = event < state.next;
        if is_first && is_software {
            state.next = event;
            state.bound = Some(cpu);
            return Err(Busy::TakesOver(event));
        }
        state.sleeping.insert(cpu);
        *state.event(cpu) = event;
        if !is_first {
            return Ok(Entered::Covered);
        }
        state.next = event;
        Ok(Entered::Program(event))
    }

    /// Withdraws the event of `cpu`, which has left the deep idle state.
    pub fn exit(&self, cpu: CpuId, now: Instant) -> BroadcastExit {
        let mut state = self.lock();
        let waited = state.waiting.remove(cpu);
        if !state.sleeping.remove(cpu) {
            return if waited {
                BroadcastExit::SwitchOn
            } else {
                BroadcastExit::WasAwake
            };
        }
        let event = core::mem::replace(state.event(cpu), Instant::FOREVER);
        if state.pending.remove(cpu) || event.is_forever() {
            return BroadcastExit::SwitchOn;
        }
        if event <= now {
            // The device has fired, or is about to. If its handler found this CPU awake, no CPU would run what is due.
            state.forced.insert(cpu);
            return BroadcastExit::SwitchOn;
        }
        BroadcastExit::Program
    }

    /// Returns true if `cpu` sleeps deeply and MUST switch its own device on first. The entry of every interrupt of
    /// `cpu` calls it.
    #[must_use]
    pub fn interrupt(&self, cpu: CpuId) -> bool {
        let state = self.lock();
        state.sleeping.contains(cpu) || state.waiting.contains(cpu)
    }

    /// Handles an interrupt of the broadcast device on `cpu` at `now`.
    pub fn handle(&self, cpu: CpuId, now: Instant) -> Delivery<WORDS> {
        let mut state = self.lock();
        let mut due = core::mem::take(&mut state.forced);
        for sleeper in state.sleeping.iter() {
            let event = state.event(sleeper);
            if *event <= now {
                *event = Instant::FOREVER;
                due.insert(sleeper);
                if sleeper != cpu {
                    state.pending.insert(sleeper);
                }
            }
        }
        due = due.or(&state.waiting).and(&state.online);
        Delivery {
            program: state.reprogram(now),
            own: due.remove(cpu),
            wake: due,
        }
    }

    /// Returns the sleeping CPUs, those that have an interrupt under way, the carrier, and the time that it is
    /// programmed for.
    pub(super) fn look(&self) -> Look<WORDS> {
        let state = self.lock();
        Look {
            carrier: state.carrier,
            next: state.next,
            bound: state.bound,
            sleeping: state.sleeping,
            pending: state.pending.or(&state.forced),
        }
    }

    /// Returns the time that the broadcast device is programmed for.
    #[must_use]
    pub fn next(&self) -> Instant {
        self.lock().next
    }
}

impl<L: RawLock, const WORDS: usize> fmt::Debug for Broadcast<L, WORDS> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Broadcast").finish_non_exhaustive()
    }
}
