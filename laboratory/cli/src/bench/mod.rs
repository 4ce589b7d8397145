//! `tickless bench`: the cost of timers, operation by operation, against other libraries.
//!
//! The crate `tickless_peers` defines the operations, and measures them.

mod arguments;
mod report;

use tickless_peers::Watch;

pub(crate) use arguments::Arguments;
use report::Finished;

use crate::failure::{CheckVerdict, Failure};
use crate::interrupt::Interrupt;
use crate::machine::Machine;
use crate::output::{self, Progress, Screen};

struct Shown<'a> {
    interrupt: &'a Interrupt,
    progress: &'a Progress,
}

impl Watch for Shown<'_> {
    fn is_over(&self) -> bool {
        self.interrupt.is_requested()
    }

    fn next(&mut self, what: &str) {
        self.progress.show(what);
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<CheckVerdict, Failure> {
    let (plan, mut notes) = arguments.settle()?;
    let json = output::prepare_json(&arguments.output)?;
    let screen = Screen::new(&arguments.output);
    let interrupt = Interrupt::catch()?;
    let progress = Progress::new(&arguments.output);
    let machine = Machine::read();
    screen.print(&format!("{}\n", machine.summary()))?;
    let mut watch = Shown {
        interrupt: &interrupt,
        progress: &progress,
    };
    let results = tickless_peers::run(&plan, &mut watch);
    drop(progress);
    if cfg!(debug_assertions) {
        notes.push("Built without optimisation: the figures are not the libraries'.".to_owned());
    }
    if !results.is_complete {
        notes.push("The run was ended early: what was not measured is missing.".to_owned());
    }
    let finished = Finished {
        machine,
        results,
        plan,
        notes,
    };
    screen.print(&finished.report())?;
    if let Some(json) = json {
        json.write_json(&finished.json())?;
    }
    Ok(CheckVerdict::from_passed(
        finished.results.faults.is_empty(),
    ))
}
