//! Checks the decisions of CPUs on their ticks, and the flush points at which they write their devices.
//!
//! A recording may begin anywhere, so nothing is held against a CPU before its first event of a kind.

use std::collections::BTreeMap;

use super::findings::{FLUSHED, Findings, TICKS};

/// The state of one CPU, as far as it is known.
#[derive(Clone, Copy, Debug, Default)]
struct Cpu {
    is_stopped: Option<bool>,
    /// The tick was stopped, and the evaluation that did so is to say until when.
    stops_until: Option<i64>,
    is_idle: Option<bool>,
    /// A flush point is about to write the device.
    flushes: bool,
    /// True if there was a flush: this host reports them.
    has_flushed: bool,
}

#[derive(Debug, Default)]
pub(super) struct Ticks(BTreeMap<u32, Cpu>);

impl Ticks {
    fn cpu(&mut self, id: u32) -> &mut Cpu {
        self.0.entry(id).or_default()
    }

    /// The tick of a CPU stops until `wake`.
    pub(super) fn stop(&mut self, id: u32, wake: i64, to: &mut Findings) {
        let cpu = self.cpu(id);
        let wrong = (cpu.is_stopped.replace(true) == Some(true))
            .then(|| format!("the tick of CPU {id} is stopped, and was not started since it was"));
        cpu.stops_until = Some(wake);
        to.check(TICKS, wrong);
    }

    /// The tick of a CPU runs again.
    pub(super) fn start(&mut self, id: u32, to: &mut Findings) {
        let wrong = (self.cpu(id).is_stopped.replace(false) == Some(false))
            .then(|| format!("the tick of CPU {id} starts, and was not stopped since it did"));
        to.check(TICKS, wrong);
    }

    /// A CPU enters or leaves its idle loop.
    pub(super) fn idles(&mut self, id: u32, is_idle: bool, to: &mut Findings) {
        let wrong = (self.cpu(id).is_idle.replace(is_idle) == Some(is_idle)).then(|| {
            let does = if is_idle { "begins" } else { "ends" };
            format!("CPU {id} {does} to idle, and did so already")
        });
        // Linux: the event of a task that the recorder does not see may be missing.
        to.suspect(TICKS, [Some(id), None, None], wrong);
    }

    /// A CPU decided on its tick: the decision says what the tick does.
    pub(super) fn evaluates(&mut self, id: u32, is_kept: bool, wake: i64, to: &mut Findings) {
        let cpu = self.cpu(id);
        let what = match (is_kept, cpu.stops_until.take(), cpu.is_stopped) {
            (true, Some(until), _) => format!("its tick was stopped until {until}, and kept"),
            (false, Some(until), _) if until != wake => {
                format!("its tick was stopped until {until}, and stays so until {wake}")
            }
            (false, None, Some(false)) => "its tick stays stopped, and runs".to_owned(),
            _ => return to.check(TICKS, None),
        };
        to.check(TICKS, Some(format!("CPU {id} decides: {what}")));
    }

    /// A deferred write of the device follows.
    pub(super) fn flushes(&mut self, id: u32) {
        let cpu = self.cpu(id);
        (cpu.flushes, cpu.has_flushed) = (true, true);
    }

    /// A device is written: a deferred write comes after a flush point, one for each.
    pub(super) fn rearms(&mut self, id: u32, is_deferred: bool, to: &mut Findings) {
        let cpu = self.cpu(id);
        let flushes = std::mem::take(&mut cpu.flushes);
        if cpu.has_flushed && is_deferred {
            let wrong =
                (!flushes).then(|| format!("CPU {id} writes its device late, at no flush point"));
            to.check(FLUSHED, wrong);
        }
    }
}
