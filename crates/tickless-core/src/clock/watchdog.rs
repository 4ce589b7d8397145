//! The watchdog of counters: it compares counters, and chooses another counter to drive the time when the present
//! counter is bad.
//!
//! A counter can be wrong in two ways that its readers do not notice: it runs at another rate than its stated
//! frequency, or its copy on one CPU lags behind its copy on another CPU. There is a check for each error, and neither
//! check may condemn a good counter because the machine was busy: a preemption, a hypervisor or a debugger may stop the
//! checker at any point and for any time. So a [`CounterVerdict`] has three values. A result that could have another
//! reason than a bad counter is *inconclusive*.
//!
//! - [`FrequencyCheck`] compares a counter with an independent *reference*, on one CPU. It demands a narrow
//!   [`ReadOut`] and computes with intervals, in which the true value lies for certain.
//! - [`AgreementCheck`] lets two CPUs read the counter in turns, through an [`Exchange`], and demands only that no
//!   reading is less than the previous one. Latency makes the check less sensitive, but not wrong.
//! - [`Watchdog`] holds the list of counters and marks the counters that a verdict condemned. It returns the time of
//!   the next check, the CPUs of the check, and the counter to which the host should switch: the best rated counter
//!   that is not bad. A device coupled to the old counter falls back by itself, because the published record names
//!   another counter (spec CPL-7).
//!
//! The watchdog is a state machine that gets readings and times as arguments: it reads no counter, takes no lock and
//! starts no timer. The host does this work, and carries out a switch by
//! [`Keeper::switch_counter`](super::Keeper::switch_counter).
//!
//! If two counters differ, the difference does not show which of them is wrong. As in the source (spec C-6.6), the
//! checked counter is blamed. The reference is the best rated other counter, unless the host names a better reference.

use core::fmt;

use super::{Counter, CounterId};
use crate::cpu::CpuId;
use crate::time::{Instant, Span};

mod agreement;
mod frequency;
#[cfg(all(test, loom))]
mod model;
#[cfg(all(test, not(loom)))]
mod tests;
mod verdict;

pub use agreement::{
    AgreementCheck, AgreementStep, Exchange, Heard, LOOKS, Look, ROUNDS, Role, Side, TRIES,
};
pub use frequency::{
    FrequencyCheck, FrequencyStep, LIMIT_PPM, LIMIT_UNCALIBRATED_PPM, LONGEST, READ_OUTS, ReadOut,
    WINDOW,
};
pub use verdict::{CounterVerdict, Doubt, Reason};

/// The time from the end of a check to the next one: half a second (spec C-6.6).
pub const INTERVAL: Span = Span::from_millis(500);

/// A counter that can drive the time, with its rating.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The counter.
    pub counter: Counter,
    /// The name of the counter in messages.
    pub name: &'static str,
    /// The rating; the best rated counter drives the time.
    pub rating: u32,
}

/// The counter that drives the time after a counter was condemned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Next {
    /// Another counter drives the time, so nothing has to be done.
    Unaffected,
    /// The host has to switch to this counter.
    SwitchTo(Candidate),
    /// All other counters are bad, too: the present counter continues to drive the time.
    NothingBetter,
}

/// A counter that was found bad, with the reason and its replacement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Condemned {
    /// The bad counter.
    pub counter: Candidate,
    /// The reason why the counter is bad.
    pub reason: Reason,
    /// The counter with which it was compared, if the watchdog knows that counter.
    pub reference: Option<Candidate>,
    /// The counter that takes over.
    pub next: Next,
}

impl fmt::Display for Condemned {
    /// Writes one line for a log.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "the counter {} is bad: it {}",
            self.counter.name, self.reason
        )?;
        if let Some(reference) = &self.reference {
            write!(formatter, ", by {}", reference.name)?;
        }
        match &self.next {
            Next::Unaffected => formatter.write_str("; it does not drive the time"),
            Next::SwitchTo(other) => {
                write!(formatter, "; {} drives the time from now on", other.name)
            }
            Next::NothingBetter => formatter.write_str("; there is no better one, and it goes on"),
        }
    }
}

