//! The check of a whole trace: each event is passed to the checkers that it concerns.

use std::collections::BTreeSet;

use super::findings::Findings;
use super::read::{Header, Line, Reader};
use super::ticks::Ticks;
use super::timers::Timers;
use super::tree::Trees;
use super::{COVERED, ISOLATED, LOST, MONOTONIC};
use crate::failure::Failure;

/// The events that no checker needs.
const UNCHECKED: [&str; 12] = [
    "timer_move",
    "hrtimer_clamped",
    "hrtimer_written_late",
    "hrtimer_spurious",
    "hrtimer_hang",
    "tick_overdue",
    "irq_handler_entry",
    "irq_handler_exit",
    "softirq_entry",
    "softirq_exit",
    "ipi_send_cpu",
    "sched_switch",
];

/// The checker of a trace, which is given the lines in order.
#[derive(Debug)]
pub(super) struct Checker {
    header: Header,
    timers: Timers,
    ticks: Ticks,
    trees: Trees,
    isolated: Vec<bool>,
    /// The time of the last event of each CPU.
    last: Vec<i64>,
    /// The last clock reading of each CPU.
    read: Vec<i64>,
    /// The CPUs that were asked to expire the timers of others, and have not done so yet.
    heirs: BTreeSet<u32>,
    pub(super) findings: Findings,
    /// The number of events that are missing after the last line, according to the last line.
    pub(super) lost: u64,
}

/// Checks the whole trace. `each` is called with each event after the checkers have taken it.
pub(super) fn check(
    reader: &mut Reader,
    late_max: Option<u64>,
    mut each: impl FnMut(&Line) -> Result<(), Failure>,
) -> Result<Checker, Failure> {
    let header = reader.header()?;
    let late_max = late_max.unwrap_or(header.late_max);
    let mut checker = Checker::new(header, late_max);
    while let Some(line) = reader.next()? {
        if checker.take(&line)? {
            reader.end(&line)?;
            return Ok(checker);
        }
        each(&line)?;
    }
    Err(reader.truncated())
}

impl Checker {
    fn new(header: Header, late_max: u64) -> Self {
        let cpus = header.cpus as usize;
        let mut isolated = vec![false; cpus];
        for cpu in &header.isolated {
            isolated[*cpu as usize] = true;
        }
        Self {
            timers: Timers::new(&header, late_max),
            ticks: Ticks::new(&header),
            trees: Trees::new(&header),
            isolated,
            last: vec![i64::MIN; cpus],
            read: vec![i64::MIN; cpus],
            heirs: BTreeSet::new(),
            findings: Findings::new(),
            lost: 0,
            header,
        }
    }

    /// Takes a line, and returns true if it is the last line.
    fn take(&mut self, line: &Line) -> Result<bool, Failure> {
        let at = line.time("time")?;
        let event = line.text("event")?;
        self.findings.line = line.number;
        self.findings.time = at;
        if event == "end" {
            self.findings.cpu = None;
            self.end(line, at)?;
            return Ok(true);
        }
        let cpu = line.number_or_null("cpu", "CPU", self.header.cpus)?;
        self.findings.cpu = cpu;
        if let Some(cpu) = cpu {
            let last = &mut self.last[cpu as usize];
            if at < *last {
                let what =
                    format!("CPU {cpu} did something at {last} already, and this is at {at}");
                return Err(line.wrong("time", &what, "the time of a CPU does not go back"));
            }
            *last = at;
        }
        if let Some(cpu) = cpu.filter(|_| !event.starts_with("tmigr_")) {
            self.trees.does_something_else(cpu);
        }
        self.happens(event, line, at, cpu)?;
        if self.heirs.is_empty() {
            self.trees.settle(&mut self.findings);
        }
        Ok(false)
    }

    fn happens(
        &mut self,
        event: &str,
        line: &Line,
        at: i64,
        cpu: Option<u32>,
    ) -> Result<(), Failure> {
        let to = &mut self.findings;
        match event {
            "timer_start" => self.timers.coarse_start(line, to)?,
            "hrtimer_start" => self.timers.exact_start(line, to)?,
            "timer_queued" => {
                self.timers
                    .was_queued(line.whole("timer")?, line.number, to);
            }
            "hrtimer_queued" => {
                self.timers
                    .was_queued(line.whole("hrtimer")?, line.number, to);
            }
            "timer_cancel" => self.timers.cancel(line.whole("timer")?, to),
            "hrtimer_cancel" => self.timers.cancel(line.whole("hrtimer")?, to),
            "timer_delete_sync" => self.timers.deleted(line.whole("timer")?, cpu, to),
            "timer_expire_entry" => self.fires("timer", line, at, cpu)?,
            "hrtimer_expire_entry" => {
                self.timers.wall_fires(line, to)?;
                self.fires("hrtimer", line, at, cpu)?;
            }
            "timer_expire_exit" => self.timers.returns(line.whole("timer")?),
            "hrtimer_expire_exit" => self.timers.returns(line.whole("hrtimer")?),
            "clock_read" => self.clock_read(line, cpu)?,
            "cpu_idle" => self.idles(line, at, cpu)?,
            "cpu_isolated" => {
                let of_cpu = line.number("of_cpu", "CPU", self.header.cpus)?;
                self.isolated[of_cpu as usize] = line.is("isolated")?;
            }
            "ipi_send_cpu" if line.text("reason")? == "activate" => {
                let heir = line.number("of_cpu", "CPU", self.header.cpus)?;
                self.heirs.insert(heir);
            }
            "irq_handler_entry" if line.text("name")? == "activate" => {
                cpu.map(|cpu| self.heirs.remove(&cpu));
            }
            "cpu_online" => {
                // A CPU that leaves hands over what it was to look after.
                let of_cpu = line.number("of_cpu", "CPU", self.header.cpus)?;
                self.heirs.remove(&of_cpu);
            }
            "tick_stop" => self.ticks.stop(line, to)?,
            "tick_start" => self.ticks.start(line, to)?,
            "tick_idle_begin" => self.ticks.idles(line, true, to)?,
            "tick_idle_end" => self.ticks.idles(line, false, to)?,
            "tick_evaluate" => {
                self.ticks.evaluates(line, to)?;
                if line.is_null("kept")? && self.trees.are_settled() {
                    let of_cpu = line.number("of_cpu", "CPU", self.header.cpus)?;
                    self.sleeps(of_cpu, line.time_or_never("wake")?, at);
                }
            }
            "hrtimer_flush" => self.ticks.flushes(line)?,
            "hrtimer_rearm" => self.ticks.rearms(line, to)?,
            other => self.hierarchy(other, line, cpu)?,
        }
        Ok(())
    }

