//! The threads that spin and count gaps.

use std::hint::black_box;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use tickless::Worker;
use tickless::hrtimer::{HrTimer, Restart, Span, Start};

use super::arguments::{Plan, Workload};
use super::counter::{self, Counter};
use super::gaps::{Gaps, Rate};
use crate::crew;
use crate::failure::Failure;
use crate::scheduling::{self, Policy};
use crate::tracing::Tracing;

/// The time for which the worker uses a thread before the bare loop does.
const SLICE: Duration = Duration::from_millis(100);

/// The value for a thread that executed no turn, in place of its shortest turn.
const NO_TURN: u64 = u64::MAX;

/// The work of a thread's worker in the measured time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Work {
    /// Turns that the worker took because a timer was due.
    pub(super) turns: u64,
    /// Timers that fired in these turns.
    pub(super) fired: u64,
    /// The number of times that another thread unparked the worker.
    pub(super) unparks: u64,
}

/// The measurements of a thread.
#[derive(Debug)]
pub(super) struct Measured {
    pub(super) cpu: u32,
    pub(super) gaps: Gaps,
    pub(super) work: Work,
    /// The gaps of the same loop without the worker.
    pub(super) bare: Option<Gaps>,
}

/// A gap above the limit of `-T`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Break {
    pub(super) cpu: u32,
    pub(super) micros: u64,
    /// True if the kernel's tracing was stopped.
    pub(super) trace_stopped: bool,
}

/// The signals between the threads and the run. The value is the bias in microseconds, sent after all threads have
/// preheated.
type Signals = crew::Signals<u64, Break>;

/// All measuring threads.
pub(super) struct Crew {
    signals: Arc<Signals>,
    /// The longest gap so far, in microseconds.
    longest: Arc<AtomicU64>,
    threads: Vec<JoinHandle<Option<Measured>>>,
    /// The channel on which threads report that they are ready, and later their shortest turn in counts.
    said: mpsc::Receiver<Result<u64, Failure>>,
    barrier: Arc<Barrier>,
    /// The shortest turn of each thread that has preheated.
    shortest: Vec<u64>,
}

impl Crew {
    /// Starts the threads, and lets them preheat when all are on their CPUs.
    pub(super) fn start(
        plan: &Arc<Plan>,
        counter: &Counter,
        tracing: &Arc<Tracing>,
    ) -> Result<Self, Failure> {
        let (say, said) = mpsc::channel();
        let mut crew = Self {
            signals: Arc::default(),
            longest: Arc::default(),
            threads: Vec::new(),
            said,
            barrier: Arc::new(Barrier::new(plan.threads() + 1)),
            shortest: Vec::new(),
        };
        for (number, cpu) in plan.cpus.iter().enumerate() {
            let measuring = Measuring {
                plan: Arc::clone(plan),
                cpu,
                preheats: number == 0 || !plan.single_preheat,
                rate: counter.rate(),
                signals: Arc::clone(&crew.signals),
                longest: Arc::clone(&crew.longest),
                tracing: Arc::clone(tracing),
                say: say.clone(),
                barrier: Arc::clone(&crew.barrier),
            };
            let counter = counter.clone();
            let start = Instant::now();
            let thread = thread::Builder::new().name(format!("noise-{cpu}"));
            let thread = thread.spawn(move || match counter {
                Counter::TimeStamps(_) => measuring.run(tickless::clock::cycles),
                Counter::KernelClock(_) => {
                    let nanos = || u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
                    measuring.run(nanos)
                }
            });
            // Without all threads none passes the barrier: those that wait there end with the process.
            crew.threads.push(thread.map_err(crew::not_started)?);
        }
        // All of them, or those that are left behind would be heard when they have preheated.
        let placed: Vec<_> = crew.said.iter().take(crew.threads.len()).collect();
        let placed: Result<Vec<u64>, Failure> = placed.into_iter().collect();
        if placed.is_err() {
            crew.end();
        }
        crew.barrier.wait();
        placed.map(|_| crew)
    }

