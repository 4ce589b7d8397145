//! The attachment of tokio runtimes: a runtime's own reactor fires the timers of its tasks, with one wake-up each.
//!
//! A runtime that is *attached* has a timer file descriptor in its own reactor. The kernel wakes the worker that waits
//! in the reactor. This worker fires the due timers of all workers of the runtime, and then runs the task. Without an
//! attachment a timer costs two wake-ups: the library's expiry thread is woken at the deadline, and wakes the worker.
//!
//! A runtime with I/O is attached by itself, when a task on one of its workers starts the first timer:
//!
//! ```
//! use std::time::Duration;
//!
//! #[tokio::main(flavor = "current_thread")]
//! async fn main() {
//!     tickless::time::sleep(Duration::from_micros(200)).await;
//!     assert!(tickless::tokio::attach().is_ok_and(|attachment| attachment.is_attached()));
//! }
//! ```
//!
//! All timers of the library can be used everywhere, attached or not. These runtimes are not attached by themselves:
//!
//! - a runtime without I/O, which has no reactor;
//! - a runtime that was detached: [`detach`] at its start keeps it from being attached;
//! - any runtime in the child of a fork, which may have inherited it, and any runtime of a program that aborts at
//!   panics, because tokio reports a missing reactor by a panic: call [`attach`] in a runtime with I/O.
//!
//! # Which to use
//!
//! | | one wake-up for | take it when |
//! |---|---|---|
//! | nothing, or [`attach`] | tasks on the workers of any runtime | the runtime is made elsewhere (`#[tokio::main]`) |
//! | [`Builder`] | tasks on the workers of any runtime, and what the workers started elsewhere before | you make the runtime, and want to know if it cannot be attached |
//! | a [`Worker`](crate::Worker) on a thread of its own | its own future | the thread needs no tokio at all; do not use both on one thread: the worker and the runtime each expect to wait on that thread, and timers are 10 ms late at first |
//!
//! The thread that calls `Runtime::block_on` of a multi-thread runtime is none of the runtime's workers: a worker or
//! the expiry thread wakes its future, and a timer costs two wake-ups. Spawn a task for work that has to be exact.
//!
//! # Slack
//!
//! A timer with [slack](crate::time::Sleep::slack) has no wake-up of its own if tasks run anyway. A task that polls a
//! timer checks whether the first timer of its thread may fire; a [`timeout`](crate::time::timeout), for example, is
//! polled whenever its future is polled. If the first timer may fire, the runtime takes a turn after the task: no
//! thread is woken, and no thread waits for a descriptor. So a busy server fires its timers between two requests. If no
//! task runs within the slack, a timer fires at the end of its slack, and not at a round time as elsewhere: a runtime
//! is woken less often if it waits as long as it may.
//!
//! The price: if no task runs, timers with slack are late by the whole slack, and timers of two runtimes or processes
//! do not fire together. They do fire together if their deadlines come from
//! [`roundest_within`](crate::time::Instant::roundest_within) and they have no slack.
//!
//! # If the runtime does not come
//!
//! The expiry thread stays, and nothing is lost: a runtime whose workers are all busy, or that is not driven between
//! two `block_on`s, keeps its timers waiting for 10 ms at most. Then the expiry thread fires these timers, and fires
//! all later timers in time, until the runtime polls its reactor again. When the runtime is dropped, or its one thread
//! starts an earlier timer outside of it, the expiry thread takes over at once. Timers of other threads, and of other
//! runtimes, do not wait for a late runtime: each runtime has a tree of its own.
//!
//! A multi-thread runtime may leave its reactor to a worker that computes, while another worker sleeps outside of the
//! reactor: tokio's own timers wait for the computing worker too. If tasks compute for long, the expiry thread alone is
//! more exact.
//!
//! # Fork
//!
//! The child of a fork has none of its parent's runtimes: its expiry thread fires the timers that the forking thread
//! had started, and does not use the parent's descriptors. In the child a runtime that the parent had attached cannot
//! be attached, and no other is without a call of [`attach`]: only the program knows which runtimes are the child's own.
//!
//! # Cost
//!
//! A deadline that is the first of its runtime takes two system calls, as with an event loop of one's own: setting the
//! descriptor, and the wait that ends. A current-thread runtime sets the descriptor once for each wake-up, after the
//! tasks that were woken. A turn between two tasks takes one system call, which sets the descriptor for the next
//! deadline. While timers are pending, the expiry thread checks once in 10 ms at most whether the runtime is late.
//! [`Stats::reactor_expired`](crate::Stats::reactor_expired) counts the timers that the runtimes fired, and
//! [`fallback_expired`](crate::Stats::fallback_expired) the timers that the expiry thread fired in their place.
#![cfg_attr(
    unix,
    expect(unsafe_code, reason = "a host calls its system (decision 3)")
)]

