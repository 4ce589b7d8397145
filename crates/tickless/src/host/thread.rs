//! The table of all threads that have timers, and which of them this is.
//!
//! Each thread that uses a timer takes a *seat*: a base with its queues, a device, a place to sleep. Seats live for
//! ever, so that a timer may name one by number; a thread that ends gives its seat to the next that comes.
//!
//! Seat 0 belongs to the background driver. It exists from the beginning, so that there is always somewhere for timers
//! to go.

use std::cell::Cell;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use tickless_core::event::DeviceConfig;
use tickless_core::hierarchy::Leaving;
use tickless_core::hrtimer::{CpuBase, Timers};
use tickless_core::platform::CpuId;
use tickless_link::bias::Owner;

use super::clock::Reading;
use super::kick::Kick;
use super::os::{self, Descriptor, Parker};
use super::remote::trees as tree;
use super::sleep_protocol::Promise;
use super::{Host, coarse, device, isolation, numa, timers};

/// Threads that can have a seat at the same time. One more uses the background driver's.
pub(crate) const SEATS_MAX: usize = 1 << 16;

/// Who looks after the timers of a seat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    /// Nobody sits here.
    Free = 0,
    /// A thread that does something else; the background driver expires for it.
    Foreign = 1,
    /// A thread that runs its own timers, and sleeps until the first of them.
    Worker = 2,
    /// A thread that runs its own timers from an event loop that watches a file descriptor.
    EventLoop = 3,
    /// The background driver.
    Background = 4,
}

impl Kind {
    const ALL: [Self; 5] = [
        Self::Free,
        Self::Foreign,
        Self::Worker,
        Self::EventLoop,
        Self::Background,
    ];
}

/// One thread's place: its base, with what the host keeps for it inside.
pub(crate) type Seat = CpuBase<Host>;

/// What the host keeps for a seat.
#[derive(Debug)]
pub(crate) struct Local {
    kind: AtomicU8,
    /// Threads that sat here so far.
    pub(crate) tenants: AtomicU32,
    /// What the system calls the thread that sits here, 0 if that is not known.
    thread: AtomicU32,
    /// What the base programmed for its exact timers, in nanoseconds.
    pub(crate) deadline: AtomicI64,
    /// What the device is set for, as far as the thread remembers, in nanoseconds; see [`device`].
    pub(super) set_for: AtomicI64,
    /// Until when the driver does not look whether the worker is stuck, in nanoseconds.
    pub(crate) stuck_until: AtomicI64,
    /// The first tick of the global wheel that the driver was to know of, 0 if none.
    pub(crate) watched: AtomicU64,
    /// The worker that gets the global coarse timers that this one arms; [`NOBODY`](Self::NOBODY) if they stay here.
    pub(crate) housekeeper: AtomicU32,
    /// The worker is not to be disturbed; see `isolation`.
    pub(crate) isolated: AtomicBool,
    /// What another thread asked the worker for; see `isolation`.
    pub(crate) isolation_request: AtomicU64,
    pub(crate) soft_raised: AtomicBool,
    /// When the last turn that spent its budget left timers, in nanoseconds.
    pub(super) left_over: AtomicI64,
    pub(crate) kicked: Kick,
    pub(crate) parker: Parker,
    /// The [NUMA node](numa) of the seat, where its places in the trees are; written before it has any.
    pub(super) node: AtomicU32,
    /// The device of an [`EventLoop`](Kind::EventLoop).
    pub(super) device: Descriptor,
}

impl Local {
    /// No seat.
    pub(crate) const NOBODY: u32 = u32::MAX;
    /// A device that fired and is not set: neither a time nor [`Promise::NEVER`].
    pub(super) const USED_UP: i64 = i64::MIN;

    pub(crate) fn new(kind: Kind) -> Self {
        Self {
            kind: AtomicU8::new(kind as u8),
            tenants: AtomicU32::new(0),
            thread: AtomicU32::new(0),
            deadline: AtomicI64::new(Promise::NEVER),
            set_for: AtomicI64::new(Promise::NEVER),
            stuck_until: AtomicI64::new(0),
            watched: AtomicU64::new(0),
            housekeeper: AtomicU32::new(Self::NOBODY),
            isolated: AtomicBool::new(false),
            isolation_request: AtomicU64::new(0),
            soft_raised: AtomicBool::new(false),
            left_over: AtomicI64::new(0),
            kicked: Kick::new(),
            parker: Parker::new(),
            node: AtomicU32::new(0),
            device: Descriptor::new(),
        }
    }

