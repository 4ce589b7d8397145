//! The hooks through which a recording receives its events.

use tickless_core::hierarchy::{ChildSlot, GroupId, Hierarchy, HierarchyHost, State, Step};
use tickless_core::trace::line::{Setting, clock_name, flags, place};
use tickless_core::trace::{Event as Traced, TimerId};

use super::{GroupState, Recorded, Recorder, nanos};
use crate::model::time::Picos;

impl Recorder {
    #[cold]
    #[inline(never)]
    pub(crate) fn take_from(&self, what: impl FnOnce() -> Recorded) {
        self.take(what());
    }

    #[cold]
    #[inline(never)]
    pub(crate) fn take_from_at(&self, cpu: u32, at: Picos, what: impl FnOnce() -> Recorded) {
        self.take_at(Some(cpu), at, what());
    }

    /// Records an event of the core about timers or devices.
    #[cold]
    #[inline(never)]
    pub(crate) fn traced(&self, event: &Traced) {
        let what = match *event {
            Traced::ExpireExit { timer } => match self.known(timer.0) {
                Some(known) if known.is_exact => Recorded::HrtimerExpireExit { hrtimer: known.id },
                Some(known) => Recorded::TimerExpireExit { timer: known.id },
                // It went in its own callback.
                None => return,
            },
            Traced::Move { timer, from, to } => match self.known(timer.0) {
                Some(known) => Recorded::TimerMove {
                    timer: known.id,
                    from_cpu: from.0,
                    of_cpu: to.0,
                },
                None => return,
            },
            Traced::WheelArm { .. } | Traced::WheelCancel { .. } | Traced::WheelExpire { .. } => {
                self.coarse(event)
            }
            Traced::Start { .. } | Traced::Cancel { .. } | Traced::ExpireEntry { .. } => {
                self.exact(event)
            }
            Traced::Rearm {
                cpu,
                next,
                deferred,
            } => Recorded::HrtimerRearm {
                of_cpu: cpu.0,
                next: nanos(next),
                deferred,
            },
            Traced::Clamped { cpu, event } => Recorded::HrtimerClamped {
                of_cpu: cpu.0,
                next: event.as_nanos(),
            },
            Traced::WrittenLate { cpu, event } => Recorded::HrtimerWrittenLate {
                of_cpu: cpu.0,
                next: event.as_nanos(),
            },
            Traced::Spurious { cpu } => Recorded::HrtimerSpurious { of_cpu: cpu.0 },
            Traced::Hang { cpu, nanos } => Recorded::HrtimerHang {
                of_cpu: cpu.0,
                nanos,
            },
            Traced::Flush { cpu, reason, stale } => Recorded::HrtimerFlush {
                of_cpu: cpu.0,
                point: reason.name(),
                stale,
            },
            _ => match tick(event) {
                Some(what) => what,
                None => return,
            },
        };
        self.take(what);
    }

    fn coarse(&self, event: &Traced) -> Recorded {
        let id = |timer: TimerId| self.number(timer.0, false);
        match *event {
            Traced::WheelArm {
                cpu,
                kind,
                timer,
                now,
                expiry,
                due,
                was_armed,
                ..
            } => Recorded::TimerStart {
                timer: id(timer),
                of_cpu: cpu.0,
                flags: flags(kind),
                now: now.0,
                expires: expiry.0,
                bucket_expiry: due.0,
                was_armed,
            },
            Traced::WheelCancel { cpu, timer, .. } => Recorded::TimerCancel {
                timer: id(timer),
                of_cpu: cpu.0,
            },
            Traced::WheelExpire { timer, timeout, .. } => Recorded::TimerExpireEntry {
                timer: id(timer),
                of_cpu: timeout.cpu.0,
                now: timeout.now.0,
                expires: timeout.expiry.0,
                bucket_expiry: timeout.due.0,
            },
            _ => unreachable!("the caller looked"),
        }
    }

    fn exact(&self, event: &Traced) -> Recorded {
        let id = |timer: TimerId| self.number(timer.0, true);
        match *event {
            Traced::Start {
                cpu,
                timer,
                hard,
                soft,
                was_armed,
                stood,
                clock,
                ..
            } => Recorded::HrtimerStart {
                hrtimer: id(timer),
                of_cpu: cpu.0,
                clock: clock_name(clock),
                expires: hard,
                softexpires: soft,
                was_armed,
                place: place(stood),
            },
            Traced::Cancel { cpu, timer } => Recorded::HrtimerCancel {
                hrtimer: id(timer),
                of_cpu: cpu.0,
            },
            Traced::ExpireEntry {
                cpu,
                timer,
                now,
                hard,
                soft,
                ..
            } => Recorded::HrtimerExpireEntry {
                hrtimer: id(timer),
                of_cpu: cpu.0,
                now,
                expires: hard,
                softexpires: soft,
            },
            _ => unreachable!("the caller looked"),
        }
    }

