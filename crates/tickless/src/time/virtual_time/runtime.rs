//! The table of runtimes whose clocks can be paused, and of the threads that belong to them.
//!
//! A [`Runtime`] is what has one clock: a [`Worker`](crate::Worker) in `block_on`, or an executor, whose worker and
//! whose threads in `block_on` share it. The time passes when all of them wait and nothing holds it.
//!
//! # Who is idle
//!
//! A thread in the executor's `block_on` is counted as awake from the moment at which it is woken: its waker counts it.
//! A worker is idle by what the executor publishes: it says so, and no task waits in its queue. A thread that fires a
//! timer counts as awake until those whom it woke are. So no thread finds all others idle while a wake-up is under
//! way.
//!
//! # Ground rules
//!
//! - The thread that becomes idle last moves the clock: each becomes idle first and looks at the others then, with
//!   sequentially consistent accesses, so that of two threads at least one sees both idle.

use std::cell::{Cell, RefCell};
use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::task::{Wake, Waker};

use tickless_core::time::Instant;

use super::callbacks::Callbacks;
use super::clock::{Allowed, Clock, Refused};
use crate::host::thread::{self, Thread, with_thread};
use crate::host::wake;

/// Number of times in a row that tasks may give way, without all of them waiting, before due timers fire all the same:
/// a task that spins until a timer has fired must not wait for ever. Each of so many tasks had its turn by then.
const YIELDS: u32 = 64;

/// The workers of an executor, as its clock sees them.
pub(crate) trait Others: Send + Sync {
    /// Returns whether all workers wait, and no task waits for them.
    fn are_idle(&self) -> bool;

    /// Wakes one of them, which looks again.
    fn kick(&self);

    /// Wakes all tasks that wait.
    fn wake_all(&self);
}

/// Threads and tasks that share one clock.
pub(crate) struct Runtime {
    clock: Arc<Clock>,
    callbacks: Callbacks,
    /// Number of threads that run tasks; a clock can be paused if it is one.
    workers: usize,
    /// True if a seed draws the order of several workers, one of which runs at a time.
    is_ordered: AtomicBool,
    /// Users see the virtual clock, from the first pause on.
    is_virtual: AtomicBool,
    /// Threads in `block_on` that do not wait, and threads that fire a timer.
    awake: AtomicUsize,
    /// Blocking jobs that are not over.
    holds: AtomicUsize,
    yields: AtomicUsize,
    others: OnceLock<Weak<dyn Others>>,
    /// Threads in `block_on`.
    sleepers: Mutex<Vec<Weak<Sleeper>>>,
}

thread_local! {
    // Without a destructor, so that exit handlers can use it: what is put in is taken out by `Entered` and `Blocks`.
    static CURRENT: RefCell<ManuallyDrop<Option<Arc<Runtime>>>> =
        const { RefCell::new(ManuallyDrop::new(None)) };
    /// The thread runs a future in `Worker::block_on`.
    static BLOCKS: Cell<bool> = const { Cell::new(false) };
}

impl Runtime {
    pub(crate) fn new(workers: usize) -> Self {
        Self {
            clock: Arc::new(Clock::new()),
            callbacks: Callbacks::new(),
            workers,
            is_ordered: AtomicBool::new(false),
            is_virtual: AtomicBool::new(false),
            awake: AtomicUsize::new(0),
            holds: AtomicUsize::new(0),
            yields: AtomicUsize::new(0),
            others: OnceLock::new(),
            sleepers: Mutex::new(Vec::new()),
        }
    }

    /// Sets who the workers are.
    pub(crate) fn set_others(&self, others: Weak<dyn Others>) {
        let _first = self.others.set(others);
    }

    pub(crate) fn clock(&self) -> &Arc<Clock> {
        &self.clock
    }

    /// Brings up to date when the first callback comes.
    fn settle_callbacks(self: &Arc<Self>) {
        let fires = || Waker::from(Arc::new(Fires(Arc::downgrade(self))));
        self.callbacks.settle(&self.clock, fires);
    }

    /// Returns whether a clock can be paused here.
    pub(crate) fn has_one_worker(&self) -> bool {
        // Relaxed: set before the workers are started.
        self.workers == 1 || self.is_ordered.load(Ordering::Relaxed)
    }