use std::any::Any;
use std::fmt;
use std::future::Future;
use std::io;
#[cfg(unix)]
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::ptr;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

#[cfg(unix)]
use ::tokio::io::Interest;
#[cfg(unix)]
use ::tokio::io::unix::AsyncFd;
use ::tokio::runtime::{self, Handle, Runtime, RuntimeFlavor};
use ::tokio::task::AbortHandle;

use crate::host::process::{self, Host};
use crate::host::remote::reactor_turn::{self, SetDescriptor};
use crate::host::remote::reactors::{self, Attached, Runtimes, TooMany};
#[cfg(not(unix))]
use crate::host::sys::descriptors::AsyncFd;
use crate::host::sys::descriptors::{AsRawFd, OwnedFd, RawFd};
use crate::host::wake;

mod quiet;

use quiet::Quiet;

/// The reasons why a runtime is not attached. The expiry thread continues to fire its timers.
#[derive(Debug)]
#[non_exhaustive]
pub enum AttachError {
    /// This thread does not run in a tokio runtime.
    NoRuntime,
    /// The runtime has no reactor: it was built without `enable_io` or `enable_all`.
    NoIo,
    /// The runtime belongs to the process from which this process was forked. Make a new runtime.
    Forked,
    /// 4,096 runtimes are attached already.
    TooMany,
    /// The operating system refused a file descriptor or a thread.
    Os(io::Error),
}

impl fmt::Display for AttachError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoRuntime => formatter.write_str(
                "this thread is in no tokio runtime; attach inside of one, or build it with `tickless::tokio::Builder`",
            ),
            Self::NoIo => formatter.write_str(
                "this tokio runtime has no reactor; build it with `enable_io` or `enable_all`",
            ),
            Self::Forked => formatter.write_str(
                "this tokio runtime belongs to the parent process; the child of a fork needs one of its own",
            ),
            Self::TooMany => {
                formatter.write_str("4,096 runtimes are attached already; another has to end first")
            }
            Self::Os(error) => write!(
                formatter,
                "the operating system refused what timers need: {error}"
            ),
        }
    }
}

impl std::error::Error for AttachError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Os(error) => Some(error),
            _ => None,
        }
    }
}

/// The key of a runtime that is attached, or is not to be.
struct Key {
    runtime: runtime::Id,
    flavor: RuntimeFlavor,
    /// The descriptor of an attached runtime.
    bell: Option<Arc<OwnedFd>>,
    /// The tasks [`Ring`] and [`Along`], or the latter alone.
    tasks: OnceLock<[Option<AbortHandle>; 2]>,
}

/// A runtime that was [attached](attach). Dropping the value detaches nothing.
#[derive(Clone)]
pub struct Attachment {
    attached: Attached,
    key: Arc<Key>,
}

impl Attachment {
    /// Detaches the runtime, as [`detach`] does.
    pub fn detach(&self) {
        if self.is_attached() {
            // First: another worker would attach it again.
            let _unless_done = self.key.decline();
            self.attached.detach();
            self.key.end_task(RING);
        }
    }

