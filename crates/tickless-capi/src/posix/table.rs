//! The table of the process's timers: its slots never move, and are found by their numbers without a lock.

use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use tickless::hrtimer::Clock;

use crate::clock::number_of;
use crate::errno::Errno;
use crate::handshake::Handshake;
use crate::posix::arm::{Arms, Version};
use crate::posix::system::{Signal, SignalTimer, Target};

/// The way in which a timer notifies of its expiry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum How {
    /// The timer sends no notification: programs read the time that is left.
    Nothing,
    /// The timer sends a signal to the process, or to a thread.
    Signal,
    /// The timer starts a new thread that calls a function.
    Thread,
    /// The timer makes a descriptor readable.
    Descriptor,
}

/// A slot for a timer. All fields are atomics, because a program may use an id after its timer was deleted, while the
/// slot already has another timer. The generation of the slot then differs from the generation of the id.
#[derive(Debug)]
pub(super) struct TimerSlot {
    /// The generation of the slot's timer; zero while the slot has no timer.
    pub(super) generation: AtomicU32,
    pub(super) arms: Arms,
    /// True while the slot is in the inbox of the service.
    pub(super) listed: AtomicBool,
    /// The next slot in the inbox.
    pub(super) link: AtomicU32,
    pub(super) handshake: Handshake<Delivery>,
    /// The number of the kernel's timer that sends the signals, which counts the overruns; negative for none.
    pub(super) kernel: AtomicI32,
    /// The number of expirations before the last notification by a thread or the descriptor and after the one before;
    /// tagged with the version.
    pub(super) overrun: AtomicU64,
    clock: AtomicU32,
    how: AtomicU32,
    signal: AtomicI32,
    /// The thread that gets the signal; zero for the process.
    thread: AtomicI32,
    value: AtomicUsize,
    function: AtomicUsize,
    pub(super) attributes: AtomicUsize,
    descriptor: AtomicI32,
}

/// The state of a slot's notifications, in the slot's handshake.
#[derive(Debug, Default)]
pub(super) struct Delivery {
    /// The record that the timer of the kernel was armed with, or of which the expirations below are.
    pub(super) begun: Option<Version>,
    /// The number of expirations that threads or the descriptor were notified of.
    pub(super) counted: u64,
    pub(super) timer: Option<SignalTimer>,
}

/// The settings of a timer, as `create` set them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Settings {
    pub(super) clock: Clock,
    pub(super) how: How,
    pub(super) signal: c_int,
    pub(super) target: Target,
    /// The value of the notification; `None` for the id of the timer.
    pub(super) value: Option<usize>,
    pub(super) function: usize,
    /// A `pthread_attr_t` in a box, or zero.
    pub(super) attributes: usize,
    pub(super) descriptor: c_int,
}

impl Settings {
    pub(super) fn new(clock: Clock, how: How) -> Self {
        Self {
            clock,
            how,
            signal: libc::SIGALRM,
            target: Target::Process,
            value: None,
            function: 0,
            attributes: 0,
            descriptor: -1,
        }
    }
}

// Relaxed, all stores and loads of settings: `create` writes them before the generation, which `settime` reads before
// it puts the slot into the inbox of the service.
impl TimerSlot {
    fn new() -> Self {
        Self {
            generation: AtomicU32::new(0),
            arms: Arms::new(),
            listed: AtomicBool::new(false),
            link: AtomicU32::new(0),
            handshake: Handshake::new(Delivery::default()),
            kernel: AtomicI32::new(-1),
            overrun: AtomicU64::new(0),
            clock: AtomicU32::new(0),
            how: AtomicU32::new(0),
            signal: AtomicI32::new(0),
            thread: AtomicI32::new(0),
            value: AtomicUsize::new(0),
            function: AtomicUsize::new(0),
            attributes: AtomicUsize::new(0),
            descriptor: AtomicI32::new(-1),
        }
    }

