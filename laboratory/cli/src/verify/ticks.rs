//! Checks the decisions of CPUs on their ticks, and the flush points at which they write their devices.
//!
//! A recording may begin anywhere, so nothing is held against a CPU before its first event of a kind.

use super::findings::Findings;
use super::read::{Header, Line};
use super::{FLUSHED, TICKS};
use crate::failure::Failure;

/// The last decision of a CPU on its tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Decision {
    Stopped,
    Started,
}

/// The state of one CPU, as far as it is known.
#[derive(Clone, Copy, Debug, Default)]
struct Cpu {
    decision: Option<Decision>,
    /// The tick was stopped, and the evaluation that did so is to say until when.
    stops_until: Option<i64>,
    is_idle: Option<bool>,
    /// A flush point is about to write the device.
    flushes: bool,
    /// True if there was a flush: this host reports them.
    has_flushed: bool,
}

/// All CPUs.
#[derive(Debug)]
pub(super) struct Ticks(Vec<Cpu>);

impl Ticks {
    pub(super) fn new(header: &Header) -> Self {
        Self(vec![Cpu::default(); header.cpus as usize])
    }

    fn cpu(&mut self, line: &Line) -> Result<(u32, &mut Cpu), Failure> {
        let count = u32::try_from(self.0.len()).unwrap_or(u32::MAX);
        let cpu = line.number("of_cpu", "CPU", count)?;
        Ok((cpu, &mut self.0[cpu as usize]))
    }

    /// `tick_stop`.
    pub(super) fn stop(&mut self, line: &Line, to: &mut Findings) -> Result<(), Failure> {
        let wake = line.time_or_never("wake")?;
        let (id, cpu) = self.cpu(line)?;
        to.check(TICKS);
        if cpu.decision == Some(Decision::Stopped) {
            to.broken(
                TICKS,
                format!("the tick of CPU {id} is stopped, and was not started since it was"),
            );
        }
        cpu.decision = Some(Decision::Stopped);
        cpu.stops_until = Some(wake);
        Ok(())
    }

    /// `tick_start`.
    pub(super) fn start(&mut self, line: &Line, to: &mut Findings) -> Result<(), Failure> {
        let (id, cpu) = self.cpu(line)?;
        to.check(TICKS);
        if cpu.decision == Some(Decision::Started) {
            to.broken(
                TICKS,
                format!("the tick of CPU {id} starts, and was not stopped since it did"),
            );
        }
        cpu.decision = Some(Decision::Started);
        Ok(())
    }

    /// `tick_idle_begin` and `tick_idle_end`.
    pub(super) fn idles(
        &mut self,
        line: &Line,
        is_idle: bool,
        to: &mut Findings,
    ) -> Result<(), Failure> {
        let (id, cpu) = self.cpu(line)?;
        to.check(TICKS);
        if cpu.is_idle == Some(is_idle) {
            let does = if is_idle { "begins" } else { "ends" };
            to.broken(
                TICKS,
                format!("CPU {id} {does} to idle, and did so already"),
            );
        }
        cpu.is_idle = Some(is_idle);
        Ok(())
    }

    /// `tick_evaluate`: what it says is what the tick does.
    pub(super) fn evaluates(&mut self, line: &Line, to: &mut Findings) -> Result<(), Failure> {
        let is_kept = !line.is_null("kept")?;
        let wake = line.time_or_never("wake")?;
        let (id, cpu) = self.cpu(line)?;
        to.check(TICKS);
        let stopped_until = cpu.stops_until.take();
        let what = match (is_kept, stopped_until, cpu.decision) {
            (true, Some(until), _) => Some(format!("its tick was stopped until {until}, and kept")),
            (false, Some(until), _) if until != wake => Some(format!(
                "its tick was stopped until {until}, and stays so until {wake}"
            )),
            (false, None, Some(Decision::Started)) => {
                Some("its tick stays stopped, and runs".to_owned())
            }
            _ => None,
        };
        if let Some(what) = what {
            to.broken(TICKS, format!("CPU {id} decides: {what}"));
        }
        Ok(())
    }

    /// `hrtimer_flush`: a deferred write of the device follows.
    pub(super) fn flushes(&mut self, line: &Line) -> Result<(), Failure> {
        let (_, cpu) = self.cpu(line)?;
        cpu.flushes = true;
        cpu.has_flushed = true;
        Ok(())
    }

    /// `hrtimer_rearm`: a deferred one comes behind a flush, one for each.
    pub(super) fn rearms(&mut self, line: &Line, to: &mut Findings) -> Result<(), Failure> {
        let is_deferred = line.is("deferred")?;
        let (id, cpu) = self.cpu(line)?;
        if cpu.has_flushed && is_deferred {
            to.check(FLUSHED);
            if !cpu.flushes {
                to.broken(
                    FLUSHED,
                    format!("CPU {id} writes its device late, at no flush point"),
                );
            }
        }
        cpu.flushes = false;
        Ok(())
    }
}
