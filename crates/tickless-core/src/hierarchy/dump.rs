//! The hierarchy as text.

use core::fmt::{self, Write};

use super::{Child, GroupId, Hierarchy, HierarchyHost};
use crate::cpu::CpuId;
use crate::inspect::At;

impl<S: HierarchyHost<WIDTH>, const WIDTH: usize> Hierarchy<S, WIDTH> {
    /// Writes each group with its state, its migrator and its first event, and each CPU with its promised wake-up.
    /// `name` is the name of the hierarchy.
    ///
    /// Each line was true at some moment during the call.
    ///
    /// # Errors
    ///
    /// The errors of `out`.
    ///
    /// # Cost
    ///
    /// Time in proportion to the number of groups, times the number of CPUs and groups.
    pub fn dump(&self, name: &str, out: &mut dyn Write) -> fmt::Result {
        writeln!(out, "Hierarchy: {name}")?;
        writeln!(out, " available:      {}", self.available_cpus())?;
        writeln!(out, " levels:         {}", self.height())?;
        for group in (0..self.groups()).map(GroupId) {
            self.dump_group(group, out)?;
        }
        writeln!(out)
    }

    fn dump_group(&self, id: GroupId, out: &mut dyn Write) -> fmt::Result {
        let group = self.group(id);
        let state = group.state();
        write!(out, " group {}: level {}, ", id.0, group.level())?;
        match group.parent() {
            Some(parent) => write!(out, "in group {} as {}", parent.0, group.slot().number())?,
            None => write!(out, "root")?,
        }
        write!(out, ", active {:#06b}", state.active().bits())?;
        match state.migrator() {
            Some(slot) => write!(out, ", migrator {}", slot.number())?,
            None => write!(out, ", no migrator")?,
        }
        writeln!(out, ", first event {}", At(group.first()))?;
        for child in self.children(id) {
            if let Child::Cpu(cpu) = child {
                self.dump_cpu(cpu, out)?;
            }
        }
        Ok(())
    }

    fn dump_cpu(&self, cpu: CpuId, out: &mut dyn Write) -> fmt::Result {
        let Some(node) = self.host().node(cpu) else {
            return Ok(());
        };
        let state = match (node.is_available(), node.is_foreign(), node.is_idle()) {
            (false, _, _) => "takes no part",
            (true, true, _) => "foreign",
            (true, false, true) => "idle",
            (true, false, false) => "active",
        };
        let (slot, wakeup) = (node.slot().number(), At(node.wakeup()));
        writeln!(out, "  cpu {} as {slot}: {state}, wakeup {wakeup}", cpu.0)
    }
}