    /// Records an event of the hierarchy, other than changes of states.
    #[cold]
    #[inline(never)]
    pub(crate) fn stepped(&self, step: Step) {
        let what = match step {
            Step::First { group, first } => Recorded::TmigrGroupExpiry {
                group: group.0,
                next_expiry: nanos(first),
            },
            Step::Wakeup { cpu, time } => Recorded::TmigrCpuWakeup {
                of_cpu: cpu.0,
                wakeup: nanos(time),
            },
            Step::Idle { cpu, time } => Recorded::TmigrCpuIdle {
                of_cpu: cpu.0,
                nextevt: nanos(time),
            },
            Step::NewTimer { cpu, time } => Recorded::TmigrCpuNewTimerIdle {
                of_cpu: cpu.0,
                nextevt: nanos(time),
            },
            Step::Active { cpu } => Recorded::TmigrCpuActive { of_cpu: cpu.0 },
            Step::Available { cpu, is_available } => {
                let of_cpu = cpu.0;
                if is_available {
                    Recorded::TmigrCpuAvailable { of_cpu }
                } else {
                    Recorded::TmigrCpuUnavailable { of_cpu }
                }
            }
            Step::Published {
                group,
                child,
                time,
                cpu,
                first,
                ..
            } => Recorded::TmigrUpdateEvents {
                group: group.0,
                child: 1 << child.number(),
                evtcpu: (!time.is_forever()).then_some(cpu.0),
                nextevt: nanos(time),
                next_expiry: nanos(first),
            },
            Step::Serving { cpu, refused: None } => {
                Recorded::TmigrHandleRemoteCpu { of_cpu: cpu.0 }
            }
            Step::Served { cpu, next } => Recorded::TmigrHandleRemoteCpuDone {
                of_cpu: cpu.0,
                nextevt: next.and_then(nanos),
            },
            _ => return,
        };
        self.take(what);
    }

    /// Records that a child of `group` changed the group's state from `old` to `new`, with this migrator.
    #[cold]
    pub(crate) fn state_changed(
        &self,
        group: GroupId,
        (child, migrator): (ChildSlot, Option<ChildSlot>),
        old: State,
        new: State,
    ) {
        let state = GroupState {
            group: group.0,
            childmask: 1 << child.number(),
            active: new.active().bits(),
            migrator: migrator.map(|slot| 1 << slot.number()),
            seq: new.sequence(),
        };
        let is_more = new.active().len() > old.active().len();
        self.take(if is_more {
            Recorded::TmigrGroupSetCpuActive(state)
        } else {
            Recorded::TmigrGroupSetCpuInactive(state)
        });
    }

    /// Records that a program learned of the cancellation of `timer`.
    pub(crate) fn deleted<T>(&self, timer: &T) {
        if let Some(timer) = self.number_of(timer) {
            self.take(Recorded::TimerDeleteSync { timer });
        }
    }

    /// Opens the recording when the machine is complete, and records its tree. The growth of the tree is not recorded:
    /// the tree appears as if it had always existed.
    pub(crate) fn open<S: HierarchyHost<WIDTH>, const WIDTH: usize>(
        &self,
        tree: &Hierarchy<S, WIDTH>,
    ) {
        self.is_open.set(true);
        tree.for_each_setting(|setting| self.take(of_tree(setting)));
    }
}

/// Returns the record of what a CPU decided on its tick.
fn tick(event: &Traced) -> Option<Recorded> {
    Some(match *event {
        Traced::TickStop { cpu, wake } => Recorded::TickStop {
            of_cpu: cpu.0,
            wake: nanos(wake),
        },
        Traced::TickStart { cpu, due } => Recorded::TickStart {
            of_cpu: cpu.0,
            due: nanos(due),
        },
        Traced::IdleBegin { cpu } => Recorded::TickIdleBegin { of_cpu: cpu.0 },
        Traced::IdleEnd { cpu } => Recorded::TickIdleEnd { of_cpu: cpu.0 },
        Traced::TickKept { cpu, keep } => Recorded::TickEvaluate {
            of_cpu: cpu.0,
            kept: Some(keep.name()),
            wake: None,
        },
        Traced::TickLeft { cpu, wake } => Recorded::TickEvaluate {
            of_cpu: cpu.0,
            kept: None,
            wake: nanos(wake),
        },
        _ => return None,
    })
}

/// Returns the record of a part of the tree.
fn of_tree(setting: Setting) -> Recorded {
    match setting {
        Setting::Group { group, level, node } => Recorded::TmigrGroupSet {
            group,
            lvl: level,
            numa: node,
        },
        Setting::Child {
            group,
            parent,
            slot,
        } => Recorded::TmigrConnectChildParent {
            group,
            parent,
            groupmask: 1 << slot.number(),
        },
        Setting::Cpu { cpu, parent, slot } => Recorded::TmigrConnectCpuParent {
            of_cpu: cpu.0,
            parent,
            groupmask: 1 << slot.number(),
        },
    }
}