    /// Returns true if all threads have preheated.
    pub(super) fn is_preheated(&mut self) -> bool {
        self.shortest.extend(self.said.try_iter().flatten());
        self.shortest.len() == self.threads.len()
    }

    /// Returns the shortest turn during preheating, in counts, if one was measured.
    pub(super) fn shortest(&self) -> Option<u64> {
        let shortest = self.shortest.iter().copied().min();
        shortest.filter(|counts| *counts != NO_TURN)
    }

    /// Lets the threads begin to measure.
    pub(super) fn measure(&self, bias: u64) {
        let _set_once = self.signals.told.set(bias);
        self.barrier.wait();
    }

    pub(super) fn is_over(&self) -> bool {
        self.threads.iter().all(JoinHandle::is_finished)
    }

    pub(super) fn end(&self) {
        self.signals.end();
    }

    /// Returns the longest gap so far, in microseconds.
    pub(super) fn longest(&self) -> u64 {
        // Relaxed: a figure for people.
        self.longest.load(Ordering::Relaxed)
    }

    /// Waits for all threads.
    pub(super) fn finish(self) -> Result<(Vec<Measured>, Option<Break>), Failure> {
        let measured = self.threads.into_iter().map(|thread| {
            let measured = crew::join(thread)?;
            measured.ok_or_else(crew::broke_down)
        });
        let measured = measured.collect::<Result<Vec<_>, _>>()?;
        Ok((measured, self.signals.broken()))
    }
}

/// The work of one thread.
struct Measuring {
    plan: Arc<Plan>,
    cpu: u32,
    preheats: bool,
    rate: Rate,
    signals: Arc<Signals>,
    longest: Arc<AtomicU64>,
    tracing: Arc<Tracing>,
    say: mpsc::Sender<Result<u64, Failure>>,
    barrier: Arc<Barrier>,
}

impl Measuring {
    fn run(&self, read: impl Fn() -> u64) -> Option<Measured> {
        // The thread that started this one waits for the answers.
        let say = |answer| {
            let _heard = self.say.send(answer);
            self.barrier.wait();
        };
        let (worker, mut copy) = match self.prepare() {
            Ok(prepared) => prepared,
            Err(failure) => {
                say(Err(failure));
                return None;
            }
        };
        say(Ok(0));
        let shortest = if self.preheats {
            let mut gaps = Gaps::new(self.rate, 1, 0);
            let mut work = Work::default();
            let end = self.end_of(read(), self.plan.preheat);
            let turn = || {
                copy.once();
                poll(&worker, &mut work);
            };
            self.spin(&read, &mut gaps, end, None, turn);
            gaps.min().unwrap_or(NO_TURN)
        } else {
            NO_TURN
        };
        say(Ok(shortest));
        Some(self.measure(read, &worker, &mut copy))
    }

    /// Moves the thread to its CPU, and makes its worker and its workload there.
    fn prepare(&self) -> Result<(Worker, Copy), Failure> {
        scheduling::pin(self.cpu, "-c")?;
        if let Some(priority) = self.plan.priority {
            scheduling::set_priority(Policy::Fifo, priority, "-f")?;
        }
        let copy = match self.plan.workload {
            Workload::No => Copy::default(),
            Workload::Memmove => Copy::new(self.plan.memory)?,
        };
        Ok((counter::worker()?, copy))
    }

