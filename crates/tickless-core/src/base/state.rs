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

/// The place of the first wheel among the identities of a base: behind the queues and the far wheel.
pub(crate) const FIRST_WHEEL: usize = QUEUES + 1;
/// Identities of a base: one for each queue, for the far wheel, and for each wheel.
pub(crate) const IDENTITIES: usize = FIRST_WHEEL + WheelKind::COUNT;

/// CPU state that says which thread owes the device a write (spec ).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DeferredRearm {
    /// No write is owed: the device is armed.
    Clear,
    /// The interrupt handler runs and will see to it.
    Running,
    /// The handler is done; a flush point will write this.
    OwedFresh(Instant),
    /// The write is owed, and the queues changed: the flush point evaluates again.
    OwedStale,
}

/// State that the lock of a base protects.
pub(crate) struct BaseState {
    pub(crate) queues: ExactQueues,
    /// Timers of the first queue that are far away.
    pub(crate) far: FarWheel,
    /// True if the armed time may be earlier than the first timer, which was cancelled or pushed out.
    pub(crate) armed_early: bool,
    /// The jump of the clocks that the offsets are copied from.
    pub(crate) seen: SetSequence,
    /// The offsets were copied from a jump of which timers that fire on a set are still to be told.
    pub(crate) jump_untold: bool,
    /// Number of times that timers which fire on a set were notified.
    pub(crate) tellings: u32,
    /// The jump of the clocks that the last evaluation took into account.
    pub(crate) evaluated: SetSequence,
    pub(crate) deferred: DeferredRearm,
    /// The last interrupt gave up; only the interrupt writes the device until the next one (spec IRQ-4).
    pub(crate) hang: bool,
    /// The soft stage was raised and has not finished.
    pub(crate) soft_pending: bool,
    /// Address of the timer that determined the armed value; only ever compared (spec OBJ-20, INV-11).
    pub(crate) first_hint: usize,
    /// The slack of that timer in nanoseconds, 0 if it is not known.
    pub(crate) first_slack: u32,
    /// The time at which the soft stage has to be raised; `FOREVER` while it is pending (spec Q-18).
    pub(crate) soft_next: Instant,
    pub(crate) soft_first_hint: usize,
    pub(crate) device: EventDevice,
    pub(crate) stats: Stats,
    /// The timers that were restarted into the past last.
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

    /// The queues whose timers count for the next event: while the soft stage is pending its timers do not (spec Q-20).
    #[inline]
    pub(crate) const fn counted(&self) -> u8 {
        if self.soft_pending { HARD } else { HARD | SOFT }
    }

    /// Finds the first timer of a queue, and files it where it belongs if it is filed too early.
    #[inline]
    pub(crate) fn reload_first(&mut self, index: usize) {
        self.far.reload_first(&mut self.queues, index);
    }

    /// Updates what is cached about a queue after a timer left it.
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
