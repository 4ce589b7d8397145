//! The state of every CPU and every group, reconstructed from a recording.

use tickless_core::hierarchy::{ChildSlot, ChildSlots, Step};
use tickless_core::trace::Event;
use tickless_core::trace::line::Setting;
use tickless_sim::record::{MachineEvent, Record, Recorded};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Activity {
    /// The CPU is in an interrupt of this name.
    Interrupt(&'static str),
    Soft,
    /// The CPU runs the task with this number.
    Running(u32),
    /// The CPU is leaving idle.
    Waking,
    /// The CPU chooses the task that runs next.
    Choosing,
    /// The CPU sleeps in this idle state.
    Idle(String),
    /// The CPU is offline.
    Off,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Cpu {
    interrupt: Option<&'static str>,
    is_soft: bool,
    task: Option<u32>,
    idle: Option<String>,
    is_waking: bool,
    is_off: bool,
    /// The time at which the CPU made its promise, and the time that it promised.
    pub(super) promise: Option<(u64, i64)>,
    /// The group of the CPU, and the CPU's place among its children.
    pub(super) leaf: Option<(usize, ChildSlot)>,
}

impl Cpu {
    pub(super) fn activity(&self) -> Activity {
        if self.is_off {
            Activity::Off
        } else if self.is_soft {
            Activity::Soft
        } else if let Some(name) = self.interrupt {
            Activity::Interrupt(name)
        } else if let Some(state) = &self.idle {
            Activity::Idle(state.clone())
        } else if self.is_waking {
            Activity::Waking
        } else if let Some(task) = self.task {
            Activity::Running(task)
        } else {
            Activity::Choosing
        }
    }

    fn does(&mut self, what: &MachineEvent) {
        match what {
            MachineEvent::IrqHandlerEntry { name } => {
                self.interrupt = Some(name);
                self.is_waking = false;
            }
            MachineEvent::IrqHandlerExit { .. } => self.interrupt = None,
            MachineEvent::SoftirqEntry { .. } => self.is_soft = true,
            MachineEvent::SoftirqExit { .. } => self.is_soft = false,
            MachineEvent::SchedSwitch { next, .. } => self.task = *next,
            MachineEvent::CpuIdle { state, .. } => {
                self.is_waking = state.is_none();
                self.idle.clone_from(state);
            }
            _ => {}
        }
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct Group {
    pub(super) level: usize,
    /// The parent of the group, and the group's place among its children.
    pub(super) parent: Option<(usize, ChildSlot)>,
    pub(super) active: ChildSlots,
    pub(super) migrator: Option<ChildSlot>,
}

/// The state of the machine at a moment.
#[derive(Clone, Debug, Default)]
pub(super) struct State {
    pub(super) cpus: Vec<Cpu>,
    pub(super) groups: Vec<Group>,
}

impl State {
    pub(super) fn new(cpus: u32) -> Self {
        Self {
            cpus: vec![Cpu::default(); cpus as usize],
            groups: Vec::new(),
        }
    }

    pub(super) fn apply(&mut self, record: &Record) {
        match record.what {
            Recorded::Machine(ref what) => {
                if let Some(cpu) = record.cpu {
                    self.cpus[cpu as usize].does(what);
                }
                if let MachineEvent::CpuOnline { of_cpu, online } = *what {
                    let cpu = &mut self.cpus[of_cpu as usize];
                    cpu.is_off = !online;
                    cpu.task = None;
                }
            }
            Recorded::Tree(part) => self.grow(part),
            Recorded::Library {
                event: Event::Hierarchy { step, .. },
                ..
            } => self.step(step, record.time),
            Recorded::Library { .. } => {}
        }
    }

    fn grow(&mut self, part: Setting) {
        match part {
            Setting::Group { level, .. } => self.groups.push(Group {
                level,
                ..Group::default()
            }),
            Setting::Child {
                group,
                parent,
                slot,
            } => self.groups[group as usize].parent = Some((parent as usize, slot)),
            Setting::Cpu { cpu, parent, slot } => {
                self.cpus[cpu.0 as usize].leaf = Some((parent as usize, slot));
            }
        }
    }

    fn step(&mut self, step: Step, at: u64) {
        match step {
            Step::Wakeup { cpu, time } => {
                let cpu = &mut self.cpus[cpu.0 as usize];
                cpu.promise = (!time.is_forever()).then(|| (at, time.as_nanos()));
            }
            Step::State { group, new, .. } => {
                let group = &mut self.groups[group.0 as usize];
                group.active = new.active();
                group.migrator = new.migrator();
            }
            _ => {}
        }
    }
}
