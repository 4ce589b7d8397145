//! The flight recorder: the last expiries, kept until something goes wrong.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

pub use crate::host::recording::Breach;

use super::{Before, Options, StartError, Trace};
use crate::host::process;
use crate::host::recording;
use crate::host::registry::{bases, timers};
use crate::host::thread::{ThreadKind, now_lower};
use crate::host::tick::TICK;

/// What the recorder shows of the past.
const LENGTH: Duration = Duration::from_secs(1);
/// The pause between two looks for overdue timers, and between two calls of the program's function.
const PAUSE: Duration = Duration::from_secs(1);
/// What happens after a breach and is shown with it.
const AFTERMATH: Duration = Duration::from_millis(10);

/// Keeps the last expiries of all threads in memory, and calls `on_breach` when a promise is broken: when a timer fires
/// later than [`Options::late_max`], when a callback takes longer than [`Options::callback_max`], or when the first
/// timer of a thread is overdue by `late_max` and does not fire.
///
/// ```
/// use std::fs::File;
/// use std::time::Duration;
///
/// use tickless::tracepoints::{self, Options};
///
/// let options = Options::new().late_max(Duration::from_millis(20)).callback_max(Duration::from_millis(5));
/// let recorder = tracepoints::fly(&options, |breach, trace| {
///     eprintln!("{breach}");
///     if let Ok(file) = File::create("flight.jsonl") {
///         // The timers go on, whether or not the disk is full.
///         let _is_written = trace.write(file);
///     }
/// })?;
/// // ... the program ...
/// let on_request = recorder.snapshot();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// The trace has the expiries of the last second, with those of 10 ms after the breach, as far as the rings of the
/// threads reach: [`Options::events_per_thread`] is the number of begins and ends of callbacks that a ring keeps. Each
/// expiry counts as one of a timer that was queued before. `tickless verify` and `--chrome` read the file; `verify`
/// names the timers that were later than `late_max`.
///
/// `on_breach` runs on a thread of the recorder, for the first breach of a second at most. A panic of it ends the
/// recorder's thread, and is shown as that of any thread.
///
/// # Errors
///
/// [`StartError`] if a recording or another flight recorder has not ended, or if the system refuses a thread.
///
/// # Cost
///
/// A start, a reset and a cancel cost nothing. An expiry takes two readings of the clock, two atomic operations on a
/// word that all threads share and a lock of its own thread, and tasks are woken one by one, not in batches. The
/// recorder's thread looks once in a second for overdue timers, with a lock of each thread's queue.
pub fn fly(
    options: &Options,
    on_breach: impl FnMut(&Breach, &Trace) + Send + 'static,
) -> Result<FlightRecorder, StartError> {
    // Before: what makes the first timers of a process is no event.
    timers();
    let first = recording::begin(options.events, None).ok_or(StartError::AlreadyRecording)?;
    let mut recorder = FlightRecorder {
        first,
        forks: process::forks(),
        options: options.clone(),
        is_over: Arc::default(),
        watcher: None,
    };
    let watch = Watch {
        first,
        options: options.clone(),
        is_over: Arc::clone(&recorder.is_over),
    };
    let watcher = thread::Builder::new().name("tickless-flight".to_owned());
    let watcher = watcher.spawn(move || watch.run(on_breach));
    recorder.watcher = Some(watcher.map_err(|_| StartError::NoThread)?);
    Ok(recorder)
}

/// The flight recorder that [`fly`] starts. Dropping the value ends it.
#[must_use = "it ends when it is dropped"]
pub struct FlightRecorder {
    first: u64,
    forks: u32,
    options: Options,
    is_over: Arc<AtomicBool>,
    watcher: Option<JoinHandle<()>>,
}

impl FlightRecorder {
    /// Returns the expiries of the last second.
    ///
    /// # Cost
    ///
    /// The call locks the ring of each thread while it copies the ring.
    #[must_use]
    pub fn snapshot(&self) -> Trace {
        snapshot(self.first, &self.options)
    }
}

