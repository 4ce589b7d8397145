//! `covered`: every finite global time of a CPU that sleeps is looked after by somebody (P2).
//!
//! Looked at every 10 ms, between two events, when no walk through the hierarchy is under way.

use tickless_core::hierarchy::HierarchyHost;
use tickless_core::platform::CpuId;
use tickless_core::time::Instant;
use tickless_core::wheel::idle::wake_times;

use super::Promise;
use crate::machine::machine::World;
use crate::model::time::Picos;

/// CPUs that are looked at in one sample. On larger machines they take turns, so that looking does not take longer than
/// what is looked at.
const LOOKS: u32 = 256;

impl World {
    /// Looks at the machine between two events: no walk is under way.
    pub(crate) fn sample(&mut self) {
        let cpus = u32::try_from(self.cpus.len()).unwrap_or(u32::MAX);
        let node = |cpu: u32| self.tree.host().node(CpuId(cpu));
        let promised = (0..cpus)
            .filter_map(node)
            .filter(|node| node.is_available())
            .map(|node| node.wakeup())
            .min()
            .unwrap_or(Instant::FOREVER);
        let first = self.looked_at;
        let looks = cpus.min(LOOKS);
        self.looked_at = (first + looks) % cpus;
        for cpu in (0..looks).map(|look| (first + look) % cpus) {
            self.is_covered(cpu, promised);
        }
    }

    /// Whether somebody looks after the first global time of `cpu`, if that sleeps (P2). `promised` is the earliest
    /// time at which anybody promised to wake for others.
    fn is_covered(&self, cpu: u32, promised: Instant) {
        let sites = self.tree.host();
        let Some(node) = sites.node(CpuId(cpu)) else {
            return;
        };
        // It is in an interrupt still, and has not said what it armed there.
        let state = &self.cpus[cpu as usize];
        if state.is_put_off {
            return;
        }
        // Whoever left gave it its timers, and kicked it.
        let host = self.timers.platform();
        if host.site(cpu).trouble.is_kicked.get() {
            return;
        }
        if !node.is_available() || !node.is_idle() {
            return;
        }
        // Nobody has gone by a later one.
        let now = host.count.now();
        let next = self.timers.wheel_next(CpuId(cpu), now.tick);
        let time = wake_times(next, now).global;
        if time.is_forever() {
            return;
        }
        // It wakes for it itself: the timer is too near to be told (spec 3.2).
        let tick = state.tick.pinned();
        if tick.deadline(&self.timers).is_some_and(|wake| wake <= time) {
            return;
        }
        let mut level = node.leaf();
        let mut is_told = true;
        while let Some(id) = level {
            let group = sites.group(id);
            is_told &= group.first() <= time;
            if group.state().is_active() {
                // Its migrator is awake and looks here.
                break;
            }
            level = group.parent();
            // Whoever left made another one its heir, which is about to wake up and promise; but all was told before.
            is_told &= level.is_some() || promised <= time || host.heirs.get() > 0;
        }
        if !is_told {
            let time = Picos::of_instant(time);
            let what = format!("nobody looks after its global timer of {time}");
            let mut watch = self.timers.platform().watch.borrow_mut();
            watch.broken(Promise::Covered, cpu, what);
        }
    }
}
