//! The measurements of a clock source: cost, resolution, drift, and the skew between CPUs.

use std::hint::black_box;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use tickless::internals::sources::{KernelClock, agreement, read_out};
use tickless::topology::CpuSet;
use tickless_core::clock::watchdog::{CounterVerdict, Doubt, FrequencyCheck, LIMIT_PPM, ReadOut};
use tickless_core::clock::{Counter, CounterId};
use tickless_core::time::Span;
use tickless_core::time::convert::{Cycles, Kilohertz};

use super::source::{Source, Unit, Visit};
use crate::failure::Failure;
use crate::{crew, scheduling};

/// Reads between two checks of the time: so many that the check costs nothing.
const BATCH: u32 = 200;
/// The time for which a source is read to know its cost.
const COST: Duration = Duration::from_millis(20);
/// The number of batches that is enough for a figure.
const BATCHES: usize = 2_000;
/// The time for which a source may stand still before its resolution counts as unknown.
const STILL: Duration = Duration::from_millis(50);
/// The number of steps that are measured for the resolution.
const STEPS: usize = 2_000;
/// Rounds of the exchange between two CPUs.
const ROUNDS: u32 = 2_000;
/// The greatest number of CPUs that are compared with the first one: on a large machine, the CPUs are picked at even
/// distances.
const PARTNERS: usize = 64;

/// A counter of nanoseconds.
const NANOS: Counter = Counter {
    id: CounterId(0),
    frequency: Kilohertz(1_000_000),
    bits: 64,
    can_inline: false,
};

/// Measures the cost of a read, in nanoseconds: the median of many batches.
#[derive(Clone, Copy, Debug)]
struct Cost;

impl Visit for Cost {
    type Output = f64;
    fn visit(self, read: impl Fn() -> u64 + Sync) -> f64 {
        let end = Instant::now() + COST;
        let mut batches = Vec::new();
        loop {
            let start = Instant::now();
            for _ in 0..BATCH {
                black_box(read());
            }
            let now = Instant::now();
            batches.push((now - start).as_nanos() as f64 / f64::from(BATCH));
            if now >= end || batches.len() >= BATCHES {
                return median(&mut batches);
            }
        }
    }
}

/// Returns the median, the lower one of two middle values; `NaN` if there are no values.
fn median(figures: &mut [f64]) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures
        .get(figures.len().saturating_sub(1) / 2)
        .copied()
        .unwrap_or(f64::NAN)
}

/// Returns the cost of a read on one thread.
pub(super) fn cost_alone(source: &Source) -> f64 {
    source.with(Cost)
}

/// Returns the cost of a read while all `cpus` read at once: the median over the CPUs.
pub(super) fn cost_contended(source: &Source, cpus: &CpuSet) -> Result<f64, Failure> {
    let start = Barrier::new(cpus.len());
    let costs: Result<Vec<f64>, Failure> = thread::scope(|scope| {
        let mut threads = Vec::new();
        for cpu in cpus.iter() {
            let start = &start;
            let read = move || {
                let pinned = scheduling::pin(cpu, "contended");
                start.wait();
                pinned.map(|()| source.with(Cost))
            };
            match thread::Builder::new().spawn_scoped(scope, read) {
                Ok(thread) => threads.push(thread),
                Err(error) => {
                    // Those that are there wait for as many as were to come.
                    for _ in threads.len()..cpus.len() {
                        scope.spawn(|| start.wait());
                    }
                    return Err(crew::not_started(error));
                }
            }
        }
        let costs = threads.into_iter().map(|thread| thread.join());
        costs
            .map(|cost| cost.map_err(|_| crew::broke_down())?)
            .collect()
    });
    Ok(median(&mut costs?))
}

/// Measures the smallest step of a source, in its unit; `None` if the source did not move.
struct Resolution {
    /// The cost of a read, in the unit of the source.
    cost: f64,
}

impl Visit for Resolution {
    type Output = Option<u64>;
    fn visit(self, read: impl Fn() -> u64 + Sync) -> Option<u64> {
        let end = Instant::now() + STILL;
        let (mut smallest, mut divisor, mut steps) = (u64::MAX, 0, 0);
        let mut last = read();
        while steps < STEPS {
            let now = read();
            let step = now.wrapping_sub(last);
            if step != 0 && step < u64::MAX / 2 {
                smallest = smallest.min(step);
                divisor = common_divisor(divisor, step);
                steps += 1;
            }
            last = now;
            if Instant::now() >= end {
                break;
            }
        }
        match steps {
            0 => None,
            // A step that takes many reads is one; of shorter ones a read sees several at once.
            _ if smallest as f64 > 10.0 * self.cost => Some(smallest),
            _ => Some(divisor),
        }
    }
}

