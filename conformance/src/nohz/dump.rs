//! The lines that ticking CPUs add to a dump.

use core::fmt::{Result, Write};

use tickless_core::inspect::DumpHost;
use tickless_core::platform::CpuId;

use crate::host::Host;
use crate::rig::Rig;

impl<H: Host> DumpHost for Rig<H> {
    fn tick(&self, cpu: CpuId, out: &mut dyn Write) -> Result {
        let tick = self.ticking_cpu(cpu.0).tick.borrow();
        tick.dump(self.count(), out)
    }

    fn broadcast(&self, out: &mut dyn Write) -> Result {
        self.ticks_of_all().wakener.dump(out)
    }

    fn hierarchy(&self, out: &mut dyn Write) -> Result {
        self.tree().dump("CPUs", out)
    }
}
