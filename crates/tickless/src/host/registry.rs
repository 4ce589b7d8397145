//! The table of all bases, and the one system of timers of the process.
//!
//! Base 0 belongs to the expiry thread. It exists from the beginning, so that there is always a base to which timers
//! can be moved.
//!
//! # Ground rules
//!
//! - The lock of the registry serialises every change of which thread occupies which base. Base locks are acquired
//!   after it, never before it.
//! - Bases below [`MADE`] are in the table, and stay there.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use tickless_core::base::Timers;
use tickless_core::clock::ClockSet;
use tickless_core::event::DeviceConfig;
use tickless_core::platform::CpuId;
use tickless_core::time::{Clock, ClockId, Instant};
use tickless_link::static_table::StaticTable;

use super::numa;
use super::process::Host;
use super::thread::{Local, Thread, ThreadBase, ThreadKind, shown_now_lower, with_thread};

/// The number of threads that can have a base at the same time. Further threads use the expiry thread's base.
pub(crate) const THREADS_MAX: usize = 1 << 16;

/// The number of the expiry thread's base.
pub(crate) const EXPIRY_THREAD: CpuId = CpuId(0);

/// The name of devices in dumps.
const DEVICE_NAME: &str = "park-deadline";

static BASES: StaticTable<ThreadBase, THREADS_MAX> = StaticTable::new();
static TIMERS: OnceLock<Timers<Host>> = OnceLock::new();
/// The number of bases that exist.
static MADE: AtomicU32 = AtomicU32::new(0);
/// The bases that no thread occupies.
static FREE: Mutex<Vec<u32>> = Mutex::new(Vec::new());

/// The work of the first use of timers in a process, implemented by higher layers.
pub(super) trait FirstUse {
    /// Does the work of the first use. The thread that made `timers` calls this function once, before it uses the
    /// timers.
    fn begin(timers: &'static Timers<Host>);
}

/// Returns the one system of timers of the process.
#[inline]
pub(crate) fn timers() -> &'static Timers<Host> {
    match TIMERS.get() {
        Some(timers) => timers,
        None => first_timers(),
    }
}

/// Returns the one system of timers of the process, if this thread has a base. Makes no call.
#[inline(always)]
pub(crate) fn try_timers_fast() -> Option<&'static Timers<Host>> {
    with_thread(
        #[inline(always)]
        |thread| thread.timers(),
    )
}

#[cold]
fn first_timers() -> &'static Timers<Host> {
    let mut made = false;
    let timers = TIMERS.get_or_init(|| {
        made = true;
        let timers = Timers::new(Host::new());
        let first = make(&timers, ThreadKind::ExpiryThread);
        BASES.publish(0, first);
        // Release: see `bases`.
        MADE.store(1, Ordering::Release);
        timers
    });
    if made {
        Host::begin(timers);
    }
    timers
}

/// Makes a watcher notice jumps of the clocks that can be set.
pub(crate) fn watch_clocks() {
    timers().platform().wall.watch(tell_timers);
}

/// Checks whether `clock` was set and no thread noticed it; if so, notifies the timers.
pub(crate) fn recheck_clock(clock: Clock) {
    timers().platform().wall.recheck(clock, tell_timers);
}

/// Returns the time of `C` that users of this thread see. That is the kernel's time. If the thread has a virtual clock,
/// it is that clock's time plus the kernel's difference between `C` and the monotonic clock.
pub(crate) fn shown<C: ClockId>() -> Instant<C> {
    let wall = &timers().platform().wall;
    if !with_thread(Thread::is_virtual) {
        return wall.show();
    }
    // The offset changes by what the watcher finds alone: two readings of a clock that stands still agree.
    watch_clocks();
    let offset = wall.offset_of(C::CLOCK).as_nanos();
    let follows_sets = matches!(C::CLOCK, Clock::Realtime | Clock::Tai);
    let shift = virtual_sets().filter(|_| follows_sets);
    let offset = offset.saturating_add(shift.map_or(0, |sets| sets.shift));
    Instant::from_nanos(shown_now_lower().as_nanos().saturating_add(offset))
}

/// The sets of the wall clock that belongs to a virtual clock.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct VirtualSets {
    /// The sum of all steps of the clock, in nanoseconds.
    pub(crate) shift: i64,
    pub(crate) count: u64,
}

