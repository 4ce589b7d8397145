//! The loop or worker of a thread, and the list of its due timers.
//!
//! A turn of the library only puts expired timers into a list of due timers, whose links are in the timers. Their
//! callbacks are called after the turn, one by one. So in a callback each timer is idle, queued, or due, and the
//! callback can unlink any timer, including its own. Decision 60 gives the reasons.
//!
//! The end of a thread cancels its timers, because their memory may be freed afterwards. It is noticed by the destructor
//! of a thread key, as in the library below: `exit` calls none, and exit handlers may use the timers still. The library
//! gives the thread's base up in the third round of destructors, and the timers are cancelled in the second one, so
//! destructors of the program find them unchanged in the first one.
//!
//! Signal handlers make calls, too. Each call first marks its thread as being at work, and looks at structures and at
//! the place afterwards. A handler that reads the mark refuses its own call. So what a call has seen stays true until
//! the mark is taken back.
//!
//! # Invariant
//!
//! **Listed**: a structure in the list of its place is initialised, and leaves the list before its memory is freed:
//! `tickless_timer_destroy` and its siblings unlink the structure, and the caller promises to call them before it frees the
//! memory. Only the thread of the place touches the list.

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, compiler_fence};

use tickless::{Driver, Turn, Unparker, Worker};

use crate::clock::put;
use crate::errno::{Errno, answer, counted};
use crate::main_thread;
use crate::registry::Registry;
use crate::structure::{State, Structure};
use crate::thread_key::ThreadKey;

/// The object that runs a thread's timers.
#[derive(Debug)]
pub(crate) enum Runner {
    /// An event loop of the caller.
    Loop(Driver),
    /// A worker: the thread runs its timers itself.
    Worker(Worker),
}

/// The loop or worker of a thread.
#[derive(Debug)]
pub(crate) struct ThreadPlace {
    pub(crate) runner: Runner,
    /// The handle that wakes the thread, if it is a worker. It is the only field that other threads read.
    pub(crate) unparker: Option<Unparker>,
    /// The number of the place, which is unique in the process.
    pub(crate) number: u64,
    /// The number of timers that are queued or due.
    pending: Cell<usize>,
    /// The first and last timer of the list of due timers.
    first: Cell<*const Structure>,
    last: Cell<*const Structure>,
    /// The timer whose callback is running, unless the callback has destroyed it.
    running: Cell<*const Structure>,
    /// True while the thread takes a turn.
    turning: Cell<bool>,
    /// True if the end of the thread was announced.
    is_ending: Cell<bool>,
    /// The addresses of the structures that are initialised.
    known: Registry,
}

/// The state of a thread, which the thread and its signal handlers use.
struct Thread {
    /// The place of the thread, or null. `Box::into_raw` made the pointer, and `free` converts it back to a box.
    place: Cell<*const ThreadPlace>,
    /// True while a call of the thread is at work. A signal handler that reads true has interrupted such a call.
    at_work: AtomicBool,
}

thread_local! {
    static THREAD: Thread = const {
        Thread {
            place: Cell::new(ptr::null()),
            at_work: AtomicBool::new(false),
        }
    };
}

/// Returns the state of this thread.
// Not by `LocalKey::with`, which becomes a call where the compiler weighs it so.
#[inline(always)]
fn this_thread<'a>() -> &'a Thread {
    match THREAD.try_with(ptr::from_ref) {
        // SAFETY: it is there as long as the thread, which is the only one to use it.
        Ok(thread) => unsafe { &*thread },
        Err(_) => unreachable!("a value without a destructor is never destroyed"),
    }
}

/// The mark of a call that is at work, until it is dropped, also by a panic.
pub(crate) struct AtWork<'a> {
    thread: &'a Thread,
}

impl AtWork<'_> {
    /// Marks this thread. Returns `EAGAIN` in a signal handler that interrupted a call that is at work.
    #[inline(always)]
    pub(crate) fn begin() -> Result<Self, Errno> {
        let thread = this_thread();
        // Relaxed, here and below: of one thread and its signal handlers, which the fences are for.
        if thread.at_work.load(Ordering::Relaxed) {
            return Err(Errno::AGAIN);
        }
        thread.at_work.store(true, Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
        Ok(Self { thread })
    }

    /// Returns the place of this thread; `EPERM` if the thread has none.
    #[inline(always)]
    pub(crate) fn here(&self) -> Result<&'static ThreadPlace, Errno> {
        // SAFETY: the thread's own, made by `install`; it is freed by `free` alone, which only a call from C reaches
        // that no other call of this thread stands below, for it refuses those from callbacks and is refused in
        // signal handlers while another is at work. No reference outlives its call.
        unsafe { self.thread.place.get().as_ref() }.ok_or(Errno::PERM)
    }
}

