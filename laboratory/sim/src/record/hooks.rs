//! The hooks through which a recording receives its events.

use tickless_core::hierarchy::{Hierarchy, HierarchyHost};
use tickless_core::trace::Event;
use tickless_core::trace::line::{Number, Subject};

use super::{MachineEvent, Recorded, Recorder};
use crate::model::time::Picos;

impl Recorder {
    #[cold]
    #[inline(never)]
    pub(crate) fn take_from(&self, what: impl FnOnce() -> MachineEvent) {
        self.take(Recorded::Machine(what()));
    }

    #[cold]
    #[inline(never)]
    pub(crate) fn take_from_at(&self, cpu: u32, at: Picos, what: impl FnOnce() -> MachineEvent) {
        self.take_at(Some(cpu), at, Recorded::Machine(what()));
    }

    /// Records an event of the core, if a trace file has lines for such events.
    #[cold]
    #[inline(never)]
    pub(crate) fn traced(&self, event: Event) {
        if !event.has_line() {
            return;
        }
        let timer = match event.subject() {
            Some(Subject::Exact(timer)) => self.number(timer.0, true),
            Some(Subject::Coarse(timer)) => self.number(timer.0, false),
            Some(Subject::Either(timer)) => match self.known(timer.0) {
                Some(known) => known,
                // It went in its own callback.
                None => return,
            },
            None => Number::NONE,
        };
        self.take(Recorded::Library { event, timer });
    }

    /// Records that a program learned of the cancellation of `timer`.
    pub(crate) fn deleted<T>(&self, timer: &T) {
        if let Some(timer) = self.number_of(timer) {
            self.take(Recorded::Machine(MachineEvent::TimerDeleteSync { timer }));
        }
    }

    /// Opens the recording when the machine is complete, and records its tree. The growth of the tree is not recorded:
    /// the tree appears as if it had always existed.
    pub(crate) fn open<S: HierarchyHost<WIDTH>, const WIDTH: usize>(
        &self,
        tree: &Hierarchy<S, WIDTH>,
    ) {
        self.is_open.set(true);
        tree.for_each_setting(|setting| self.take(Recorded::Tree(setting)));
    }
}