fn common_divisor(one: u64, other: u64) -> u64 {
    let (mut one, mut other) = (one, other);
    while other != 0 {
        (one, other) = (other, one % other);
    }
    one
}

/// Returns the smallest step of `source`, in nanoseconds; `None` if the source did not move.
pub(super) fn resolution(source: &Source, cost: f64, hertz: Option<u64>) -> Option<f64> {
    let nanos = nanos_per_unit(source.unit, hertz)?;
    let step = source
        .with(Resolution { cost: cost / nanos })
        .map(|step| step as f64 * nanos);
    // Of a clock that moves with the tick a thread that loses its CPU sees steps of several, or none.
    let told = source.told_resolution().map(|told| told as f64);
    let told = told.filter(|told| *told > STEP_MAX);
    told.map_or(step, |told| Some(step.map_or(told, |step| step.min(told))))
}

/// Returns the nanoseconds in a unit; `None` for cycles of an unknown rate.
fn nanos_per_unit(unit: Unit, hertz: Option<u64>) -> Option<f64> {
    match unit {
        Unit::Cycles => hertz.map(|hertz| 1e9 / hertz as f64),
        Unit::Nanos | Unit::CpuNanos => Some(1.0),
    }
}

/// The drift of a source against the kernel's monotonic clock, in parts per million, and the uncertainty of the drift.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Drift {
    pub(super) ppm: f64,
    pub(super) within: f64,
    pub(super) over: Duration,
}

/// A running comparison of a source with the kernel's monotonic clock.
#[derive(Debug)]
pub(super) struct Pursuit {
    source: Source,
    counter: Counter,
    check: FrequencyCheck,
    /// The step of a coarse clock, which moves so seldom that the step is most of its error.
    coarse: Option<f64>,
    first: Option<ReadOut>,
    last: Option<ReadOut>,
    verdict: Option<CounterVerdict>,
}

/// The largest drift that passes, in parts per million.
const LIMIT: f64 = LIMIT_PPM as f64;
/// The number of read-outs from which the narrowest is taken.
const TRIES: u32 = 20;

impl Pursuit {
    /// Begins a comparison; returns `None` for a source that counts no passing time, and for a counter of unknown rate.
    pub(super) fn new(
        source: &Source,
        resolution: Option<f64>,
        hertz: Option<u64>,
    ) -> Option<Self> {
        let frequency = match source.unit {
            Unit::CpuNanos => return None,
            Unit::Nanos => 1_000_000,
            // Rounds down; less than a part in a million of any such counter.
            Unit::Cycles => u32::try_from(hertz? / 1_000).ok()?,
        };
        let counter = Counter {
            id: CounterId(1),
            frequency: Kilohertz(frequency),
            bits: 64,
            can_inline: false,
        };
        Some(Self {
            source: source.clone(),
            counter,
            check: FrequencyCheck::new(counter, NANOS, LIMIT_PPM),
            coarse: Some(resolution.unwrap_or(STILL.as_nanos() as f64))
                .filter(|step| *step > STEP_MAX),
            first: None,
            last: None,
            verdict: None,
        })
    }

    /// Returns the description of the source as a counter.
    pub(super) const fn counter(&self) -> Counter {
        self.counter
    }

    /// Takes a read-out, and judges the source.
    pub(super) fn step(&mut self) -> CounterVerdict {
        let taken = self.narrowest();
        self.first.get_or_insert(taken);
        self.last = Some(taken);
        if self.coarse.is_some() {
            let verdict = self.judge_coarse();
            self.verdict = Some(verdict);
            return verdict;
        }
        let mut taken = Some(taken);
        let source = &self.source;
        let again = || {
            taken
                .take()
                .unwrap_or_else(|| read_out(KernelClock::Monotonic, || source.read()))
        };
        let verdict = self.check.run(again);
        let was_bad = self.verdict.is_some_and(|verdict| verdict.is_bad());
        let is_one = !matches!(verdict, CounterVerdict::Inconclusive(_)) || self.verdict.is_none();
        if is_one && !was_bad {
            self.verdict = Some(verdict);
        }
        verdict
    }

    /// Judges a clock that moves with the tick. Such a clock is as late as the tick, which has no limit, so it is never
    /// bad.
    fn judge_coarse(&self) -> CounterVerdict {
        let drift = self
            .drift()
            .filter(|drift| drift.within <= LIMIT && drift.ppm.abs() <= LIMIT);
        match (drift, self.first, self.last) {
            // Some parts in a million more or less: it is too coarse to tell them.
            (Some(_), ..) => CounterVerdict::Good {
                ppm: 0,
                within_ppm: LIMIT_PPM,
            },
            (None, Some(first), Some(last)) => {
                let elapsed = Span::from_nanos(last.before.0.saturating_sub(first.before.0));
                CounterVerdict::Inconclusive(Doubt::TooShort { elapsed })
            }
            _ => CounterVerdict::Inconclusive(Doubt::First),
        }
    }

