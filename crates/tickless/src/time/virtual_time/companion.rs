//! A tokio sleep for each sleep of this library, so that a test that pauses tokio's clock loses no sleep.
//!
//! tokio does not notify the library when its clock is paused. A sleep that was armed before the pause waits in a queue
//! of the host, by the process's clock. If nothing else polls its task, the sleep would wait there for its whole
//! duration. So in a build for tests each sleep that waits in a `current_thread` runtime of tokio has a companion: a
//! sleep of tokio, for the same deadline and the same task. If tokio's clock reaches this deadline while it differs
//! from the process's clock, the companion wakes the task, and the task follows tokio's clock. While both clocks agree,
//! the sleep itself wakes its task, once and in its order.
//!
//! # Ground rules
//!
//! - A companion belongs to the sleep at one address. The sleep is pinned, and the companion is dropped with it.
//! - No sleep of tokio is polled, reset or dropped under the lock.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::future::Future;
use std::panic::{catch_unwind, set_hook, take_hook};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use tickless_core::time::Instant;
use tokio::runtime::{Handle, Id, RuntimeFlavor};
use tokio::time::Sleep;

use super::{runtime, ticket};
use crate::host::thread::look_at_tokio;
use crate::host::wake;

/// The tokio sleep of a sleep of this library.
struct Companion {
    runtime: Id,
    sleep: Pin<Box<Sleep>>,
}

/// A waker that wakes a task if tokio's clock differs from the process's clock.
struct Gate(Waker);

impl Wake for Gate {
    fn wake(self: Arc<Self>) {
        look_at_tokio();
        if wake::is_virtual() {
            self.0.wake_by_ref();
        }
    }
}

static COMPANIONS: Mutex<BTreeMap<usize, Companion>> = Mutex::new(BTreeMap::new());

/// True once a companion was made, so that programs without companions never acquire the lock.
static HAS_ANY: AtomicBool = AtomicBool::new(false);

fn companions() -> MutexGuard<'static, BTreeMap<usize, Companion>> {
    COMPANIONS.lock().unwrap_or_else(PoisonError::into_inner)
}

fn take(address: usize) -> Option<Companion> {
    // Relaxed: a thread that has the sleep at this address follows the poll that gave it a companion.
    if !HAS_ANY.load(Ordering::Relaxed) {
        return None;
    }
    companions().remove(&address)
}

fn keep(address: usize, companion: Companion) {
    // Relaxed: as in `take`.
    HAS_ANY.store(true, Ordering::Relaxed);
    companions().insert(address, companion);
}

/// Notes whether the sleep at `address` waits for the task of `waker`.
pub(crate) fn polled(address: usize, deadline: Instant, is_pending: bool, waker: &Waker) {
    let old = take(address);
    // A thread with a virtual clock has the sleep wait for that already.
    if !is_pending || wake::is_virtual() || runtime::current().is_some() {
        return;
    }
    let Some(runtime) = runtime_with_time() else {
        return;
    };
    let old = old.filter(|old| old.runtime == runtime);
    let deadline = ticket::of_tokio(deadline);
    let mut companion = old.unwrap_or_else(|| Companion {
        runtime,
        sleep: Box::pin(tokio::time::sleep_until(deadline)),
    });
    if companion.sleep.deadline() != deadline {
        companion.sleep.as_mut().reset(deadline);
    }
    // Without a share of the task's budget: the sleep of this library is what the task asked for.
    let polled = pin!(tokio::task::unconstrained(companion.sleep.as_mut())).poll(
        &mut Context::from_waker(&Waker::from(Arc::new(Gate(waker.clone())))),
    );
    if polled == Poll::Pending {
        keep(address, companion);
    }
}

/// Moves the companion of a sleep that waits.
pub(crate) fn reset(address: usize, deadline: Instant) {
    if let Some(mut companion) = take(address) {
        let deadline = ticket::of_tokio(deadline);
        companion.sleep.as_mut().reset(deadline);
        keep(address, companion);
    }
}

/// Drops the companion of a sleep.
pub(crate) fn forget(address: usize) {
    drop(take(address));
}

/// Returns the `current_thread` runtime of tokio that polls on this thread, if it has timers.
fn runtime_with_time() -> Option<Id> {
    thread_local!(static LAST: Cell<Option<(Id, bool)>> = const { Cell::new(None) });
    let handle = Handle::try_current().ok()?;
    if handle.runtime_flavor() != RuntimeFlavor::CurrentThread {
        return None;
    }
    let id = handle.id();
    let has_time = match LAST.get() {
        Some((last, has_time)) if last == id => has_time,
        _ => {
            let has_time = makes_sleeps();
            LAST.set(Some((id, has_time)));
            has_time
        }
    };
    has_time.then_some(id)
}

thread_local!(static ASKS: Cell<bool> = const { Cell::new(false) });

/// Returns true if tokio can make a sleep on this thread. tokio reports the opposite only by a panic; the panic prints
/// nothing.
fn makes_sleeps() -> bool {
    static HOOK: Once = Once::new();
    if !std::thread::panicking() {
        HOOK.call_once(|| {
            let before = take_hook();
            set_hook(Box::new(move |info| {
                if !ASKS.try_with(Cell::get).unwrap_or(false) {
                    before(info);
                }
            }));
        });
    }
    ASKS.set(true);
    let makes = catch_unwind(|| drop(tokio::time::sleep(Duration::ZERO))).is_ok();
    ASKS.set(false);
    makes
}
