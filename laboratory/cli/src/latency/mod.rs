//! `tickless latency`: cyclictest's measurement of this library's timers, with its options and its output.
//!
//! Each thread waits for the next multiple of its interval, again and again, and measures how late it wakes. The timer
//! with which it waits is the subject. Several subjects take turns on the same thread, so that disturbances of the
//! machine hit all subjects alike.

mod arguments;
mod counts;
mod json;
mod print;
mod setting;
mod spikes;
mod subject;
mod thread;

use std::io::{IsTerminal, Write};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use rustix::mm::{MlockAllFlags, mlockall};

pub(crate) use arguments::Arguments;
use arguments::Plan;
use print::{Live, Values};
use setting::PowerManagement;
use thread::{Crew, Measured};

use crate::failure::{CheckVerdict, Failure};
use crate::interrupt::Interrupt;
use crate::output::{self, OutFile, Screen};
use crate::scheduling;
use crate::tracing::Tracing;

/// The time between two checks whether the run is to end; each check also updates the figures on a terminal.
const LOOK: Duration = Duration::from_millis(50);

/// A finished run: its plan and its figures.
struct Finished<'r> {
    plan: &'r Plan,
    began: SystemTime,
    threads: Vec<Measured>,
    /// The thread that found a latency above the limit of `-b`.
    broken: Option<Break>,
}

/// A latency above the limit.
#[derive(Clone, Copy, Debug)]
struct Break {
    thread_id: i32,
    late: Duration,
}

pub(crate) fn run(arguments: &Arguments) -> Result<CheckVerdict, Failure> {
    let plan = arguments.settle()?;
    let options = arguments.output();
    let json = output::prepare_json(&options)?;
    let histogram_file = plan.histogram_file.as_ref();
    let histogram_file = histogram_file.map(OutFile::prepare).transpose()?;
    let screen = Screen::new(&options);
    let interrupt = Interrupt::catch()?;
    remarks(arguments);
    if plan.verbose.is_some() {
        screen.print(&print::cpus())?;
    }
    let _as_long_as_it_runs = plan.power_management.map(|latency| {
        let setting = PowerManagement::limit(latency);
        (screen.print(&setting.line()), setting)
    });
    let tracing = plan
        .tracefs
        .as_ref()
        .map(|root| Arc::new(Tracing::open(root)));
    if let Some(complaint) = tracing.as_ref().and_then(|tracing| tracing.complaint()) {
        screen.print(&format!("# {complaint}\n"))?;
    }
    if plan.lock_memory {
        mlockall(MlockAllFlags::CURRENT | MlockAllFlags::FUTURE).map_err(|error| {
            Failure::Machine(format!(
                "cannot lock memory (-m): {error}; raise the limit (ulimit -l) or run as root"
            ))
        })?;
    }

    let began = SystemTime::now();
    let crew = Crew::start(&plan, tracing.as_ref())?;
    if let Some(cpus) = &plan.main_cpus {
        // Not before: the threads would start there too.
        scheduling::pin_to(cpus, "--mainaffinity")?;
    }
    watch(&plan, &crew, &interrupt, &screen, arguments.quiet)?;
    let (threads, broken) = crew.finish()?;
    let finished = Finished {
        plan: &plan,
        began,
        threads,
        broken,
    };
    if let Some(json) = json {
        json.write_json(&json::of(&finished))?;
    }
    // In the order of cyclictest: a script may take the last line, or all before the histogram.
    screen.print(&print::comments(&finished))?;
    if !(arguments.quiet && plan.buckets > 0) {
        screen.print(&print::threads(&finished))?;
    }
    match histogram_file {
        Some(file) => file.write(print::histogram(&finished).as_bytes())?,
        None if plan.buckets > 0 => screen.print(&print::histogram(&finished))?,
        None => {}
    }
    screen.print(&print::spikes(&finished))?;
    screen.print(&print::broken(&finished))?;
    Ok(CheckVerdict::from_passed(finished.early() == 0))
}

/// Prints cyclictest's remarks on standard error before the run begins.
fn remarks(arguments: &Arguments) {
    let mut text = String::new();
    if let Some(remark) = arguments.remark() {
        text.push_str(&remark);
        text.push('\n');
    }
    if arguments.resolution {
        text.push_str(&setting::resolution());
    }
    // Standard error may be closed.
    let _closed = std::io::stderr().write_all(text.as_bytes());
}

/// Waits for the end of the run, and shows its progress to the user.
fn watch(
    plan: &Plan,
    crew: &Crew,
    interrupt: &Interrupt,
    screen: &Screen,
    quiet: bool,
) -> Result<(), Failure> {
    let end = plan.duration.map(|duration| Instant::now() + duration);
    let is_live = !quiet && plan.verbose.is_none() && screen.is_shown();
    let mut live =
        (is_live && std::io::stdout().is_terminal()).then(|| Live::new(plan.refresh_on_max));
    let mut values = plan.verbose.map(|each| Values::new(plan, each));
    if let Some(values) = &values {
        screen.print(&values.head())?;
    }
    while !crew.is_over() {
        let left = end.map_or(LOOK, |end| end.saturating_duration_since(Instant::now()));
        if left.is_zero() || interrupt.is_requested() {
            crew.end();
        }
        std::thread::sleep(left.min(LOOK));
        if let Some(live) = &mut live {
            screen.print_obeyed(&live.frame(plan, crew.counts()))?;
        }
        if let Some(values) = &mut values {
            screen.print(&values.lines(crew.samples()))?;
        }
    }
    if let Some(live) = live {
        screen.print_obeyed(&live.erase())?;
    }
    if let Some(values) = &mut values {
        screen.print(&values.lines(crew.samples()))?;
    }
    Ok(())
}

impl Finished<'_> {
    /// Returns the number of times that a timer of this library fired early.
    fn early(&self) -> u64 {
        let counts = self.threads.iter().flat_map(|thread| &thread.figures);
        let ours = counts.filter(|figures| figures.subject.is_ours());
        ours.map(|figures| figures.counts.early()).sum()
    }
}
