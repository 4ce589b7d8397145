//! The live state as text, in the layout of `/proc/timer_list` (spec ).
//!
//! The text has the lines of that file, with its names and in its order, so that scripts for the file can read this
//! text: the CPUs with their queues, then the broadcast device, then the devices. The additional facts are on separate
//! lines: far timers and wheels after the sorted queues of a CPU, the hierarchy at the end. A callback is shown by
//! name. Memory addresses are shown if the host requests them, and are zero otherwise. The file distinguishes bases by
//! a hash of their address; this text has the number of the queue instead.

use core::fmt::{self, Write};

use super::{CpuReport, DeviceReport, Part, PendingTimer, Queued, WheelReport};
use crate::base::state::DeferredRearm;
use crate::base::timers::Timers;
use crate::cpu::CpuId;
use crate::event::flush::Flush;
use crate::event::{DeviceKind, DeviceState, Programmed};
use crate::exact::queues::QUEUES;
use crate::platform::Platform;
use crate::slots::geometry::Tick;
use crate::time::{Clock, Instant, Offset};
use crate::wheel::family::WheelKind;

/// The host's additions to a dump, and their form. By default a dump has no additions.
///
/// Each method writes whole lines. None is called with a lock held.
pub trait DumpHost {
    /// Returns true if the dump shows the addresses of timers and of the code of their callbacks.
    fn addresses(&self) -> bool {
        false
    }

    /// Writes the identity of `cpu` after the counts of its base: a name, a role.
    ///
    /// # Errors
    ///
    /// The errors of `out`.
    fn name(&self, cpu: CpuId, out: &mut dyn Write) -> fmt::Result {
        let _ = (cpu, out);
        Ok(())
    }

    /// Writes the tick of `cpu` after the counts of its base: see [`CpuTick::dump`](crate::tick::CpuTick::dump).
    ///
    /// # Errors
    ///
    /// The errors of `out`.
    fn tick(&self, cpu: CpuId, out: &mut dyn Write) -> fmt::Result {
        let _ = (cpu, out);
        Ok(())
    }

    /// Writes the broadcast device, which fires in place of stopped devices, before all other devices: see
    /// [`Broadcast::dump`](crate::tick::Broadcast::dump).
    ///
    /// # Errors
    ///
    /// The errors of `out`.
    fn broadcast(&self, out: &mut dyn Write) -> fmt::Result {
        let _ = out;
        Ok(())
    }

    /// Writes the hierarchy, at the end: see [`Hierarchy::dump`](crate::hierarchy::Hierarchy::dump).
    ///
    /// # Errors
    ///
    /// The errors of `out`.
    fn hierarchy(&self, out: &mut dyn Write) -> fmt::Result {
        let _ = out;
        Ok(())
    }
}

/// A host that adds nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Plain;

impl DumpHost for Plain {}

impl<P: Platform> Timers<P> {
    /// Writes the state of all CPUs in the layout of `/proc/timer_list`, with additional lines of the library and of
    /// `host`.
    ///
    /// The limits of snapshots in [`inspect`](crate::inspect) hold for the dump.
    ///
    /// # Errors
    ///
    /// The errors of `out` and of `host`.
    pub fn dump(&self, host: &impl DumpHost, out: &mut dyn Write) -> fmt::Result {
        writeln!(out, "Timer List Version: v0.10")?;
        writeln!(out, "HRTIMER_MAX_CLOCK_BASES: {QUEUES}")?;
        writeln!(out, "now at {} nsecs", self.platform().now().as_nanos())?;
        writeln!(out)?;
        for report in self.reports() {
            self.dump_base(&report, host, out)?;
        }
        host.broadcast(out)?;
        for report in self.reports() {
            writeln!(out, "Tick Device: mode:     {}", TICK_DEVICE_ONESHOT)?;
            writeln!(out, "Per CPU device: {}", report.cpu.0)?;
            report.device.dump(out)?;
        }
        host.hierarchy(out)
    }

    fn reports(&self) -> impl Iterator<Item = CpuReport> {
        (0..).map_while(|cpu| self.report(CpuId(cpu)))
    }

    fn dump_base(
        &self,
        report: &CpuReport,
        host: &impl DumpHost,
        out: &mut dyn Write,
    ) -> fmt::Result {
        writeln!(out, "cpu: {}", report.cpu.0)?;
        let mut parts = Part::all();
        let (mut shown, mut number) = (None, 0);
        self.for_each_pending(report.cpu, |timer| {
            let part = timer.queued.part();
            while shown != Some(part)
                && let Some(next) = parts.next()
            {
                dump_part(report, next, out)?;
                (shown, number) = (Some(next), 0);
            }
            let now = offset_of(report, part)
                .shown_at(self.platform().now())
                .as_nanos();
            write!(out, " #{number}: ")?;
            number += 1;
            dump_timer(timer, now, host.addresses(), out)
        })?;
        for empty in parts {
            dump_part(report, empty, out)?;
        }
        dump_state(report, out)?;
        host.name(report.cpu, out)?;
        host.tick(report.cpu, out)?;
        writeln!(out)
    }
}

