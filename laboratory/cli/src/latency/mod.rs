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
mod subject;
mod thread;

use std::io::IsTerminal;
use std::time::{Duration, Instant, SystemTime};

use rustix::mm::{MlockAllFlags, mlockall};

pub(crate) use arguments::Arguments;
use arguments::Plan;
use print::Live;
use setting::PowerManagement;
use thread::{Crew, Finished};

use crate::failure::{CheckVerdict, Failure};
use crate::interrupt::Interrupt;
use crate::output::{self, Screen};

/// The time between two checks whether the run is to end; each check also updates the figures on a terminal.
const LOOK: Duration = Duration::from_millis(50);

pub(crate) fn run(arguments: &Arguments) -> Result<CheckVerdict, Failure> {
    let plan = arguments.settle()?;
    let options = arguments.output();
    let json = output::prepare_json(&options)?;
    let screen = Screen::new(&options);
    let interrupt = Interrupt::catch()?;
    let _as_long_as_it_runs = plan.limits_idle_states.then(|| {
        let setting = PowerManagement::limit();
        (screen.print(&setting.line()), setting)
    });
    if plan.lock_memory {
        mlockall(MlockAllFlags::CURRENT | MlockAllFlags::FUTURE).map_err(|error| {
            Failure::Machine(format!(
                "cannot lock memory (-m): {error}; raise the limit (ulimit -l) or run as root"
            ))
        })?;
    }

    let began = SystemTime::now();
    let crew = Crew::start(&plan)?;
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
    if plan.buckets > 0 {
        screen.print(&print::histogram(&finished))?;
    }
    screen.print(&print::broken(&finished))?;
    Ok(CheckVerdict::from_passed(finished.early() == 0))
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
    let is_live = !quiet && screen.is_shown() && std::io::stdout().is_terminal();
    let mut live = is_live.then(Live::default);
    while !crew.is_over() {
        let left = end.map_or(LOOK, |end| end.saturating_duration_since(Instant::now()));
        if left.is_zero() || interrupt.is_requested() {
            crew.end();
        }
        std::thread::sleep(left.min(LOOK));
        if let Some(live) = &mut live {
            screen.print_obeyed(&live.frame(plan, crew.counts()))?;
        }
    }
    if let Some(live) = live {
        screen.print_obeyed(&live.erase())?;
    }
    Ok(())
}
