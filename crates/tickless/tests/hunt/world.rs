//! The state that all threads and tasks of a round share, and the values that are counted.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicIsize, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::task::{Wake, Waker};
use std::thread;

use tickless::Executor;
use tickless::task::JoinHandle;

use crate::script;

/// The text of the panics that scripts cause.
pub(crate) const PANIC: &str = "drawn";

/// The deeds that the last line of the output counts.
#[derive(Clone, Copy)]
pub(crate) enum Deed {
    Task,
    Local,
    Wake,
    Abort,
    Shutdown,
    Drop,
    Wait,
    Panic,
    Blocking,
    NestedEnd,
}

impl Deed {
    pub(crate) const ALL: [Self; 10] = [
        Self::Task,
        Self::Local,
        Self::Wake,
        Self::Abort,
        Self::Shutdown,
        Self::Drop,
        Self::Wait,
        Self::Panic,
        Self::Blocking,
        Self::NestedEnd,
    ];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Task => "tasks",
            Self::Local => "local tasks",
            Self::Wake => "wakes",
            Self::Abort => "aborts",
            Self::Shutdown => "shutdowns",
            Self::Drop => "drops of executors",
            Self::Wait => "waits for tasks",
            Self::Panic => "panics",
            Self::Blocking => "blocking jobs",
            Self::NestedEnd => "ends from tasks",
        }
    }

    pub(crate) fn count(self) {
        COUNTS[self as usize].fetch_add(1, Ordering::SeqCst);
    }
}

pub(crate) static COUNTS: [AtomicU64; Deed::ALL.len()] = [const { AtomicU64::new(0) }; _];

/// A generator of random numbers; the same seed gives the same numbers.
pub(crate) struct Random(fastrand::Rng);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(fastrand::Rng::with_seed(seed))
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0.u64(..)
    }

    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.0.u64(..end)
    }

    pub(crate) fn index(&mut self, end: usize) -> usize {
        self.0.usize(..end)
    }

    pub(crate) fn one_in(&mut self, many: u64) -> bool {
        self.below(many) == 0
    }

    pub(crate) fn fork(&mut self) -> Self {
        Self(self.0.fork())
    }
}

/// Locks `mutex` even if it is poisoned, because panics of scripts may occur anywhere.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The state that the threads and tasks of a round share.
pub(crate) struct World {
    pub(crate) wakers: Mutex<Vec<Waker>>,
    pub(crate) handles: Mutex<Vec<JoinHandle<Value>>>,
    /// The number of values that were made and not dropped.
    pub(crate) live: AtomicIsize,
    pub(crate) spawned: AtomicUsize,
    pub(crate) most: usize,
    pub(crate) seeds: AtomicU64,
    pub(crate) executors: Vec<RwLock<Option<Arc<Executor>>>>,
    pub(crate) is_over: AtomicBool,
}

impl World {
    pub(crate) fn random(&self) -> Random {
        Random::new(self.seeds.fetch_add(0x9E37_79B9, Ordering::SeqCst))
    }

    pub(crate) fn executor(&self, number: usize) -> Option<Arc<Executor>> {
        let executor = &self.executors[number];
        executor
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    pub(crate) fn take_executor(&self, number: usize) -> Option<Arc<Executor>> {
        let executor = &self.executors[number];
        executor
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
    }

    /// Wakes one of the tasks that left their wakers.
    pub(crate) fn wake_one(&self, random: &mut Random) {
        Deed::Wake.count();
        let waker = {
            let mut all = lock(&self.wakers);
            if all.is_empty() {
                return;
            }
            let number = random.index(all.len());
            if random.one_in(3) {
                all[number].clone()
            } else {
                all.swap_remove(number)
            }
        };
        if random.one_in(2) {
            waker.wake();
        } else {
            waker.wake_by_ref();
        }
    }

    pub(crate) fn take_handle(&self, random: &mut Random) -> Option<JoinHandle<Value>> {
        let mut all = lock(&self.handles);
        if all.is_empty() {
            return None;
        }
        let number = random.index(all.len());
        Some(all.swap_remove(number))
    }

    pub(crate) fn put(&self, handle: JoinHandle<Value>) {
        lock(&self.handles).push(handle);
    }

    pub(crate) fn abort_one(&self, random: &mut Random) {
        if let Some(handle) = self.take_handle(random) {
            Deed::Abort.count();
            handle.abort();
            self.put(handle);
        }
    }

    pub(crate) fn may_spawn(&self) -> bool {
        self.spawned.fetch_add(1, Ordering::SeqCst) < self.most
    }
}

/// The values that are not dropped, each with the actions of its task so far, for the report of a hang.
static VALUES: Mutex<BTreeMap<u64, String>> = Mutex::new(BTreeMap::new());
static NUMBERS: AtomicU64 = AtomicU64::new(0);

/// Describes the values that are left in a round that hangs.
pub(crate) fn left() -> String {
    let values = lock(&VALUES);
    let mut text = format!("{} values live:", values.len());
    for (number, history) in &*values {
        let _infallible = write!(text, "\n{number}: {history}");
    }
    text
}

/// A value that is counted, and that takes a random action when it is dropped.
pub(crate) struct Value {
    world: Arc<World>,
    deed: u64,
    random: Random,
    number: u64,
}

impl Value {
    pub(crate) fn new(world: &Arc<World>, random: &mut Random, what: &str) -> Self {
        let number = NUMBERS.fetch_add(1, Ordering::SeqCst);
        lock(&VALUES).insert(number, what.to_owned());
        world.live.fetch_add(1, Ordering::SeqCst);
        Self {
            world: Arc::clone(world),
            deed: random.below(24),
            random: random.fork(),
            number,
        }
    }

    pub(crate) fn note(&self, what: impl std::fmt::Display) {
        if let Some(history) = lock(&VALUES).get_mut(&self.number) {
            let _infallible = write!(history, " {what}");
        }
    }
}

/// A guard that counts a value as dropped when all actions of its drop are over, even if they panic.
struct Dropped(Arc<World>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.live.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Drop for Value {
    fn drop(&mut self) {
        let world = Arc::clone(&self.world);
        let _dropped = Dropped(Arc::clone(&world));
        lock(&VALUES).remove(&self.number);
        let random = &mut self.random;
        match self.deed {
            0..4 => world.wake_one(random),
            4..6 => world.abort_one(random),
            6 => guarded(|| script::spawn(&world, random, usize::MAX, 0)),
            7 => guarded(|| script::spawn_local(&world, random, usize::MAX, 0)),
            8 => drop(world.take_handle(random)),
            9 if !thread::panicking() => panic(),
            _ => {}
        }
    }
}

/// Calls `body`, which panics if the thread is no worker.
pub(crate) fn guarded(body: impl FnOnce()) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(body)) {
        // Its drop may panic.
        std::mem::forget(payload);
    }
}

pub(crate) fn panic() {
    Deed::Panic.count();
    std::panic::panic_any(PANIC);
}

/// A waker that takes a random action when it is called or dropped.
pub(crate) struct Evil(pub(crate) Arc<World>, pub(crate) u64);

impl Wake for Evil {
    fn wake(self: Arc<Self>) {
        let mut random = self.0.random();
        match self.1 {
            0 => panic(),
            1 => self.0.wake_one(&mut random),
            2 => self.0.abort_one(&mut random),
            _ => {}
        }
    }
}

impl Drop for Evil {
    fn drop(&mut self) {
        let mut random = self.0.random();
        match self.1 {
            3 => self.0.wake_one(&mut random),
            4 if !thread::panicking() && random.one_in(3) => panic(),
            _ => {}
        }
    }
}
