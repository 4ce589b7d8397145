//! The host's record of a thread: its base, and the state that only the thread uses.
//!
//! Each thread that uses a timer occupies a [base](ThreadBase): the queues, the device and the place to sleep, as a CPU
//! has them on other hosts. Bases are never freed, so that a timer may refer to a base by its number. A thread that
//! ends gives up its base, and the next new thread occupies that base (`registry`, `lifecycle`).
//!
//! # Ground rules
//!
//! - [`ThreadKind`] says which thread expires the timers of a base. Only the thread that occupies the base and the
//!   child of a fork change the kind. Everything that the new kind needs is made before.
//! - [`Thread`] is the state that only the thread itself uses: no other thread reads it.

use std::cell::Cell;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};

use tickless_core::base::{CpuBase, Frozen, Timers};
use tickless_core::platform::CpuId;
use tickless_core::time::Instant;
use tickless_link::bias::Owner;
use tickless_link::sync::CachePadded;

use super::clock::{LastReading, counter};
use super::device::state::DeviceState;
use super::isolation::state::IsolationState;
use super::lateness::Lateness;
use super::parker::Parker;
use super::process::Host;
#[cfg(feature = "flight-recorder")]
use super::recording::Ring;
use super::remote::state::RemoteState;
use super::resched::Resched;
use super::sys::threads;
#[cfg(feature = "tokio")]
use super::tokio_clock;

/// The thread that expires the timers of a base.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum ThreadKind {
    /// No thread occupies the base.
    Free = 0,
    /// The expiry thread. The thread of the base does other work.
    Foreign = 1,
    /// The thread of the base itself, which sleeps until its first timer is due.
    Worker = 2,
    /// The thread of the base itself, from an event loop that watches a file descriptor.
    EventLoop = 3,
    /// The expiry thread, whose own base this is.
    ExpiryThread = 4,
    /// The runtime of a virtual clock. Its timers with callbacks are on the base, and no thread occupies the base.
    VirtualClock = 5,
}

impl ThreadKind {
    const ALL: [Self; 6] = [
        Self::Free,
        Self::Foreign,
        Self::Worker,
        Self::EventLoop,
        Self::ExpiryThread,
        Self::VirtualClock,
    ];

    /// Returns whether the thread of the base takes turns itself.
    pub(crate) const fn runs_its_own(self) -> bool {
        matches!(self, Self::Worker | Self::EventLoop)
    }
}

/// The base of a thread, together with the state that the host keeps for it.
pub(crate) type ThreadBase = CpuBase<Host>;

// No two bases share a cache line, of which processors fetch two at a time.
const _: () = assert!(align_of::<ThreadBase>() >= align_of::<CachePadded<u8>>());

/// The state that the host keeps for a base. Each part belongs to the module that defines its type.
#[derive(Debug)]
pub(crate) struct Local {
    kind: AtomicU8,
    /// The number of threads that have occupied the base so far.
    occupants: AtomicU32,
    /// The system's number of the thread that occupies the base, 0 if the number is not known.
    thread_id: AtomicU32,
    /// The NUMA node on which the base has its places in the trees; written before the base has such a place.
    numa_node: AtomicU32,
    pub(crate) device: DeviceState,
    pub(crate) isolation: IsolationState,
    pub(crate) remote: RemoteState,
    pub(crate) parker: Parker,
    pub(crate) resched: Resched,
    pub(crate) lateness: Lateness,
    #[cfg(feature = "flight-recorder")]
    pub(crate) ring: Ring,
}

impl Local {
    pub(super) fn new(kind: ThreadKind) -> Self {
        Self {
            kind: AtomicU8::new(kind as u8),
            occupants: AtomicU32::new(0),
            thread_id: AtomicU32::new(0),
            numa_node: AtomicU32::new(0),
            device: DeviceState::new(),
            isolation: IsolationState::new(),
            remote: RemoteState::new(),
            parker: Parker::new(),
            resched: Resched::new(),
            lateness: Lateness::new(),
            #[cfg(feature = "flight-recorder")]
            ring: Ring::new(),
        }
    }

    #[inline]
    pub(crate) fn kind(&self) -> ThreadKind {
        // Acquire: pairs with the Release in `set_kind`.
        ThreadKind::ALL[usize::from(self.kind.load(Ordering::Acquire))]
    }