    /// Returns true if the runtime's reactor fires its timers, which means that the runtime was neither dropped nor
    /// detached.
    #[must_use]
    pub fn is_attached(&self) -> bool {
        self.attached.is_attached()
    }
}

impl fmt::Debug for Attachment {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Attachment")
            .field("is_attached", &self.is_attached())
            .finish_non_exhaustive()
    }
}

/// Attaches the runtime that runs this thread, so that each timer of its workers takes one wake-up.
///
/// A runtime with I/O needs no call, unless it was detached ([the module](self) has the exceptions). The call says by an
/// error why a runtime cannot be attached. Attaching a runtime again changes nothing, and returns another handle of it.
/// Workers that started timers before join the attachment when they poll the reactor or start an earlier timer; with
/// [`Builder`] they join when they next wait.
///
/// # Errors
///
/// [`AttachError`] if the thread is in no runtime, if the runtime has no reactor, or if the system refuses a descriptor
/// or the expiry thread. tokio reports a missing reactor by a panic. The panic is caught, and its message is not shown;
/// a program that aborts at panics aborts.
///
/// # Cost
///
/// An attachment takes, once for each runtime, a timer file descriptor, two tasks and some kilobytes for the runtime's
/// tree; later runtimes use this memory again.
pub fn attach() -> Result<Attachment, AttachError> {
    let handle = Handle::try_current().map_err(|_| AttachError::NoRuntime)?;
    wake::ensure_running().map_err(AttachError::Os)?;
    let runtime = handle.id();
    if reactors::is_inherited(|key| is_key_of(key, runtime)) {
        return Err(AttachError::Forked);
    }
    // Again only if another thread attaches or detaches the same runtime at this moment.
    loop {
        if let Some(known) = attachment_of(runtime) {
            return Ok(known);
        }
        if let Some(key) = reactors::admit(|key| is_key_of(key, runtime))
            && let Ok(key) = Arc::downcast::<Key>(key)
        {
            key.end_task(ALONG);
        }
        if let Some(attachment) = attach_new(&handle, Quiet::begin())? {
            return Ok(attachment);
        }
    }
}

/// Detaches the runtime that runs this thread: the expiry thread fires its timers from now on, and the runtime is
/// attached again only by a call of [`attach`]. Detaching twice does no harm.
///
/// ```
/// #[tokio::main]
/// async fn main() -> Result<(), tickless::tokio::AttachError> {
///     tickless::tokio::detach()?;
///     // All timers of this runtime are fired by the expiry thread.
///     Ok(())
/// }
/// ```
///
/// # Errors
///
/// [`AttachError::NoRuntime`] if the thread is in no runtime.
pub fn detach() -> Result<(), AttachError> {
    let handle = Handle::try_current().map_err(|_| AttachError::NoRuntime)?;
    if attachment_of(handle.id()).is_none() {
        decline(&handle);
    }
    // Another worker may have attached it meanwhile.
    if let Some(attachment) = attachment_of(handle.id()) {
        attachment.detach();
    }
    Ok(())
}

/// The indices of [`Key::tasks`].
const RING: usize = 0;
const ALONG: usize = 1;

/// Attaches the runtime of `handle`, which runs this thread. `None` if it was attached or declined meanwhile.
fn attach_new(handle: &Handle, quiet: Option<Quiet>) -> Result<Option<Attachment>, AttachError> {
    let runtime = handle.id();
    let bell = reactors::make_bell().map_err(AttachError::Os)?;
    // Before anything is locked: it may panic, which a hook of the program is told of if this is not quiet.
    let fd = register(Descriptor(Arc::clone(&bell)));
    drop(quiet);
    let fd = fd?;
    let key = Arc::new(Key {
        runtime,
        flavor: handle.runtime_flavor(),
        bell: Some(Arc::clone(&bell)),
        tasks: OnceLock::new(),
    });
    let is_it = |key: &dyn Any| is_key_of(key, runtime);
    let attached = reactors::attach(Arc::<Key>::clone(&key), is_it, bell);
    let Some(attached) = attached.map_err(|TooMany| AttachError::TooMany)? else {
        return Ok(None);
    };
    let along = handle.spawn(Along {
        key: Arc::clone(&key),
        attached: Some(attached.clone()),
        is_known: false,
    });
    // A runtime that shuts down drops it at once, which detaches.
    let ring = handle.spawn(Ring {
        fd: Some(fd),
        attached: attached.clone(),
        is_settled: false,
        laps_max: match key.flavor {
            RuntimeFlavor::CurrentThread => LAPS_MAX,
            _ => 0,
        },
        laps: None,
    });
    let _first = key
        .tasks
        .set([ring, along].map(|task| Some(task.abort_handle())));
    Ok(Some(Attachment { attached, key }))
}

