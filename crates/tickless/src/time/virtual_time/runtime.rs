//! The table of runtimes whose clocks can be paused, and of the threads that belong to them.
//!
//! A [`Runtime`] has one clock. It is a [`Worker`](crate::Worker) in `block_on`, or an executor; the worker of the
//! executor and the threads in its `block_on` share the clock. The time passes when all of these threads wait and
//! nothing holds the time.
//!
//! # Who is idle
//!
//! A thread in the executor's `block_on` is counted as awake from the moment at which it is woken, because its waker
//! counts it. A worker is idle if the executor publishes that it is idle and no task waits in its queue. A thread that
//! fires a timer counts as awake until the threads that it woke are awake. So no thread finds all others idle while a
//! wake-up is pending.
//!
//! # Ground rules
//!
//! - The thread that becomes idle last moves the clock: each thread becomes idle first and checks the other threads
//!   after that, with sequentially consistent accesses, so that of two threads at least one sees both idle.

use std::cell::{Cell, RefCell};
use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::task::{Wake, Waker};

use tickless_core::time::Instant;

use super::callbacks::Callbacks;
use super::clock::{self, Allowed, Clock, Refused};
use crate::host::registry::VirtualSets;
use crate::host::thread::{self, Thread, with_thread};
use crate::host::wake;

/// The number of times in a row that tasks may give way, without all of them waiting, before due timers fire all the
/// same. Without this limit a task that spins until a timer has fired would wait for ever. Up to this number of tasks,
/// each task had a turn by then.
const YIELDS: u32 = 64;

/// The workers of an executor, as its clock sees them.
pub(crate) trait Others: Send + Sync {
    /// Returns whether all workers wait, and no task waits for them.
    fn are_idle(&self) -> bool;

    /// Wakes one worker, which checks again whether the time passes.
    fn kick(&self);

    /// Wakes all tasks that wait.
    fn wake_all(&self);
}

/// Threads and tasks that share one clock.
pub(crate) struct Runtime {
    clock: Arc<Clock>,
    callbacks: Callbacks,
    /// The number of threads that run tasks; a clock can be paused if this number is one.
    workers: usize,
    /// True from the first pause on, because users see the virtual clock then.
    is_virtual: AtomicBool,
    /// The number of threads in `block_on` that do not wait and of threads that fire a timer.
    awake: AtomicUsize,
    /// The number of blocking jobs that are not over.
    holds: AtomicUsize,
    yields: AtomicUsize,
    others: OnceLock<Weak<dyn Others>>,
    /// The threads in `block_on`.
    sleepers: Mutex<Vec<Weak<Sleeper>>>,
}

thread_local! {
    // Without a destructor, so that exit handlers can use it: what is put in is taken out by `Entered` and `Blocks`.
    static CURRENT: RefCell<ManuallyDrop<Option<Arc<Runtime>>>> =
        const { RefCell::new(ManuallyDrop::new(None)) };
    /// True while the thread runs a future in `Worker::block_on`.
    static BLOCKS: Cell<bool> = const { Cell::new(false) };
}

impl Runtime {
    pub(crate) fn new(workers: usize) -> Self {
        Self {
            clock: Arc::new(Clock::new()),
            callbacks: Callbacks::new(),
            workers,
            is_virtual: AtomicBool::new(false),
            awake: AtomicUsize::new(0),
            holds: AtomicUsize::new(0),
            yields: AtomicUsize::new(0),
            others: OnceLock::new(),
            sleepers: Mutex::new(Vec::new()),
        }
    }

    /// Sets the workers of the executor that shares this clock.
    pub(crate) fn set_others(&self, others: Weak<dyn Others>) {
        let _first = self.others.set(others);
    }

    pub(crate) fn clock(&self) -> &Arc<Clock> {
        &self.clock
    }

    /// Updates the time at which the first callback is due on the clock.
    fn settle_callbacks(self: &Arc<Self>) {
        let fires = || Waker::from(Arc::new(Fires(Arc::downgrade(self))));
        self.callbacks.settle(&self.clock, fires);
    }

    /// Returns true if the clock of this runtime can be paused.
    pub(crate) fn has_one_worker(&self) -> bool {
        self.workers == 1
    }