/// Returns the offset of a part's clock to the monotonic clock.
fn offset_of(report: &CpuReport, part: Part) -> Offset {
    match part {
        Part::Sorted(index) => report.offsets[index % 4],
        Part::Far | Part::Wheel(_) => Offset::NONE,
    }
}

/// The kernel's number for a tick device in one-shot mode. All devices here have this mode.
const TICK_DEVICE_ONESHOT: u8 = 1;

/// Writes the lines above the timers of a part.
fn dump_part(report: &CpuReport, part: Part, out: &mut dyn Write) -> fmt::Result {
    match part {
        Part::Sorted(index) => dump_clock(report, index, out)?,
        Part::Far => {
            writeln!(out, " far timers:")?;
            writeln!(out, "  .clock:      {}", Clock::Monotonic.name())?;
        }
        Part::Wheel(kind) => report.wheels[kind as usize].dump(out)?,
    }
    writeln!(out, "active timers:")
}

fn dump_clock(report: &CpuReport, index: usize, out: &mut dyn Write) -> fmt::Result {
    writeln!(out, " clock {index}:")?;
    // The width of the kernel's, which are hashes of addresses. Nothing is where this number says.
    let queue = u64::from(report.cpu.0) * QUEUES as u64 + index as u64;
    writeln!(out, "  .base:       {queue:016x}")?;
    writeln!(out, "  .index:      {index}")?;
    writeln!(out, "  .resolution: 1 nsecs")?;
    // Signed: offsets can be negative (spec DMP-3).
    let offset = report.offsets[index % 4].as_nanos();
    writeln!(out, "  .offset:     {offset} nsecs")?;
    writeln!(out, "  .clock:      {}", Clock::ALL[index % 4].name())?;
    let stage = if index < 4 { "hard" } else { "soft" };
    writeln!(out, "  .stage:      {stage}")
}

/// Writes the rest of a line that begins with the number of the timer, the line with its times, and lines for the facts
/// that the kernel does not show. `now` is the present time of the timer's clock.
fn dump_timer(timer: &PendingTimer, now: i64, addresses: bool, out: &mut dyn Write) -> fmt::Result {
    let address = if addresses { timer.id.0 } else { 0 };
    let state = if timer.is_running { "03" } else { "01" };
    writeln!(out, "<{address:016x}>, {}, S:{state}", timer.callback)?;
    let mut expires = |soft: i64, hard: i64| {
        let [from, to] = [soft, hard].map(|time| time.saturating_sub(now));
        writeln!(
            out,
            " # expires at {soft}-{hard} nsecs [in {from} to {to} nsecs]"
        )
    };
    match timer.queued {
        Queued::Sorted {
            soft, hard, lazy, ..
        } => {
            expires(soft, hard)?;
            if lazy {
                writeln!(out, " # lazy")?;
            }
        }
        Queued::Far { soft, hard, filed } => {
            expires(soft, hard)?;
            writeln!(out, " # filed for {filed} nsecs")?;
        }
        Queued::Wheel { expiry, due, .. } => writeln!(
            out,
            " # expires after tick {}, due at tick {}",
            expiry.0, due.0
        )?,
    }
    if addresses {
        writeln!(out, " # code at {:016x}", timer.code)?;
    }
    Ok(())
}

