//! The data that the lock of a base protects.

use core::mem::MaybeUninit;

use tickless_link::emplace;
use tickless_link::emplace::Emplaced;
use tickless_link::id::Key;

use crate::base::overrun::Overruns;
use crate::base::stats::Stats;
use crate::clock::{Offsets, SetSequence};
use crate::event::EventDevice;
use crate::exact::far_wheel::FarWheel;
use crate::exact::queues::{ExactQueues, HARD, QUEUES, SOFT};
use crate::time::Instant;
use crate::wheel::cpu_wheel::CpuWheel;
use crate::wheel::family::WheelKind;

/// The index of the first wheel among the identities of a base, after the queues and the far wheel.
pub(crate) const FIRST_WHEEL: usize = QUEUES + 1;
/// The number of identities of a base: one for each queue, one for the far wheel, and one for each wheel.
pub(crate) const IDENTITIES: usize = FIRST_WHEEL + WheelKind::COUNT;

/// The state of a deferred rearm of one CPU's device (spec ).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DeferredRearm {
    /// No write to the device is owed: the device is armed.
    Clear,
    /// The interrupt handler runs and will write the device.
    Running,
    /// The handler has finished; a flush point will write this time to the device.
    OwedFresh(Instant),
    /// A write is owed, and the queues have changed since: the flush point evaluates again.
    OwedStale,
}

/// The state that the lock of a base protects.
pub(crate) struct BaseState {
    pub(crate) queues: ExactQueues,
    /// The far wheel: timers of the first queue whose deadlines are far away.
    pub(crate) far: FarWheel,
    /// True if the armed time may be earlier than the first timer, because the timer for which the device was armed was
    /// cancelled or pushed out.
    pub(crate) armed_early: bool,
    /// The jump of the clocks from which the offsets were copied.
    pub(crate) seen: SetSequence,
    /// True if the base has copied the offsets of a clock that was set, and has not yet fired the timers that fire when
    /// their clock is set.
    pub(crate) jump_untold: bool,
    /// The number of times that timers which fire on a set were notified.
    pub(crate) tellings: u32,
    /// The jump of the clocks that the last evaluation took into account.
    pub(crate) evaluated: SetSequence,
    pub(crate) deferred: DeferredRearm,
    /// True if the last interrupt gave up; only an interrupt writes the device until the next interrupt (spec IRQ-4).
    pub(crate) hang: bool,
    /// True if the soft stage was raised and has not finished.
    pub(crate) soft_pending: bool,
    /// The address of the timer that determined the armed value. It is compared but never dereferenced (spec OBJ-20,
    /// INV-11).
    pub(crate) first_hint: usize,
    /// The slack of the timer that determined the armed value, in nanoseconds; 0 if it is not known.
    pub(crate) first_slack: u32,
    /// The time at which the soft stage has to be raised; `FOREVER` while the soft stage is pending (spec Q-18).
    pub(crate) soft_next: Instant,
    pub(crate) soft_first_hint: usize,
    pub(crate) device: EventDevice,
    pub(crate) stats: Stats,
    /// The timers that were last restarted into the past.
    pub(crate) overruns: Overruns,
    /// The wheels, by [`WheelKind`].
    pub(crate) wheels: [CpuWheel; WheelKind::COUNT],
}

impl BaseState {
    pub(super) fn emplace(
        slot: &mut MaybeUninit<Self>,
        keys: [Key; IDENTITIES],
        device: EventDevice,
    ) -> Emplaced<'_, Self> {
        let mut keys = keys.into_iter();
        let mut next = || keys.next().expect("there is one for each of them");
        emplace!(slot => Self {
            // The first keys, as numbers of queues are places among the identities.
            queues: ExactQueues::new(&mut next),
            armed_early: false,
            seen: SetSequence::UNSEEN,
            jump_untold: false,
            tellings: 0,
            evaluated: SetSequence::UNSEEN,
            deferred: DeferredRearm::Clear,
            hang: false,
            soft_pending: false,
            first_hint: 0,
            first_slack: 0,
            soft_next: Instant::FOREVER,
            soft_first_hint: 0,
            device: device,
            stats: Stats::default(),
            overruns: Overruns::new();
            far <- |slot| FarWheel::emplace(slot, next()),
            wheels <- |slot| emplace::array(slot, |_, slot| CpuWheel::emplace(slot, next())),
        })
    }

    /// Returns the queues whose timers count for the next event. Soft queues do not count while the soft stage is
    /// pending (spec Q-20).
    #[inline]
    pub(crate) const fn counted(&self) -> u8 {
        if self.soft_pending { HARD } else { HARD | SOFT }
    }

    /// Finds the first timer of a queue. If the key of a timer at the front is stale, enqueues this timer again.
    #[inline]
    pub(crate) fn reload_first(&mut self, index: usize) {
        self.far.reload_first(&mut self.queues, index);
    }

    /// Updates the cached data of a queue after a timer left the queue.
    #[inline]
    pub(crate) fn after_removal(&mut self, index: usize, was_first: bool) {
        self.far.after_removal(&mut self.queues, index, was_first);
    }

    /// Copies new offsets into all queues of their clocks.
    pub(crate) fn adopt(&mut self, sequence: SetSequence, offsets: &Offsets) {
        // The first copy is no jump.
        self.jump_untold |= self.seen != SetSequence::UNSEEN && self.seen != sequence;
        self.seen = sequence;
        self.queues.adopt(offsets);
    }

    pub(crate) fn reset(&mut self) {
        self.hang = false;
        self.deferred = DeferredRearm::Clear;
        self.soft_pending = false;
        self.overruns = Overruns::new();
        self.first_hint = 0;
        self.first_slack = 0;
        self.soft_first_hint = 0;
        self.soft_next = Instant::FOREVER;
        self.device.forget();
    }
}
