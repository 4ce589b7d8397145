//! Turns for other threads: what the [trees](super::trees) ask of the host when a thread finds something due there.

use tickless_core::base::Frozen;
use tickless_core::coarse::Kind as Wheel;
use tickless_core::hierarchy::{CpuNode, Group, GroupId, HierarchyHost};
use tickless_core::platform::CpuId;
use tickless_core::time::Instant;
use tickless_core::wheel::idle::wake_times;

use super::trees::{CHUNK, GROUPS_MAX, Lock, Purpose, Table, WIDTH};
use crate::host::process::Host;
use crate::host::registry::{base, bases, timers};
use crate::host::thread::{ThreadBase, at_earliest, lock};
use crate::host::tick::{first_due, tick_of, tick_time};
use crate::host::turn::{self, Done};
use crate::host::{device, wake};

/// Takes a turn for the thread on `base`.
pub(super) fn take_turn_for(base: &'static ThreadBase) -> Done {
    let occupant = base.local().occupant();
    let done = turn::run(base, at_earliest());
    if base.local().kind().runs_its_own() && occupant == base.local().occupant() {
        // It began to do so during that turn, and may wait by now for what the turn did or left undone.
        device::kick(base);
    }
    done
}

/// Runs what is due at `now` on the global wheel of another thread: how many fired.
pub(super) fn pull(cpu: CpuId, now: Instant, budget: u32) -> u32 {
    timers()
        .run_wheel(cpu, Wheel::Global, tick_of(now), budget)
        .fired
}

impl HierarchyHost<WIDTH> for Table {
    type Lock = Lock;
    type LockedBases<'a> = Frozen<'a, Host>;

    fn node(&self, cpu: CpuId) -> Option<&CpuNode<Lock>> {
        let number = cpu.0 as usize;
        let chunk = self.nodes.place(number / CHUNK)?.get_or_init(|| {
            let first = number - number % CHUNK;
            (first..first + CHUNK)
                .filter_map(|number| u32::try_from(number).ok())
                .map(|number| CpuNode::new(CpuId(number)))
                .collect()
        });
        chunk.get(number % CHUNK)
    }

    fn cpus(&self) -> u32 {
        u32::try_from(bases().count()).unwrap_or(u32::MAX)
    }

    fn group(&self, id: GroupId) -> &Group<Lock, WIDTH> {
        self.groups
            .get(id.0 as usize)
            .expect("groups are placed before they are named")
    }

    fn reserve(&self, groups: u32) -> bool {
        groups as usize <= GROUPS_MAX
    }

    fn place(&self, id: GroupId, group: Group<Lock, WIDTH>) {
        let place = self.groups.place(id.0 as usize);
        let placed = place.is_some_and(|place| place.set(Box::new(group)).is_ok());
        debug_assert!(placed, "a group is placed once, where there is room");
    }

    fn expire_global(&self, cpu: CpuId, now: Instant, budget: &mut u32) {
        let fired = match self.purpose {
            Purpose::Foreign => base(cpu).map_or(0, |base| take_turn_for(base).fired),
            Purpose::Workers => pull(cpu, now, *budget),
        };
        *budget = budget.saturating_sub(fired);
    }

    fn lock_bases(&self, cpu: CpuId) -> (Frozen<'_, Host>, Instant) {
        let base = base(cpu).expect("a thread with a node has a base");
        let now = at_earliest();
        if !first_due(base).is_forever() {
            // What is known of the first coarse timer may be out of date: that would cost a look for nothing.
            let _settled = timers().wheel_next(cpu, tick_of(now));
        }
        let held = lock(base);
        let global = match self.purpose {
            Purpose::Foreign => device::note_set(base),
            Purpose::Workers => wake_times(base.wheel_next_due(), tick_time(now)).global,
        };
        (held, global)
    }

    fn activate(&self, cpu: CpuId) {
        match self.purpose {
            // The expiry thread is the only one.
            Purpose::Foreign => wake::wake(),
            Purpose::Workers => {
                if let Some(base) = base(cpu) {
                    base.local().parker.unpark();
                }
            }
        }
    }
}