/// The known counters, their faults, and the time of the next check.
#[derive(Clone, Debug)]
pub struct Watchdog<const N: usize> {
    candidates: [Candidate; N],
    bad: [Option<Reason>; N],
    /// The index of the counter that drives the time; `None` if there are no candidates.
    current: Option<usize>,
    next: Instant,
    /// The CPU that was the partner of the last agreement check.
    partner: CpuId,
}

impl<const N: usize> Watchdog<N> {
    /// Makes a watchdog of `candidates`. The best rated candidate drives the time. The first check is due an interval
    /// after `now`.
    #[must_use]
    pub fn new(candidates: [Candidate; N], now: Instant) -> Self {
        let mut watchdog = Self {
            candidates,
            bad: [None; N],
            current: None,
            next: now.saturating_add(INTERVAL),
            partner: CpuId(0),
        };
        watchdog.current = watchdog.best(None);
        watchdog
    }

    /// Returns the counter that drives the time; `None` if there are no candidates.
    #[must_use]
    pub fn current(&self) -> Option<&Candidate> {
        self.current.map(|place| &self.candidates[place])
    }

    /// Returns the counter with which the current counter should be compared: the best rated other counter that is not
    /// bad.
    #[must_use]
    pub fn reference(&self) -> Option<&Candidate> {
        self.best(self.current).map(|place| &self.candidates[place])
    }

    /// Returns the reason why this counter is bad; `None` if it is not bad.
    #[must_use]
    pub fn reason(&self, counter: CounterId) -> Option<Reason> {
        self.bad[self.place(counter)?]
    }

    /// Returns the time at which the next check is due.
    #[must_use]
    pub const fn next_check(&self) -> Instant {
        self.next
    }

    /// Notes that a check ended at `now`. The next check is due an interval after `now`, even if this check was late.
    /// If the machine is so loaded that a check had to wait, another check at once would add to the load (spec C-6.6).
    pub fn checked(&mut self, now: Instant) {
        self.next = now.saturating_add(INTERVAL);
    }

    /// Returns the partner of `this` CPU for the next agreement check: the CPUs below `cpus` in turn, without those for
    /// which `is_online` returns false. Returns `None` if no other CPU is online.
    pub fn partner(
        &mut self,
        this: CpuId,
        cpus: u32,
        is_online: impl Fn(CpuId) -> bool,
    ) -> Option<CpuId> {
        let after = self.partner.0.saturating_add(1);
        let found = (0..cpus)
            .map(|step| CpuId(after.wrapping_add(step) % cpus))
            .find(|cpu| *cpu != this && is_online(*cpu))?;
        self.partner = found;
        Some(found)
    }

    /// Records the `verdict` of a check of `counter`. In a check of frequency the counter was compared with
    /// `reference`. Returns `Some` if the verdict condemns a counter that was not bad before.
    pub fn judge(
        &mut self,
        counter: CounterId,
        reference: Option<CounterId>,
        verdict: CounterVerdict,
    ) -> Option<Condemned> {
        let place = self.place(counter)?;
        let CounterVerdict::Bad(reason) = verdict else {
            return None;
        };
        if self.bad[place].is_some() {
            return None;
        }
        self.bad[place] = Some(reason);
        let next = if self.current != Some(place) {
            Next::Unaffected
        } else if let Some(best) = self.best(None) {
            self.current = Some(best);
            Next::SwitchTo(self.candidates[best])
        } else {
            Next::NothingBetter
        };
        let reference = reference.and_then(|id| self.place(id));
        Some(Condemned {
            counter: self.candidates[place],
            reason,
            reference: reference.map(|place| self.candidates[place]),
            next,
        })
    }

    fn place(&self, counter: CounterId) -> Option<usize> {
        self.candidates
            .iter()
            .position(|one| one.counter.id == counter)
    }

    /// Returns the best rated counter that is neither bad nor `except`; among equal ratings the first.
    fn best(&self, except: Option<usize>) -> Option<usize> {
        let good = (0..N).filter(|&place| self.bad[place].is_none() && Some(place) != except);
        good.rev()
            .max_by_key(|&place| self.candidates[place].rating)
    }
}