/// Keeps the runtime of `handle` from being attached by itself, until it ends.
fn decline(handle: &Handle) {
    let key = Arc::new(Key {
        runtime: handle.id(),
        flavor: handle.runtime_flavor(),
        bell: None,
        tasks: OnceLock::new(),
    });
    if !key.decline() {
        return;
    }
    let along = handle.spawn(Along {
        key: Arc::clone(&key),
        attached: None,
        is_known: false,
    });
    let _first = key.tasks.set([None, Some(along.abort_handle())]);
}

/// Returns the attachment of a runtime, if the runtime is attached.
fn attachment_of(runtime: runtime::Id) -> Option<Attachment> {
    let reactor = reactors::find(|key| is_key_of(key, runtime))?;
    let key = Arc::downcast::<Key>(reactor.key()?).ok()?;
    let bell = Arc::clone(key.bell.as_ref()?);
    // The reactor may be another runtime's by now.
    (key.runtime == runtime).then(|| Attachment {
        attached: Attached { reactor, bell },
        key,
    })
}

impl Key {
    fn decline(self: &Arc<Self>) -> bool {
        let runtime = self.runtime;
        reactors::decline(Arc::<Self>::clone(self), |key| is_key_of(key, runtime))
    }

    fn end_task(&self, task: usize) {
        if let Some(Some(task)) = self.tasks.get().map(|tasks| &tasks[task]) {
            task.abort();
        }
    }
}

fn is_key_of(key: &dyn Any, runtime: runtime::Id) -> bool {
    key.downcast_ref::<Key>()
        .is_some_and(|key| key.runtime == runtime)
}

impl Runtimes for Host {
    fn attached() -> Option<Attached> {
        // Not for threads that block: those are woken by another thread in any case.
        runtime::worker_index()?;
        let handle = Handle::try_current().ok()?;
        let runtime = handle.id();
        loop {
            if let Some(known) = attachment_of(runtime) {
                return Some(known.attached);
            }
            if process::forks() > 0
                || cfg!(panic = "abort")
                || reactors::is_declined(|key| is_key_of(key, runtime))
            {
                return None;
            }
            match attach_new(&handle, Some(Quiet::begin()?)) {
                Ok(Some(attachment)) => return Some(attachment.attached),
                Ok(None) => {}
                Err(_) => {
                    decline(&handle);
                    return None;
                }
            }
        }
    }

    fn is_left(key: &dyn Any) -> bool {
        let is_here = |runtime| {
            runtime::worker_index().is_some()
                && Handle::try_current().is_ok_and(|handle| handle.id() == runtime)
        };
        key.downcast_ref::<Key>()
            .is_some_and(|key| key.flavor == RuntimeFlavor::CurrentThread && !is_here(key.runtime))
    }
}

/// A descriptor that stays open and unchanged as long as this value lives.
struct Descriptor(Arc<OwnedFd>);