    /// Returns true if users see the virtual clock.
    #[inline]
    pub(crate) fn is_virtual(&self) -> bool {
        // SeqCst: a thread that is woken after the pause sees it; see `pause`.
        self.is_virtual.load(Ordering::SeqCst)
    }

    /// Returns true if this thread, which belongs to the runtime, shows another clock than the runtime's: another thread
    /// paused it since the last [`sync`].
    #[inline(always)]
    pub(crate) fn is_to_be_shown(&self) -> bool {
        self.is_virtual() != wake::is_virtual()
    }

    /// Stops the clock.
    pub(crate) fn pause(&self, is_auto: bool) -> Result<(), Refused> {
        if !self.has_one_worker() {
            return Err(Refused::SeveralWorkers);
        }
        if !self.clock.pause(is_auto) {
            return Err(Refused::AlreadyFrozen);
        }
        // SeqCst: before the kick, and before whatever this thread wakes next.
        if !self.is_virtual.swap(true, Ordering::SeqCst) {
            self.wake_all();
            self.kick();
        }
        Ok(())
    }

    /// Wakes all tasks that wait. Their sleeps, which were armed on the process's clock, follow the virtual clock when
    /// they are polled.
    fn wake_all(&self) {
        if let Some(others) = self.others() {
            others.wake_all();
        } else if let Some(base) = with_thread(Thread::base) {
            // The future that this thread runs, in `Worker::block_on`, is to be polled once more.
            base.local().parker.unpark();
        }
        let sleepers: Vec<_> = self.sleepers().iter().filter_map(Weak::upgrade).collect();
        for sleeper in sleepers {
            sleeper.wake_by_ref();
        }
    }

    fn sleepers(&self) -> MutexGuard<'_, Vec<Weak<Sleeper>>> {
        self.sleepers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn others(&self) -> Option<Arc<dyn Others>> {
        self.others.get()?.upgrade()
    }

    fn kick(&self) {
        if let Some(others) = self.others() {
            others.kick();
        }
    }

    /// Notes that a blocking job begins, which holds the time until [`release`](Self::release).
    pub(crate) fn hold(&self) {
        // SeqCst, as all that a step asks.
        self.holds.fetch_add(1, Ordering::SeqCst);
    }

    /// Notes that a blocking job is over, and that the tasks that it woke are awake.
    pub(crate) fn release(&self) {
        let was = self.holds.fetch_sub(1, Ordering::SeqCst);
        if was == 1 && self.is_virtual() {
            self.kick();
        }
    }

    /// Returns true if neither a timer nor a blocking job of this runtime could wake a task that waits.
    pub(crate) fn is_stuck(self: &Arc<Self>) -> bool {
        self.settle_callbacks();
        self.holds.load(Ordering::SeqCst) == 0 && self.clock.is_stuck()
    }

    fn allowed(&self) -> Allowed {
        let is_idle = self.awake.load(Ordering::SeqCst) == 0
            && self.others().is_none_or(|others| others.are_idle());
        Allowed {
            to_advance: is_idle,
            to_pass: is_idle && self.holds.load(Ordering::SeqCst) == 0,
        }
    }

    /// Fires the next timer if all tasks wait; until the result is dropped the time does not move. Returns `None` if
    /// the thread can only wait.
    #[cold]
    pub(crate) fn pass_time(self: &Arc<Self>) -> Option<Passed> {
        self.step(|| self.allowed())
    }

    fn step(self: &Arc<Self>, allowed: impl FnOnce() -> Allowed) -> Option<Passed> {
        if !self.is_virtual() {
            return None;
        }
        self.settle_callbacks();
        let woken = self.clock.step(allowed, || {
            self.awake.fetch_add(1, Ordering::SeqCst);
        })?;
        let passed = Passed {
            runtime: Arc::clone(self),
        };
        // Relaxed: a count that may be wrong.
        self.yields.store(0, Ordering::Relaxed);
        clock::wake(woken);
        Some(passed)
    }

    /// Notes that a task gave way. If tasks do nothing else for long, the due timers fire although not all tasks wait.
    fn yielded(self: &Arc<Self>) {
        // Relaxed: see `step`.
        let yields = self.yields.fetch_add(1, Ordering::Relaxed) + 1;
        if yields >= YIELDS as usize {
            let _passed = self.step(|| Allowed {
                to_advance: true,
                to_pass: false,
            });
            self.yields.store(0, Ordering::Relaxed);
        }
    }
}

