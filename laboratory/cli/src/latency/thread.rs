//! The threads that measure the lateness of their timers.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier, OnceLock, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime};

use hdrhistogram::Histogram;

use super::arguments::{Placement, Plan};
use super::counts::Counts;
use super::setting;
use super::subject::{Subject, Wait};
use crate::failure::Failure;
use crate::histogram;

/// The time for which one subject uses a thread before the next subject does.
const SLICE: Duration = Duration::from_millis(100);

#[derive(Debug)]
pub(super) struct Figures {
    pub(super) subject: Subject,
    pub(super) counts: Arc<Counts>,
    pub(super) histogram: Histogram<u64>,
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

/// A finished run: its plan and its figures.
pub(super) struct Finished<'r> {
    pub(super) plan: &'r Plan,
    pub(super) began: SystemTime,
    pub(super) threads: Vec<Measured>,
    /// The thread that found a latency above the limit of `-b`.
    pub(super) broken: Option<Break>,
}

/// A latency above the limit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Break {
    pub(super) thread_id: i32,
    pub(super) late: Duration,
}

impl Finished<'_> {
    /// Returns the number of times that a timer of this library fired early.
    pub(super) fn early(&self) -> u64 {
        let counts = self.threads.iter().flat_map(|thread| &thread.figures);
        let ours = counts.filter(|figures| figures.subject.is_ours());
        ours.map(|figures| figures.counts.early()).sum()
    }
}

/// The signals between a run and its threads: the end, and the cause of an early one.
#[derive(Debug, Default)]
struct Signals {
    over: AtomicBool,
    broken: OnceLock<Break>,
}

impl Signals {
    fn end(&self) {
        // Relaxed: a flag that is looked at again and again.
        self.over.store(true, Ordering::Relaxed);
    }

    fn is_over(&self) -> bool {
        // Relaxed: as above.
        self.over.load(Ordering::Relaxed)
    }
}

/// All measuring threads.
pub(super) struct Crew {
    signals: Arc<Signals>,
    threads: Vec<JoinHandle<Result<Measured, Failure>>>,
    counts: Vec<(i32, Placement, Arc<Counts>)>,
}

impl Crew {
    /// Starts the threads, and lets them begin together when all are on their CPUs.
    pub(super) fn start(plan: &Plan) -> Result<Self, Failure> {
        let signals = Arc::new(Signals::default());
        let (ready, answers) = mpsc::channel();
        let start = Arc::new(Barrier::new(plan.threads.len() + 1));
        let mut threads = Vec::new();
        let mut counts = Vec::new();
        for (number, &placement) in plan.threads.iter().enumerate() {
            let figures = plan.subjects.iter().map(|&subject| Figures {
                subject,
                counts: Arc::new(Counts::new(plan.buckets)),
                histogram: histogram::new(),
            });
            let mut measuring = Measuring {
                plan: plan.clone(),
                placement,
                signals: Arc::clone(&signals),
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
            threads
                .push(thread.map_err(|error| {
                    Failure::Machine(format!("cannot start a thread: {error}"))
                })?);
        }
        let answers: Vec<_> = answers.iter().take(threads.len()).collect();
        let placed: Result<Vec<_>, Failure> = answers.into_iter().collect();
        if placed.is_err() {
            signals.end();
        }
        start.wait();
        for (number, id) in placed? {
            counts[number].0 = id;
        }
        Ok(Self {
            signals,
            threads,
            counts,
        })
    }

    /// Returns the figures of the first subject, thread by thread, with the number by which the kernel knows the
    /// thread.
    pub(super) fn counts(&self) -> &[(i32, Placement, Arc<Counts>)] {
        &self.counts
    }

    pub(super) fn is_over(&self) -> bool {
        self.signals.is_over() || self.threads.iter().all(JoinHandle::is_finished)
    }

    pub(super) fn end(&self) {
        self.signals.end();
    }

    /// Waits for all threads.
    pub(super) fn finish(self) -> Result<(Vec<Measured>, Option<Break>), Failure> {
        let broke_down = |_| Failure::Machine("a measuring thread broke down".to_owned());
        let threads = self.threads.into_iter();
        let measured = threads.map(|thread| thread.join().map_err(broke_down)?);
        let measured = measured.collect::<Result<Vec<_>, _>>()?;
        Ok((measured, self.signals.broken.get().copied()))
    }
}

/// The work of one thread.
struct Measuring {
    plan: Plan,
    placement: Placement,
    signals: Arc<Signals>,
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
        let mut due = begun + interval;
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
            due = next(due, now, interval);
        }
    }

    fn note(&mut self, place: usize, late: Duration) {
        let figures = &mut self.figures[place];
        figures.counts.note(late);
        histogram::record(&mut figures.histogram, late);
        if self.plan.limit.is_some_and(|limit| late > limit) {
            self.stop(late);
        }
    }

    /// Ends the run because of the latency `late`.
    #[cold]
    fn stop(&self, late: Duration) {
        let thread_id = rustix::thread::gettid().as_raw_nonzero().get();
        self.signals.end();
        // The first of the threads that end the run gives the cause.
        let _is_first = self.signals.broken.set(Break { thread_id, late });
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

/// Returns the deadline after `due`, seen at `now`. Deadlines that have passed are skipped, as in cyclictest.
fn next(due: Instant, now: Instant, interval: Duration) -> Instant {
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
            assert_eq!(next(at(due), at(now), interval), at(expected));
        }
    }
}