impl Drop for AtWork<'_> {
    fn drop(&mut self) {
        compiler_fence(Ordering::SeqCst);
        // Relaxed: see `begin`.
        self.thread.at_work.store(false, Ordering::Relaxed);
    }
}

/// The number of the next place. No place has the number zero.
static NEXT: AtomicU64 = AtomicU64::new(1);

/// Marks this thread, and returns its place if `handle` is the handle of that.
pub(crate) fn own<'a, T>(handle: *const T) -> Result<(AtWork<'a>, &'static ThreadPlace), Errno> {
    if handle.is_null() {
        return Err(Errno::INVAL);
    }
    let at_work = AtWork::begin()?;
    let place = at_work.here()?;
    if ptr::eq(handle.cast(), place) {
        Ok((at_work, place))
    } else {
        Err(Errno::PERM)
    }
}

/// Gives this thread a place with the runner that `runner` makes, and writes its handle.
///
/// # Safety
///
/// `made` is null, or may be written.
pub(crate) unsafe fn make<T>(
    made: *mut *mut T,
    runner: impl FnOnce() -> Result<Runner, Errno>,
) -> c_int {
    answer(|| {
        if made.is_null() || !made.is_aligned() {
            return Err(Errno::INVAL);
        }
        main_thread::notice_end();
        let at_work = AtWork::begin()?;
        if at_work.here().is_ok() {
            return Err(Errno::EXIST);
        }
        let handle = install(&at_work, runner()?)?.cast::<T>().cast_mut();
        // SAFETY: the caller says so.
        unsafe { put(made, handle) }
    })
}

/// Writes the time at which the first timer of the place of `handle` fires, and returns 1; returns 0 if no timer is
/// pending.
///
/// # Safety
///
/// `at` is null, or may be written.
pub(crate) unsafe fn next<T>(handle: *const T, at: *mut u64) -> c_int {
    answer(|| {
        let (_at_work, place) = own(handle)?;
        let next = place.next();
        // SAFETY: the caller says so.
        unsafe { put(at, next.unwrap_or(u64::MAX)) }?;
        Ok(c_int::from(next.is_some()))
    })
}

/// Gives this thread a place, and returns the handle. The thread has no place before the call.
fn install(at_work: &AtWork<'_>, runner: Runner) -> Result<*const ThreadPlace, Errno> {
    let unparker = match &runner {
        Runner::Worker(worker) => Some(worker.unparker()),
        Runner::Loop(_) => None,
    };
    let place = ThreadPlace {
        runner,
        unparker,
        // Relaxed: only that no number comes twice.
        number: NEXT.fetch_add(1, Ordering::Relaxed),
        pending: Cell::new(0),
        first: Cell::new(ptr::null()),
        last: Cell::new(ptr::null()),
        running: Cell::new(ptr::null()),
        turning: Cell::new(false),
        is_ending: Cell::new(false),
        known: Registry::default(),
    };
    let place = Box::new(place);
    notice_end(&raw const *place)?;
    let place = Box::into_raw(place).cast_const();
    at_work.thread.place.set(place);
    Ok(place)
}

/// Makes the end of this thread call [`end`] with `place`, unless that is null.
fn notice_end(place: *const ThreadPlace) -> Result<(), Errno> {
    static KEY: ThreadKey = ThreadKey::new(end);
    KEY.set(place.cast())
}

/// Cancels the timers of a thread that ends, and frees its loop. A worker stays, because other threads may unpark it
/// until it is freed.
extern "C" fn end(place: *mut c_void) {
    let thread = this_thread();
    let pointer = thread.place.get();
    if !ptr::eq(pointer, place.cast()) {
        return;
    }
    // SAFETY: as in `AtWork::here`.
    let Some(place) = (unsafe { pointer.as_ref() }) else {
        return;
    };
    if !place.is_ending.replace(true) && notice_end(pointer) == Ok(()) {
        return;
    }
    // Relaxed: see `AtWork::begin`. A call that was at work does not go on.
    thread.at_work.store(true, Ordering::Relaxed);
    let _answer = answer(|| {
        place.cancel_all();
        thread.place.set(ptr::null());
        if let Runner::Loop(_) = place.runner {
            // SAFETY: as in `free`.
            drop(unsafe { Box::from_raw(pointer.cast_mut()) });
        }
        Ok(0)
    });
    // Relaxed: see `AtWork::begin`.
    thread.at_work.store(false, Ordering::Relaxed);
}

