//! The broadcast device, which wakes CPUs whose own device stops in deep idle (spec C-7.6).
//!
//! Before a CPU enters a state in which its device stops, it passes its next wake-up time to the *broadcast device*.
//! The broadcast device fires for the earliest of these times, on any CPU. The CPU that handles the interrupt sends an
//! interrupt to each other CPU that is due. A promise to the hierarchy is part of the CPU's next event, so the
//! broadcast device also serves promises (spec C-4.14).
//!
//! # Ground rules
//!
//! - One lock protects the whole state. The operations call no code of the host under it. Each operation returns the
//!   duties of the host: which device to write and for which time. The host carries them out before it unmasks timer
//!   delivery.
//! - [`enter`](Broadcast::enter), [`exit`](Broadcast::exit) and [`interrupt`](Broadcast::interrupt) are called by the
//!   CPU itself, with timer delivery masked.
//! - The device is programmed for a time at or before every event in the state. Events that have passed and wait for
//!   the interrupt handler are the exception.

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
    /// An exact timer on one of the CPUs. The device of that CPU must not stop.
    Software,
}

/// The duties of a CPU that may sleep deeply. The CPU MUST stop its own device by
/// [`Timers::stop_device`](crate::base::Timers::stop_device). If the record of the device still showed a programmed
/// event, timers would be lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "devices have to be stopped and programmed"]
pub enum Entered {
    /// The CPU has to stop its own device.
    Covered,
    /// The CPU has to stop its own device, and to program the broadcast device for this instant. If possible, the CPU
    /// directs the interrupt of the broadcast device to itself.
    Program(Instant),
    /// The CPU has to stop its own device, and to program its wake-up device for this instant.
    OwnWakeup(Instant),
}

/// The reasons why a CPU has to choose an idle state in which its own device keeps running.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Busy {
    /// The system has no broadcast device.
    NoCarrier,
    /// An interrupt for this CPU is pending.
    Forced,
    /// The timer that acts as the broadcast device is on this CPU, so this CPU has to wake the others.
    Carries,
    /// The CPU has the earliest event, so it takes over the timer that acts as the broadcast device. The CPU has to
    /// start that timer for this instant.
    TakesOver(Instant),
}

/// The duties of a CPU that leaves a deep idle state. The CPU switches its own device on by
/// [`Timers::switch_device_on`](crate::base::Timers::switch_device_on).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "the device has to be switched on and programmed"]
pub enum BroadcastExit {
    /// The CPU's own device did not stop, so the CPU has no duty.
    WasAwake,
    /// The CPU has to switch its own device on, but need not program it. Either the CPU has no event, or the interrupt
    /// for its event is pending and a second interrupt would be useless.
    SwitchOn,
    /// The CPU has to switch its own device on, and to program it for its next wake-up, as
    /// [`Timers::retrigger`](crate::base::Timers::retrigger) does.
    Program,
}

/// The duties of the CPU that handles the broadcast device, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "CPUs are asleep until they are woken"]
pub struct Delivery<const WORDS: usize> {
    /// The instant for which the broadcast device has to be programmed; [`Instant::FOREVER`] for none. A periodic
    /// device needs no programming.
    pub program: Instant,
    /// The CPUs to which the handling CPU sends an interrupt. In this interrupt they do the work of their own device's
    /// interrupt.
    pub wake: CpuMask<WORDS>,
    /// True if the handling CPU has to do the work of its own device's interrupt too.
    pub own: bool,
}

/// A snapshot of the state, for the dump.
pub(super) struct Look<const WORDS: usize> {
    pub(super) carrier: Option<Carrier>,
    pub(super) next: Instant,
    pub(super) bound: Option<CpuId>,
    pub(super) sleeping: CpuMask<WORDS>,
    pub(super) pending: CpuMask<WORDS>,
}

struct State<const WORDS: usize> {
    /// The broadcast device; `None` until the host sets one.
    carrier: Option<Carrier>,
    /// The time for which the carrier is programmed.
    next: Instant,
    /// The CPU of a software carrier.
    bound: Option<CpuId>,
    /// The CPUs whose own device is stopped, for which the broadcast device fires.
    sleeping: CpuMask<WORDS>,
    /// The sleeping CPUs to which an interrupt was sent.
    pending: CpuMask<WORDS>,
    /// The CPUs that woke by themselves after their event had passed. They still get an interrupt.
    forced: CpuMask<WORDS>,
    /// The CPUs that sleep until the next period of a periodic carrier.
    waiting: CpuMask<WORDS>,
    /// The CPUs that have a wake-up device of their own.
    independent: CpuMask<WORDS>,
    online: CpuMask<WORDS>,
    /// Wake-up times of sleeping CPUs; `FOREVER` after an interrupt was sent to the CPU.
    events: [[Instant; WORD]; WORDS],
}

impl<const WORDS: usize> State<WORDS> {
    fn event(&mut self, cpu: CpuId) -> &mut Instant {
        let (word, bit) = CpuMask::<WORDS>::place(cpu);
        &mut self.events[word][bit]
    }

    /// Returns the earliest event of the sleeping CPUs.
    fn first(&mut self) -> Instant {
        let mut first = Instant::FOREVER;
        for cpu in self.sleeping.iter() {
            first = first.min(*self.event(cpu));
        }
        first
    }

    /// Computes the carrier's next event from the remaining events, stores it and returns it. Forced interrupts are due
    /// at once.
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

/// The CPUs that sleep deeply, the ends of their sleeps, and the device that wakes them. It holds up to `64 * WORDS`
/// CPUs.
///
/// # Cost
///
/// Each operation takes one lock. Handling an interrupt checks every sleeping CPU. The state takes 512 bytes for each
/// 64 CPUs, and their masks.
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

    /// Removes `cpu`, which is awake or will never be awake again. The broadcast device continues for the other CPUs.
    /// If the broadcast device was a timer on `cpu`, `heir` starts the timer for the returned instant.
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

    /// Replaces the broadcast device or its mode, and returns the instant for which it has to be programmed. A periodic
    /// device needs no programming. A software device starts on `cpu`, which is the calling CPU.
    ///
    /// A CPU that waited for the next period of the old device gets an event one period from now. The state of no other
    /// CPU changes. If an awake CPU counted as asleep, its next event would not be passed on (R39).
    ///
    /// The broadcast device cannot be removed, because a CPU may rely on it.
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
    /// The reason why `cpu` must choose another idle state. `cpu` then counts as awake, and its own device keeps
    /// running.
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

    /// Returns the sleeping CPUs, the CPUs with a pending interrupt, the carrier, and the time for which the carrier is
    /// programmed.
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

    /// Returns the time for which the broadcast device is programmed.
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
