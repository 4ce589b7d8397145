//! The time in which a runtime is measured, with its tasks, their work and their notes.

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use async_channel::{Receiver, Sender};
use fastrand::Rng;
use hdrhistogram::Histogram;
use rustix::time::ClockId;

use super::mix::{Mix, Periodic, entitlements};
use super::processor_time;
use super::runtime::Runtime;
use crate::histogram;

/// One runtime's part of a round.
#[derive(Debug)]
pub(super) struct Stage {
    mix: Mix,
    work: Work,
    /// The entitlements of the tasks that compute.
    entitled: Vec<f64>,
    /// The beginning of the time in which is measured; `end` is its end.
    begin: Instant,
    end: Instant,
    /// True if the stage was ended early.
    is_over: AtomicBool,
    /// The computing time of all tasks that compute, in nanoseconds.
    total: AtomicU64,
    notes: Mutex<Notes>,
}

/// The records of all tasks.
#[derive(Clone, Debug)]
pub(super) struct Notes {
    /// The notes of each task that computes.
    pub(super) hogs: Vec<Option<Hog>>,
    /// The time from sending a request to the start of its work.
    pub(super) servers: Histogram<u64>,
    /// The lateness at which periodic tasks woke.
    pub(super) periodic: Histogram<u64>,
    /// Ticks that came before their time.
    pub(super) early: u64,
    /// The computing time of all tasks that wait, at the speed of an undisturbed machine.
    pub(super) sleepers: Duration,
}

/// The record of one task that computes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Hog {
    pub(super) time: Duration,
    /// The number of chunks that the task computed.
    pub(super) chunks: u64,
    /// The largest distance of the task from its entitlement, behind or ahead, in nanoseconds.
    pub(super) lag: f64,
    /// The longest time of a chunk.
    pub(super) longest: Duration,
}

/// A task of a mix, for a runtime to spawn.
#[derive(Clone, Debug)]
pub(super) struct Job {
    pub(super) weight: u32,
    kind: JobKind,
}

#[derive(Clone, Debug)]
enum JobKind {
    Hog { place: usize },
    Server { requests: Receiver<Instant> },
    Periodic { phase: Duration },
}

impl Job {
    /// Returns the time that the task may wait for its turn, for runtimes that use such a hint; `None` for tasks that
    /// compute.
    #[cfg(feature = "glommio")]
    pub(super) fn patience(&self, mix: &Mix) -> Option<Duration> {
        match self.kind {
            JobKind::Hog { .. } => None,
            JobKind::Server { .. } => Some(mix.servers.cost.max(Duration::from_micros(100))),
            JobKind::Periodic { .. } => Some(mix.periodic.period),
        }
    }

    /// Returns the computing time of each wake-up, for runtimes whose tasks request so much; `None` for tasks that
    /// compute.
    pub(super) fn burst(&self, mix: &Mix) -> Option<Duration> {
        match self.kind {
            JobKind::Hog { .. } => None,
            JobKind::Server { .. } => Some(mix.servers.cost),
            JobKind::Periodic { .. } => Some(mix.periodic.cost),
        }
    }

    /// Executes the task until the stage is over.
    pub(super) async fn run<R: Runtime>(self, stage: &Stage) {
        match self.kind {
            JobKind::Hog { place } => stage.hog::<R>(place).await,
            JobKind::Server { requests } => stage.server::<R>(&requests).await,
            JobKind::Periodic { phase } => stage.periodic::<R>(phase).await,
        }
    }
}

impl Stage {
    /// Makes a stage that begins `settling` from now and takes `duration`.
    pub(super) fn new(mix: &Mix, work: Work, settling: Duration, duration: Duration) -> Self {
        let begin = Instant::now() + settling;
        Self {
            mix: mix.clone(),
            work,
            entitled: entitlements(&mix.weights(), mix.workers),
            begin,
            end: begin + duration,
            is_over: AtomicBool::new(false),
            total: AtomicU64::new(0),
            notes: Mutex::new(Notes {
                hogs: vec![None; mix.hogs],
                servers: histogram::new(),
                periodic: histogram::new(),
                early: 0,
                sleepers: Duration::ZERO,
            }),
        }
    }