    /// Notes that the calling thread sits here.
    pub(crate) fn note_thread(&self) {
        let id = rustix::thread::gettid().as_raw_pid();
        // Relaxed: for people who look.
        self.thread.store(id.unsigned_abs(), Ordering::Relaxed);
    }

    /// What the system calls the thread that sits here; `None` if that is not known, or nobody does.
    pub(crate) fn thread_id(&self) -> Option<u32> {
        // Relaxed: see `note_thread`.
        let id = self.thread.load(Ordering::Relaxed);
        (id != 0 && self.kind() != Kind::Free).then_some(id)
    }

    pub(crate) fn kind(&self) -> Kind {
        // Acquire: pairs with the Release in `set_kind`.
        Kind::ALL[usize::from(self.kind.load(Ordering::Acquire))]
    }

    /// Says who looks after the timers from here on.
    pub(crate) fn set_kind(&self, kind: Kind) {
        // Release: pairs with the Acquire in `kind`: who finds the new kind finds its device ready.
        self.kind.store(kind as u8, Ordering::Release);
    }

    /// The file descriptor that becomes readable when something is due; made on first use.
    pub(crate) fn timerfd(&self) -> std::io::Result<BorrowedFd<'_>> {
        Ok(self.device.get_or_make(Self::make_timerfd)?)
    }

    pub(super) fn make_timerfd() -> rustix::io::Result<OwnedFd> {
        use rustix::time::{TimerfdClockId, TimerfdFlags, timerfd_create};
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        timerfd_create(TimerfdClockId::Monotonic, flags)
    }
}

static SEATS: [OnceLock<&'static Seat>; SEATS_MAX] = [const { OnceLock::new() }; SEATS_MAX];
/// Seats that exist: all numbers below are in the table.
static SEATED: AtomicU32 = AtomicU32::new(0);
/// Seats that nobody sits on.
static FREE: Mutex<Vec<u32>> = Mutex::new(Vec::new());

/// The seat with this number, if it exists.
#[inline]
pub(crate) fn seat(cpu: CpuId) -> Option<&'static Seat> {
    SEATS.get(cpu.0 as usize)?.get().copied()
}

/// All seats that exist.
pub(crate) fn seats() -> impl Iterator<Item = &'static Seat> {
    // Acquire: pairs with the Release in `take`: every seat below the number is in the table.
    (0..SEATED.load(Ordering::Acquire)).filter_map(|cpu| seat(CpuId(cpu)))
}

/// The background driver's seat.
pub(crate) fn background() -> &'static Seat {
    seat(CpuId(0)).expect("made together with the timers")
}

/// Makes this thread the one on the background driver's seat.
pub(super) fn sit_in_background() {
    with_thread(|thread| {
        let seat = background();
        thread.token.set(seat.lock().claim());
        thread.seat.set(Some(seat));
        seat.local().note_thread();
    });
}

/// Serialises everything that changes who sits where.
pub(crate) fn registry() -> MutexGuard<'static, Vec<u32>> {
    FREE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes a seat for ever, where it stays: the thread that needs it may have a small stack.
pub(crate) fn make(timers: &Timers<Host>, kind: Kind) -> &'static Seat {
    let (device, local) = (DeviceConfig::software(DEVICE_NAME), Local::new(kind));
    let slot = Box::leak(Box::new_uninit());
    timers.emplace_base(slot, device, local).into_mut()
}

/// Takes seat 0 into use. Called once, before anybody else can come.
pub(crate) fn make_background(seat: &'static Seat) {
    assert!(SEATS[0].set(seat).is_ok(), "the first seat is made once");
    // Release: see `seats`.
    SEATED.store(1, Ordering::Release);
}

