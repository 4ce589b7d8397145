//! The live state as text, in the layout of `/proc/timer_list` (spec 6.3).

use core::fmt::{self, Write};

use tickless_link::entry::EntryRef;

use super::base::{BaseState, DeferredRearm, Held, QUEUES};
use super::timer::{Head, Hr};
use super::{CpuBase, Flush, Timers};
use crate::event::Programmed;
use crate::platform::Platform;
use crate::time::{Clock, Deadline, Instant};

/// Timers copied for each time the lock is held (spec DMP-2).
const BATCH: usize = 32;

/// A timer as it is printed.
#[derive(Clone, Copy)]
struct Line {
    address: usize,
    code: usize,
    soft: i64,
    hard: i64,
    lazy: bool,
}

impl<P: Platform> Timers<P> {
    /// Writes the state of all CPUs in the layout of `/proc/timer_list`, with what this library has in addition.
    ///
    /// Each base is locked for a few microseconds at a time; timers that come and go meanwhile may be missing or
    /// double.
    ///
    /// # Errors
    ///
    /// Those of `out`.
    pub fn dump(&self, out: &mut dyn Write) -> fmt::Result {
        writeln!(out, "Timer List Version: v0.10")?;
        writeln!(out, "HRTIMER_MAX_CLOCK_BASES: {QUEUES}")?;
        writeln!(out, "now at {} nsecs", self.platform.now().as_nanos())?;
        writeln!(out)?;
        for base in self.bases() {
            self.dump_base(base, out)?;
        }
        for base in self.bases() {
            self.dump_device(base, out)?;
        }
        Ok(())
    }

    fn dump_base(&self, base: &CpuBase<P>, out: &mut dyn Write) -> fmt::Result {
        writeln!(out, "cpu: {}", base.cpu().0)?;
        for index in 0..QUEUES {
            let offset = Held::lock(self, base, self.platform.this_cpu())
                .state
                .queues[index]
                .offset;
            writeln!(out, " clock {index}:")?;
            writeln!(
                out,
                "  .base:       {:#x}",
                core::ptr::from_ref(base).addr()
            )?;
            writeln!(out, "  .index:      {index}")?;
            writeln!(out, "  .clock:      {}", Clock::ALL[index % 4].name())?;
            writeln!(
                out,
                "  .stage:      {}",
                if index < 4 { "hard" } else { "soft" }
            )?;
            writeln!(out, "  .resolution: 1 nsecs")?;
            // Signed: offsets can be negative (spec DMP-3).
            writeln!(out, "  .offset:     {} nsecs", offset.as_nanos())?;
            writeln!(out, "active timers:")?;
            self.dump_queue(base, index, out)?;
        }
        self.dump_state(base, out)
    }