    pub(super) fn mix(&self) -> &Mix {
        &self.mix
    }

    pub(super) fn begin(&self) -> Instant {
        self.begin
    }

    pub(super) fn end(&self) -> Instant {
        self.end
    }

    /// Returns the length of the run unless it is ended early.
    pub(super) fn duration(&self) -> Duration {
        self.end - self.begin
    }

    /// Ends the stage early.
    pub(super) fn stop(&self) {
        // Relaxed: a flag that is looked at again and again.
        self.is_over.store(true, Ordering::Relaxed);
    }

    fn is_over_at(&self, now: Instant) -> bool {
        // Relaxed: as above.
        now >= self.end || self.is_over.load(Ordering::Relaxed)
    }

    /// Returns the notes so far, which are complete when all tasks have ended.
    pub(super) fn notes(&self) -> Notes {
        self.open().clone()
    }

    fn open(&self) -> std::sync::MutexGuard<'_, Notes> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the tasks of the mix, and the channels for the requests to its servers.
    pub(super) fn jobs(&self) -> (Vec<Job>, Vec<Sender<Instant>>) {
        let weights = self.mix.weights();
        let mut jobs: Vec<Job> = weights
            .into_iter()
            .enumerate()
            .map(|(place, weight)| Job {
                weight,
                kind: JobKind::Hog { place },
            })
            .collect();
        let mut doors = Vec::new();
        for _ in 0..self.mix.servers.count {
            let (door, requests) = async_channel::unbounded();
            doors.push(door);
            jobs.push(Job {
                weight: self.mix.servers.weight,
                kind: JobKind::Server { requests },
            });
        }
        let Periodic {
            count,
            weight,
            period,
            ..
        } = self.mix.periodic;
        for place in 0..count {
            // Spread over the period, or they would wait for each other.
            let phase = period.mul_f64(place as f64 / count as f64);
            jobs.push(Job {
                weight,
                kind: JobKind::Periodic { phase },
            });
        }
        (jobs, doors)
    }

    /// Computes in chunks, with a checkpoint after each.
    async fn hog<R: Runtime>(&self, place: usize) {
        let mut got = Hog::default();
        loop {
            let from = Instant::now();
            if self.is_over_at(from) {
                break;
            }
            let used = processor_time(ClockId::ThreadCPUTime);
            self.work.compute(self.mix.chunk);
            let used = processor_time(ClockId::ThreadCPUTime).saturating_sub(used);
            let to = Instant::now();
            if let Some(time) = self.inside(from, to) {
                got.longest = got.longest.max(time);
                // What the machine did for others meanwhile is not what the runtime gave to the task.
                let time = time.min(used);
                got.time += time;
                got.chunks += 1;
                let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
                // Relaxed: a sum that is compared with what one task got; a chunk more or less is no difference.
                let total = self.total.fetch_add(nanos, Ordering::Relaxed) + nanos;
                let lag = self.entitled[place] * total as f64 - got.time.as_nanos() as f64;
                got.lag = got.lag.max(lag.abs());
            }
            R::checkpoint().await;
        }
        self.open().hogs[place] = Some(got);
    }

    /// Returns the part of a time that lies in the stage.
    fn inside(&self, from: Instant, to: Instant) -> Option<Duration> {
        let (from, to) = (from.max(self.begin), to.min(self.end));
        to.checked_duration_since(from)
            .filter(|time| !time.is_zero())
    }

    /// Waits for requests, and computes for each.
    async fn server<R: Runtime>(&self, requests: &Receiver<Instant>) {
        let mut late = ready();
        let mut busy = Duration::ZERO;
        // Until the other end is closed. Those that are left then were late all the more.
        while let Ok(sent) = requests.recv().await {
            let now = Instant::now();
            if sent >= self.begin {
                histogram::record(&mut late, now.saturating_duration_since(sent));
            }
            if !self.is_over_at(now) {
                self.work.compute(self.mix.servers.cost);
                if self.inside(now, Instant::now()).is_some() {
                    busy += self.mix.servers.cost;
                }
                R::checkpoint().await;
            }
        }
        let mut notes = self.open();
        notes.servers += late;
        notes.sleepers += busy;
    }

