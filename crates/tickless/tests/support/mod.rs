//! Helpers that the test programs share.
//!
//! No test asserts how long something takes at most: the machine may be busy. A test waits for an event that must
//! happen, with a [`Patience`] that turns a hang into a failure. A test compares the clock to check that an event does
//! not happen early.
#![allow(
    dead_code,
    clippy::allow_attributes,
    reason = "each test program uses a part of it"
)]

use std::any::Any;
use std::future::Future;
use std::io::Write as _;
use std::os::fd::AsFd as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::process::{Command, ExitStatus};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, Once, PoisonError, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::retry_on_intr;
use rustix::process::{Resource, Rlimit, Uid, getpid, getrlimit, setrlimit};
use rustix::thread::{gettid, set_thread_res_uid};
use tickless::hrtimer::{Expired, HrTimer, Monotonic, Restart};
use tickless::inspect::{Queued, snapshot};
use tickless::{Driver, Worker};

pub(crate) mod fork;
pub(crate) mod refuse;
mod skip;
pub(crate) use skip::skip;

/// Makes this thread a worker with timers that fire only in its own turns, however long the system delays these turns.
pub(crate) fn worker() -> Worker {
    let worker = Worker::new().expect("the thread is free");
    worker.set_helped(false);
    worker
}

/// The time that a test may take before it counts as hanging. It is far more than any test needs; `TICKLESS_PATIENCE`
/// sets another number of seconds.
const PATIENCE: Duration = Duration::from_secs(240);

/// A guard of a running test. If it is not dropped in time, the process ends, and the state of all timers is printed.
#[must_use]
pub(crate) struct Patience {
    _ends_the_wait: mpsc::Sender<()>,
}

/// Begins a test: arms the patience.
pub(crate) fn begin() -> Patience {
    let (sender, receiver) = mpsc::channel::<()>();
    let test = thread::current().name().unwrap_or("a test").to_owned();
    let patience = std::env::var("TICKLESS_PATIENCE")
        .ok()
        .and_then(|seconds| seconds.parse().ok())
        .map_or(PATIENCE, Duration::from_secs);
    thread::spawn(move || {
        if receiver.recv_timeout(patience) == Err(mpsc::RecvTimeoutError::Timeout) {
            give_up(&test);
        }
    });
    Patience {
        _ends_the_wait: sender,
    }
}

fn give_up(test: &str) -> ! {
    let _best_effort = writeln!(std::io::stderr(), "\n{test} hangs: it is given up");
    // In a thread of its own: whatever hangs may hold a lock that the dump needs.
    let dump = thread::spawn(|| {
        let mut text = String::new();
        let _infallible = tickless::dump(&mut text);
        let _best_effort = writeln!(std::io::stderr(), "{text}");
    });
    for _ in 0..50 {
        if dump.is_finished() {
            break;
        }
        thread::sleep(Duration::from_millis(20));
    }
    std::process::abort();
}

/// Waits until `condition` holds, without using the timers under test.
pub(crate) fn until(condition: impl Fn() -> bool) {
    while !condition() {
        thread::sleep(Duration::from_micros(200));
    }
}

/// Spins until `condition` holds. After each `looks` looks, another thread may have the processor: without that, a
/// thread that shares the processor would get it once in a time slice.
pub(crate) fn spin_until(looks: u32, condition: impl Fn() -> bool) {
    while !(0..looks).any(|_| condition()) {
        thread::yield_now();
    }
}

pub(crate) const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

pub(crate) const fn us(micros: u64) -> Duration {
    Duration::from_micros(micros)
}

/// Keeps the thread executing until `deadline` has passed by every clock of the library: a poll and a turn take a lower
/// bound of the time, which may be a little behind what `Instant::now` returned before.
pub(crate) fn spin_past(deadline: tickless::time::Instant) {
    let bound = Duration::from_nanos(2 * tickless::clock::ERROR);
    while tickless::time::Instant::now() < deadline + bound {
        std::hint::spin_loop();
    }
}

/// Fails if `time` has not passed since `start`.
#[track_caller]
pub(crate) fn assert_passed(start: Instant, time: Duration) {
    let elapsed = start.elapsed();
    assert!(elapsed >= time, "early: {elapsed:?} in place of {time:?}");
}

/// A waker that counts wake-ups.
#[derive(Debug, Default)]
pub(crate) struct Wakes {
    count: AtomicU32,
}

impl Wakes {
    pub(crate) fn new() -> (Arc<Self>, Waker) {
        let wakes = Arc::new(Self::default());
        let waker = Waker::from(Arc::clone(&wakes));
        (wakes, waker)
    }

    pub(crate) fn note(&self) {
        self.count.fetch_add(1, Ordering::Release);
    }

    pub(crate) fn count(&self) -> u32 {
        self.count.load(Ordering::Acquire)
    }

    /// Waits for the first wake-up.
    pub(crate) fn wait(&self) {
        until(|| self.count() > 0);
    }
}

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.note();
    }
}