    fn dump_queue(&self, base: &CpuBase<P>, index: usize, out: &mut dyn Write) -> fmt::Result {
        let mut printed = 0;
        loop {
            let mut batch = [Line {
                address: 0,
                code: 0,
                soft: 0,
                hard: 0,
                lazy: false,
            }; BATCH];
            let mut count = 0;
            let held = Held::lock(self, base, self.platform.this_cpu());
            let offset = held.state.queues[index].offset;
            let take = |entry: EntryRef<'_, Hr>, _filed: Deadline, head: &Head| {
                batch[count] = Line {
                    address: entry.address(),
                    code: entry.code_address(),
                    soft: head.earliest().as_nanos(),
                    hard: head.deadline().as_nanos(),
                    lazy: entry.tag().is_lazy(),
                };
                count += 1;
                count < BATCH
            };
            held.state.queues[index].tree.for_each(printed, take);
            drop(held);
            let now = offset.shown_at(self.platform.now()).as_nanos();
            for line in &batch[..count] {
                let lazy = if line.lazy { ", lazy" } else { "" };
                writeln!(
                    out,
                    " #{printed}: <{:#x}>, {:#x}, S:01{lazy}",
                    line.address, line.code
                )?;
                writeln!(
                    out,
                    " # expires at {}-{} nsecs [in {} to {} nsecs]",
                    line.soft,
                    line.hard,
                    line.soft.saturating_sub(now),
                    line.hard.saturating_sub(now),
                )?;
                printed += 1;
            }
            if count < BATCH {
                return Ok(());
            }
        }
    }

    fn dump_state(&self, base: &CpuBase<P>, out: &mut dyn Write) -> fmt::Result {
        let held = Held::lock(self, base, self.platform.this_cpu());
        let BaseState {
            deferred,
            hang,
            soft_pending,
            soft_next,
            stats,
            ..
        } = *held.state;
        let armed = base.armed();
        drop(held);
        writeln!(out, "  .expires_next   : {}", At(armed))?;
        writeln!(out, "  .online         : {}", u8::from(base.is_online()))?;
        writeln!(out, "  .hres_active    : {}", u8::from(base.is_online()))?;
        writeln!(out, "  .nr_events      : {}", stats.interrupts)?;
        writeln!(
            out,
            "  .nr_retries     : {}",
            stats.passes.saturating_sub(stats.interrupts)
        )?;
        writeln!(out, "  .nr_hangs       : {}", stats.hangs)?;
        writeln!(
            out,
            "  .max_hang_time  : {} nsecs",
            stats.max_hang.as_nanos()
        )?;
        writeln!(out, "  .hang           : {}", u8::from(hang))?;
        writeln!(out, "  .deferred_rearm : {}", Deferred(deferred))?;
        writeln!(out, "  .soft_next      : {}", At(soft_next))?;
        writeln!(out, "  .soft_pending   : {}", u8::from(soft_pending))?;
        writeln!(out, "  .starts         : {}", stats.starts)?;
        writeln!(out, "  .in_place       : {}", stats.in_place)?;
        writeln!(out, "  .expired        : {}", stats.expired)?;
        writeln!(out, "  .cancelled      : {}", stats.cancelled)?;
        writeln!(out, "  .spurious       : {}", stats.spurious)?;
        writeln!(out, "  .device_writes  : {}", stats.device_writes)?;
        for (count, flush) in stats.flushes.iter().zip(Flush::ALL) {
            if *count > 0 {
                writeln!(out, "  .flush_{:<9}: {count}", flush.name())?;
            }
        }
        writeln!(out)
    }

    fn dump_device(&self, base: &CpuBase<P>, out: &mut dyn Write) -> fmt::Result {
        let held = Held::lock(self, base, self.platform.this_cpu());
        let device = Device::of(&held.state);
        drop(held);
        // Mode 1 is one-shot: there is no other here.
        writeln!(out, "Tick Device: mode:     1")?;
        writeln!(out, "Per CPU device: {}", base.cpu().0)?;
        device.dump(out)
    }
}

/// What is printed of a device.
struct Device {
    name: &'static str,
    min_delta: u64,
    max_delta: u64,
    mult: u32,
    shift: u32,
    state: crate::event::DeviceState,
    kind: crate::event::Kind,
    programmed: Programmed,
    next_event: Instant,
    retries: u64,
}

impl Device {
    fn of(state: &BaseState) -> Self {
        let device = &state.device;
        Self {
            name: device.config().name,
            min_delta: device.min_delay().as_nanos(),
            max_delta: device.max_delay().as_nanos(),
            mult: device.scale().mult(),
            shift: device.scale().shift(),
            state: device.state(),
            kind: device.config().kind,
            programmed: device.programmed(),
            next_event: device.next_event(),
            retries: device.retries(),
        }
    }

    fn dump(&self, out: &mut dyn Write) -> fmt::Result {
        writeln!(out, "Clock Event Device: {}", self.name)?;
        writeln!(out, " max_delta_ns:   {}", self.max_delta)?;
        writeln!(out, " min_delta_ns:   {}", self.min_delta)?;
        writeln!(out, " mult:           {}", self.mult)?;
        writeln!(out, " shift:          {}", self.shift)?;
        writeln!(out, " mode:           {:?}", self.state)?;
        writeln!(out, " kind:           {:?}", self.kind)?;
        writeln!(
            out,
            " programmed:     {}",
            match self.programmed {
                Programmed::Idle => "idle",
                Programmed::Normal(_) => "normal",
                Programmed::ForcedMinimum(_) => "forced minimum",
            }
        )?;
        writeln!(out, " next_event:     {}", At(self.next_event))?;
        writeln!(out, " retries:        {}", self.retries)?;
        writeln!(out)
    }
}

/// An instant as the dump prints it.
struct At(Instant);

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