    /// Sets which thread expires the timers from now on.
    pub(crate) fn set_kind(&self, kind: ThreadKind) {
        // Release: pairs with the Acquire in `kind`: a thread that finds the new kind finds its device ready.
        self.kind.store(kind as u8, Ordering::Release);
    }

    /// Counts a thread that begins to occupy the base.
    pub(super) fn count_occupant(&self) {
        // Relaxed: no thread watches the base before its kind says that it is occupied.
        self.occupants.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the number of the thread that occupies the base, counted over all threads that ever occupied it.
    pub(super) fn occupant(&self) -> u32 {
        // Relaxed: asked by threads that know of the occupant by the kind, which `kind` loads with Acquire, or for
        // which a wrong answer costs one look for nothing.
        self.occupants.load(Ordering::Relaxed)
    }

    /// Records that the calling thread occupies the base.
    pub(crate) fn note_thread(&self) {
        let id = threads::thread_id().map_or(0, NonZeroU32::get);
        // Relaxed: for dumps.
        self.thread_id.store(id, Ordering::Relaxed);
    }

    /// Returns the system's number of the thread that occupies the base; `None` if the number is not known, or no
    /// thread occupies the base.
    pub(crate) fn thread_id(&self) -> Option<u32> {
        // Relaxed: see `note_thread`.
        let id = self.thread_id.load(Ordering::Relaxed);
        (id != 0 && self.kind() != ThreadKind::Free).then_some(id)
    }

    /// Returns the NUMA node of the base.
    pub(crate) fn numa_node(&self) -> u32 {
        // Relaxed: written before the base was in the registry.
        self.numa_node.load(Ordering::Relaxed)
    }

    pub(super) fn set_numa_node(&self, node: u32) {
        // Relaxed: published with the base.
        self.numa_node.store(node, Ordering::Relaxed);
    }
}

/// The base of a thread, and the system of timers to which the base belongs.
#[derive(Clone, Copy)]
struct Home {
    base: &'static ThreadBase,
    /// The system of timers. A thread that has a base need not check whether the system exists.
    timers: &'static Timers<Host>,
}

/// The base that a thread left to visit another base.
pub(super) struct Left {
    home: Option<Home>,
    token: Option<Owner>,
}

/// The state of a thread that only the thread itself uses.
pub(crate) struct Thread {
    home: Cell<Option<Home>>,
    token: Cell<Option<Owner>>,
    /// True if a `Worker` or `Driver` takes the turns of this thread.
    has_turns: Cell<bool>,
    /// The number of times that the thread's end was announced.
    ends: Cell<u32>,
    /// True if the thread has ended; it gets no base any more.
    is_gone: Cell<bool>,
    /// The reasons to take the slow path, which a first poll has to check, one bit each. Usually no bit is set, so that
    /// one comparison checks all reasons.
    ways: Cell<u8>,
    /// The base whose turn this thread takes.
    turn_of: Cell<Option<CpuId>>,
    pub(crate) reading: LastReading,
    /// The address of the deadline that this thread pushed out last; valid until the thread polls a sleep again.
    pushed_out: Cell<usize>,
    /// True if the core uses the virtual clock that users see, and not the process's clock.
    is_on_virtual_base: Cell<bool>,
    /// True if the virtual clock that users see is that of a tokio runtime.
    #[cfg(feature = "tokio")]
    follows_tokio: Cell<bool>,
}

/// A reason for a thread to start its sleeps on the slow path.
#[derive(Clone, Copy, Debug)]
#[repr(u8)]
pub(crate) enum Way {
    /// True until it is known that a thread fires the next timer that this thread starts; see
    /// `wake::ensure_expiry_thread`.
    Unattended = 1,
    /// The thread takes a turn: a task that is polled in the turn may wait for the turn itself.
    InTurn = 2,
    /// Sleeps without a slack of their own get a default slack, which the fast path does not look for.
    Slack = 4,
    /// Users of the thread see a virtual clock: their sleeps wait for that clock, and are in no queue of the host.
    Virtual = 8,
}

thread_local! {
    // Without a destructor, so that reaching it is one addition to the thread pointer.
    static THREAD: Thread = const {
        Thread {
            home: Cell::new(None),
            token: Cell::new(None),
            has_turns: Cell::new(false),
            ends: Cell::new(0),
            is_gone: Cell::new(false),
            ways: Cell::new(Way::Unattended as u8),
            turn_of: Cell::new(None),
            reading: LastReading::new(),
            pushed_out: Cell::new(0),
            is_on_virtual_base: Cell::new(false),
            #[cfg(feature = "tokio")]
            follows_tokio: Cell::new(false),
        }
    };
    /// The mark of a living thread. It is dropped after the thread-locals that were made later than the thread's base:
    /// when the thread ends, or by `exit` on the thread that calls it, before the exit handlers.
    static ALIVE: Alive = const { Alive };
}

/// A value whose destructor does nothing.
struct Alive;

impl Drop for Alive {
    fn drop(&mut self) {}
}

/// Calls `body` with the state of the calling thread.
// Not by `LocalKey::with`, which becomes a call where the compiler weighs it so: the value has no destructor, so it is
// there as long as the thread.
#[inline(always)]
pub(crate) fn with_thread<R>(body: impl FnOnce(&Thread) -> R) -> R {
    match THREAD.try_with(body) {
        Ok(result) => result,
        Err(_) => unreachable!("a value without a destructor is never destroyed"),
    }
}

/// Returns a time that is not behind the kernel's clock, read without a system call if possible.
#[inline]
pub(crate) fn now_upper() -> Instant {
    with_thread(
        #[inline(always)]
        |thread| thread.reading.now_upper(),
    )
}

/// Returns the thread's last clock reading, or reads the clock if another thread may have seen a later time. Used for a
/// timer that is started for the first time, whose deadline was computed from a reading.
#[inline]
pub(crate) fn asked_last() -> Instant {
    let asked = with_thread(
        #[inline(always)]
        |thread| thread.reading.asked_last(),
    );
    asked.unwrap_or_else(now_lower_slow)
}

#[cold]
#[inline(never)]
fn now_lower_slow() -> Instant {
    now_lower()
}

/// Returns a time that is ahead neither of the kernel's clock nor of the library's clock.
// Always: a call takes as much as half of the reading.
#[inline(always)]
pub(crate) fn now_lower() -> Instant {
    let cycles = counter::read();
    earliest_at(cycles).unwrap_or_else(|| earliest_slow(cycles))
}

/// Works as [`now_lower`], by the clock of the base for which this thread acts. The core reads this clock.
#[inline(always)]
pub(super) fn core_now_lower() -> Instant {
    let cycles = counter::read();
    earliest_at(cycles).unwrap_or_else(|| core_earliest_slow(cycles))
}

#[cold]
#[inline(never)]
fn core_earliest_slow(cycles: u64) -> Instant {
    with_thread(|thread| thread.earliest_slow(thread.virtual_base_now(), cycles))
}

/// Works as [`now_upper`], by the clock of the base for which this thread acts.
#[inline]
pub(super) fn core_now_upper() -> Instant {
    latest_or(core_latest_slow)
}

#[cold]
#[inline(never)]
fn core_latest_slow(cycles: u64) -> Instant {
    with_thread(|thread| thread.latest_slow(thread.virtual_base_now(), cycles))
}

/// Returns the time for the counter by the line that the thread has kept, or the result of `anew` if the line does not
/// reach.
#[inline(always)]
fn latest_or(anew: impl FnOnce(u64) -> Instant) -> Instant {
    with_thread(
        #[inline(always)]
        |thread| {
            let cycles = counter::read();
            match thread.reading.latest_at(cycles) {
                Some(latest) => latest,
                None => anew(cycles),
            }
        },
    )
}

#[inline(always)]
fn earliest_at(cycles: u64) -> Option<Instant> {
    with_thread(
        #[inline(always)]
        |thread| thread.reading.earliest_at(cycles),
    )
}

/// Works as [`now_upper`], by the clock that users of this thread see.
#[inline(always)]
pub(crate) fn shown_now_upper() -> Instant {
    #[cfg(feature = "tokio-test-util")]
    look_at_tokio();
    latest_or(shown_latest_slow)
}

#[cold]
#[inline(never)]
fn shown_latest_slow(cycles: u64) -> Instant {
    with_thread(|thread| thread.latest_slow(thread.shown_now(), cycles))
}

/// Works as [`now_lower`], by the clock that users of this thread see.
#[inline(always)]
pub(crate) fn shown_now_lower() -> Instant {
    #[cfg(feature = "tokio-test-util")]
    look_at_tokio();
    let cycles = counter::read();
    earliest_at(cycles).unwrap_or_else(|| shown_earliest_slow(cycles))
}

#[cold]
#[inline(never)]
fn shown_earliest_slow(cycles: u64) -> Instant {
    with_thread(|thread| thread.earliest_slow(thread.shown_now(), cycles))
}

/// Makes the users of this thread see the virtual clock that `clock` reads, or the process's clock again.
pub(crate) fn show(clock: Option<fn() -> Instant>) {
    with_thread(|thread| {
        #[cfg(feature = "tokio")]
        thread.follows_tokio.set(false);
        thread.reading.show(clock);
        thread.note(Way::Virtual, clock.is_some());
    });
}

/// Returns the function that reads the virtual clock of this thread's users, if they see a virtual clock.
pub(crate) fn shown() -> Option<fn() -> Instant> {
    with_thread(|thread| thread.reading.shown())
}

/// Returns [`now_lower`] for the counter value `cycles`, if the thread's line does not reach.
#[cold]
#[inline(never)]
pub(crate) fn earliest_slow(cycles: u64) -> Instant {
    with_thread(|thread| thread.reading.earliest_slow(cycles))
}

/// Returns the time for users of this thread, comparable with the readings of other threads.
#[inline]
pub(crate) fn now() -> Instant {
    #[cfg(feature = "tokio-test-util")]
    look_at_tokio();
    with_thread(
        #[inline(always)]
        |thread| match thread.reading.now() {
            Some(now) => now,
            None => shown_slow(),
        },
    )
}

#[cold]
#[inline(never)]
fn shown_slow() -> Instant {
    with_thread(|thread| match thread.shown_now() {
        Some(now) => now,
        None => thread.reading.now_slow(),
    })
}

/// Makes users of this thread follow the clock of the tokio runtime that polls here, if that clock is paused, or the
/// process's clock again.
///
/// A reading does not call this function while the thread keeps a line of the counter, which is for up to 50 µs.
#[cfg(feature = "tokio-test-util")]
pub(crate) fn look_at_tokio() {
    with_thread(|thread| {
        let is_paused = tokio_clock::shown().is_some();
        let is_free = thread.reading.shown().is_none();
        if is_paused && is_free || !is_paused && thread.follows_tokio.get() {
            thread.follow_tokio(is_paused);
        }
    });
}

/// Reports a sleep that waits in real time if tokio's clock is paused. Used in debug builds alone, because the look
/// takes as long as starting a sleep.
#[cfg(all(debug_assertions, feature = "tokio", not(feature = "tokio-test-util")))]
pub(crate) fn check_unfollowed() {
    if !with_thread(Thread::is_virtual) && tokio_clock::shown().is_some() {
        tokio_clock::report_unfollowed();
    }
}

/// Returns the time of this thread's tokio runtime. If there is none, returns the time of the process's clock, and
/// makes the thread use that clock again.
#[cfg(feature = "tokio")]
fn tokio_now() -> Instant {
    tokio_clock::shown().unwrap_or_else(|| {
        with_thread(|thread| {
            thread.follow_tokio(false);
            thread.reading.now_slow()
        })
    })
}

impl Thread {
    /// Returns the base of this thread, if the thread occupies one.
    #[inline]
    pub(crate) fn base(&self) -> Option<&'static ThreadBase> {
        self.home.get().map(|home| home.base)
    }