/// Returns a timer with a callback, and the number of times that it fired.
pub(crate) fn counted() -> (
    Arc<AtomicU32>,
    HrTimer<impl FnMut(&mut Expired<'_, '_, Monotonic>) -> Restart + Send + 'static>,
) {
    let fired = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&fired);
    let timer = HrTimer::new(move |_| {
        count.fetch_add(1, Ordering::Release);
        Restart::No
    });
    (fired, timer)
}

/// Waits by poll(2) until the descriptor of `driver` is readable.
pub(crate) fn wait(driver: &Driver) {
    assert!(is_readable_within(driver, None));
}

pub(crate) fn is_readable(driver: &Driver) -> bool {
    let now = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    is_readable_within(driver, Some(&now))
}

fn is_readable_within(driver: &Driver, time: Option<&Timespec>) -> bool {
    let fd = driver.as_fd();
    retry_on_intr(|| poll(&mut [PollFd::new(&fd, PollFlags::IN)], time)).expect("poll works") > 0
}

/// Polls `future` once, with a waker that does nothing.
pub(crate) fn poll_idly<F: Future + ?Sized>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// Polls `future` once, with `waker`.
pub(crate) fn poll_with<F: Future + ?Sized>(future: Pin<&mut F>, waker: &Waker) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(waker))
}

/// Makes futures until the first poll of a future, with `waker`, returns pending: this thread may lose its CPU for as
/// long as a short sleep lasts.
pub(crate) fn waiting<F: Future>(make: impl Fn() -> F, waker: &Waker) -> Pin<Box<F>> {
    for _ in 0..1_000 {
        let mut future = Box::pin(make());
        if poll_with(future.as_mut(), waker).is_pending() {
            return future;
        }
    }
    panic!("each of 1,000 futures was ready at once: does its deadline lie in the past?");
}

/// Makes a future and polls it once, as [`waiting`] does, with a waker that does nothing.
pub(crate) fn waiting_idly<F: Future>(make: impl Fn() -> F) -> Pin<Box<F>> {
    waiting(make, Waker::noop())
}

/// Runs a future to its end on this thread, which parks between polls.
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future = pin!(future);
    loop {
        match poll_with(future.as_mut(), &waker) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}

/// Runs a future in a tokio runtime of one thread.
pub(crate) fn in_tokio<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .expect("a runtime")
        .block_on(future)
}