/// Frees the place of this thread, whose handle is `handle`.
pub(crate) fn free<T>(handle: *const T) -> Result<c_int, Errno> {
    let (at_work, place) = own(handle)?;
    if place.turning.get() || place.pending.get() != 0 {
        return Err(Errno::BUSY);
    }
    notice_end(ptr::null())?;
    let pointer = at_work.thread.place.replace(ptr::null()).cast_mut();
    // SAFETY: made by `Box::into_raw` in `install`, and the thread had it until now, so this is the first time. No turn
    // is being taken, and this call alone is at work, so no other call of this thread uses it.
    drop(unsafe { Box::from_raw(pointer) });
    Ok(0)
}

/// Adds a timer of this thread to the list of due timers, after the library reported its expiry.
///
/// # Safety
///
/// If `number` is the number of this thread's place, `structure` is initialised.
pub(crate) unsafe fn expired(structure: *const Structure, number: u64) {
    // SAFETY: as in `AtWork::here`; the turn that calls this is at work.
    let place = unsafe { this_thread().place.get().as_ref() };
    // Otherwise the thread of the timer is gone, and the memory may be, too.
    if let Some(place) = place
        && place.number == number
    {
        // SAFETY: the caller says so.
        let structure = unsafe { &*structure };
        place.file(structure);
    }
}

/// A guard for the time of a turn, which clears `turning` and `running` when it is dropped, also by a panic.
struct Turning<'a>(&'a ThreadPlace);

impl Drop for Turning<'_> {
    fn drop(&mut self) {
        self.0.turning.set(false);
        self.0.running.set(ptr::null());
    }
}

impl ThreadPlace {
    /// Takes a turn: the library lists the due timers, and then their callbacks are called. Returns the number of
    /// callbacks.
    pub(crate) fn turn(
        &self,
        at_work: AtWork<'_>,
        take: impl FnOnce() -> Turn,
    ) -> Result<c_int, Errno> {
        if self.turning.replace(true) {
            return Err(Errno::DEADLK);
        }
        let _turning = Turning(self);
        #[cfg(debug_assertions)]
        self.known.check();
        // Whether more is due is what `next` says.
        let _turn = take();
        drop(at_work);
        let mut called = 0;
        // It ends: the list grows in turns of the library alone.
        while self.call_first() {
            called += 1;
        }
        Ok(counted(called))
    }

    /// Calls the callback of the first due timer. Returns true if a timer was due.
    fn call_first(&self) -> bool {
        // A signal handler that ran since the last one may have done anything but be at work now.
        let Ok(at_work) = AtWork::begin() else {
            return false;
        };
        let first = self.first.get();
        // SAFETY: null, or listed.
        let Some(structure) = (unsafe { first.as_ref() }) else {
            return false;
        };
        self.unlink(structure);
        self.settle(structure, State::Idle);
        let (callback, pointer, argument) = structure.call();
        self.running.set(first);
        drop(at_work);
        // The structure may be gone after this.
        // SAFETY: the caller of the initialisation promised that it can be called with these two.
        unsafe { callback(pointer, argument) };
        self.running.set(ptr::null());
        true
    }

    /// Returns the time at which the first timer fires, in nanoseconds of the monotonic clock.
    fn next(&self) -> Option<u64> {
        if !self.first.get().is_null() {
            return Some(0);
        }
        let deadline = match &self.runner {
            Runner::Loop(driver) => driver.next_deadline(),
            Runner::Worker(worker) => worker.next_deadline(),
        }?;
        Some(crate::clock::monotonic(deadline))
    }

    /// Notes that the structure at `address` is being initialised. Fails if it was initialised already.
    pub(crate) fn admit(&self, address: usize, magic: u64) -> Result<(), Errno> {
        self.known.admit(address, magic)
    }

    /// Cancels a timer that is being destroyed, and removes it from the registry.
    pub(crate) fn dismiss(&self, structure: &Structure) {
        self.take_back(structure);
        if self.is_running(structure) {
            self.running.set(ptr::null());
        }
        self.known.forget(ptr::from_ref(structure).addr());
    }

    /// Cancels all timers. Those that are idle keep their memory as it is, which the program may have freed.
    fn cancel_all(&self) {
        if self.pending.get() == 0 {
            return;
        }
        self.known.for_each(|address| {
            // SAFETY: initialised, and the caller of the initialisation promised that the memory stays.
            if let Some(structure) = unsafe { Structure::still_at(address, self.number) } {
                self.take_back(structure);
            }
        });
    }