impl AsRawFd for Descriptor {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

/// Returns an error: tokio watches no descriptors on this system.
#[cfg(not(unix))]
fn register(_: Descriptor) -> Result<AsyncFd<Descriptor>, AttachError> {
    Err(AttachError::Os(io::ErrorKind::Unsupported.into()))
}

/// Registers `fd` with the reactor of this thread's runtime.
#[cfg(unix)]
fn register(fd: Descriptor) -> Result<AsyncFd<Descriptor>, AttachError> {
    let registered = catch_unwind(AssertUnwindSafe(|| {
        // SAFETY: a `Descriptor` shares the ownership of its descriptor, which is never replaced, and `AsRawFd` returns
        // that one each time.
        unsafe { AsyncFd::register_with_interest(fd, Interest::READABLE) }
    }));
    match registered {
        Ok(Ok(fd)) => Ok(fd),
        Ok(Err(error)) => Err(AttachError::Os(error.into())),
        Err(_no_reactor) => Err(AttachError::NoIo),
    }
}

/// The maximum number of laps. In a lap the task that waits in the reactor queues itself behind the tasks that it woke;
/// it takes laps while timers are due, before the runtime polls the reactor. Each lap but the first saves a system call
/// and a poll of the reactor.
const LAPS_MAX: u32 = 4;

/// The task that waits in the reactor.
///
/// On a current-thread runtime it takes *laps*: it queues itself behind the tasks that a turn woke, and sets the
/// descriptor when it is polled again. So one system call serves the timers that the turn left and the timers that the
/// tasks started. The runtime polls its reactor also while tasks are queued. Without laps, one wake-up would therefore
/// take several turns, each with a setting of the descriptor. Other runtimes take no laps: they have other workers,
/// which would be woken for the queued task and may wait in the reactor meanwhile.
struct Ring {
    /// The timer file descriptor in the reactor; `None` once it was dropped.
    fd: Option<AsyncFd<Descriptor>>,
    attached: Attached,
    is_settled: bool,
    /// [`LAPS_MAX`], or 0 if the descriptor is set at once.
    laps_max: u32,
    /// The number of laps since the reactor rang, including the present lap; `None` if the task takes no lap.
    laps: Option<u32>,
}

impl Future for Ring {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if !self.is_settled {
            self.is_settled = true;
            reactor_turn::join(&self.attached);
        }
        loop {
            // Not in the child of a fork: the descriptor rings for its parent.
            if !self.attached.is_attached() {
                return Poll::Ready(());
            }
            let Some(fd) = &self.fd else {
                return Poll::Ready(());
            };
            let rang = match fd.poll_read_ready(context) {
                Poll::Pending => false,
                // The runtime shuts down.
                Poll::Ready(Err(_)) => return Poll::Ready(()),
                // Not read: the reactor reports edges, and setting the descriptor anew makes the next one.
                Poll::Ready(Ok(mut ready)) => {
                    ready.clear_ready();
                    true
                }
            };
            let lap = self.laps.take();
            let laps = lap.map_or(0, |laps| laps + 1);
            let setting = if laps < self.laps_max {
                SetDescriptor::AtEnd
            } else {
                SetDescriptor::AtOnce
            };
            let is_to_end = match lap {
                Some(_) => reactor_turn::end_turn(&self.attached, setting),
                None if rang => reactor_turn::take_turn(&self.attached, setting),
                None => return Poll::Pending,
            };
            if is_to_end {
                self.laps = Some(laps);
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
        }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        let fd = self.fd.take();
        if self.attached.reactor.is_inherited() {
            // Taking it out would take it out of the parent's reactor.
            std::mem::forget(fd);
        }
        self.attached.detach();
    }
}

/// The task that takes turns when tasks of the runtime [call](reactor_turn::take_along_soon) it.
///
/// It is another task than the one that waits in the reactor: a worker on which this task is queued may continue its
/// present work for long, and no other worker can steal the task from this worker.
///
/// It stays in a runtime that was detached or cannot be attached, until that ends: the runtime is declined for as long.
struct Along {
    key: Arc<Key>,
    attached: Option<Attached>,
    is_known: bool,
}

impl Future for Along {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        if let Some(attached) = &this.attached {
            if !this.is_known {
                this.is_known = true;
                attached.introduce(context.waker());
            }
            // Taken before the turn, which so finds what it was called for.
            if attached.is_attached() && attached.reactor.take_call() {
                reactor_turn::take_turn_along(attached);
            }
        }
        Poll::Pending
    }
}