impl std::fmt::Debug for Runtime {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Runtime")
            .field("clock", &self.clock)
            .field("workers", &self.workers)
            .finish_non_exhaustive()
    }
}

/// A guard of a thread that fired a timer: the thread counts as awake until the guard is dropped.
#[must_use]
pub(crate) struct Passed {
    runtime: Arc<Runtime>,
}

impl Drop for Passed {
    fn drop(&mut self) {
        self.runtime.awake.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A guard that restores the previous runtime of the thread.
#[derive(Debug)]
pub(crate) struct Entered {
    before: Option<Arc<Runtime>>,
}

/// Makes the code of this thread belong to `runtime` until the result is dropped.
pub(crate) fn enter(runtime: &Arc<Runtime>) -> Entered {
    let before = put(Some(Arc::clone(runtime)));
    sync();
    Entered { before }
}

/// Makes `runtime` the runtime of this thread's code; returns the previous runtime.
fn put(runtime: Option<Arc<Runtime>>) -> Option<Arc<Runtime>> {
    CURRENT.with_borrow_mut(|slot| std::mem::replace(&mut **slot, runtime))
}

impl Drop for Entered {
    fn drop(&mut self) {
        drop(put(self.before.take()));
        sync();
    }
}

/// Returns the runtime of this thread's code.
pub(crate) fn current() -> Option<Arc<Runtime>> {
    CURRENT.with_borrow(|slot| Option::clone(slot))
}

/// Shows the users of this thread the clock of its runtime, which another thread may have paused.
pub(crate) fn sync() {
    let is_virtual = CURRENT.with_borrow(|slot| {
        let runtime = slot.as_ref();
        runtime.is_some_and(|runtime| runtime.is_virtual())
    });
    if is_virtual != wake::is_virtual() {
        thread::show(is_virtual.then_some(shown_now as fn() -> Instant));
    }
}

/// Fires the next timer of this thread's runtime if all tasks wait; `sleeper` is this thread, which waits. Returns
/// false if the thread can only wait.
#[cold]
pub(crate) fn pass_time_here(sleeper: Option<&Sleeper>) -> bool {
    let Some(runtime) = current() else {
        return false;
    };
    let Some(_passed) = runtime.pass_time() else {
        return false;
    };
    // While the step counts as awake.
    if let Some(sleeper) = sleeper {
        sleeper.rises();
    }
    true
}

/// Starts a timer with a callback by `start`, on the virtual clock of this thread's runtime. Returns `start` if the
/// runtime has no such clock, or if no base is left.
pub(super) fn start_callback<R, S: FnOnce() -> R>(start: S) -> Result<R, S> {
    let Some(runtime) = current().filter(|runtime| runtime.is_virtual()) else {
        return Err(start);
    };
    let started = runtime.callbacks.start(start)?;
    runtime.settle_callbacks();
    Ok(started)
}

/// A waker that calls the due callbacks when the clock reaches the first of them.
struct Fires(Weak<Runtime>);

impl Wake for Fires {
    fn wake(self: Arc<Self>) {
        let Some(runtime) = self.0.upgrade() else {
            return;
        };
        // The thread may be the expiry thread, where the clock runs.
        let _inside = enter(&runtime);
        runtime.callbacks.turn(runtime.clock.now());
        runtime.settle_callbacks();
    }
}

/// Returns the clock of this thread's runtime.
fn shown_now() -> Instant {
    current().map_or(Instant::ZERO, |runtime| runtime.clock.now())
}

/// Returns the sets of the wall clock of this thread's runtime.
pub(super) fn sets_here() -> VirtualSets {
    current().map_or(VirtualSets::default(), |runtime| runtime.clock.sets())
}

/// Notes that a task of this thread gave way.
#[inline]
pub(crate) fn gave_way() {
    if wake::is_virtual() {
        gave_way_virtual();
    }
}

#[cold]
fn gave_way_virtual() {
    if let Some(runtime) = current() {
        runtime.yielded();
    }
}

/// A guard for a future that `Worker::block_on` runs. The thread gets a runtime of its own if it needs a runtime and
/// has none.
#[derive(Debug)]
pub(crate) struct Blocks {
    is_outermost: bool,
}

impl Blocks {
    pub(crate) fn begin() -> Self {
        Self {
            is_outermost: !BLOCKS.replace(true),
        }
    }
}

impl Drop for Blocks {
    #[inline]
    fn drop(&mut self) {
        if self.is_outermost {
            BLOCKS.set(false);
            if wake::is_virtual() {
                leave_own();
            }
        }
    }
}

/// Returns the runtime of this thread. If the thread has none, it gets a runtime for the future that it runs.
pub(crate) fn current_or_own() -> Option<Arc<Runtime>> {
    current().or_else(|| {
        BLOCKS.get().then(|| {
            let own = Arc::new(Runtime::new(1));
            put(Some(Arc::clone(&own)));
            own
        })
    })
}

/// Ends the runtime that this thread got for a future.
#[cold]
fn leave_own() {
    let is_own = |own: &mut Arc<Runtime>| own.others.get().is_none();
    let own = CURRENT.with_borrow_mut(|slot| slot.take_if(is_own));
    if let Some(own) = own {
        sync();
        own.clock.close();
    }
}

/// A thread in the `block_on` of an executor, which other threads wake.
#[derive(Debug)]
pub(crate) struct Sleeper {
    state: AtomicU8,
    runtime: Arc<Runtime>,
    inner: Waker,
}

/// The thread polls.
const RUNS: u8 = 0;
/// The thread was woken since it began to poll, and is counted as awake.
const WOKEN: u8 = 1;
/// The thread waits.
const RESTS: u8 = 2;

impl Sleeper {
    /// Makes a thread that `inner` wakes and that is awake.
    pub(crate) fn new(runtime: Arc<Runtime>, inner: Waker) -> Arc<Self> {
        runtime.awake.fetch_add(1, Ordering::SeqCst);
        let sleeper = Arc::new(Self {
            state: AtomicU8::new(RUNS),
            runtime,
            inner,
        });
        let mut sleepers = sleeper.runtime.sleepers();
        sleepers.retain(|sleeper| sleeper.strong_count() > 0);
        sleepers.push(Arc::downgrade(&sleeper));
        drop(sleepers);
        sleeper
    }

    /// Notes that the thread is about to poll.
    pub(crate) fn begins(&self) {
        self.rises();
        // SeqCst, as all of it: a wake-up after this is one for the next poll.
        self.state.store(RUNS, Ordering::SeqCst);
        if self.runtime.is_to_be_shown() {
            sync();
        }
    }

    /// Notes that the thread is about to wait; returns false if it was woken meanwhile.
    pub(crate) fn rests(&self) -> bool {
        let rests = self
            .state
            .compare_exchange(RUNS, RESTS, Ordering::SeqCst, Ordering::SeqCst);
        if rests.is_ok() {
            self.runtime.awake.fetch_sub(1, Ordering::SeqCst);
        }
        rests != Err(WOKEN)
    }

    /// Notes that the thread waits no longer, whether or not it was woken.
    pub(crate) fn rises(&self) {
        // Before the state says so: the other way round it would be idle for a moment.
        self.runtime.awake.fetch_add(1, Ordering::SeqCst);
        let rises = self
            .state
            .compare_exchange(RESTS, RUNS, Ordering::SeqCst, Ordering::SeqCst);
        if rises.is_err() {
            self.runtime.awake.fetch_sub(1, Ordering::SeqCst);
        }
    }

    /// Notes that the thread has finished and waits for nothing more.
    pub(crate) fn ends(&self) {
        self.begins();
        self.state.store(WOKEN, Ordering::SeqCst);
        if self.runtime.awake.fetch_sub(1, Ordering::SeqCst) == 1 && self.runtime.is_virtual() {
            self.runtime.kick();
        }
    }
}

impl Wake for Sleeper {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // Before the state says so, as in `rises`.
        self.runtime.awake.fetch_add(1, Ordering::SeqCst);
        if self.state.swap(WOKEN, Ordering::SeqCst) != RESTS {
            self.runtime.awake.fetch_sub(1, Ordering::SeqCst);
        }
        self.inner.wake_by_ref();
    }
}