    /// Returns true if the callback of this timer is running.
    pub(crate) fn is_running(&self, structure: &Structure) -> bool {
        ptr::eq(self.running.get(), structure)
    }

    /// Starts a timer. Returns true if the timer was pending.
    pub(crate) fn start(&self, structure: &Structure, deadline: u64) -> bool {
        let before = structure.state.get();
        if before == State::Due {
            self.unlink_changed(structure);
        }
        structure.deadline.set(deadline);
        if before != State::Queued {
            self.settle(structure, State::Queued);
        }
        structure.timer().start(deadline, structure.slack.get());
        before != State::Idle
    }

    /// Cancels a timer. Returns true if the timer was pending.
    pub(crate) fn take_back(&self, structure: &Structure) -> bool {
        let before = structure.state.get();
        match before {
            State::Idle => {}
            State::Due => self.unlink_changed(structure),
            State::Queued => structure.timer().cancel(),
        }
        self.settle(structure, State::Idle);
        before != State::Idle
    }

    /// Puts an expired timer at the end of the list of due timers.
    fn file(&self, structure: &Structure) {
        self.settle(structure, State::Due);
        let last = self.last.replace(structure);
        structure.previous.set(last);
        structure.next.set(ptr::null());
        // SAFETY: null, or listed.
        match unsafe { last.as_ref() } {
            Some(last) => last.next.set(structure),
            None => self.first.set(structure),
        }
    }

    /// Unlinks a timer that is started or cancelled between its expiry and its callback. This function is not inlined,
    /// because otherwise each start and each cancel would save six registers.
    #[cold]
    #[inline(never)]
    fn unlink_changed(&self, structure: &Structure) {
        self.unlink(structure);
    }

    /// Removes a due timer from the list.
    fn unlink(&self, structure: &Structure) {
        let (previous, next) = (structure.previous.get(), structure.next.get());
        // SAFETY: null, or listed.
        match unsafe { previous.as_ref() } {
            Some(previous) => previous.next.set(next),
            None => self.first.set(next),
        }
        // SAFETY: null, or listed.
        match unsafe { next.as_ref() } {
            Some(next) => next.previous.set(previous),
            None => self.last.set(previous),
        }
    }

    /// Changes the state of a timer, and updates the number of pending timers.
    fn settle(&self, structure: &Structure, state: State) {
        let was_pending = structure.state.replace(state) != State::Idle;
        let pending = self.pending.get() + usize::from(state != State::Idle);
        self.pending.set(pending - usize::from(was_pending));
        #[cfg(debug_assertions)]
        self.known
            .set_pending(ptr::from_ref(structure).addr(), state != State::Idle);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::ptr;

    use super::{AtWork, expired};
    use crate::event_loop::{tickless_loop_free, tickless_loop_new};
    use crate::structure::State;
    use crate::timer::{
        Timer, tickless_timer_cancel, tickless_timer_destroy, tickless_timer_init,
        tickless_timer_start,
    };
    use crate::verbs::find;

    /// # Safety
    ///
    /// The function has no requirements; it is unsafe because the type of callbacks is unsafe.
    unsafe extern "C-unwind" fn ignore(_timer: *mut Timer, _argument: *mut std::ffi::c_void) {}

    #[test]
    #[expect(
        clippy::multiple_unsafe_ops_per_block,
        reason = "all of them want the memory of one structure"
    )]
    fn a_timer_of_another_place_is_not_filed() {
        let mut made = ptr::null_mut();
        // SAFETY: it may be written.
        assert_eq!(unsafe { tickless_loop_new(&raw mut made) }, 0);
        let timer = Box::into_raw(Box::<Timer>::new_uninit()).cast::<Timer>();
        // SAFETY: the memory of a whole structure, here and below.
        unsafe {
            assert_eq!(tickless_timer_init(timer, Some(ignore), ptr::null_mut()), 0);
            assert_eq!(tickless_timer_start(timer, 1 << 60), 0);
            let found = find(timer.cast_const()).unwrap();
            let (structure, number) = (found.structure, found.place.number);
            expired(structure, number + 1);
            assert_eq!(structure.state.get(), State::Queued);
            expired(structure, number);
            assert_eq!(structure.state.get(), State::Due);
            drop(found);
            assert_eq!(tickless_timer_cancel(timer), 1);
            assert_eq!(tickless_timer_destroy(timer), 0);
            drop(Box::from_raw(timer.cast::<std::mem::MaybeUninit<Timer>>()));
        }
        assert!(AtWork::begin().unwrap().here().is_ok());
        assert_eq!(tickless_loop_free(made), 0);
    }
}
