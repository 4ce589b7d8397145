//! CPUs that are taken off and brought back (spec 5.2, 5.3).
//!
//! What leaves in which order: its place in the hierarchy, its tick, its exact timers, its coarse ones. Inter-processor
//! interrupts that are on their way to it are lost, as on real machines; its tasks stay in its run queue.

use tickless_core::hierarchy::Leaving;
use tickless_core::platform::CpuId;

use crate::baseline::Target;
use crate::fault::FaultKind;
use crate::machine::machine::World;
use crate::machine::queue::{Event, What};
use crate::model::current_cpu;
use crate::model::time::Picos;
use crate::record::Recorded;

impl World {
    /// Takes off `cpu`, which executes, until `amount` from now, if somebody is left to keep house.
    pub(super) fn take_off(&mut self, cpu: u32, amount: Picos, left: Picos) {
        if !self.others_keep_house(cpu) || !self.ticks.may_leave(cpu) {
            return;
        }
        self.leave_idle(cpu);
        self.drop_slice(cpu);
        let state = &mut self.cpus[cpu as usize];
        state.segment = state.segment.wrapping_add(1);
        if let Some(task) = state.current.take() {
            let one = &mut self.tasks[task as usize];
            if one.left != Picos::FOREVER {
                one.left = left.max(Picos(1));
            }
            state.waiting.put(task, one.priority, true);
        }
        state.is_off = true;
        self.ends_tick(cpu);
        let id = CpuId(cpu);
        if self.policy.target == Target::Local {
            let left = self.tree.clear_available(id, Leaving::Offline);
            assert_eq!(left, Ok(()), "it was prepared");
        }
        let site = self.timers.platform().site(cpu);
        site.trouble.held_until.set(Picos::ZERO);
        self.timers.cpu_offline(id);
        self.timers.wheel_offline(id, self.tick_time().tick);
        if let Some(wakener) = &self.wakener {
            wakener.offline(cpu);
        }
        site.awaits_call.set(false);
        site.trouble.rescue.set(Picos::FOREVER);
        site.trouble.is_kicked.set(false);
        self.push(current_cpu::cursor() + amount, What::Return, cpu, 0);
        self.record_online(cpu, false);
        self.count_fault(FaultKind::Offline);
    }

    /// Ends the tick of `cpu`. Somebody else looks at the clock now and then from here on, if `cpu` did.
    fn ends_tick(&self, cpu: u32) {
        let host = self.timers.platform();
        let heir = host.housekeeper_but(cpu);
        let timer = self.cpus[cpu as usize].tick.pinned();
        let now = self.timers.platform().shows();
        let nohz = self.ticks.nohz();
        let ended = nohz.offline(&mut self.ticks.of(cpu), timer, now, CpuId(heir));
        if ended == Ok(true) && self.ticks.is_stopped(heir) {
            self.timers.request_retrigger(CpuId(heir));
        }
    }

    /// Something comes for `cpu`, which is off.
    pub(crate) fn comes_while_off(&mut self, event: Event) {
        let Event {
            at,
            what,
            cpu,
            argument,
            ..
        } = event;
        match what {
            What::Return => self.bring_back(cpu, at),
            What::Continue => self.cpus[cpu as usize].is_put_off = false,
            What::Arrival => {
                let takes = |one: &(u32, &crate::machine::machine::Cpu)| !one.1.is_off;
                let other = (0..).zip(&self.cpus).find(takes);
                let (other, _) = other.expect("one CPU stays");
                self.push(at, What::Arrival, other, argument);
            }
            // Whoever leaves has handed over already what it was to look after.
            What::Activate => self.heir_came(),
            What::ClockSet => self.tells_another(at),
            // Lost on the way; a fault cannot hit it.
            _ => {}
        }
    }

    /// A CPU that was asked to look after others does so now, or left.
    pub(crate) fn heir_came(&self) {
        let heirs = &self.timers.platform().heirs;
        heirs.set(heirs.get() - 1);
    }

    fn record_online(&self, cpu: u32, online: bool) {
        let what = || Recorded::CpuOnline {
            of_cpu: cpu,
            online,
        };
        self.timers.platform().record(what);
    }

    fn bring_back(&mut self, cpu: u32, at: Picos) {
        let state = &mut self.cpus[cpu as usize];
        state.is_off = false;
        state.cursor = state.cursor.max(at);
        let from = state.cursor;
        self.bring_up(cpu, from);
        current_cpu::enter(cpu, self.cpus[cpu as usize].cursor);
        self.record_online(cpu, true);
        self.dispatch(cpu);
        self.handle_fired();
        self.settle(cpu, from);
    }
}
