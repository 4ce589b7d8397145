//! The threads that measure the lateness of their timers.

use std::sync::{Arc, Barrier, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use rustix::time::{ClockId, clock_gettime};

use super::arguments::{Align, Placement, Plan};
use super::counts::Counts;
use super::spikes::Spikes;
use super::subject::{Subject, Wait};
use super::{Break, setting};
use crate::crew;
use crate::failure::Failure;
use crate::histogram;
use crate::tracing::Tracing;

/// The time for which one subject uses a thread before the next subject does.
const SLICE: Duration = Duration::from_millis(100);

/// One thread's figures of one subject.
#[derive(Debug)]
pub(super) struct Figures {
    pub(super) subject: Subject,
    pub(super) counts: Arc<Counts>,
    pub(super) histogram: Histogram<u64>,
    /// The spikes to list, if the user asked for them.
    pub(super) spikes: Option<Spikes>,
}

/// One latency, as `-v` prints it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sample {
    pub(super) thread: usize,
    pub(super) cycle: u64,
    pub(super) late: Duration,
}

/// The measurements of a thread.
#[derive(Debug)]
pub(super) struct Measured {
    pub(super) placement: Placement,
    pub(super) thread_id: i32,
    /// The CPU on which the thread ran at the end.
    pub(super) cpu: usize,
    pub(super) figures: Vec<Figures>,
}

/// The signals of the threads, which receive the instant at which all of them begin.
type Signals = crew::Signals<Instant, Break>;

/// All measuring threads.
pub(super) struct Crew {
    signals: Arc<Signals>,
    threads: Vec<JoinHandle<Result<Measured, Failure>>>,
    counts: Vec<(i32, Placement, Arc<Counts>)>,
    samples: mpsc::Receiver<Sample>,
}

/// The number of samples that may wait to be printed; further samples are dropped.
const SAMPLES: usize = 1 << 16;

impl Crew {
    /// Starts the threads, and lets them begin together when all are on their CPUs.
    pub(super) fn start(plan: &Plan, tracing: Option<&Arc<Tracing>>) -> Result<Self, Failure> {
        let signals = Arc::new(Signals::default());
        let (ready, answers) = mpsc::channel();
        let (tell, samples) = mpsc::sync_channel(if plan.verbose.is_some() { SAMPLES } else { 0 });
        let start = Arc::new(Barrier::new(plan.threads.len() + 1));
        let mut threads = Vec::new();
        let mut counts = Vec::new();
        for (number, &placement) in plan.threads.iter().enumerate() {
            let figures = plan.subjects.iter().map(|&subject| Figures {
                subject,
                counts: Arc::new(Counts::new(plan.buckets)),
                histogram: histogram::new(),
                spikes: plan.spikes.map(Spikes::new),
            });
            let mut measuring = Measuring {
                plan: plan.clone(),
                placement,
                number,
                signals: Arc::clone(&signals),
                tracing: tracing.cloned(),
                tell: plan.verbose.is_some().then(|| tell.clone()),
                figures: figures.collect(),
            };
            counts.push((0, placement, Arc::clone(&measuring.figures[0].counts)));
            let (ready, start) = (ready.clone(), Arc::clone(&start));
            let thread = thread::Builder::new()
                .name(format!("latency-{number}"))
                .spawn(move || {
                    let id = rustix::thread::gettid().as_raw_nonzero().get();
                    let placed = setting::apply(measuring.plan.policy, &placement);
                    // The thread that started this one waits for the answer.
                    let _heard = ready.send(placed.map(|()| (number, id)));
                    start.wait();
                    measuring.run().map(|()| measuring.measured(id))
                });
            // Without all threads none passes the barrier: those that wait there end with the process.
            threads.push(thread.map_err(crew::not_started)?);
        }
        let answers: Vec<_> = answers.iter().take(threads.len()).collect();
        let placed: Result<Vec<_>, Failure> = answers.into_iter().collect();
        if placed.is_err() {
            signals.end();
        }
        // The first and the only time.
        let _set = signals.told.set(first_instant(plan.align));
        start.wait();
        for (number, id) in placed? {
            counts[number].0 = id;
        }
        Ok(Self {
            signals,
            threads,
            counts,
            samples,
        })
    }

    /// Returns the figures of the first subject, thread by thread, with the number by which the kernel knows the
    /// thread.
    pub(super) fn counts(&self) -> &[(i32, Placement, Arc<Counts>)] {
        &self.counts
    }

    /// Returns the samples since the last call, for `-v`.
    pub(super) fn samples(&self) -> impl Iterator<Item = Sample> {
        self.samples.try_iter()
    }

    pub(super) fn is_over(&self) -> bool {
        self.signals.is_over() || self.threads.iter().all(JoinHandle::is_finished)
    }

    pub(super) fn end(&self) {
        self.signals.end();
    }

    /// Waits for all threads.
    pub(super) fn finish(self) -> Result<(Vec<Measured>, Option<Break>), Failure> {
        let measured = self.threads.into_iter().map(|thread| crew::join(thread)?);
        let measured = measured.collect::<Result<Vec<_>, _>>()?;
        Ok((measured, self.signals.broken()))
    }
}

/// The work of one thread.
struct Measuring {
    plan: Plan,
    placement: Placement,
    number: usize,
    signals: Arc<Signals>,
    tracing: Option<Arc<Tracing>>,
    tell: Option<mpsc::SyncSender<Sample>>,
    figures: Vec<Figures>,
}

