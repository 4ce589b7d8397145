//! The settings of a measuring thread and of the machine: priority, CPU, idle states.

use std::fs::File;
use std::io::Write;

use super::arguments::Placement;
use crate::failure::Failure;
use crate::scheduling::{self, Policy};

/// Moves the calling thread to its CPU, and sets its policy and priority.
pub(super) fn apply(policy: Policy, placement: &Placement) -> Result<(), Failure> {
    if let Some(cpu) = placement.cpu {
        scheduling::pin(cpu, "-a")?;
    }
    scheduling::set_priority(policy, placement.priority, "-p")
}

/// A request to the kernel to leave idle states fast, which lasts as long as this value.
#[derive(Debug)]
pub(super) struct PowerManagement {
    /// The file that the kernel watches: closing it ends the request.
    demand: Result<File, String>,
}

const DEMANDS: &str = "/dev/cpu_dma_latency";

impl PowerManagement {
    pub(super) fn limit() -> Self {
        let demand = File::options().write(true).open(DEMANDS);
        let demand = demand.and_then(|mut file| {
            // The time to leave an idle state, as many bytes as the kernel's number has.
            file.write_all(&[0; 4])?;
            Ok(file)
        });
        Self {
            demand: demand.map_err(|error| error.to_string()),
        }
    }

    /// Describes the result of the request. A refusal does not stop the run.
    pub(super) fn line(&self) -> String {
        match &self.demand {
            Ok(_) => format!("# {DEMANDS} set to 0us\n"),
            Err(error) => format!("# {DEMANDS} left as it is: {error}\n"),
        }
    }
}
