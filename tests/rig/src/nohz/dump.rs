//! What a machine with ticks adds to a dump.

use std::fmt::{Result, Write};

use tickless_core::inspect::DumpHost;
use tickless_core::platform::CpuId;

use super::Ticking;
use crate::machine::Config;

impl<C: Config> DumpHost for Ticking<C> {
    fn tick(&self, cpu: CpuId, out: &mut dyn Write) -> Result {
        let tick = self.cpu(cpu.0).tick.borrow();
        tick.dump(self.count(), out)
    }

    fn broadcast(&self, out: &mut dyn Write) -> Result {
        self.0.wakener.broadcast.dump(out)
    }

    fn hierarchy(&self, out: &mut dyn Write) -> Result {
        self.tree().dump("CPUs", out)
    }
}

impl<C: Config> Ticking<C> {
    /// The state of all CPUs as text, with their ticks, the broadcast device and the hierarchy (spec 6.3).
    #[must_use]
    pub fn dump(&self) -> String {
        self.machine().dump_with(self)
    }
}