    pub(super) fn set(&self, settings: &Settings, id: u64) {
        let thread = match settings.target {
            Target::Process => 0,
            Target::Thread(thread) => thread,
        };
        self.clock
            .store(number_of(settings.clock), Ordering::Relaxed);
        self.how.store(settings.how as u32, Ordering::Relaxed);
        self.signal.store(settings.signal, Ordering::Relaxed);
        self.thread.store(thread, Ordering::Relaxed);
        let of_id = usize::try_from(id).unwrap_or(usize::MAX);
        self.value
            .store(settings.value.unwrap_or(of_id), Ordering::Relaxed);
        self.function.store(settings.function, Ordering::Relaxed);
        self.attributes
            .store(settings.attributes, Ordering::Relaxed);
        self.descriptor
            .store(settings.descriptor, Ordering::Relaxed);
    }

    pub(super) fn clock(&self) -> Clock {
        crate::clock::clock_of(self.clock.load(Ordering::Relaxed)).unwrap_or(Clock::Monotonic)
    }

    pub(super) fn how(&self) -> How {
        match self.how.load(Ordering::Relaxed) {
            1 => How::Signal,
            2 => How::Thread,
            3 => How::Descriptor,
            _ => How::Nothing,
        }
    }

    pub(super) fn signal(&self) -> Signal {
        let target = match self.thread.load(Ordering::Relaxed) {
            0 => Target::Process,
            thread => Target::Thread(thread),
        };
        Signal {
            target,
            number: self.signal.load(Ordering::Relaxed),
            value: self.value(),
        }
    }

    /// Returns true if the timer has something that must be freed when it is deleted.
    pub(super) fn has_resources(&self) -> bool {
        self.kernel.load(Ordering::Relaxed) >= 0 || self.attributes() != 0 || self.descriptor() >= 0
    }

    pub(super) fn value(&self) -> usize {
        self.value.load(Ordering::Relaxed)
    }

    pub(super) fn function(&self) -> usize {
        self.function.load(Ordering::Relaxed)
    }

    pub(super) fn attributes(&self) -> usize {
        self.attributes.load(Ordering::Relaxed)
    }

    pub(super) fn descriptor(&self) -> c_int {
        self.descriptor.load(Ordering::Relaxed)
    }
}

/// Returns the value of a tagged count, or zero if the count has another version than `version`.
pub(super) fn counted(word: u64, version: Version) -> u64 {
    if word & TAG == version.tag() {
        word & COUNT
    } else {
        0
    }
}

/// Returns `count` tagged with `version`, limited to the largest value that POSIX allows.
pub(super) fn tagged(count: u64, version: Version) -> u64 {
    version.tag() | count.min(DELAYTIMER_MAX)
}

/// The largest overrun, equal to the value of `sysconf(_SC_DELAYTIMER_MAX)` on Linux.
pub(super) const DELAYTIMER_MAX: u64 = c_int::MAX as u64;
const COUNT: u64 = 0xffff_ffff;
const TAG: u64 = !COUNT;

/// The number of slots in the first chunk; each later chunk has twice as many as the chunk before.
const FIRST: u32 = 64;
/// The number of chunks, for 16 million slots in all. More slots would take too much of a process's address space.
const CHUNKS: usize = 18;

/// The slots of all timers, in chunks.
#[derive(Debug)]
pub(super) struct Table {
    chunks: [OnceLock<Box<[TimerSlot]>>; CHUNKS],
    free: Mutex<Free>,
}

#[derive(Debug)]
struct Free {
    /// The free slots that had a timer.
    used: Vec<u32>,
    /// The first slot that never had a timer.
    fresh: u32,
}

/// Returns the chunk of a slot, and its position there.
fn position(index: u32) -> (usize, usize) {
    let block = index / FIRST + 1;
    let chunk = block.ilog2();
    let begin = FIRST * ((1 << chunk) - 1);
    (chunk as usize, (index - begin) as usize)
}

impl Table {
    pub(super) fn new() -> Self {
        Self {
            chunks: [const { OnceLock::new() }; CHUNKS],
            free: Mutex::new(Free {
                used: Vec::new(),
                fresh: 0,
            }),
        }
    }

    /// Returns the slot with this number if it was ever taken.
    pub(super) fn slot(&self, index: u32) -> Option<&TimerSlot> {
        if index / FIRST >= 1 << CHUNKS {
            return None;
        }
        let (chunk, position) = position(index);
        self.chunks.get(chunk)?.get()?.get(position)
    }

