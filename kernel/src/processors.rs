//! The CPUs that the kernel starts after the first one, and the work that they get.

use core::fmt;

use tickless_core::time::Span;

use crate::arch::{self, Begins};
use crate::idle;
use crate::machine::{Machine, machine};
use crate::stack::stack;
use crate::watch;

/// Bytes of the stack of a CPU.
const STACK: usize = 64 * 1024;

/// The reason why a CPU that was started does not run.
#[derive(Clone, Copy, Debug)]
pub(crate) enum NotStarted {
    /// The machine refused to start the CPU, with this answer.
    Refused(i64),
    /// The machine started the CPU, and the CPU did not come online within this time.
    Silent(Span),
}

impl fmt::Display for NotStarted {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(answer) => {
                write!(formatter, "does not start: the machine answers {answer}")
            }
            Self::Silent(limit) => {
                let millis = limit.as_nanos() / 1_000_000;
                write!(formatter, "was started, and is silent for {millis} ms")
            }
        }
    }
}

/// Runs on each CPU that another one started: brings the CPU online, then idles for ever.
pub(crate) fn secondary() -> ! {
    arch::init_cpu();
    let machine = machine();
    watch::arrive(machine);
    machine.online();
    // The first CPU waits for it.
    arch::interrupt_cpu(0);
    idle::forever()
}

impl Machine {
    /// Starts `cpu`, and waits until it is online, for `limit` at most.
    ///
    /// # Errors
    ///
    /// The reason why the CPU does not run.
    pub(crate) fn start_cpu(
        &self,
        cpu: usize,
        begins: Begins,
        limit: Span,
    ) -> Result<(), NotStarted> {
        let end = self.now().saturating_add(limit);
        let started = arch::start_cpu(cpu, stack(STACK), begins, |micros, is_over| {
            let end = machine().now().saturating_add(Span::from_micros(micros));
            idle::until_time_or(end, is_over);
        });
        started.map_err(NotStarted::Refused)?;
        let has_arrived = || self.host().local(cpu).has_arrived.is_there();
        idle::until_time_or(end, &has_arrived);
        if !has_arrived() {
            return Err(NotStarted::Silent(limit));
        }
        let condemned = watch::meet(cpu);
        idle::until(|| self.is_online(cpu));
        if let Some(condemned) = condemned {
            watch::obey(self, &condemned);
        }
        Ok(())
    }

    /// Calls `job` on `cpu`, which is not the executing CPU, and waits until the call has finished. Called by CPU 0.
    pub(crate) fn call_on(&self, cpu: usize, job: fn()) {
        let local = self.host().local(cpu);
        let before = local.jobs.get();
        self.run_on(cpu, job);
        idle::until(|| local.jobs.get() != before);
    }
}