impl Drop for Along {
    fn drop(&mut self) {
        let is_own = |key: &dyn Any| {
            key.downcast_ref::<Key>()
                .is_some_and(|key| ptr::eq(key, &raw const *self.key))
        };
        drop(reactors::admit(is_own));
    }
}

/// Builds runtimes that are [attached](attach).
///
/// ```
/// let mut builder = tickless::tokio::Builder::new_multi_thread();
/// builder.tokio().worker_threads(2).enable_time();
/// let runtime = builder.build()?;
/// runtime.block_on(async {
///     tickless::time::sleep(std::time::Duration::from_micros(200)).await;
/// });
/// # Ok::<(), tickless::tokio::AttachError>(())
/// ```
#[derive(Debug)]
pub struct Builder {
    tokio: runtime::Builder,
    on_thread_park: OnPark,
}

/// The function of the program that runs when a worker parks.
#[derive(Clone)]
struct OnPark(Option<Arc<dyn Fn() + Send + Sync>>);

impl fmt::Debug for OnPark {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(if self.0.is_some() { "Some(..)" } else { "None" })
    }
}

impl Builder {
    fn of(tokio: runtime::Builder) -> Self {
        Self {
            tokio,
            on_thread_park: OnPark(None),
        }
    }

    /// Makes a builder of a runtime with several workers.
    #[must_use]
    pub fn new_multi_thread() -> Self {
        Self::of(runtime::Builder::new_multi_thread())
    }

    /// Makes a builder of a runtime whose one worker is the thread that drives it.
    #[must_use]
    pub fn new_current_thread() -> Self {
        Self::of(runtime::Builder::new_current_thread())
    }

    /// Returns tokio's own builder. [`build`](Self::build) enables the reactor, and replaces the function that was set
    /// with `on_thread_park`.
    pub fn tokio(&mut self) -> &mut runtime::Builder {
        &mut self.tokio
    }

    /// Executes `f` before a worker parks, in place of `tokio().on_thread_park(f)`.
    pub fn on_thread_park(&mut self, f: impl Fn() + Send + Sync + 'static) -> &mut Self {
        self.on_thread_park = OnPark(Some(Arc::new(f)));
        self
    }

    /// Builds the runtime, and attaches it.
    ///
    /// # Errors
    ///
    /// [`AttachError`] if the system refuses a descriptor, a thread or memory; no runtime is left then.
    ///
    /// # Cost
    ///
    /// Each time that a worker parks, the attachment takes two loads and a comparison.
    pub fn build(&mut self) -> Result<Runtime, AttachError> {
        let place = Arc::new(OnceLock::<Attached>::new());
        let (known, user) = (Arc::clone(&place), self.on_thread_park.clone());
        self.tokio.enable_io().on_thread_park(move || {
            if let Some(attached) = known.get() {
                reactor_turn::join(attached);
            }
            if let Some(user) = &user.0 {
                user();
            }
        });
        let runtime = self.tokio.build().map_err(AttachError::Os)?;
        let attachment = {
            let _inside = runtime.enter();
            attach()
        };
        match attachment {
            Ok(attachment) => {
                let _first = place.set(attachment.attached);
                Ok(runtime)
            }
            Err(error) => {
                // Dropping it would block, which a thread that is in another runtime must not.
                runtime.shutdown_background();
                Err(error)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_runtime_that_was_declined_is_forgotten_when_it_ends() {
        let runtime = runtime::Builder::new_current_thread().build();
        let runtime = runtime.expect("a runtime");
        let id = runtime.handle().id();
        let is_declined = || reactors::is_declined(|key| is_key_of(key, id));
        runtime.block_on(async { detach() }).expect("a runtime");
        assert!(is_declined());
        drop(runtime);
        assert!(!is_declined());
    }
}
