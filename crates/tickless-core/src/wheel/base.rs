//! One wheel of a CPU: what is filed where, and what a pass has in hand.

use tickless_link::LastThread;
use tickless_link::entry::EntryRef;
use tickless_link::id::Key;
use tickless_link::shelf::{Left, Shelf, Shelved};
use tickless_link::sync::Ordering;

use super::LEVELS;
use super::calendar::{Calendar, FAR};
use super::geometry::{Place, Slot, Tick};
use super::timer::Coarse;
use crate::hrtimer::base::Held;
use crate::platform::Platform;

/// Which of the three wheels of a CPU a timer is on (spec 1.11).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Kind {
    /// Pinned: fires on the CPU it is on, and wakes that for it.
    Local,
    /// Fires on the CPU it is on, or on another that looks after it while that sleeps.
    Global,
    /// Fires on the CPU it is on, and wakes nobody: when that is awake for something else.
    Deferrable,
}

impl Kind {
    /// All kinds, in the order of their numbers.
    pub const ALL: [Self; 3] = [Self::Local, Self::Global, Self::Deferrable];
    /// How many there are.
    pub const COUNT: usize = Self::ALL.len();
}

/// A wheel.
#[derive(Debug)]
pub(crate) struct WheelBase {
    pub(crate) shelf: Shelf<Coarse, LEVELS>,
    pub(crate) calendar: Calendar<LEVELS>,
    /// Somebody executes a pass; the lock is free while it executes callbacks.
    pub(crate) running: bool,
    /// One bit for each level of which a list was set aside, and may hold timers still.
    aside: u16,
    /// When the lists that were set aside were due.
    aside_due: Tick,
}

/// What filing a timer found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Filed {
    /// When the slot of the timer is due.
    pub(crate) due: Tick,
    /// Before everything else: whoever sleeps until the first has to be told.
    pub(crate) is_first: bool,
}

impl WheelBase {
    pub(crate) fn new(key: Key) -> Self {
        Self {
            shelf: Shelf::new(key),
            calendar: Calendar::new(Tick(0)),
            running: false,
            aside: 0,
            aside_due: Tick(0),
        }
    }

    /// Nothing is due before this tick; FAR ahead when the wheel is empty.
    #[inline]
    pub(crate) fn first_due(&self) -> Tick {
        if self.aside == 0 {
            self.calendar.first_due()
        } else {
            self.aside_due
        }
    }

    /// What is told to those who ask without the lock: an empty wheel is never due.
    #[inline]
    pub(crate) fn told(&self) -> u64 {
        if self.calendar.has_timers() || self.aside != 0 {
            self.first_due().0
        } else {
            u64::MAX
        }
    }

    /// When something is due first, if anything is filed, for who is about to sleep until then.
    pub(crate) fn settled(&mut self, now: Tick) -> Option<Tick> {
        if self.row_aside().is_some() {
            return Some(self.aside_due);
        }
        self.calendar.settle(now);
        self.calendar
            .has_timers()
            .then_some(self.calendar.first_due())
    }

    /// The level of the next list that was set aside: the coarsest first.
    #[inline]
    pub(crate) fn row_aside(&mut self) -> Option<usize> {
        while self.aside != 0 {
            let row = self.aside.ilog2() as usize;
            if self.shelf.open_first_aside(row).is_some() {
                return Some(row);
            }
            self.aside &= !(1 << row);
        }
        None
    }

    /// When the lists that were set aside were due.
    #[inline]
    pub(crate) const fn aside_due(&self) -> Tick {
        self.aside_due
    }

    /// Sets aside all that is due first, if that is not after `now`; `false` if nothing is. Nothing may be aside still.
    ///
    /// All slots of the tick at once: what callbacks file from here on is due later.
    pub(crate) fn take_due(&mut self, now: Tick) -> bool {
        let Some(due) = self.calendar.take_due(now) else {
            return false;
        };
        for slot in due.iter() {
            self.shelf.set_aside(slot.number());
            self.aside |= 1 << slot.level();
        }
        self.aside_due = due.tick;
        true
    }

    /// Opens an entry of this wheel, whose base is locked.
    #[inline]
    pub(crate) fn opened<'s, 'e>(
        &'s mut self,
        entry: EntryRef<'e, Coarse>,
    ) -> Shelved<'s, 'e, Coarse, LEVELS> {
        self.shelf
            .open(entry)
            .expect("the wheel that owns the timer is locked")
    }

    /// Notes what became of a slot that a timer left.
    #[inline]
    pub(crate) fn note_left(&mut self, left: Left) {
        if let Left::Vacated(number) = left {
            self.calendar.vacate(Slot::numbered(number));
        }
    }

