//! The subject that executes workloads on this machine: a worker of this process.

use std::fs;
use std::hint::{black_box, spin_loop};
use std::pin::Pin;
use std::task::{Context, Waker};
use std::thread;
use std::time::Duration;

use tickless::hrtimer::{Expired, HrTimer, Instant, Monotonic, Restart, Start};
use tickless::time::Sleep;
use tickless::wheel::{Tick, Timeout, WheelKind, WheelTimer};
use tickless::{Stats, Worker};
use tickless_sim::ProcessCounts;

use super::subject::Subject;
use crate::failure::Failure;
use crate::scheduling;
use crate::sim::calibrate::{cpu_time, warm_up};

/// The worker of this thread.
#[derive(Debug)]
pub(super) struct Real {
    worker: Worker,
    /// The CPU of the stranger thread.
    other: u32,
    origin: i64,
    /// The same moment on the clock of the library.
    began: tickless::time::Instant,
    before: Stats,
    /// The device writes of the strangers themselves, when they arrive and when they leave.
    strange_writes: u64,
    /// The kernel's counts of switches before the run.
    switches_before: Switches,
    /// True if the worker parked, other than to wait for strangers.
    has_parked: bool,
}

impl Real {
    /// Makes the calling thread a worker on `cpu`; strangers run on `other`.
    pub(super) fn new(cpu: u32, other: u32) -> Result<Self, Failure> {
        scheduling::pin(cpu, "--cpus")?;
        let worker = Worker::new().map_err(|error| Failure::Machine(error.to_string()))?;
        warm_up(&worker);
        Ok(Self {
            worker,
            other,
            began: tickless::time::Instant::now(),
            origin: tickless::hrtimer::now::<Monotonic>().as_nanos(),
            before: tickless::stats(),
            strange_writes: 0,
            switches_before: Switches::of_this_thread(),
            has_parked: false,
        })
    }

    /// Returns true if the kernel took the CPU from this thread since the worker was made.
    pub(super) fn is_preempted(&self) -> bool {
        Switches::of_this_thread().involuntary != self.switches_before.involuntary
    }

    fn at(&self, at: i64) -> Start {
        Start::at(Instant::from_nanos(self.origin.saturating_add(at)))
    }
}

/// The kernel's counts of a thread's context switches.
#[derive(Clone, Copy, Debug)]
struct Switches {
    /// Switches that the thread caused, to sleep.
    voluntary: u64,
    /// Switches that the kernel forced, for another thread.
    involuntary: u64,
}

impl Switches {
    fn of_this_thread() -> Self {
        let status = fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
        let count = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            line.and_then(|number| number.trim().parse().ok())
                .unwrap_or(0)
        };
        Self {
            voluntary: count("voluntary_ctxt_switches:"),
            involuntary: count("nonvoluntary_ctxt_switches:"),
        }
    }
}

type Exact = Pin<Box<HrTimer<fn(&mut Expired<'_, '_, Monotonic>) -> Restart>>>;

fn cancel_all(timers: &[Exact]) -> f64 {
    let before = cpu_time();
    for timer in timers {
        black_box(timer.as_ref().cancel());
    }
    cpu_time() - before
}

impl Subject for Real {
    type Exact = Exact;
    type Sleep = Pin<Box<Option<Sleep>>>;
    type Coarse = Pin<Box<WheelTimer<fn(&mut Timeout) -> Restart>>>;
    type Deadline = tickless::time::Instant;

    fn exact(&self) -> Exact {
        Box::pin(HrTimer::new(|_| Restart::No))
    }

    fn sleep(&self) -> Self::Sleep {
        Box::pin(None)
    }

    fn coarse(&self) -> Self::Coarse {
        Box::pin(WheelTimer::with_kind(WheelKind::Local, |_| Restart::No))
    }

    #[inline]
    fn start(&mut self, timer: &Exact, at: i64) {
        let _ = timer.as_ref().start(self.at(at));
    }

    #[inline]
    fn cancel(&mut self, timer: &Exact) {
        black_box(timer.as_ref().cancel());
    }