    /// Waits for a time, again and again. Missed ticks are made up for, and each tick is late by its own time.
    async fn periodic<R: Runtime>(&self, phase: Duration) {
        let mut late = ready();
        let mut early = 0;
        let mut busy = Duration::ZERO;
        // From the beginning on, or those before it would have to be made up for.
        let mut deadline = self.begin + phase;
        while deadline < self.end {
            if Instant::now() < deadline {
                R::sleep_until(deadline).await;
            }
            let now = Instant::now();
            match now.checked_duration_since(deadline) {
                Some(time) => histogram::record(&mut late, time),
                None => early += 1,
            }
            if self.is_over.load(Ordering::Relaxed) {
                break;
            }
            if now < self.end {
                self.work.compute(self.mix.periodic.cost);
                if self.inside(now, Instant::now()).is_some() {
                    busy += self.mix.periodic.cost;
                }
                R::checkpoint().await;
            }
            deadline += self.mix.periodic.period;
        }
        let mut notes = self.open();
        notes.periodic += late;
        notes.early += early;
        notes.sleepers += busy;
    }

    /// Sends requests at random times until the stage is over, and then closes the channels.
    pub(super) fn send_requests(&self, doors: &[Sender<Instant>], seed: u64) {
        let mut random = Rng::with_seed(seed);
        let rate = f64::from(self.mix.servers.rate) * doors.len() as f64;
        if doors.is_empty() || rate <= 0.0 {
            return;
        }
        let mut next = Instant::now();
        let mut turn = 0;
        while next < self.end {
            // Times between independent events.
            let wait = -(1.0 - random.f64()).ln() / rate;
            next += Duration::from_secs_f64(wait);
            // In pieces, so that the end is noticed.
            while let Some(left) = next.checked_duration_since(Instant::now()) {
                if self.is_over_at(Instant::now()) {
                    break;
                }
                thread::sleep(left.min(Duration::from_millis(20)));
            }
            if self.is_over_at(Instant::now()) {
                break;
            }
            // Closed only if the runtime broke down.
            let _taken = doors[turn].try_send(Instant::now());
            turn = (turn + 1) % doors.len();
        }
        for door in doors {
            door.close();
        }
    }
}

/// Returns a histogram whose memory was touched already. The first touch of memory can take milliseconds, and the time
/// would be charged to the task that touches it.
fn ready() -> Histogram<u64> {
    let mut histogram = histogram::new();
    // Writes all of it.
    histogram.reset();
    histogram
}

/// The speed of the machine, by which a time becomes an amount of computing.
#[derive(Clone, Copy, Debug)]
pub(super) struct Work {
    steps_per_micro: f64,
}

impl Work {
    /// Measures the speed of the undisturbed machine: the best of some trials.
    pub(super) fn calibrate() -> Self {
        const STEPS: u64 = 10_000;
        const TRIALS: u32 = 1_000;
        let trial = || {
            let start = Instant::now();
            steps(STEPS);
            start.elapsed()
        };
        let best = (0..TRIALS).map(|_| trial()).min();
        let micros = best.map_or(1.0, |best| best.as_secs_f64() * 1e6);
        Self {
            steps_per_micro: STEPS as f64 / micros.max(1e-3),
        }
    }

    /// Computes for about `time`, however often it is interrupted.
    fn compute(self, time: Duration) {
        let count = self.steps_per_micro * time.as_secs_f64() * 1e6;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a count of steps, far below the largest integer"
        )]
        steps(count as u64);
    }
}

/// Executes steps that depend on each other, so that they take the same time whatever else the processor does.
fn steps(count: u64) {
    let mut value = black_box(1_u64);
    for step in 0..count {
        value = (value ^ step).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }
    black_box(value);
}