    /// Files a timer of this wheel, queued or not, where `place` says, which the calendar chose just now.
    #[inline]
    pub(crate) fn file(&mut self, entry: EntryRef<'_, Coarse>, place: Place) -> Filed {
        let number = place.slot.number();
        let mut shelved = self.opened(entry);
        if shelved.state().is_queued() {
            let left = shelved.move_to(number);
            self.note_left(left);
        } else {
            shelved.insert(number);
        }
        self.note_filed(place)
    }

    /// Notes that a timer came to `place`.
    #[inline]
    pub(crate) fn note_filed(&mut self, place: Place) -> Filed {
        Filed {
            due: place.due,
            is_first: self.calendar.file(place),
        }
    }

    /// Takes the first timer that there is out and hands it to `take`; `false` if there is none.
    pub(crate) fn take_any(&mut self, take: impl FnOnce(Shelved<'_, '_, Coarse, LEVELS>)) -> bool {
        for row in 0..LEVELS {
            if let Some(shelved) = self.shelf.open_first_aside(row) {
                take(shelved);
                return true;
            }
            for list in row * tickless_link::shelf::LISTS..(row + 1) * tickless_link::shelf::LISTS {
                if let Some(shelved) = self.shelf.open_first(list) {
                    take(shelved);
                    return true;
                }
            }
        }
        false
    }

    /// Begins a new life at `now`, as an empty wheel, if it is one (R09).
    pub(crate) fn restart(&mut self, now: Tick) {
        if self.shelf.is_empty() {
            self.calendar = Calendar::new(now);
            self.aside = 0;
        } else {
            // The CPU turned round on its way down: its timers are here still (B55).
            self.calendar.forward(now);
        }
    }

    /// Gives up what a thread that is gone was in the middle of. What it had set aside is there for the next pass.
    pub(crate) fn abandon(&mut self, others_are_gone: &LastThread) {
        self.shelf.abandon_running(others_are_gone);
        self.running = false;
    }

    /// Takes out every timer.
    pub(crate) fn discard(&mut self) {
        while self.take_any(|mut shelved| {
            let _left = shelved.remove();
        }) {}
        let clock = self.calendar.clock();
        self.restart(clock);
    }

    /// Checks every rule that must hold while the lock is free, walking the whole wheel.
    pub(crate) fn assert_valid(&self) {
        self.shelf.assert_valid();
        let mut occupied = [0_u64; LEVELS];
        let mut rows_aside = 0_u16;
        // Those aside come first; a list that was set aside has the number of one that may be in use again, so they
        // are told apart by their count.
        let mut remaining_aside = self.count_aside();
        self.shelf.for_each(|_, number, ()| {
            let slot = Slot::numbered(number);
            if remaining_aside > 0 {
                remaining_aside -= 1;
                rows_aside |= 1 << slot.level();
            } else {
                occupied[slot.level()] |= 1 << slot.index();
            }
            true
        });
        assert!(
            rows_aside & !self.aside == 0,
            "what was set aside is known to the next pass"
        );
        for (level, bits) in occupied.into_iter().enumerate() {
            for index in 0..64 {
                let slot = Slot::numbered(level * 64 + index);
                assert!(
                    self.calendar.is_occupied(slot) == (bits & (1 << index) != 0),
                    "WI1: a bit is set exactly while its slot holds something ({slot:?})"
                );
            }
        }
        assert!(
            self.calendar.has_timers() || occupied == [0; LEVELS],
            "a wheel that holds something knows it"
        );
        assert!(
            !self.calendar.has_timers() || self.calendar.clock() <= self.calendar.first_due(),
            "WI3: the clock is not past what is due"
        );
    }

    /// How many timers are on lists that were set aside.
    fn count_aside(&self) -> usize {
        self.shelf.len_aside()
    }
}

impl<P: Platform> Held<'_, P> {
    /// Tells those who ask without the lock when a wheel is due first.
    #[inline]
    pub(crate) fn publish_wheel(&self, kind: Kind) {
        let due = self.state.wheels[kind as usize].told();
        let published = &self.base.wheel_due[kind as usize];
        // Relaxed, both: the value stands alone. Who reads an old one that is too early looks for nothing; who reads
        // one that is too late is awake and reads again a tick later, or was idle and is kicked (spec 2.4). The load
        // is the writer's own last store, for all writers hold the lock: it saves writing a shared line.
        if published.load(Ordering::Relaxed) != due {
            published.store(due, Ordering::Relaxed);
        }
    }
}

const _: () = assert!(FAR > 0, "an empty wheel is due later than now");