impl Measuring {
    /// Lets the subjects take turns until the run is over.
    fn run(&mut self) -> Result<(), Failure> {
        let turn = if self.plan.subjects.len() == 1 {
            Duration::MAX
        } else {
            SLICE
        };
        while !self.signals.is_over() {
            for place in 0..self.figures.len() {
                let subject = self.figures[place].subject;
                subject.with(&mut |wait| self.turn(place, turn, wait))?;
            }
            // All subjects have had their turn: the same number of loops, give or take a slice.
            if self.loops_are_done() {
                self.signals.end();
            }
        }
        Ok(())
    }

    fn loops_are_done(&self) -> bool {
        let done = |figures: &Figures| Some(figures.counts.snapshot().cycles) >= self.plan.loops;
        self.plan.loops.is_some() && self.figures.iter().all(done)
    }

    /// Executes one subject's turn.
    fn turn(&mut self, place: usize, length: Duration, wait: &mut Wait<'_>) {
        let interval = self.placement.interval;
        let begun = Instant::now();
        let mut due = self.first_deadline(begun);
        let cycles = self.figures[place].counts.snapshot().cycles;
        let mut left = self
            .plan
            .loops
            .map_or(u64::MAX, |loops| loops.saturating_sub(cycles));
        while left > 0 && !self.signals.is_over() && begun.elapsed() < length {
            wait(due);
            let now = Instant::now();
            match now.checked_duration_since(due) {
                Some(late) => self.note(place, late),
                None => self.figures[place].counts.note_early(),
            }
            left -= 1;
            due = next(due, now, interval, self.plan.relative);
        }
    }

    /// Returns the first deadline of a turn: an interval from now, or the next deadline of the common grid of the
    /// threads.
    fn first_deadline(&self, begun: Instant) -> Instant {
        let interval = self.placement.interval;
        match (self.plan.align, self.signals.told.get()) {
            (Some(align), Some(start)) => {
                let offset = align.offset * u32::try_from(self.number).unwrap_or(u32::MAX);
                next(*start + offset, begun, interval, false)
            }
            _ => begun + interval,
        }
    }

    fn note(&mut self, place: usize, late: Duration) {
        let figures = &mut self.figures[place];
        if let Some(tell) = self.tell.as_ref().filter(|_| place == 0) {
            // Never waits: a sample that there is no room for is left out.
            let _full = tell.try_send(Sample {
                thread: self.number,
                cycle: figures.counts.snapshot().cycles,
                late,
            });
        }
        figures.counts.note(late);
        histogram::record(&mut figures.histogram, late);
        if let Some(spikes) = &mut figures.spikes {
            spikes.note(late, || clock_gettime(ClockId::Monotonic));
        }
        if self.plan.limit.is_some_and(|limit| late > limit) {
            self.stop(late);
        }
    }

    /// Ends the run because of the latency `late`.
    #[cold]
    fn stop(&self, late: Duration) {
        let thread_id = rustix::thread::gettid().as_raw_nonzero().get();
        self.signals.end_with(|| {
            if let Some(tracing) = &self.tracing {
                let micros = late.as_micros();
                let limit = self.plan.limit.unwrap_or_default().as_micros();
                let mark = format!("hit latency threshold ({micros} > {limit})\n");
                // Whether there is a trace was said at the beginning.
                let _done = tracing.stop(&mark);
            }
            Break { thread_id, late }
        });
    }

    fn measured(self, thread_id: i32) -> Measured {
        Measured {
            placement: self.placement,
            thread_id,
            cpu: rustix::thread::sched_getcpu(),
            figures: self.figures,
        }
    }
}

/// Returns the beginning of the threads: now, or the next full second of the clock.
fn first_instant(align: Option<Align>) -> Instant {
    // The clock first: a preemption in between makes the threads late by as much, and nothing wrong.
    let clock = clock_gettime(ClockId::Monotonic);
    let now = Instant::now();
    if !align.is_some_and(|align| align.to_second) {
        return now;
    }
    let nanos = u32::try_from(clock.tv_nsec).unwrap_or(0);
    now + (Duration::from_secs(1) - Duration::from_nanos(nanos.into()))
}

/// Returns the deadline after `due`, seen at `now`. Deadlines that have passed are skipped, as in cyclictest.
fn next(due: Instant, now: Instant, interval: Duration, relative: bool) -> Instant {
    if relative {
        return now + interval;
    }
    let mut next = due + interval;
    if let Some(behind) = now.checked_duration_since(next) {
        let missed = behind.as_nanos() / interval.as_nanos() + 1;
        next += interval * u32::try_from(missed).unwrap_or(u32::MAX);
    }
    next
}

#[cfg(test)]
mod tests {
    use super::next;
    use std::time::{Duration, Instant};

    #[test]
    fn deadlines_are_multiples_of_the_interval_and_ahead() {
        let start = Instant::now();
        let at = |micros| start + Duration::from_micros(micros);
        let interval = Duration::from_micros(100);
        for (due, now, expected) in [
            (100, 101, 200),
            (100, 199, 200),
            (100, 200, 300),
            (100, 1_050, 1_100),
        ] {
            assert_eq!(next(at(due), at(now), interval, false), at(expected));
        }
        assert_eq!(next(at(100), at(150), interval, true), at(250));
    }
}
