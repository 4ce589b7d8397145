//! Options of cyclictest that have no meaning here. The command knows them, and refuses them with the reason.

use clap::{ArgAction, Args};

use crate::failure::Failure;

/// Options of cyclictest without a meaning here. They are hidden in the help, where one sentence names them.
#[derive(Clone, Debug, Args)]
pub(super) struct Elsewhere {
    #[arg(short = 'F', long, value_name = "PATH", hide = true)]
    fifo: Option<String>,

    #[arg(short = 's', long, hide = true, action = ArgAction::Count)]
    system: u8,

    #[arg(short = 'x', long = "posix_timers", hide = true, action = ArgAction::Count)]
    posix_timers: u8,

    #[arg(long, hide = true, action = ArgAction::Count)]
    smi: u8,

    #[arg(long = "dbg_cyclictest", hide = true, action = ArgAction::Count)]
    debug: u8,
}

impl Elsewhere {
    /// Refuses each of these options that was given.
    pub(super) fn refuse(&self) -> Result<(), Failure> {
        let given = [
            (
                self.fifo.is_some(),
                "-F (--fifo)",
                "statistics are not written to a pipe; --json - writes them at the end, -v each latency at once",
            ),
            (
                self.system > 0,
                "-s (--system)",
                "interval timers of the process are not among what is measured; --timer nanosleep is",
            ),
            (
                self.posix_timers > 0,
                "-x (--posix_timers)",
                "POSIX timers, which end in signals, are not among what is measured; --timer timerfd and nanosleep are",
            ),
            (
                self.smi > 0,
                "--smi",
                "the counter of system management interrupts is a register that takes root and a kernel module to \
                 read; use cyclictest or turbostat for it",
            ),
            (
                self.debug > 0,
                "--dbg_cyclictest",
                "it is for the authors of cyclictest",
            ),
        ];
        given
            .iter()
            .filter(|(is_given, ..)| *is_given)
            .try_for_each(|(_, option, why)| {
                Err(Failure::Input(format!(
                    "{option} of cyclictest is not supported: {why}"
                )))
            })
    }
}