    /// Returns the last conclusive verdict, or the first bad one.
    pub(super) const fn verdict(&self) -> Option<CounterVerdict> {
        self.verdict
    }

    /// Returns the narrowest of several read-outs.
    fn narrowest(&self) -> ReadOut {
        let width = |taken: &ReadOut| taken.behind.0.saturating_sub(taken.before.0);
        let mut narrowest = self.read_out();
        for _ in 1..TRIES {
            let taken = self.read_out();
            if width(&taken) < width(&narrowest) {
                narrowest = taken;
            }
        }
        narrowest
    }

    fn read_out(&self) -> ReadOut {
        read_out(KernelClock::Monotonic, || self.source.read())
    }

    /// Returns the drift from the first read-out to the last.
    pub(super) fn drift(&self) -> Option<Drift> {
        let (first, last) = (self.first?, self.last?);
        let nanos = |from: Cycles, to: Cycles| to.0.wrapping_sub(from.0) as f64;
        let passed = nanos(first.before, last.before);
        let widths = nanos(first.before, first.behind) + nanos(last.before, last.behind);
        // Each reading of a coarse one is late by a step, or two where the tick is.
        let error = widths + 4.0 * self.coarse.unwrap_or(0.0);
        // An administrator may have set it, so that it went back.
        let counted = last.counter.0.wrapping_sub(first.counter.0).cast_signed() as f64 * 1e6
            / f64::from(self.counter.frequency.0);
        if passed <= error {
            return None;
        }
        // The counter was read half a width behind the beginning of each read-out, more or less.
        let elapsed =
            passed + (nanos(last.before, last.behind) - nanos(first.before, first.behind)) / 2.0;
        Some(Drift {
            ppm: (counted / elapsed - 1.0) * 1e6,
            within: error / 2.0 / elapsed * 1e6,
            over: Duration::from_secs_f64(passed / 1e9),
        })
    }
}

/// The difference between the readings of two CPUs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Skew {
    pub(super) cpus: (u32, u32),
    /// The lead of the second CPU, in nanoseconds.
    pub(super) ahead: f64,
    /// The uncertainty of the lead, in nanoseconds.
    pub(super) within: f64,
    pub(super) verdict: CounterVerdict,
}

struct Compare {
    counter: Counter,
    cpus: (u32, u32),
}

impl Visit for Compare {
    type Output = Result<Skew, Failure>;
    fn visit(self, read: impl Fn() -> u64 + Sync) -> Self::Output {
        let (first, second) = self.cpus;
        let found = agreement(self.counter, first, second, ROUNDS, read).map_err(|error| {
            Failure::Machine(format!(
                "cannot compare CPU {first} with CPU {second}: {error}"
            ))
        })?;
        let nanos = |cycles: Option<i64>| {
            cycles.map_or(f64::NAN, |cycles| {
                cycles as f64 * 1e6 / f64::from(self.counter.frequency.0)
            })
        };
        // Each distance is what the word took, and how far the copy that was read behind it is ahead.
        let (to_first, to_second) = (nanos(found.first.nearest), nanos(found.second.nearest));
        Ok(Skew {
            cpus: self.cpus,
            ahead: (to_second - to_first) / 2.0,
            within: (to_second + to_first).abs() / 2.0,
            verdict: found.verdict,
        })
    }
}

/// Steps that are longer than this, in nanoseconds, hide the skew between two CPUs.
pub(super) const STEP_MAX: f64 = 1_000.0;

/// Compares the first of `cpus` with the others, or with some of the others if the machine has many CPUs.
pub(super) fn skews(
    source: &Source,
    counter: Counter,
    cpus: &CpuSet,
) -> Result<Vec<Skew>, Failure> {
    let Some(first) = cpus.first() else {
        return Ok(Vec::new());
    };
    let others: Vec<u32> = cpus.iter().skip(1).collect();
    let stride = others.len().div_ceil(PARTNERS).max(1);
    let pairs = others
        .into_iter()
        .step_by(stride)
        .map(|other| (first, other));
    pairs
        .map(|cpus| source.with(Compare { counter, cpus }))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{common_divisor, median};

    #[test]
    fn steps_have_a_common_divisor() {
        assert_eq!(common_divisor(0, 12), 12);
        assert_eq!(common_divisor(12, 18), 6);
        assert_eq!(common_divisor(35, 12), 1);
    }

    #[test]
    fn the_median_of_nothing_is_no_figure() {
        assert!(median(&mut []).is_nan());
        assert_eq!(median(&mut [3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&mut [9.0, 1.0]), 1.0);
    }
}
