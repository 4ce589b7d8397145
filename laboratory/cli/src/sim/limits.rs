//! The limits of a scenario's memory and events, and the options that raise them.

use clap::Args;
use clap::builder::RangedU64ValueParser;
use tickless_sim::{Limits, Scenario};

use crate::failure::Failure;

/// The limits that a user can set or lift by options.
#[derive(Clone, Copy, Debug, Args)]
pub(super) struct Bounds {
    /// Limit of the memory that a scenario may need, as estimated before it runs
    #[arg(long, value_name = "GIB", default_value_t = Limits::default().memory >> 30, value_parser = gibibytes())]
    max_memory: u64,

    /// Limit of the events that a scenario may have, as estimated before it runs
    #[arg(long, value_name = "N", default_value_t = Limits::default().events)]
    max_events: u64,

    /// Run the scenario whatever it needs
    #[arg(long, conflicts_with_all = ["max_memory", "max_events"])]
    no_limits: bool,
}

/// Parses a number of gibibytes, from one to a limit that no machine reaches and whose bytes can be counted.
fn gibibytes() -> RangedU64ValueParser {
    clap::value_parser!(u64).range(1..=1 << 20)
}

impl Bounds {
    fn limits(&self) -> Limits {
        if self.no_limits {
            return Limits::NONE;
        }
        Limits {
            memory: self.max_memory << 30,
            events: self.max_events,
        }
    }

    /// Refuses a `scenario` from the file `name` that needs more than the limits allow.
    pub(super) fn check(&self, scenario: &Scenario, name: &str) -> Result<(), Failure> {
        scenario.fits(&self.limits()).map_err(|too_much| {
            let option = if too_much.is_memory {
                "--max-memory"
            } else {
                "--max-events"
            };
            Failure::Input(format!(
                "{name}: {too_much}; ask for less, raise the limit with {option}, or lift both with --no-limits"
            ))
        })
    }
}