    /// Applies an event of the hierarchy, or counts an unknown event.
    fn hierarchy(&mut self, event: &str, line: &Line, cpu: Option<u32>) -> Result<(), Failure> {
        if event == "tmigr_handle_remote_cpu" {
            let of_cpu = line.number("of_cpu", "CPU", self.header.cpus)?;
            self.disturbs(cpu, of_cpu, "serves");
        }
        if self.trees.take(event, line, cpu, &mut self.findings)? {
            return Ok(());
        }
        if !UNCHECKED.contains(&event) {
            *self.findings.unknown.entry(event.to_owned()).or_default() += 1;
        }
        Ok(())
    }

    fn fires(&mut self, key: &str, line: &Line, at: i64, cpu: Option<u32>) -> Result<(), Failure> {
        let id = line.whole(key)?;
        // The tick for which a coarse one was armed is not over for the CPU that runs it.
        let is_before = key == "timer" && line.whole("now")? <= line.whole("expires")?;
        let owner = self
            .timers
            .fires(id, (at, is_before), cpu, &mut self.findings);
        if let Some(owner) = owner {
            self.disturbs(cpu, owner, "runs a timer of");
        }
        Ok(())
    }

    /// Checks that `cpu`, if it is isolated, does nothing for another CPU: it did something for `owner`.
    fn disturbs(&mut self, cpu: Option<u32>, owner: u32, does: &str) {
        let Some(cpu) = cpu.filter(|cpu| self.isolated[*cpu as usize]) else {
            return;
        };
        self.findings.check(ISOLATED);
        if cpu != owner {
            let what = format!("CPU {cpu} is isolated, and {does} CPU {owner}");
            self.findings.broken(ISOLATED, what);
        }
    }

    fn clock_read(&mut self, line: &Line, cpu: Option<u32>) -> Result<(), Failure> {
        let now = line.time("now")?;
        let Some(cpu) = cpu else { return Ok(()) };
        self.findings.check(MONOTONIC);
        let last = std::mem::replace(&mut self.read[cpu as usize], now);
        if now < last {
            let what = format!("the clock of CPU {cpu} went from {last} back to {now}");
            self.findings.broken(MONOTONIC, what);
        }
        Ok(())
    }

    /// `cpu_idle`: `cpu` begins to sleep, or leaves sleep.
    fn idles(&mut self, line: &Line, at: i64, cpu: Option<u32>) -> Result<(), Failure> {
        let wakes = line.time_or_never("wakes")?;
        if let Some(cpu) = cpu.filter(|_| !matches!(line.is_null("state"), Ok(true))) {
            self.sleeps(cpu, wakes, at);
        }
        Ok(())
    }

    /// Checks that another CPU looks after the first timer of `cpu`, if `cpu` itself `wakes` later.
    fn sleeps(&mut self, cpu: u32, wakes: i64, at: i64) {
        let Some(first) = self.timers.first_movable(cpu) else {
            return;
        };
        self.findings.check(COVERED);
        let tick = i64::try_from(self.header.tick).unwrap_or(i64::MAX);
        // With its tick it looks for itself. An heir is about to wake up, and looks then.
        if wakes <= first.max(at.saturating_add(tick)) || !self.heirs.is_empty() {
            return;
        }
        if let Err(why) = self.trees.is_covered(cpu, first) {
            let what =
                format!("CPU {cpu} sleeps, and no CPU looks after its timer of {first}: {why}");
            self.findings.broken(COVERED, what);
        }
    }

    fn end(&mut self, line: &Line, at: i64) -> Result<(), Failure> {
        // A host that loses none does not say so.
        if line.keys.contains_key("lost") {
            self.lost = line.whole("lost")?;
        }
        // A CPU in the middle of something is not late yet.
        let is_busy = |cpu: u32| self.last[cpu as usize] >= at;
        self.timers.end(at, is_busy, &mut self.findings);
        // A recording that was cut out of a run, or lost its end, may lack the change that a later one passed over.
        if self.lost == 0 && !line.is_null("queued")? {
            self.trees.end(&mut self.findings);
        }
        if !line.is_null("queued")? {
            let (said, queued) = (line.whole("queued")?, self.timers.queued());
            self.findings.check(LOST);
            if said != queued {
                let what = format!("{said} timers are queued at the end, and {queued} should be");
                self.findings.broken(LOST, what);
            }
        }
        Ok(())
    }
}
