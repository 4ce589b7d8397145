//! The lines of the migration hierarchy.

use core::fmt;

use super::OrNever;
use crate::cpu::CpuId;
use crate::hierarchy::state::ChildSlot;
use crate::hierarchy::step::Step;
use crate::time::Instant;

/// A part of a tree that was there before a recording began: its line has neither time nor CPU of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setting {
    /// A group.
    Group {
        /// Number of the group in the file.
        group: u32,
        /// Level of the group, from 0 on.
        level: usize,
        /// NUMA node of the group.
        node: u32,
    },
    /// A CPU is a child of a group.
    Cpu {
        /// The CPU.
        cpu: CpuId,
        /// The number of its parent in the file.
        parent: u32,
        /// Place of the child among the children of its parent.
        slot: ChildSlot,
    },
    /// A group is a child of another one.
    Child {
        /// The number of the child in the file.
        group: u32,
        /// The number of its parent in the file.
        parent: u32,
        /// Place of the child among the children of its parent.
        slot: ChildSlot,
    },
}

impl Setting {
    /// Returns the line, without its end, of a recording that began at `time`, for the hierarchy of the number `tree`.
    pub const fn line(self, tree: u32, time: i64) -> impl fmt::Display {
        SettingLine {
            time,
            tree,
            what: self,
        }
    }
}

struct SettingLine {
    time: i64,
    tree: u32,
    what: Setting,
}

impl fmt::Display for SettingLine {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{{\"time\":{},\"cpu\":null", self.time)?;
        match self.what {
            Setting::Group { group, level, node } => write!(
                out,
                ",\"event\":\"tmigr_group_set\",\"group\":{group},\"lvl\":{level},\"numa\":{node}"
            )?,
            Setting::Cpu { cpu, parent, slot } => write!(
                out,
                ",\"event\":\"tmigr_connect_cpu_parent\",\"of_cpu\":{},\"parent\":{parent},\"groupmask\":{}",
                cpu.0,
                bit(slot)
            )?,
            Setting::Child {
                group,
                parent,
                slot,
            } => connect(group, parent, slot, out)?,
        }
        write_tree(self.tree, out)?;
        out.write_str("}")
    }
}

/// Writes the number of a hierarchy, which readers take as 0 where it is left out.
pub(super) fn write_tree(tree: u32, out: &mut fmt::Formatter<'_>) -> fmt::Result {
    if tree == 0 {
        return Ok(());
    }
    write!(out, ",\"tree\":{tree}")
}

fn connect(group: u32, parent: u32, slot: ChildSlot, out: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(
        out,
        ",\"event\":\"tmigr_connect_child_parent\",\"group\":{group},\"parent\":{parent},\"groupmask\":{}",
        bit(slot)
    )
}

const fn bit(slot: ChildSlot) -> u32 {
    1 << slot.number()
}

/// Returns true if a trace file has lines for such steps: those that changed something, or ran timers.
pub(super) const fn has_line(step: &Step) -> bool {
    !matches!(
        step,
        Step::GroupRead { .. }
            | Step::ChildRead { .. }
            | Step::Publishing { .. }
            | Step::Promising { .. }
            | Step::Serving {
                refused: Some(_),
                ..
            }
            | Step::Ran { .. }
    )
}

/// Writes the event and the keys of a step.
pub(super) fn write(step: &Step, out: &mut fmt::Formatter<'_>) -> fmt::Result {
    match *step {
        Step::State {
            group,
            child,
            old,
            new,
        } => {
            let name = if new.active().len() > old.active().len() {
                "tmigr_group_set_cpu_active"
            } else {
                "tmigr_group_set_cpu_inactive"
            };
            write!(
                out,
                ",\"event\":\"{name}\",\"group\":{},\"childmask\":{},\"active\":{},\"migrator\":",
                group.0,
                bit(child),
                new.active().bits()
            )?;
            match new.migrator() {
                Some(slot) => write!(out, "{}", bit(slot))?,
                None => out.write_str("null")?,
            }
            write!(out, ",\"seq\":{}", new.sequence())
        }
        Step::Published {
            group,
            child,
            time,
            cpu,
            first,
            ..
        } => {
            write!(
                out,
                ",\"event\":\"tmigr_update_events\",\"group\":{},\"child\":{},\"evtcpu\":",
                group.0,
                bit(child)
            )?;
            if time.is_forever() {
                out.write_str("null")?;
            } else {
                write!(out, "{}", cpu.0)?;
            }
            write!(
                out,
                ",\"nextevt\":{},\"next_expiry\":{}",
                OrNever(time),
                OrNever(first)
            )
        }
        Step::First { group, first } => write!(
            out,
            ",\"event\":\"tmigr_group_expiry\",\"group\":{},\"next_expiry\":{}",
            group.0,
            OrNever(first)
        ),
        Step::Linked {
            child,
            parent,
            slot,
        } => connect(child.0, parent.0, slot, out),
        _ => of_cpu(step, out),
    }
}

fn of_cpu(step: &Step, out: &mut fmt::Formatter<'_>) -> fmt::Result {
    // The event, its CPU, and a time of it.
    let (event, cpu, time) = match *step {
        Step::Wakeup { cpu, time } => ("tmigr_cpu_wakeup", cpu, Some(("wakeup", time))),
        Step::Idle { cpu, time } => ("tmigr_cpu_idle", cpu, Some(("nextevt", time))),
        Step::NewTimer { cpu, time } => ("tmigr_cpu_new_timer_idle", cpu, Some(("nextevt", time))),
        Step::Served { cpu, next } => {
            let next = next.unwrap_or(Instant::FOREVER);
            ("tmigr_handle_remote_cpu_done", cpu, Some(("nextevt", next)))
        }
        Step::Active { cpu } => ("tmigr_cpu_active", cpu, None),
        Step::Available {
            cpu,
            is_available: true,
        } => ("tmigr_cpu_available", cpu, None),
        Step::Available { cpu, .. } => ("tmigr_cpu_unavailable", cpu, None),
        Step::Serving { cpu, .. } => ("tmigr_handle_remote_cpu", cpu, None),
        _ => return Ok(()),
    };
    write!(out, ",\"event\":\"{event}\",\"of_cpu\":{}", cpu.0)?;
    match time {
        Some((key, time)) => write!(out, ",\"{key}\":{}", OrNever(time)),
        None => Ok(()),
    }
}