    /// Notes that one worker runs at a time, in an order that a seed draws.
    pub(crate) fn set_ordered(&self) {
        // Relaxed: see `has_one_worker`.
        self.is_ordered.store(true, Ordering::Relaxed);
    }

    /// Returns whether users see the virtual clock.
    #[inline]
    pub(crate) fn is_virtual(&self) -> bool {
        // SeqCst: a thread that is woken behind the pause sees it; see `pause`.
        self.is_virtual.load(Ordering::SeqCst)
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

    /// Wakes all tasks that wait: their sleeps, which were armed by the process's clock, follow as they are polled.
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

    /// A blocking job begins, which holds the time until [`release`](Self::release).
    pub(crate) fn hold(&self) {
        // SeqCst, as all that a step asks.
        self.holds.fetch_add(1, Ordering::SeqCst);
    }

    /// A blocking job is over, and whom it woke is awake.
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

    /// Fires the next timer, if all wait; until the result is dropped the time stays as it is. `None` if the thread has
    /// nothing to do but to wait.
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
        woken.wake();
        Some(passed)
    }

    /// A task gave way. Where tasks do nothing else for long, what is due fires though not all wait.
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

/// A timer was fired, and the thread that did it counts as awake until this is dropped.
#[must_use]
pub(crate) struct Passed {
    runtime: Arc<Runtime>,
}

impl Drop for Passed {
    fn drop(&mut self) {
        self.runtime.awake.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Puts back the runtime that was before.
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

/// Makes `runtime` the one of this thread's code; returns the one before.
fn put(runtime: Option<Arc<Runtime>>) -> Option<Arc<Runtime>> {
    CURRENT.with_borrow_mut(|slot| std::mem::replace(&mut **slot, runtime))
}

impl Drop for Entered {
    fn drop(&mut self) {
        drop(put(self.before.take()));
        sync();
    }
}

/// The runtime of this thread's code.
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

/// Fires the next timer of this thread's runtime, if all wait; `sleeper` is this thread, which rests. False if the
/// thread has nothing to do but to wait.
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

/// Starts a timer with a callback by `start`, on the virtual clock of this thread's runtime. Hands `start` back if
/// there is no such clock, and if no base is left.
pub(super) fn start_callback<R, S: FnOnce() -> R>(start: S) -> Result<R, S> {
    let Some(runtime) = current().filter(|runtime| runtime.is_virtual()) else {
        return Err(start);
    };
    let started = runtime.callbacks.start(start)?;
    runtime.settle_callbacks();
    Ok(started)
}

/// Calls the callbacks that are due when the clock comes to the first of them.
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

/// A task of this thread gave way.
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

/// A future that is run by `Worker::block_on`. The thread gets a runtime of its own, should it need one and have none.
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

/// The runtime of this thread, or the one that it gets for the future that it runs.
pub(crate) fn current_or_own() -> Option<Arc<Runtime>> {
    current().or_else(|| {
        BLOCKS.get().then(|| {
            let own = Arc::new(Runtime::new(1));
            put(Some(Arc::clone(&own)));
            own
        })
    })
}

/// The runtime that this thread got for a future ends with it.
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

/// The task polls.
const RUNS: u8 = 0;
/// The task was woken since it began to poll, and is counted as awake.
const WOKEN: u8 = 1;
/// The task waits.
const RESTS: u8 = 2;

impl Sleeper {
    /// A thread that `inner` wakes, and that is awake.
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

    /// The thread is about to poll.
    pub(crate) fn begins(&self) {
        self.rises();
        // SeqCst, as all of it: a wake-up behind this is one for the next poll.
        self.state.store(RUNS, Ordering::SeqCst);
        if self.runtime.is_virtual() != wake::is_virtual() {
            sync();
        }
    }

    /// The thread is about to wait; false if it was woken meanwhile.
    pub(crate) fn rests(&self) -> bool {
        let rests = self
            .state
            .compare_exchange(RUNS, RESTS, Ordering::SeqCst, Ordering::SeqCst);
        if rests.is_ok() {
            self.runtime.awake.fetch_sub(1, Ordering::SeqCst);
        }
        rests != Err(WOKEN)
    }

    /// The thread waits no longer, whether or not it was woken.
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

    /// The thread has nothing more to wait for.
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