/// The function that reads the sets for the virtual clock of this thread; set with the first set of such a clock.
static VIRTUAL_SETS: OnceLock<fn() -> VirtualSets> = OnceLock::new();

/// Makes `sets` the function that reads the sets for the virtual clock of a thread.
pub(crate) fn show_virtual_sets(sets: fn() -> VirtualSets) {
    let _first = VIRTUAL_SETS.set(sets);
}

fn virtual_sets() -> Option<VirtualSets> {
    let sets = VIRTUAL_SETS.get()?;
    with_thread(Thread::is_virtual).then(sets)
}

/// Returns the number of sets of clocks that users of this thread see.
pub(crate) fn clock_sets() -> u64 {
    let of_machine = timers().platform().wall.sets();
    of_machine + virtual_sets().map_or(0, |sets| sets.count)
}

/// Notifies the timers that the clocks were set. It does not matter which clock was set: a set of the time of day moves
/// two clocks, a resume all three, and a base whose timers are not due by the new offsets does nothing.
pub(crate) fn tell_timers() {
    timers().clock_was_set(ClockSet::SLEEP);
}

/// Returns the base with this number, if it exists.
#[inline]
pub(crate) fn base(cpu: CpuId) -> Option<&'static ThreadBase> {
    BASES.get(cpu.0 as usize)
}

/// Returns all bases that exist.
pub(crate) fn bases() -> impl Iterator<Item = &'static ThreadBase> {
    // Acquire: pairs with the Release in `take` and `first_timers`: every base below the number is in the table.
    (0..MADE.load(Ordering::Acquire)).filter_map(|cpu| base(CpuId(cpu)))
}

/// Returns the expiry thread's base.
pub(crate) fn of_expiry_thread() -> &'static ThreadBase {
    base(EXPIRY_THREAD).expect("made together with the timers")
}

/// Locks the registry. Returns the bases that no thread occupies; while the lock is held, no thread occupies or frees a
/// base.
pub(crate) fn lock() -> MutexGuard<'static, Vec<u32>> {
    FREE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes a base, which is never freed, at its final address, because the thread that needs it may have a small stack.
fn make(timers: &Timers<Host>, kind: ThreadKind) -> &'static ThreadBase {
    let (device, local) = (DeviceConfig::software(DEVICE_NAME), Local::new(kind));
    let slot = Box::leak(Box::new_uninit());
    timers.emplace_base(slot, device, local).into_mut()
}

/// Finds or makes a base, on this thread's NUMA node if possible; `None` if all bases are occupied.
pub(super) fn take() -> Option<&'static ThreadBase> {
    let node = numa::of_this_thread();
    let mut free = lock();
    let node_of = |cpu: u32| base(CpuId(cpu)).map(|base| base.local().numa_node());
    if let Some(cpu) = take_of_node(&mut free, node, node_of) {
        return base(CpuId(cpu));
    }
    // Relaxed: changed with the registry locked only.
    let cpu = MADE.load(Ordering::Relaxed);
    if cpu as usize == THREADS_MAX {
        return base(CpuId(free.pop()?));
    }
    let new = make(timers(), ThreadKind::Free);
    new.local().set_numa_node(node);
    debug_assert_eq!(
        new.cpu(),
        CpuId(cpu),
        "bases are numbered in the order of their making"
    );
    let published = BASES.publish(cpu as usize, new);
    // Release: see `bases`.
    MADE.store(cpu + 1, Ordering::Release);
    published
}

/// Removes the last of the `free` bases that is on `node`, and returns it.
fn take_of_node(
    free: &mut Vec<u32>,
    node: u32,
    node_of: impl Fn(u32) -> Option<u32>,
) -> Option<u32> {
    let place = free.iter().rposition(|cpu| node_of(*cpu) == Some(node))?;
    Some(free.remove(place))
}

/// Frees `base`, which no thread occupies any more.
pub(super) fn give_back(base: &ThreadBase) {
    lock().push(base.cpu().0);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_base_is_given_to_a_thread_of_its_node() {
        let mut free = vec![3, 4, 5, 6];
        let node_of = |cpu| Some(cpu % 2);
        let mut take = |node| take_of_node(&mut free, node, node_of);
        assert_eq!([take(1), take(1), take(1)], [Some(5), Some(3), None]);
        assert_eq!([take(2), take(0), take(0)], [None, Some(6), Some(4)]);
    }
}