    #[inline]
    fn begin(&mut self, timer: &mut Self::Sleep, after: i64) {
        let after = Duration::from_nanos(after.unsigned_abs());
        timer.as_mut().set(Some(tickless::time::sleep(after)));
        let mut context = Context::from_waker(Waker::noop());
        if let Some(sleep) = timer.as_mut().as_pin_mut() {
            black_box(sleep.poll(&mut context).is_pending());
        }
    }

    fn deadline(&self, at: i64) -> tickless::time::Instant {
        self.began + Duration::from_nanos(at.unsigned_abs())
    }

    #[inline]
    fn reset(&mut self, timer: &mut Self::Sleep, deadline: tickless::time::Instant) {
        if let Some(sleep) = timer.as_mut().as_pin_mut() {
            sleep.reset(deadline);
        }
    }

    #[inline]
    fn give_up(&mut self, timer: &mut Self::Sleep) {
        timer.as_mut().set(None);
    }

    #[inline]
    fn arm(&mut self, timer: &Self::Coarse, expiry: u64) {
        let armed = timer.as_ref().start_if_idle(Tick(expiry)).has_armed();
        assert!(armed, "only an inactive timer is armed");
    }

    #[inline]
    fn modify(&mut self, timer: &Self::Coarse, expiry: u64) {
        let _ = timer.as_ref().start(Tick(expiry));
    }

    #[inline]
    fn delete(&mut self, timer: &Self::Coarse) {
        black_box(timer.as_ref().cancel_queued());
    }

    fn strangely_cancel(&mut self, timers: &[Exact]) -> f64 {
        let cpu = self.other;
        let writes = || tickless::stats().device_writes;
        let before = writes();
        let (came, leaves, spent) = thread::scope(|scope| {
            let stranger = scope.spawn(move || {
                // Wherever it runs, if it may not run there.
                let _pinned = scheduling::pin(cpu, "--cpus");
                // Gives the thread its queue, with a device of its own.
                tickless::init().expect("there is room for a thread");
                let came = writes();
                let spent = cancel_all(timers);
                (came, writes(), spent)
            });
            stranger.join().expect("it does not panic")
        });
        self.strange_writes += (came - before) + (writes() - leaves);
        spent
    }

    fn turn(&mut self) -> u32 {
        self.worker.turn().fired
    }

    fn park(&mut self) -> u32 {
        self.has_parked = true;
        self.worker.park().fired
    }

    fn spin_until(&mut self, at: i64) {
        while self.now() < at {
            spin_loop();
        }
    }

    fn now(&self) -> i64 {
        tickless::hrtimer::now::<Monotonic>().as_nanos() - self.origin
    }

    fn origin(&self) -> i64 {
        self.origin
    }

    fn tick(&self) -> u64 {
        tickless::wheel::now().0
    }

    fn spent(&mut self, body: impl FnOnce(&mut Self)) -> f64 {
        let before = cpu_time();
        body(self);
        cpu_time() - before
    }

    fn counts(&self) -> ProcessCounts {
        let (now, before) = (tickless::stats(), &self.before);
        let starts = now.starts - before.starts;
        let in_place = now.kept() - before.kept();
        let coarse = now.coarse_arms - before.coarse_arms;
        let coarse_in_slot = now.coarse_in_slot - before.coarse_in_slot;
        let inserts = starts - in_place;
        ProcessCounts {
            inserts,
            erases: (inserts + before.pending).saturating_sub(now.pending),
            in_place,
            device_writes: now.device_writes - before.device_writes - self.strange_writes,
            wakes: if self.has_parked {
                Switches::of_this_thread().voluntary - self.switches_before.voluntary
            } else {
                0
            },
            spurious: now.spurious - before.spurious,
            coarse_files: coarse - coarse_in_slot,
            coarse_in_slot,
            coarse_takes: now.coarse_expired + now.coarse_cancelled
                - before.coarse_expired
                - before.coarse_cancelled,
        }
    }
}
