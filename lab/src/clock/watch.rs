//! The follower of the clocks for `--watch`, which prints a line each second.

use std::thread;
use std::time::{Duration, Instant};

use tickless::internals::sources::KernelClock;
use tickless_core::clock::watchdog::CounterVerdict;

use super::measure::{Drift, Pursuit};
use super::report::{of_drift, signed};
use super::source::tickless_nanos;
use super::{Finished, LOOK};
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::output::Screen;
use crate::units;

const SECOND: Duration = Duration::from_secs(1);
/// The number of readings from which the narrowest is taken.
const READINGS: u32 = 50;
/// Samples that are kept for JSON: a day of them.
pub(super) const KEPT: usize = 86_400;

/// The observations of one second.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
    /// The time since the beginning.
    pub(super) at: Duration,
    pub(super) drift: Option<Drift>,
    /// The offset of the library's clock from the kernel's, and its uncertainty, in nanoseconds.
    pub(super) offset: (f64, f64),
    pub(super) verdict: CounterVerdict,
}

/// Follows the drift of one source, and the offset of the library's clock.
#[derive(Debug)]
pub(super) struct Follower {
    pub(super) source: String,
    pursuit: Option<Pursuit>,
    pub(super) samples: Vec<Sample>,
    bad: bool,
}

impl Follower {
    /// Follows the ordered time-stamp counter, or the library's clock if the machine has no such counter.
    pub(super) fn new(finished: &Finished<'_>) -> Self {
        let hertz = finished.rate.clone().ok();
        let rows = finished.rows.iter().filter(|row| row.source.is_ordered);
        let pursuit = |row: &super::Row| {
            let pursuit = Pursuit::new(&row.source, row.resolution, hertz)?;
            Some((row.source.name.clone(), pursuit))
        };
        let (source, pursuit) = rows.into_iter().find_map(pursuit).unzip();
        Self {
            source: source.unwrap_or_default(),
            pursuit,
            samples: Vec::new(),
            bad: false,
        }
    }

    /// Prints a line each second, for the given time or until Ctrl-C.
    pub(super) fn follow(
        &mut self,
        duration: Option<Duration>,
        interrupt: &Interrupt,
        screen: &Screen,
    ) -> Result<(), Failure> {
        let Some(pursuit) = &mut self.pursuit else {
            return screen.print("There is nothing to follow.\n");
        };
        screen.print(&format!("\nFollowing {}; Ctrl-C ends it.\n", self.source))?;
        let _first = pursuit.step();
        let start = Instant::now();
        let end = duration.map(|duration| start + duration);
        let mut next = start + SECOND;
        loop {
            let until = end.map_or(next, |end| next.min(end));
            while Instant::now() < until && !interrupt.is_requested() {
                thread::sleep(LOOK.min(until.saturating_duration_since(Instant::now())));
            }
            if interrupt.is_requested() {
                return Ok(());
            }
            let sample = Sample {
                at: start.elapsed(),
                verdict: pursuit.step(),
                drift: pursuit.drift(),
                offset: offset(),
            };
            self.bad |= sample.verdict.is_bad();
            screen.print(&line(&sample))?;
            if self.samples.len() < KEPT {
                self.samples.push(sample);
            }
            if end.is_some_and(|end| Instant::now() >= end) {
                return Ok(());
            }
            // After a stop of the process, not all the seconds that it missed.
            next = (next + SECOND).max(Instant::now());
        }
    }

    pub(super) const fn has_seen_bad(&self) -> bool {
        self.bad
    }
}

fn line(sample: &Sample) -> String {
    let seconds = sample.at.as_secs_f64();
    let drift = sample
        .drift
        .as_ref()
        .map_or_else(|| "-".to_owned(), of_drift);
    let (offset, within) = sample.offset;
    let (offset, within) = (signed(offset), units::digits(within));
    let verdict = sample.verdict;
    format!(
        "{seconds:7.1} s  drift {drift:>20}  tickless - kernel {offset:>6} ± {within} ns  {verdict}\n"
    )
}

/// Returns the lead of the library's clock on the kernel's and its uncertainty, in nanoseconds: the narrowest of a few
/// readings.
fn offset() -> (f64, f64) {
    let read = || {
        let before = KernelClock::Monotonic.read();
        let ours = tickless_nanos();
        let behind = KernelClock::Monotonic.read();
        let width = behind.saturating_sub(before);
        let middle = before + width / 2;
        (
            ours.wrapping_sub(middle).cast_signed() as f64,
            width as f64 / 2.0,
        )
    };
    let readings = (0..READINGS).map(|_| read());
    readings
        .min_by(|one, other| one.1.total_cmp(&other.1))
        .unwrap_or((f64::NAN, f64::NAN))
}