/// Finds or makes a seat, on this thread's NUMA node if there is one to be had; `None` when all are taken.
fn take() -> Option<&'static Seat> {
    let node = numa::of_this_thread();
    let mut free = registry();
    // Relaxed: written with the registry locked, before the seat was free.
    let node_of = |cpu: u32| seat(CpuId(cpu)).map(|seat| seat.local().node.load(Ordering::Relaxed));
    if let Some(cpu) = take_of_node(&mut free, node, node_of) {
        return seat(CpuId(cpu));
    }
    // Relaxed: changed under the registry's lock only.
    let cpu = SEATED.load(Ordering::Relaxed);
    let Some(place) = SEATS.get(cpu as usize) else {
        return seat(CpuId(free.pop()?));
    };
    let seat = make(timers(), Kind::Free);
    // Relaxed: published with the seat.
    seat.local().node.store(node, Ordering::Relaxed);
    debug_assert_eq!(
        seat.cpu(),
        CpuId(cpu),
        "bases are numbered in the order of their making"
    );
    let _new = place.set(seat);
    // Release: see `seats`.
    SEATED.store(cpu + 1, Ordering::Release);
    self::seat(CpuId(cpu))
}

/// Takes out the last of the `free` seats that is on `node`.
fn take_of_node(
    free: &mut Vec<u32>,
    node: u32,
    node_of: impl Fn(u32) -> Option<u32>,
) -> Option<u32> {
    let place = free.iter().rposition(|cpu| node_of(*cpu) == Some(node))?;
    Some(free.remove(place))
}

/// What devices are called in dumps.
pub(crate) const DEVICE_NAME: &str = "park-deadline";

/// What a thread knows of itself.
pub(crate) struct Thread {
    seat: Cell<Option<&'static Seat>>,
    token: Cell<Option<Owner>>,
    /// A `Worker` or `Driver` holds the seat to run its timers.
    held: Cell<bool>,
    /// How often the thread was told that it ends.
    ends: Cell<u32>,
    /// The thread is past the end of its life: it gets no seat any more.
    gone: Cell<bool>,
    /// Nothing is known yet of who runs the timers that the thread arms next; see `background::demand`.
    pub(crate) unattended: Cell<bool>,
    pub(crate) reading: Reading,
}

thread_local! {
    // Without a destructor, so that reaching it is one addition to the thread pointer.
    static THREAD: Thread = const {
        Thread {
            seat: Cell::new(None),
            token: Cell::new(None),
            held: Cell::new(false),
            ends: Cell::new(0),
            gone: Cell::new(false),
            unattended: Cell::new(true),
            reading: Reading::new(),
        }
    };
    /// Dropped with the other thread-locals of the thread, early or late among them.
    static ALIVE: Alive = const { Alive };
}

/// Something whose destructor does nothing.
struct Alive;

impl Drop for Alive {
    fn drop(&mut self) {}
}

/// Runs `body` with what the thread knows of itself.
#[inline]
pub(crate) fn with_thread<R>(body: impl FnOnce(&Thread) -> R) -> R {
    THREAD.with(body)
}

impl Thread {
    /// The seat of this thread, if it has one.
    #[inline]
    pub(crate) fn seat(&self) -> Option<&'static Seat> {
        self.seat.get()
    }

    /// Whether the thread is past the end of its life, or among the last of its destructors, where it must not panic.
    pub(crate) fn is_at_its_end(&self) -> bool {
        self.gone.get() || ALIVE.try_with(|_| ()).is_err()
    }

    /// What lets the base lock know its owner.
    #[inline]
    pub(crate) fn token(&self) -> Option<Owner> {
        self.token.get()
    }

    /// The seat of this thread, taken now if it has none. `None` at the end of the thread's life, or when all are
    /// taken.
    #[inline]
    pub(crate) fn enter(&self) -> Option<&'static Seat> {
        match self.seat.get() {
            Some(seat) => Some(seat),
            None => self.enter_slowly(),
        }
    }

    #[cold]
    fn enter_slowly(&self) -> Option<&'static Seat> {
        if self.gone.get() || !os::at_end_of_thread(end) {
            return None;
        }
        let timers = timers();
        // The first use of all makes the timers, which asks who executes: then this thread has entered by now.
        if let Some(seat) = self.seat.get() {
            return Some(seat);
        }
        let seat = take()?;
        let token = seat.lock().claim();
        self.token.set(token);
        self.seat.set(Some(seat));
        // Relaxed: nobody watches the seat before its kind says so.
        seat.local().tenants.fetch_add(1, Ordering::Relaxed);
        seat.local().note_thread();
        seat.local()
            .deadline
            .store(Promise::NEVER, Ordering::Relaxed);
        seat.local().kicked.reset();
        seat.local().soft_raised.store(false, Ordering::Relaxed);
        timers.wheel_online(seat.cpu(), coarse::now());
        timers.cpu_online(seat.cpu());
        // Answers a kick that was sent while nobody sat here. As long as it counts as under way no other is sent.
        timers.retrigger(seat.cpu());
        tree::welcome(seat);
        seat.local().set_kind(Kind::Foreign);
        device::renew(seat);
        Some(seat)
    }
}

