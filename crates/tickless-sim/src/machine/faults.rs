//! Faults that hit a CPU at a moment.

use std::rc::Rc;

use tickless_core::hierarchy::{Leaving, Presence};
use tickless_core::platform::CpuId;

use crate::baseline::search::Searcher;
use crate::baseline::{Isolation, Target};
use crate::fault::{Fault, FaultKind, When};
use crate::machine::machine::World;
use crate::machine::queue::What;
use crate::machine::reentrant::Callbacks;
use crate::model::current_cpu;
use crate::model::time::Picos;
use crate::record::Recorded;

impl World {
    pub(super) fn plan(&self) -> Rc<[Fault]> {
        let faults = &self.timers.platform().faults;
        faults.as_ref().map_or_else(
            || Rc::new([]) as Rc<[Fault]>,
            |faults| Rc::clone(&faults.borrow().plan),
        )
    }

    /// The fault with this number.
    fn fault(&self, index: u32) -> (FaultKind, Picos) {
        let fault = &self.plan()[index as usize];
        (fault.kind, fault.amount)
    }

    pub(crate) fn count_fault(&self, kind: FaultKind) {
        if let Some(faults) = &self.timers.platform().faults {
            faults.borrow_mut().count(kind);
        }
    }

    fn draw_below(&self, limit: u64) -> u64 {
        let faults = &self.timers.platform().faults;
        faults
            .as_ref()
            .map_or(0, |faults| faults.borrow_mut().random.below(limit.max(1)))
    }

    /// Asks for the first moment of each fault.
    pub(crate) fn plan_faults(&mut self) {
        for (index, fault) in (0_u32..).zip(self.plan().iter()) {
            match fault.when {
                When::At(at) => self.push(at, What::Plan, 0, index),
                When::Every(every) => {
                    let first = Picos(self.draw_below(every.0));
                    self.push(first, What::Plan, 0, index);
                }
                When::OneIn(_) => {}
            }
        }
    }

    /// A moment of the fault `index` came: whom it hits, and when it comes again.
    pub(crate) fn plan_comes(&mut self, at: Picos, index: u32) {
        let plan = self.plan();
        let fault = &plan[index as usize];
        let When::Every(every) = fault.when else {
            if fault.kind.is_of_clocks() {
                self.clock_fault_comes(at, index);
                return;
            }
            for cpu in &fault.cpus {
                self.push(at, What::Fault, *cpu, index);
            }
            return;
        };
        let one = self.draw_below(fault.cpus.len() as u64);
        let cpu = usize::try_from(one)
            .ok()
            .and_then(|one| fault.cpus.get(one));
        if fault.kind.is_of_clocks() {
            self.clock_fault_comes(at, index);
        } else if let Some(cpu) = cpu {
            self.push(at, What::Fault, *cpu, index);
        }
        let next = at + Picos(every.0 / 2) + Picos(self.draw_below(every.0)).max(Picos(1));
        self.push(next, What::Plan, 0, index);
    }

    /// The fault `index` hits `cpu`, which executes nothing at this moment; says whether it is over without the CPU
    /// executing anything.
    pub(crate) fn hits_from_outside(&mut self, cpu: u32, at: Picos, index: u32) -> bool {
        let (kind, amount) = self.fault(index);
        match kind {
            _ if kind.spoils() => {
                if let Some(faults) = &self.timers.platform().faults {
                    faults.borrow_mut().prepare(cpu, index as usize);
                }
            }
            FaultKind::Spurious => {
                self.count_fault(kind);
                self.push(at, What::Spurious, cpu, 0);
            }
            FaultKind::Stall => {
                self.count_fault(kind);
                self.stall(cpu, at, amount);
            }
            _ => return false,
        }
        true
    }

    /// `cpu` executes nothing from `at` on, for `amount`.
    pub(super) fn stall(&mut self, cpu: u32, at: Picos, amount: Picos) {
        let state = &mut self.cpus[cpu as usize];
        state.stalled_until = at + amount;
        let Some(task) = state.current else {
            return;
        };
        if self.tasks[task as usize].left != Picos::FOREVER {
            state.segment_ends += amount;
        }
        if self.tasks[task as usize].is_watched {
            current_cpu::enter(cpu, at + amount);
            self.note_theft(cpu, at);
            let _cursor = current_cpu::leave();
        }
    }

    /// The fault `index` hits `cpu`, which executes, in an interrupt. The task that this interrupted has `left` to
    /// compute.
    pub(crate) fn hits(&mut self, cpu: u32, index: u32, left: Picos) {
        let (kind, amount) = self.fault(index);
        match kind {
            FaultKind::Isolate => self.toggle_isolation(cpu),
            FaultKind::Offline => self.take_off(cpu, amount, left),
            FaultKind::Panic | FaultKind::Meddle => {
                let mut callbacks = self.callbacks.remove(&(index, cpu));
                let callbacks = callbacks
                    .get_or_insert_with(|| Callbacks::new(&self.timers, self.period, amount));
                let callbacks = Rc::clone(callbacks);
                if kind == FaultKind::Panic {
                    callbacks.begin_to_panic();
                } else {
                    callbacks.begin_to_meddle();
                }
                self.callbacks.insert((index, cpu), callbacks);
            }
            _ => unreachable!("it hits from outside"),
        }
    }

    /// Whether another CPU than `cpu` takes part and is not isolated.
    pub(super) fn others_keep_house(&self, cpu: u32) -> bool {
        let keeps = |(other, state): (u32, &crate::machine::machine::Cpu)| {
            other != cpu && !state.is_off && !self.isolated[other as usize]
        };
        (0..).zip(&self.cpus).any(keeps)
    }

    fn toggle_isolation(&mut self, cpu: u32) {
        let becomes = !self.isolated[cpu as usize];
        if becomes && !self.others_keep_house(cpu) {
            return;
        }
        // Who changes that is awake.
        self.leave_idle(cpu);
        let excludes = self.policy.isolation == Isolation::Exclude;
        if excludes && self.policy.target == Target::Local {
            let id = CpuId(cpu);
            let changed = if becomes {
                self.tree.clear_available(id, Leaving::Isolation)
            } else {
                self.tree.set_available(id, Presence::Awake)
            };
            assert_eq!(changed, Ok(()), "others are left");
        }
        self.isolated[cpu as usize] = becomes;
        for state in &mut self.cpus {
            state.searcher = Searcher::default();
        }
        let host = self.timers.platform();
        host.watch.borrow_mut().isolated[cpu as usize] = becomes && excludes;
        host.site(cpu).is_isolated.set(becomes);
        host.record(|| Recorded::CpuIsolated {
            of_cpu: cpu,
            isolated: becomes && excludes,
        });
        self.count_fault(FaultKind::Isolate);
    }

    /// A timer interrupt of `cpu` at `at` that was not asked for; one that was lost may have been.
    pub(crate) fn device_fires_unasked(&mut self, cpu: u32, at: Picos, is_rescue: bool) {
        let trouble = &self.timers.platform().site(cpu).trouble;
        if is_rescue {
            trouble.rescue.set(Picos::FOREVER);
        }
        self.device_fires(cpu, at, true);
    }
}