    /// Returns all slots in memory.
    pub(super) fn slots(&self) -> impl Iterator<Item = &TimerSlot> {
        self.chunks.iter().filter_map(OnceLock::get).flatten()
    }

    /// Takes a free slot.
    pub(super) fn take(&self) -> Result<(u32, &TimerSlot), Errno> {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(index) = free.used.pop() {
            return self
                .slot(index)
                .map(|slot| (index, slot))
                .ok_or(Errno::NOTRECOVERABLE);
        }
        let index = free.fresh;
        let (chunk, position) = position(index);
        let slots = self.chunks.get(chunk).ok_or(Errno::AGAIN)?;
        let slots = slots.get_or_init(|| (0..FIRST << chunk).map(|_| TimerSlot::new()).collect());
        free.fresh = index + 1;
        slots
            .get(position)
            .map(|slot| (index, slot))
            .ok_or(Errno::NOTRECOVERABLE)
    }

    /// Makes the table behave as if all slots were taken. Returns a function that undoes this.
    #[cfg(test)]
    pub(super) fn pretend_full(&self) -> impl FnOnce() + '_ {
        let free = || self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let full = Free {
            used: Vec::new(),
            fresh: FIRST * ((1 << CHUNKS) - 1),
        };
        let before = std::mem::replace(&mut *free(), full);
        move || {
            let mut free = free();
            free.used.extend(before.used);
            free.fresh = before.fresh;
        }
    }

    /// Frees a slot.
    pub(super) fn give_back(&self, index: u32) {
        self.free
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .used
            .push(index);
    }
}

#[cfg(test)]
mod tests {
    use super::{CHUNKS, DELAYTIMER_MAX, FIRST, Table, counted, position, tagged};
    use crate::errno::Errno;
    use crate::posix::arm::{Arm, Arms};

    #[test]
    fn slots_are_found_where_they_were_taken() {
        assert_eq!(position(0), (0, 0));
        assert_eq!(position(63), (0, 63));
        assert_eq!(position(64), (1, 0));
        assert_eq!(position(64 + 128), (2, 0));
        let table = Table::new();
        for wanted in 0..1000 {
            let (index, slot) = table.take().unwrap();
            assert_eq!(index, wanted);
            assert!(std::ptr::eq(slot, table.slot(index).unwrap()));
        }
        assert!(table.slot(1_000_000).is_none());
        assert!(table.slot(u32::MAX).is_none());
        table.give_back(17);
        assert_eq!(table.take().unwrap().0, 17);
    }
    #[test]
    fn a_full_table_has_slots_that_were_given_back_alone() {
        let last = FIRST * ((1 << CHUNKS) - 1) - 1;
        assert_eq!(position(last).0, CHUNKS - 1);
        assert_eq!(position(last + 1).0, CHUNKS);
        let table = Table::new();
        let (index, _) = table.take().unwrap();
        let undo = table.pretend_full();
        for _ in 0..3 {
            assert_eq!(table.take().map(drop), Err(Errno::AGAIN));
        }
        table.give_back(index);
        assert_eq!(table.take().map(|(again, _)| again), Ok(index));
        assert_eq!(table.take().map(drop), Err(Errno::AGAIN));
        undo();
        assert_eq!(table.take().map(|(next, _)| next), Ok(index + 1));
    }

    #[test]
    fn counts_end_at_the_largest_overrun() {
        let arms = Arms::new();
        arms.replace(&Arm::DISARMED, || true).unwrap();
        let version = arms.version();
        for (count, wanted) in [
            (7, 7),
            (DELAYTIMER_MAX - 1, DELAYTIMER_MAX - 1),
            (DELAYTIMER_MAX + 1, DELAYTIMER_MAX),
            (1 << 32, DELAYTIMER_MAX),
            (u64::MAX, DELAYTIMER_MAX),
        ] {
            assert_eq!(counted(tagged(count, version), version), wanted);
        }
        // Of another record nothing is counted.
        let of_before = tagged(7, version);
        arms.replace(&Arm::DISARMED, || true).unwrap();
        assert_eq!(counted(of_before, arms.version()), 0);
    }
}