/// The end of a thread, after the destructors of its thread-locals.
extern "C" fn end(_: *mut libc::c_void) {
    with_thread(|thread| {
        let times = thread.ends.get() + 1;
        thread.ends.set(times);
        // A destructor of C code may drop it still. At the last call it was leaked, and its timers must fire anyway.
        let is_kept = thread.held.get() && times < os::ENDS && os::at_end_of_thread(end);
        if !is_kept {
            thread.leave();
        }
    });
}

impl Thread {
    /// Notes that a `Worker` or `Driver` holds the seat, and has to let go before the thread gives it back.
    pub(crate) fn hold(&self, held: bool) {
        self.held.set(held);
    }

    /// Gives the seat back; what is still queued goes to the background driver.
    fn leave(&self) {
        self.gone.set(true);
        let Some(seat) = self.seat.get() else { return };
        // From here on the driver does not look here any more; what it is doing here it finishes. That may be a
        // callback that takes its time, so no lock is held meanwhile that others need.
        let was = seat.local().kind();
        seat.local().set_kind(Kind::Free);
        match was {
            Kind::Foreign => tree::farewell(seat),
            Kind::Worker => {
                isolation::end(seat);
                let left = tree::retire(seat, Leaving::Offline);
                debug_assert!(left.is_ok(), "a worker was enlisted: {left:?}");
            }
            Kind::Free | Kind::EventLoop | Kind::Background => {}
        }
        // Locks two bases (spec LOC-9): this one, then the driver's. Who locks several takes the driver's last.
        timers().cpu_offline(seat.cpu());
        timers().wheel_offline(seat.cpu(), coarse::now());
        // The driver comes for what it got.
        device::renew(background());
        self.seat.set(None);
        if let Some(token) = self.token.take() {
            seat.lock().disown(token);
        }
        registry().push(seat.cpu().0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Enters on a thread of its own, does something on the seat there, and leaves.
    fn visit<R: Send + 'static>(body: impl FnOnce(&'static Seat) -> R + Send + 'static) -> R {
        let visitor = std::thread::spawn(|| {
            let seat = with_thread(Thread::enter).expect("there are seats enough");
            body(seat)
        });
        visitor.join().expect("the visitor does not panic")
    }

    #[test]
    fn a_seat_is_given_to_a_thread_of_its_node() {
        let mut free = vec![3, 4, 5, 6];
        let node_of = |cpu| Some(cpu % 2);
        let mut take = |node| take_of_node(&mut free, node, node_of);
        assert_eq!([take(1), take(1), take(1)], [Some(5), Some(3), None]);
        assert_eq!([take(2), take(0), take(0)], [None, Some(6), Some(4)]);
    }

    #[test]
    fn a_seat_is_used_again() {
        let first = visit(Seat::cpu);
        assert_ne!(first, CpuId(0), "that is the driver's");
        // Another test may sit there meanwhile.
        let again = (0..20_000).any(|_| visit(Seat::cpu) == first);
        assert!(again);
    }

    /// A clock is set while a thread leaves: the kick reaches nobody, and must not pass for one that is under way.
    #[test]
    fn a_seat_that_was_kicked_while_it_was_free_can_be_kicked_again() {
        let cpu = visit(Seat::cpu);
        timers().request_retrigger(cpu);
        let kicked = (0..20_000).any(|_| {
            visit(move |seat| {
                // Nobody else takes turns for a worker.
                seat.local().set_kind(Kind::Worker);
                timers().request_retrigger(seat.cpu());
                let kicked = seat.local().kicked.is_raised();
                seat.local().set_kind(Kind::Foreign);
                assert!(kicked || seat.cpu() != cpu, "the kick got lost");
                seat.cpu() == cpu
            })
        });
        assert!(kicked, "another thread keeps the seat");
    }
}
