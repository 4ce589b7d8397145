//! The dump of ticks and of the broadcast device, in the layout of `/proc/timer_list`.

use core::fmt::{self, Write};

use tickless_link::lock::RawLock;

use super::broadcast::{Broadcast, Carrier};
use super::count::{Duty, TickCount};
use super::cpu::{Context, CpuTick, Role};
use super::mask::CpuMask;
use crate::cpu::CpuId;
use crate::inspect::At;

impl CpuTick {
    /// Writes the lines of `/proc/timer_list` about the tick of a CPU and about the counting CPU. Called by that CPU,
    /// or while that CPU executes nothing.
    ///
    /// # Errors
    ///
    /// The errors of `out`.
    pub fn dump<L: RawLock>(&self, count: &TickCount<L>, out: &mut dyn Write) -> fmt::Result {
        let context = match self.context() {
            Context::Offline => "offline",
            Context::Task => "task",
            Context::Idle => "idle",
        };
        let role = match self.role() {
            Role::Housekeeping => "housekeeping",
            Role::TicklessTasks => "tickless tasks",
        };
        writeln!(out, "  .role           : {role}")?;
        writeln!(out, "  .context        : {context}")?;
        writeln!(out, "  .tick_stopped   : {}", u8::from(self.is_stopped()))?;
        match self.next() {
            Some(next) => writeln!(out, "  .next_tick      : {}", At(next))?,
            None => writeln!(out, "  .next_tick      : unknown")?,
        }
        let duty = count.duty() == (Duty::Taken { by: self.cpu() });
        writeln!(out, "  .tick_duty      : {}", u8::from(duty))?;
        writeln!(out, "jiffies: {}", count.now().tick.0)
    }
}

impl<L: RawLock, const WORDS: usize> Broadcast<L, WORDS> {
    /// Writes the lines of `/proc/timer_list` about the broadcast device: its name, the time for which it is
    /// programmed, and the masks of the sleeping CPUs and of the CPUs with a pending interrupt.
    ///
    /// # Errors
    ///
    /// The errors of `out`.
    pub fn dump(&self, out: &mut dyn Write) -> fmt::Result {
        let look = self.look();
        let (mode, name) = match look.carrier {
            None => (0, "none"),
            Some(Carrier::Periodic(_)) => (0, "periodic"),
            Some(Carrier::Oneshot) => (1, "one-shot"),
            Some(Carrier::Software) => (1, "software"),
        };
        writeln!(out, "Tick Device: mode:     {mode}")?;
        writeln!(out, "Broadcast device")?;
        writeln!(out, "Clock Event Device: {name}")?;
        if let Some(CpuId(cpu)) = look.bound {
            writeln!(out, " bound_on:       {cpu}")?;
        }
        writeln!(out, " next_event:     {}", At(look.next))?;
        writeln!(out, "tick_broadcast_mask: {}", Bits(&look.sleeping))?;
        writeln!(out, "tick_broadcast_pending_mask: {}", Bits(&look.pending))?;
        writeln!(out)
    }
}

/// A mask of CPUs in the format of the kernel.
struct Bits<'a, const WORDS: usize>(&'a CpuMask<WORDS>);

impl<const WORDS: usize> fmt::Display for Bits<'_, WORDS> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut halves = self.0.halves().skip_while(|half| *half == 0);
        write!(formatter, "{:08x}", halves.next().unwrap_or(0))?;
        halves.try_for_each(|half| write!(formatter, ",{half:08x}"))
    }
}
