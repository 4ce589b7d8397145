//! Timers with closures in tokio runtimes with a clock that is paused, or was paused before.
//!
//! tokio's clock calls no closures. So the first timer with a closure of a runtime spawns a task in this runtime. The
//! task sleeps by the clock of tokio until the first timer is due, and calls all timers that are due then, by deadline
//! and in the order of their starts. The task calls them in the tick of tokio's clock in which a sleep would end. It
//! ends with its runtime.
//!
//! # Ground rules
//!
//! - The task stores its waker before it reads the first deadline, and a start wakes the task after it has queued its
//!   timer. So a timer that the task has not seen wakes the task.
//! - The locks of the list and of the waker are held only to read or store a value: no timer starts or fires under
//!   these locks.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll, Waker};

use tickless_core::time::Instant;
use tokio::runtime::{Handle, Id};

use super::callbacks::Callbacks;
use super::ticket::{self, Waits};
use crate::host::thread::shown_now_lower;

/// The number of turns in a row while timers are due, before other tasks run: a closure may start its timer in the past
/// again and again.
const TURNS_MAX: u32 = 64;

/// The timers with callbacks of one runtime.
struct OfRuntime {
    callbacks: Callbacks,
    /// The waker of the task; `None` before the task was polled.
    task: Mutex<Option<Waker>>,
}

type List = HashMap<Id, Arc<OfRuntime>>;

fn list() -> MutexGuard<'static, List> {
    static LIST: OnceLock<Mutex<List>> = OnceLock::new();
    lock(LIST.get_or_init(Mutex::default))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts a timer by `start`, on the clock of the runtime that polls on this thread. Returns `start` if no runtime
/// polls on this thread, or if no base is left.
pub(super) fn start<R, S: FnOnce() -> R>(start: S) -> Result<R, S> {
    let Ok(handle) = Handle::try_current() else {
        return Err(start);
    };
    let of_runtime = OfRuntime::of(&handle);
    let started = of_runtime.callbacks.start(start)?;
    let task = lock(&of_runtime.task).clone();
    if let Some(task) = task {
        task.wake();
    }
    Ok(started)
}

/// Calls the timers that are due in the runtime that polls on this thread, after its clock was advanced.
#[cfg(feature = "tokio-test-util")]
pub(super) fn advanced() {
    if let Ok(handle) = Handle::try_current() {
        let known = list().get(&handle.id()).cloned();
        let _next = known.map(|of_runtime| of_runtime.expire());
    }
}

impl OfRuntime {
    /// Returns the timers of the runtime of `handle`; the first call spawns their task.
    fn of(handle: &Handle) -> Arc<Self> {
        let runtime = handle.id();
        let mut list = list();
        if let Some(known) = list.get(&runtime) {
            return Arc::clone(known);
        }
        let new = Arc::new(Self {
            callbacks: Callbacks::new(),
            task: Mutex::new(None),
        });
        let _none = list.insert(runtime, Arc::clone(&new));
        drop(list);
        // A runtime that shuts down drops it at once, which takes the new ones off the list.
        handle.spawn(Expires {
            runtime,
            of_runtime: Arc::clone(&new),
            waits: None,
        });
        new
    }

    /// Calls the timers that are due by the clock that this thread shows. Returns the deadline of the next timer, which
    /// may have passed.
    fn expire(&self) -> Instant {
        let mut due = self.callbacks.first_due();
        for _turn in 0..TURNS_MAX {
            let now = shown_now_lower();
            if due > now {
                break;
            }
            self.callbacks.turn(now);
            due = self.callbacks.first_due();
        }
        due
    }
}

/// The task of a runtime that calls its timers with callbacks.
struct Expires {
    runtime: Id,
    of_runtime: Arc<OfRuntime>,
    /// The deadline for which the task waits, and the task's [ticket].
    waits: Option<(Instant, Waker)>,
}

impl Future for Expires {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let task = context.waker();
        let old = lock(&self.of_runtime.task).replace(task.clone());
        drop(old);
        let due = self.of_runtime.expire();
        if due.is_forever() {
            self.waits = None;
            return Poll::Pending;
        }
        let waited = self.waits.take().filter(|(deadline, _)| *deadline == due);
        let is_over = due <= shown_now_lower();
        self.waits = match waited {
            _ if is_over => None,
            Some((deadline, waker)) => {
                let state = ticket::find(&waker).map(|ticket| ticket.poll(false, task));
                (state == Some(Waits::On)).then_some((deadline, waker))
            }
            None => ticket::issue_in_tokio(due, task).map(|ticket| (due, ticket)),
        };
        if self.waits.is_none() {
            // Behind the other tasks: more is due, or the clock came there meanwhile.
            task.wake_by_ref();
        }
        Poll::Pending
    }
}

impl Drop for Expires {
    fn drop(&mut self) {
        let of_runtime = list().remove(&self.runtime);
        // Its base is given back here, with no lock held, unless a start is under way.
        drop(of_runtime);
    }
}