    /// Returns the one system of timers of the process, if this thread occupies a base.
    #[inline]
    pub(super) fn timers(&self) -> Option<&'static Timers<Host>> {
        self.home.get().map(|home| home.timers)
    }

    /// Returns whether this thread occupies `base`.
    #[inline]
    pub(crate) fn is_own(&self, base: &ThreadBase) -> bool {
        self.base().is_some_and(|own| std::ptr::eq(own, base))
    }

    /// Returns the token by which the base lock recognises its owner.
    #[inline]
    pub(crate) fn token(&self) -> Option<Owner> {
        self.token.get()
    }

    /// Makes this thread occupy `base`, which is a base of `timers`.
    pub(super) fn occupy(&self, base: &'static ThreadBase, timers: &'static Timers<Host>) {
        self.token.set(base.lock().claim());
        self.home.set(Some(Home { base, timers }));
        base.local().note_thread();
        // Made, so that it can be dropped.
        let _is_at_its_end = ALIVE.try_with(|_| ());
    }

    /// Frees the base that this thread occupies.
    pub(super) fn vacate(&self) {
        let Some(Home { base, .. }) = self.home.take() else {
            return;
        };
        if let Some(token) = self.token.take() {
            base.lock().disown(token);
        }
    }

    /// Records whether a `Worker` or `Driver` takes the turns of this thread. That `Worker` or `Driver` has to end
    /// before the thread frees its base.
    pub(crate) fn set_has_turns(&self, has_turns: bool) {
        self.has_turns.set(has_turns);
    }

    /// Handles the announcement that the thread ends. Returns true if the thread continues for a while, because it has
    /// turns to take. `ask_again` requests another announcement from the system.
    pub(super) fn outlives_its_end(&self, ask_again: impl FnOnce() -> bool) -> bool {
        let times = self.ends.get() + 1;
        self.ends.set(times);
        self.has_turns.get() && times < threads::ENDS && ask_again()
    }

    pub(super) fn set_gone(&self) {
        self.is_gone.set(true);
    }

    pub(super) fn is_gone(&self) -> bool {
        self.is_gone.get()
    }

    /// Returns whether the thread is past the end of its life, or among the last of its destructors, or in the exit
    /// handlers of the process. In these states the thread must not panic.
    pub(crate) fn is_at_its_end(&self) -> bool {
        self.is_gone() || threads::is_exiting() || ALIVE.try_with(|_| ()).is_err()
    }

    /// Returns whether it is unknown if any thread expires the next timer that this thread starts.
    #[inline]
    pub(super) fn is_unattended(&self) -> bool {
        self.ways.get() & Way::Unattended as u8 != 0
    }

    pub(crate) fn set_unattended(&self, is_unattended: bool) {
        self.note(Way::Unattended, is_unattended);
    }

    /// Returns the virtual clock that users of this thread see; `None` if they see the process's clock.
    fn shown_now(&self) -> Option<Instant> {
        if let Some(clock) = self.reading.shown() {
            if !self.is_at_its_end() {
                return Some(clock());
            }
            // No runtime moves the virtual clock any more: by the process's clock an exit handler can sleep.
            self.reading.show(None);
            self.note(Way::Virtual, false);
            return None;
        }
        #[cfg(feature = "tokio")]
        if let Some(now) = tokio_clock::shown() {
            #[cfg(not(feature = "tokio-test-util"))]
            if let Some(Home { base, timers }) = self.home.get()
                && timers.pending(base.cpu()) > 0
            {
                tokio_clock::report_unfollowed();
            }
            self.follow_tokio(true);
            return Some(now);
        }
        None
    }

    /// Returns the time of a virtual clock, or reads the process's clock, whose line does not reach.
    #[inline]
    fn earliest_slow(&self, virtual_now: Option<Instant>, cycles: u64) -> Instant {
        virtual_now.unwrap_or_else(|| self.reading.earliest_slow(cycles))
    }

    /// Works as [`earliest_slow`](Self::earliest_slow), for a time that is not behind the kernel's clock.
    #[inline]
    fn latest_slow(&self, virtual_now: Option<Instant>, cycles: u64) -> Instant {
        virtual_now.unwrap_or_else(|| self.reading.latest_at_slow(cycles))
    }

    /// Returns the time of the virtual clock, if this thread acts for the base of a virtual clock.
    pub(super) fn virtual_base_now(&self) -> Option<Instant> {
        let clock = self.reading.shown()?;
        self.is_on_virtual_base.get().then(clock)
    }

    /// Records whether the core uses the virtual clock that users of this thread see. Returns whether it did before.
    pub(super) fn set_on_virtual_base(&self, is_so: bool) -> bool {
        self.is_on_virtual_base.replace(is_so)
    }

    /// Puts this thread on `base`, which has no owner. The result is needed to [put the thread back](Self::go_home).
    pub(super) fn visit(&self, base: &'static ThreadBase, timers: &'static Timers<Host>) -> Left {
        Left {
            home: self.home.replace(Some(Home { base, timers })),
            token: self.token.take(),
        }
    }

    /// Ends a [visit](Self::visit).
    pub(super) fn go_home(&self, left: &Left) {
        self.home.set(left.home);
        self.token.set(left.token);
    }

    /// Makes users see the clock of a tokio runtime, or the process's clock again.
    #[cfg(feature = "tokio")]
    fn follow_tokio(&self, follows: bool) {
        self.follows_tokio.set(follows);
        self.reading
            .show(follows.then_some(tokio_now as fn() -> Instant));
        self.note(Way::Virtual, follows);
    }

    /// Sets or clears one reason for this thread to take the slow path.
    pub(crate) fn note(&self, way: Way, is_so: bool) {
        let others = self.ways.get() & !(way as u8);
        self.ways
            .set(if is_so { others | way as u8 } else { others });
    }

    /// Returns whether users of the thread see a virtual clock.
    #[inline]
    pub(super) fn is_virtual(&self) -> bool {
        self.ways.get() & Way::Virtual as u8 != 0
    }

    /// Returns whether the thread is [unattended](Self::is_unattended), or its users see a virtual clock.
    #[inline]
    pub(super) fn is_unattended_or_virtual(&self) -> bool {
        self.ways.get() & (Way::Unattended as u8 | Way::Virtual as u8) != 0
    }

    /// Returns whether no reason keeps this thread from the fast path.
    #[inline]
    pub(super) fn can_fast_path(&self) -> bool {
        self.ways.get() == 0
    }

    /// Returns whether no reason but a default slack keeps this thread from the fast path.
    #[inline]
    pub(super) fn can_fast_path_with_slack(&self) -> bool {
        self.ways.get() & !(Way::Slack as u8) == 0
    }

    /// Records the CPU whose turn this thread takes. Returns the CPU whose turn this thread took before.
    pub(super) fn replace_turn(&self, of: Option<CpuId>) -> Option<CpuId> {
        self.note(Way::InTurn, of.is_some());
        self.turn_of.replace(of)
    }
}