/// Runs `body` on a thread of its own and passes its result or panic on.
pub(crate) fn on_thread<R: Send + 'static>(body: impl FnOnce() -> R + Send + 'static) -> R {
    match thread::spawn(body).join() {
        Ok(result) => result,
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

const OWN_PROCESS: &str = "TICKLESS_TEST_IN_A_PROCESS_OF_ITS_OWN";

/// Runs `body`, the body of the test named `test`, in a process in which nothing else happens.
pub(crate) fn in_own_process(test: &str, body: impl FnOnce()) {
    let _patience = begin();
    let Some(mut process) = process_of_its_own(test) else {
        body();
        well_done();
    };
    assert_well_done(process.status().expect("it starts"));
}

/// The exit code of a process that [`well_done`] ends: a test program that finds no test to run ends with zero.
const WELL_DONE: i32 = 42;

/// Returns the command that starts this program once more, with the emulator that `TICKLESS_EMULATOR` names, if it is
/// set.
pub(crate) fn this_program() -> Command {
    let program = std::env::current_exe().expect("this program");
    let emulator = std::env::var_os("TICKLESS_EMULATOR");
    let mut command = Command::new(emulator.as_deref().unwrap_or(program.as_os_str()));
    command.args(emulator.as_ref().map(|_| &program));
    command
}

/// Returns the command that runs the calling test, named `test`, once more, in a process in which nothing else happens;
/// returns `None` in that process.
pub(crate) fn process_of_its_own(test: &str) -> Option<Command> {
    if std::env::var_os(OWN_PROCESS).is_some() {
        return None;
    }
    let mut command = this_program();
    command
        .args([test, "--exact", "--include-ignored", "--nocapture"])
        .env(OWN_PROCESS, "1");
    Some(command)
}

/// Ends a process that ran one test alone.
pub(crate) fn well_done() -> ! {
    std::process::exit(WELL_DONE);
}

/// Works as [`well_done`], without exit handlers.
pub(crate) fn well_done_at_once() -> ! {
    fork::leave(WELL_DONE)
}

/// Fails unless a process ended by [`well_done`].
#[track_caller]
pub(crate) fn assert_well_done(status: ExitStatus) {
    assert_eq!(status.code(), Some(WELL_DONE), "{status}");
}

/// Runs `body` in a process of its own, as a user for whom the number of threads can be limited.
pub(crate) fn as_mortal(test: &str, body: impl FnOnce()) {
    in_own_process(test, || {
        // A user with no other process: the system counts the threads of all of them.
        let number = 1_000_000 + getpid().as_raw_nonzero().get().unsigned_abs();
        let user = Uid::from_raw(number);
        if set_thread_res_uid(user, user, user).is_err() {
            return skip(test, "the process cannot become another user");
        }
        forbid_threads();
        let refused = thread::Builder::new().spawn(|| ()).is_err();
        allow_threads();
        if !refused {
            return skip(test, "the limit of threads does not bind");
        }
        body();
    });
}

/// Refuses new threads and forks to the process from now on, if it has `to` threads or more.
pub(crate) fn limit_threads(to: u64) {
    let maximum = getrlimit(Resource::Nproc).maximum;
    let limit = Rlimit {
        current: Some(to),
        maximum,
    };
    setrlimit(Resource::Nproc, limit).expect("it is below the maximum");
}

pub(crate) fn forbid_threads() {
    limit_threads(0);
}

pub(crate) fn allow_threads() {
    limit_threads(500);
}

/// The message of a panic, and its location.
#[derive(Debug)]
pub(crate) struct Panicked {
    pub(crate) message: String,
    pub(crate) file: String,
    pub(crate) line: u32,
}

fn text_of(payload: &(dyn Any + Send)) -> String {
    let fixed = payload.downcast_ref::<&str>().copied();
    let made = payload.downcast_ref::<String>().map(String::as_str);
    fixed.or(made).unwrap_or("").to_owned()
}

/// Returns the message of the panic of `body`, without a hook, which runtimes of tokio take off for a moment.
#[track_caller]
pub(crate) fn message_of(body: impl FnOnce()) -> String {
    let payload = catch_unwind(AssertUnwindSafe(body)).expect_err("it panics");
    text_of(&*payload)
}

static LAST_PANIC: Mutex<Vec<(thread::ThreadId, Panicked)>> = Mutex::new(Vec::new());

/// Runs `body`, which must panic on this thread, once; more often if the hook does not see it, because another test
/// attaches a runtime, which changes hooks.
#[track_caller]
pub(crate) fn panic_of(mut body: impl FnMut()) -> Panicked {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if let Some(location) = info.location() {
                let panicked = Panicked {
                    message: text_of(info.payload()),
                    file: location.file().to_owned(),
                    line: location.line(),
                };
                let mut all = LAST_PANIC.lock().unwrap_or_else(PoisonError::into_inner);
                all.push((thread::current().id(), panicked));
            }
            before(info);
        }));
    });
    let own = thread::current().id();
    let seen = (0..100).find_map(|_| {
        assert!(
            catch_unwind(AssertUnwindSafe(&mut body)).is_err(),
            "it does not panic"
        );
        let mut all = LAST_PANIC.lock().unwrap_or_else(PoisonError::into_inner);
        let last = all.iter().rposition(|(thread, _)| *thread == own)?;
        Some(all.swap_remove(last).1)
    });
    seen.expect("the hook saw it")
}

/// Refuses to compile if the type is [`Unpin`].
#[macro_export]
macro_rules! assert_not_unpin {
    ($type:ty) => {
        const _: fn() = || {
            struct AlsoUnpin;
            trait Once<A> {
                fn only() {}
            }
            impl<T: ?Sized> Once<()> for T {}
            impl<T: ?Sized + Unpin> Once<AlsoUnpin> for T {}
            // Ambiguous if the type has both.
            let _ = <$type as Once<_>>::only;
        };
    };
}

/// Makes one test of each body for `tokio::time` and one for `tickless::time`. In the bodies, `time` is the module.
///
/// The behaviour of tokio is checked once, where tests are not optimised: a second build of tokio's tests would show
/// nothing new.
#[macro_export]
macro_rules! same_as_tokio {
    ($($(#[$attribute:meta])* async fn $name:ident() $body:block)*) => {
        #[cfg(debug_assertions)]
        mod tokio_tests {
            use super::*;
            use tokio::time;
            $($(#[$attribute])* #[test] fn $name() {
                let _patience = $crate::support::begin();
                $crate::support::in_tokio(async $body);
            })*
        }
        mod tickless_tests {
            use super::*;
            use tickless::time;
            $($(#[$attribute])* #[test] fn $name() {
                let _patience = $crate::support::begin();
                $crate::support::in_tokio(async $body);
            })*
        }
    };
}

/// Returns the window of each timer of this thread: its earliest and latest time, in nanoseconds.
pub(crate) fn windows() -> Vec<(i64, i64)> {
    let id = gettid().as_raw_pid().unsigned_abs();
    let snapshot = snapshot();
    let own = snapshot
        .threads
        .iter()
        .filter(|thread| thread.id == Some(id));
    own.flat_map(|thread| &thread.timers)
        .map(|timer| match timer.queued {
            Queued::Sorted { soft, hard, .. } | Queued::Far { soft, hard, .. } => (soft, hard),
            _ => (0, 0),
        })
        .collect()
}

/// Returns the lateness that each timer of this thread chose.
pub(crate) fn chosen() -> Vec<Duration> {
    let width = |(soft, hard): (i64, i64)| Duration::from_nanos(hard.abs_diff(soft));
    windows().into_iter().map(width).collect()
}