fn dump_state(report: &CpuReport, out: &mut dyn Write) -> fmt::Result {
    let stats = &report.stats;
    let retries = stats.passes.saturating_sub(stats.interrupts);
    writeln!(out, "  .expires_next   : {}", At(report.armed))?;
    writeln!(out, "  .hres_active    : {}", u8::from(report.is_online))?;
    writeln!(out, "  .nr_events      : {}", stats.interrupts)?;
    writeln!(out, "  .nr_retries     : {retries}")?;
    writeln!(out, "  .nr_hangs       : {}", stats.hangs)?;
    // Nanoseconds, of which the kernel does not say so.
    writeln!(out, "  .max_hang_time  : {}", stats.max_hang.as_nanos())?;
    writeln!(out, "  .online         : {}", u8::from(report.is_online))?;
    writeln!(
        out,
        "  .hang           : {}",
        u8::from(report.is_backing_off)
    )?;
    writeln!(out, "  .deferred_rearm : {}", Deferred(report.deferred))?;
    writeln!(out, "  .soft_next      : {}", At(report.soft_next))?;
    writeln!(out, "  .soft_pending   : {}", u8::from(report.soft_pending))?;
    writeln!(out, "  .starts         : {}", stats.starts)?;
    writeln!(out, "  .in_place       : {}", stats.in_place)?;
    writeln!(out, "  .filed_early    : {}", stats.filed_early)?;
    writeln!(out, "  .far_in_slot    : {}", stats.far_in_slot)?;
    writeln!(out, "  .expired        : {}", stats.expired)?;
    writeln!(out, "  .cancelled      : {}", stats.cancelled)?;
    writeln!(out, "  .spurious       : {}", stats.spurious)?;
    writeln!(out, "  .device_writes  : {}", stats.device_writes)?;
    writeln!(out, "  .clamped        : {}", stats.clamped)?;
    writeln!(out, "  .written_late   : {}", stats.written_late)?;
    for (count, flush) in stats.flushes.iter().zip(Flush::ALL) {
        if *count > 0 {
            writeln!(out, "  .flush_{:<9}: {count}", flush.name())?;
        }
    }
    writeln!(out, "  .coarse_arms    : {}", stats.coarse_arms)?;
    writeln!(out, "  .coarse_in_slot : {}", stats.coarse_in_slot)?;
    writeln!(out, "  .coarse_expired : {}", stats.coarse_expired)?;
    writeln!(out, "  .coarse_requeued: {}", stats.coarse_requeued)?;
    writeln!(out, "  .coarse_cancels : {}", stats.coarse_cancelled)?;
    writeln!(out, "  .wheels_sleep   : {}", u8::from(report.wheels_sleep))
}

impl WheelReport {
    fn dump(&self, out: &mut dyn Write) -> fmt::Result {
        let name = match self.kind {
            WheelKind::Local => "local",
            WheelKind::Global => "global",
            WheelKind::Deferrable => "deferrable",
        };
        writeln!(out, " wheel {}:", self.kind as u8)?;
        writeln!(out, "  .kind:       {name}")?;
        writeln!(out, "  .clk:        {}", self.clock.0)?;
        match self.first_due {
            Some(Tick(tick)) => writeln!(out, "  .next_due:   {tick}")?,
            None => writeln!(out, "  .next_due:   never")?,
        }
        writeln!(out, "  .running:    {}", u8::from(self.is_running))
    }
}

impl DeviceReport {
    /// Writes the lines of `/proc/timer_list` about a clock event device.
    ///
    /// # Errors
    ///
    /// The errors of `out`.
    pub fn dump(&self, out: &mut dyn Write) -> fmt::Result {
        writeln!(out, "Clock Event Device: {}", self.name)?;
        writeln!(out, " max_delta_ns:   {}", self.max_delay.as_nanos())?;
        writeln!(out, " min_delta_ns:   {}", self.min_delay.as_nanos())?;
        writeln!(out, " mult:           {}", self.scale.mult())?;
        writeln!(out, " shift:          {}", self.scale.shift())?;
        writeln!(out, " mode:           {}", mode(self.state))?;
        writeln!(out, " next_event:     {}", At(self.next_event))?;
        writeln!(out, " retries:        {}", self.retries)?;
        let kind = match self.kind {
            DeviceKind::Relative => "relative",
            DeviceKind::Coupled(_) => "coupled",
            DeviceKind::Software => "software",
        };
        writeln!(out, " kind:           {kind}")?;
        let programmed = match self.programmed {
            Programmed::Idle => "idle",
            Programmed::Normal(_) => "normal",
            Programmed::ForcedMinimum(_) => "forced minimum",
        };
        writeln!(out, " programmed:     {programmed}")?;
        writeln!(out)
    }
}

/// Returns the kernel's number for the state of a device.
const fn mode(state: DeviceState) -> u8 {
    match state {
        DeviceState::Detached => 0,
        DeviceState::Shutdown => 1,
        DeviceState::Periodic => 2,
        DeviceState::Oneshot => 3,
        DeviceState::OneshotStopped => 4,
    }
}

/// An instant in the format of the dump.
pub(crate) struct At(pub(crate) Instant);

impl fmt::Display for At {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} nsecs", self.0.as_nanos())
    }
}

struct Deferred(DeferredRearm);

impl fmt::Display for Deferred {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            DeferredRearm::Clear => formatter.write_str("clear"),
            DeferredRearm::Running => formatter.write_str("running"),
            DeferredRearm::OwedFresh(next) => write!(formatter, "owed, fresh, {}", At(next)),
            DeferredRearm::OwedStale => formatter.write_str("owed, stale"),
        }
    }
}