impl fmt::Debug for FlightRecorder {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("FlightRecorder")
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

impl Drop for FlightRecorder {
    fn drop(&mut self) {
        if self.forks != process::forks() {
            // The child of a fork has neither the recorder nor its thread.
            return;
        }
        // Release: pairs with the Acquire in `Watch::run`; the thread has nothing to read after it.
        self.is_over.store(true, Ordering::Release);
        if let Some(watcher) = self.watcher.take() {
            watcher.thread().unpark();
            // In its own function it would wait for itself. What panicked there was shown.
            if watcher.thread().id() != thread::current().id() {
                let _has_panicked = watcher.join();
            }
        }
        recording::halt();
        for base in bases() {
            base.local().ring.clear();
        }
        recording::end();
    }
}

/// What the recorder's thread needs.
struct Watch {
    first: u64,
    options: Options,
    is_over: Arc<AtomicBool>,
}

impl Watch {
    fn run(self, mut on_breach: impl FnMut(&Breach, &Trace)) {
        let bounds = (self.options.late_max, self.options.callback_max);
        recording::set_watcher(Some(bounds));
        // Acquire: pairs with the Release in the drop of the recorder.
        while !self.is_over.load(Ordering::Acquire) {
            thread::park_timeout(PAUSE);
            let Some(breach) = recording::take_breach().or_else(|| overdue(bounds.0)) else {
                continue;
            };
            thread::sleep(AFTERMATH);
            on_breach(&breach, &snapshot(self.first, &self.options));
            // Breaches come in swarms, and one file shows a second of them. Each of them unparks.
            let until = now_lower().saturating_add(PAUSE.into());
            // Acquire: as above.
            while now_lower() < until && !self.is_over.load(Ordering::Acquire) {
                thread::park_timeout(PAUSE);
            }
            let _of_the_swarm = recording::take_breach();
        }
        recording::set_watcher(None);
    }
}

/// Returns the thread whose first timer is overdue by more than `late_max`.
fn overdue(late_max: Duration) -> Option<Breach> {
    let now = now_lower().as_nanos();
    bases().find_map(|base| {
        if matches!(
            base.local().kind(),
            ThreadKind::Free | ThreadKind::VirtualClock
        ) {
            return None;
        }
        let exact = timers().next_event(base.cpu()).as_nanos();
        let coarse = base
            .wheel_first_due()
            .map_or(u64::MAX, |tick| tick.0.saturating_mul(TICK));
        let due = exact.min(i64::try_from(coarse).unwrap_or(i64::MAX));
        let late = Duration::from_nanos(now.saturating_sub(due).max(0).unsigned_abs());
        (late > late_max).then(|| Breach::Overdue(base.cpu().0, late))
    })
}

fn snapshot(first: u64, options: &Options) -> Trace {
    let ended = now_lower();
    let began = ended
        .as_nanos()
        .saturating_sub(i64::try_from(LENGTH.as_nanos()).unwrap_or(i64::MAX));
    let mut entries = Vec::new();
    for base in bases() {
        base.local().ring.copy(first, &mut entries);
    }
    entries.retain(|entry| entry.time.as_nanos() >= began);
    entries.sort_unstable_by_key(|entry| entry.number);
    Trace {
        ended: entries.last().map_or(ended, |last| last.time.max(ended)),
        entries,
        lost: 0,
        threads: bases().count(),
        settings: Vec::new(),
        before: Before {
            queued: HashSet::new(),
            until: u64::MAX,
        },
        options: options.clone(),
        is_flight: true,
    }
}

impl fmt::Display for Breach {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Late(late) => write!(formatter, "a timer fired {late:?} late"),
            Self::LongCallback(took) => write!(formatter, "a callback took {took:?}"),
            Self::Overdue(thread, late) => write!(
                formatter,
                "the first timer of thread {thread} is {late:?} overdue and has not fired"
            ),
        }
    }
}