/// Records that this thread pushed out the sleep with this deadline.
#[inline(always)]
pub(crate) fn note_pushed_out(deadline: &Instant) {
    with_thread(
        #[inline(always)]
        |thread| thread.pushed_out.set(std::ptr::from_ref(deadline).addr()),
    );
}

/// Returns whether `deadline` is ahead, as far as this thread can find out without a call. That is the case if the
/// deadline was pushed out since the last call, or if it is ahead by the clock. `false` if the line of the clock that
/// the thread has kept does not reach.
#[inline(always)]
pub(crate) fn is_ahead_fast(deadline: &Instant) -> bool {
    with_thread(
        #[inline(always)]
        |thread| {
            let is_pushed_out = thread.pushed_out.replace(0) == std::ptr::from_ref(deadline).addr();
            let now = || thread.reading.earliest_at(counter::read());
            is_pushed_out || now().is_some_and(|now| now < *deadline)
        },
    )
}

/// Returns the CPU whose turn this thread is taking, if any. The thread is then inside of a callback or a waker.
#[inline]
pub(crate) fn turn_taken_by_this_thread() -> Option<CpuId> {
    with_thread(|thread| thread.turn_of.get())
}

/// Locks `base`.
pub(super) fn lock(base: &ThreadBase) -> Frozen<'_, Host> {
    let token = with_thread(|thread| thread.token().filter(|_| thread.is_own(base)));
    base.freeze(token)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{is_ahead_fast, note_pushed_out, now_lower};

    #[test]
    fn a_deadline_that_was_pushed_out_is_ahead_once() {
        let over = now_lower();
        let other = over;
        assert!(!is_ahead_fast(&over));
        note_pushed_out(&over);
        assert!(is_ahead_fast(&over));
        assert!(!is_ahead_fast(&over), "the clock decides from then on");
        note_pushed_out(&over);
        assert!(!is_ahead_fast(&other), "another one was pushed out");
        assert!(!is_ahead_fast(&over));
    }
}
