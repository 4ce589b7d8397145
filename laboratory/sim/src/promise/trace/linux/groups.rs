//! The check of Linux's migration hierarchy.

use std::collections::{BTreeMap, HashMap};

use super::{ANY, COVERED, EARLY, Findings, ROUNDING, Record};
use crate::promise::one_migrator;
use crate::promise::trace::findings::MIGRATOR;

/// The hierarchy, as far as it is known.
#[derive(Debug, Default)]
pub(super) struct Groups {
    /// True if there was an event of the hierarchy.
    is_recorded: bool,
    /// Whether a child of a group of the lowest level is active.
    children: HashMap<(u64, u64), bool>,
    /// The first timers of the idle CPUs that others may run; `i64::MAX` is none.
    idle: BTreeMap<u32, i64>,
    /// The CPU whose timers each CPU runs.
    serving: BTreeMap<u32, u32>,
    /// True for a CPU that, as it goes idle, leaves the last group it tells of without an active child.
    empties: BTreeMap<u32, bool>,
}

impl Groups {
    /// Takes an event. `first` is the time of the first coarse timer of its CPU that others may run, if that is known,
    /// and its second value is true if time stamps are those of the monotonic clock.
    pub(super) fn take(
        &mut self,
        record: &Record<'_>,
        (first, is_monotonic): (Option<i64>, bool),
        tick: Option<i64>,
        to: &mut Findings,
    ) -> Option<()> {
        self.is_recorded = true;
        let of_cpu = || u32::try_from(record.number("cpu")?).ok();
        match record.event {
            "tmigr_group_set_cpu_active" => self.changes(record, true, to)?,
            "tmigr_group_set_cpu_inactive" => self.changes(record, false, to)?,
            "tmigr_cpu_idle" | "tmigr_cpu_new_timer_idle" => {
                let (cpu, next) = (of_cpu()?, record.number("nextevt")?);
                self.sleeps(cpu, next, first, tick, to);
                self.idle.insert(cpu, next);
                if record.event == "tmigr_cpu_idle" {
                    self.promises(cpu, record.number("wakeup")?, to);
                }
            }
            "tmigr_cpu_active" | "tmigr_cpu_online" | "tmigr_cpu_offline" => {
                self.idle.remove(&of_cpu()?);
            }
            "tmigr_handle_remote_cpu" => {
                let cpu = of_cpu()?;
                self.serving.insert(record.cpu, cpu);
                // What is left for that CPU no event says.
                let next = self.idle.remove(&cpu).filter(|_| is_monotonic);
                let wrong = next.filter(|next| *next > record.time.saturating_add(ROUNDING));
                let wrong = wrong.map(|next| {
                    format!(
                        "CPU {} serves CPU {cpu}, whose first timer is due at {next}",
                        record.cpu
                    )
                });
                to.suspect(EARLY, [Some(cpu), Some(record.cpu), None], wrong);
            }
            _ => {}
        }
        Some(())
    }

    fn changes(&mut self, record: &Record<'_>, is_active: bool, to: &mut Findings) -> Option<()> {
        const NONE: u64 = 0xFF;
        let (group, child) = (record.address("group")?, record.address("childmask")?);
        let (active, migrator) = (record.address("active")?, record.address("migrator")?);
        let bits = |set: u64| u32::try_from(set).unwrap_or(u32::MAX);
        let migrator = (migrator != NONE).then_some(bits(migrator));
        let name = format!("{group:016x}");
        let mut wrong = one_migrator::wrong_migrator(&name, bits(active), migrator);
        // A child that is a group may be active again before the event of its change is written.
        if record.number("lvl")? == 0 {
            let does = if is_active { "active" } else { "inactive" };
            if wrong.is_none() && (active & child != 0) != is_active {
                wrong = Some(format!(
                    "child {child:#x} of group {name} becomes {does}, and the active ones are {active:#x}"
                ));
            }
            let before = self.children.insert((group, child), is_active);
            let twice = (before == Some(is_active)).then(|| {
                format!("child {child:#x} of group {name} becomes {does}, and was so already")
            });
            to.suspect(MIGRATOR, [Some(record.cpu), None, None], twice);
        }
        to.check(MIGRATOR, wrong);
        if !is_active {
            self.empties.insert(record.cpu, active == 0);
        }
        Some(())
    }

    /// Checks that a CPU that goes idle tells of its first timer.
    fn sleeps(
        &self,
        cpu: u32,
        next: i64,
        first: Option<i64>,
        tick: Option<i64>,
        to: &mut Findings,
    ) {
        if let (Some(first), Some(tick)) = (first, tick) {
            let wrong = (next > first.saturating_add(tick)).then(|| {
                format!("CPU {cpu} goes idle and says that its first timer is due at {next}; it has one of {first}")
            });
            to.suspect(COVERED, [Some(cpu), None, None], wrong);
        }
    }

    /// Checks that the last CPU that goes idle wakes up for the first timer of all, and another one for none.
    fn promises(&mut self, cpu: u32, wakeup: i64, to: &mut Findings) {
        let wrong = match self.empties.remove(&cpu) {
            Some(true) => {
                let first = self.idle.iter().min_by_key(|(_, next)| **next);
                let first = first.filter(|(_, next)| wakeup > **next);
                first.map(|(of, next)| {
                    format!(
                        "all CPUs are idle, and the last one, CPU {cpu}, wakes up at {wakeup}; CPU {of} has a timer of {next}"
                    )
                })
            }
            Some(false) if wakeup != i64::MAX => Some(format!(
                "CPU {cpu} goes idle and wakes up for others at {wakeup}, and another CPU is awake"
            )),
            _ => None,
        };
        let of = self.idle.keys().copied().find(|other| *other != cpu);
        // A CPU that seems to be awake may have gone idle unseen.
        to.suspect(COVERED, [Some(cpu), of, Some(ANY)], wrong);
    }

    /// Describes the violation if `cpu` does not run the timers of `owner`.
    pub(super) fn serves(&self, cpu: u32, owner: u32) -> Option<String> {
        let is_serving = !self.is_recorded || self.serving.get(&cpu) == Some(&owner);
        (!is_serving).then(|| "it did not say that it looks after that CPU".to_owned())
    }
}
