//! The threads that measure.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier, Mutex, PoisonError, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use super::arguments::{Plan, Seat};
use super::counts::Counts;
use super::subject::{Subject, Wait};
use super::{Break, Shared, setting};
use crate::failure::Failure;
use crate::histogram;

/// How long one subject has a thread before the next one's turn.
const SLICE: Duration = Duration::from_millis(100);

/// One thread's figures of one subject.
#[derive(Debug)]
pub(super) struct Figures {
    pub(super) subject: Subject,
    pub(super) counts: Shared<Counts>,
    pub(super) histogram: Histogram<u64>,
}

/// What a thread measured.
#[derive(Debug)]
pub(super) struct Measured {
    pub(super) seat: Seat,
    pub(super) thread_id: i32,
    /// The CPU that it ran on at the end.
    pub(super) cpu: usize,
    pub(super) figures: Vec<Figures>,
}

/// What threads and the run tell each other.
#[derive(Debug, Default)]
struct Signals {
    over: AtomicBool,
    broken: Mutex<Option<Break>>,
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
    counts: Vec<(i32, Seat, Shared<Counts>)>,
}

impl Crew {
    /// Starts them, and lets them begin together when all are where they belong.
    pub(super) fn start(plan: &Plan) -> Result<Self, Failure> {
        let signals = Arc::new(Signals::default());
        let (ready, answers) = mpsc::channel();
        let start = Arc::new(Barrier::new(plan.threads.len() + 1));
        let mut threads = Vec::new();
        let mut counts = Vec::new();
        for (number, &seat) in plan.threads.iter().enumerate() {
            let figures = plan.subjects.iter().map(|&subject| Figures {
                subject,
                counts: Arc::new(Counts::new(plan.buckets)),
                histogram: histogram::new(),
            });
            let mut measuring = Measuring {
                plan: plan.clone(),
                seat,
                signals: Arc::clone(&signals),
                figures: figures.collect(),
            };
            counts.push((0, seat, Arc::clone(&measuring.figures[0].counts)));
            let (ready, start) = (ready.clone(), Arc::clone(&start));
            let thread = thread::Builder::new()
                .name(format!("latency-{number}"))
                .spawn(move || {
                    let id = rustix::thread::gettid().as_raw_nonzero().get();
                    let placed = setting::apply(measuring.plan.policy, &seat);
                    // Whoever started this thread waits for the answer.
                    let _heard = ready.send(placed.map(|()| (number, id)));
                    start.wait();
                    measuring.run().map(|()| measuring.measured(id))
                });
            // Without all threads nobody passes the barrier: those that wait there end with the process.
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

    /// The figures of the first subject, thread by thread, with the number that the kernel knows the thread by.
    pub(super) fn counts(&self) -> &[(i32, Seat, Shared<Counts>)] {
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
        let measured = self.threads.into_iter().map(|thread| {
            let broke_down = |_| Err(Failure::Machine("a measuring thread broke down".to_owned()));
            thread.join().unwrap_or_else(broke_down)
        });
        let measured = measured.collect::<Result<Vec<_>, _>>()?;
        let broken = self.signals.broken.lock();
        let broken = *broken.unwrap_or_else(PoisonError::into_inner);
        Ok((measured, broken))
    }
}

/// The work of one thread.
struct Measuring {
    plan: Plan,
    seat: Seat,
    signals: Arc<Signals>,
    figures: Vec<Figures>,
}

impl Measuring {
    /// Lets subjects take turns until the run is over.
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

    /// One subject's turn.
    fn turn(&mut self, place: usize, length: Duration, wait: &mut Wait<'_>) {
        let interval = self.seat.interval;
        let figures = &mut self.figures[place];
        let begun = Instant::now();
        let mut due = begun + interval;
        let mut left = self.plan.loops.map_or(u64::MAX, |loops| {
            loops.saturating_sub(figures.counts.snapshot().cycles)
        });
        while left > 0 && !self.signals.is_over() && begun.elapsed() < length {
            wait(due);
            let now = Instant::now();
            match now.checked_duration_since(due) {
                Some(late) => {
                    figures.counts.note(late);
                    histogram::record(&mut figures.histogram, late);
                    if self.plan.limit.is_some_and(|limit| late > limit) {
                        self.signals.end();
                        let broken = self.signals.broken.lock();
                        let broken = &mut *broken.unwrap_or_else(PoisonError::into_inner);
                        let thread_id = rustix::thread::gettid().as_raw_nonzero().get();
                        broken.get_or_insert(Break { thread_id, late });
                    }
                }
                None => figures.counts.note_early(),
            }
            left -= 1;
            due = next(due, now, interval, self.plan.relative);
        }
    }

    fn measured(self, thread_id: i32) -> Measured {
        Measured {
            seat: self.seat,
            thread_id,
            cpu: rustix::thread::sched_getcpu(),
            figures: self.figures,
        }
    }
}

/// The deadline after `due`, seen at `now`. Those that have passed already are left out, as cyclictest does.
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