    fn measure(&self, read: impl Fn() -> u64, worker: &Worker, copy: &mut Copy) -> Measured {
        let bias = *self.signals.told.get().unwrap_or(&0);
        let mut gaps = Gaps::new(self.rate, self.plan.buckets, bias);
        let mut bare = self.plan.against_bare.then(|| gaps.clone());
        let mut work = Work::default();
        let _ticks_as_long_as_it_lives = self.plan.tick.map(tick);
        let end = self.end_of(read(), self.plan.duration);
        let limit = Some(self.plan.threshold.unwrap_or(u64::MAX));
        loop {
            let start = read();
            let slice = match bare {
                Some(_) => end.min(self.end_of(start, SLICE)),
                None => end,
            };
            let turn = || {
                copy.once();
                poll(worker, &mut work);
            };
            self.spin(&read, &mut gaps, slice, limit, turn);
            if let Some(bare) = &mut bare {
                // As long as the worker's, even if the thread lost its CPU meanwhile until the end of the run.
                let length = slice.saturating_sub(start);
                let slice = read().saturating_add(length);
                self.spin(&read, bare, slice, None, || copy.once());
            }
            if self.signals.is_over() || read() >= end {
                break;
            }
        }
        Measured {
            cpu: self.cpu,
            gaps,
            work,
            bare,
        }
    }

    fn end_of(&self, start: u64, time: Duration) -> u64 {
        start.saturating_add(self.rate.counts(time))
    }

    /// Counts the length of each turn until the counter is at `end`, for one turn at least. With a limit, in
    /// microseconds, the longest turn is published and compared with the limit. Threads end by themselves: with a
    /// real-time priority they may keep the CPU from the thread that would signal the end.
    #[inline]
    fn spin(
        &self,
        read: &impl Fn() -> u64,
        gaps: &mut Gaps,
        end: u64,
        limit: Option<u64>,
        mut turn: impl FnMut(),
    ) {
        let mut longest = 0;
        let mut last = read();
        loop {
            turn();
            let now = read();
            // Two readings may seem reordered by some cycles.
            let gap = gaps.note(now.saturating_sub(last));
            last = now;
            if let (Some(micros), Some(limit)) = (gap, limit)
                && micros > longest
            {
                longest = micros;
                self.note_longest(micros, limit);
            }
            if last >= end || self.signals.is_over() {
                break;
            }
        }
    }

    #[cold]
    fn note_longest(&self, micros: u64, limit: u64) {
        // Relaxed: a figure for people.
        self.longest.fetch_max(micros, Ordering::Relaxed);
        if micros <= limit {
            return;
        }
        self.signals.end_with(|| Break {
            cpu: self.cpu,
            micros,
            trace_stopped: self.tracing.stop(&format!(
                "tickless noise: {micros} us on CPU {} (limit {limit} us)\n",
                self.cpu
            )),
        });
    }
}

/// Executes the worker's part of a turn.
#[inline]
fn poll(worker: &Worker, work: &mut Work) {
    if worker.is_due() {
        let turn = worker.turn();
        work.turns += 1;
        work.fired += u64::from(turn.fired);
    }
    if worker.was_unparked() {
        work.unparks += 1;
    }
}

/// Makes a periodic timer on the worker of the calling thread, which fires until it is dropped.
fn tick(period: Duration) -> Pin<Box<impl Sized>> {
    let period = Span::from_nanos(u64::try_from(period.as_nanos()).unwrap_or(u64::MAX));
    let timer = Box::pin(HrTimer::new(move |expired| {
        let _periods = expired.forward_now(period);
        Restart::Yes
    }));
    let _ = timer.as_ref().start(Start::after(period));
    timer
}

/// The workload: memory that is copied.
#[derive(Debug, Default)]
struct Copy {
    from: Vec<u8>,
    to: Vec<u8>,
}

impl Copy {
    /// Makes a workload whose buffers are resident in memory.
    fn new(bytes: usize) -> Result<Self, Failure> {
        let buffer = || {
            let mut buffer = Vec::new();
            let room = buffer.try_reserve_exact(bytes);
            room.map_err(|_| {
                Failure::Machine(format!(
                    "there is no memory for {bytes} bytes (-m); use less"
                ))
            })?;
            buffer.resize(bytes, 1);
            Ok(buffer)
        };
        Ok(Self {
            from: buffer()?,
            to: buffer()?,
        })
    }

    #[inline]
    fn once(&mut self) {
        if !self.from.is_empty() {
            self.to.copy_from_slice(&self.from);
            black_box(&mut self.to);
        }
    }
}
