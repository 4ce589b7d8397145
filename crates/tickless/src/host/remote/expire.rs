//! Expiry for other threads: the calls from the [trees](super::trees) to the host when a thread finds due timers of
//! another thread.

use std::num::NonZeroU32;

use tickless_core::base::Frozen;
use tickless_core::coarse::WheelKind as Wheel;
#[cfg(feature = "tracepoints")]
use tickless_core::hierarchy::Step;
use tickless_core::hierarchy::{CpuNode, Group, GroupId, HierarchyHost};
use tickless_core::platform::CpuId;
use tickless_core::time::Instant;
#[cfg(feature = "tracepoints")]
use tickless_core::trace::Event;
use tickless_core::wheel::idle::wake_times;

use super::reactors;
use super::trees::{CHUNK, GROUPS_MAX, Lock, Purpose, Table, WIDTH};
#[cfg(feature = "tracepoints")]
use crate::host::platform::record;
use crate::host::process::Host;
#[cfg(feature = "tracepoints")]
use crate::host::recording;
use crate::host::registry::{base, bases, timers};
use crate::host::thread::{Thread, ThreadBase, ThreadKind, lock, now_lower, with_thread};
use crate::host::tick::{first_due, tick_of, tick_time};
use crate::host::turn::{self, Done};
use crate::host::{device, wake};

/// Takes a turn for the thread on `base`.
pub(super) fn take_turn_for(base: &'static ThreadBase) -> Done {
    let local = base.local();
    let (occupant, reactor) = (local.occupant(), local.remote.reactor());
    let done = turn::run(base, now_lower());
    if with_thread(Thread::base).is_none_or(|own| own.cpu() != base.cpu()) {
        local.remote.count_pulled(done.fired);
    }
    let looks_after_itself = local.kind().runs_its_own() || reactor != local.remote.reactor();
    if looks_after_itself && occupant == local.occupant() {
        // It began to do so during that turn, or has another reactor, and may wait by now for what the turn did or left
        // undone.
        device::kick(base);
    }
    done
}

/// Takes a turn for every thread whose first timer may fire at `now`, though it need not yet. The driver is awake now,
/// and need not be woken for that timer later (spec OBJ-23). The driver is `reactor`, or the expiry thread if there is
/// none, and only threads whose timers the driver fires are considered. Returns whether more timers are due.
///
/// As soon as any timer has had slack, the cost is one or two loads for each thread at each wake-up; before, there is
/// no cost.
pub(super) fn take_along(reactor: Option<NonZeroU32>, now: Instant) -> bool {
    if !wake::is_slack_in_use() {
        return false;
    }
    let mut more = false;
    for base in bases() {
        let local = base.local();
        if base.may_fire_from() <= now
            && local.kind() == ThreadKind::Foreign
            && local.remote.reactor() == reactor
        {
            let done = take_turn_for(base);
            more |= done.more;
            if let Some(reactor) = reactor.and_then(reactors::of_number) {
                reactor.count_fired(done.fired);
            }
            device::renew(base);
        }
    }
    more
}

/// Fires the timers that are due at `now` on the global wheel of another thread. Returns how many fired.
pub(super) fn pull(cpu: CpuId, now: Instant, budget: u32) -> u32 {
    let pass = timers().run_wheel(cpu, Wheel::Global, tick_of(now), budget);
    if let Some(base) = base(cpu) {
        base.local().remote.count_pulled(pass.fired);
    }
    pass.fired
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
            Purpose::Reactor(number) => {
                let fired = base(cpu).map_or(0, |base| take_turn_for(base).fired);
                if let Some(reactor) = reactors::of_number(number) {
                    reactor.count_fired(fired);
                }
                fired
            }
            Purpose::Workers => pull(cpu, now, *budget),
        };
        *budget = budget.saturating_sub(fired);
    }

    fn lock_bases(&self, cpu: CpuId) -> (Frozen<'_, Host>, Instant) {
        let base = base(cpu).expect("a thread with a node has a base");
        let now = now_lower();
        if !first_due(base).is_forever() {
            // What is known of the first coarse timer may be out of date: that would cost a look for nothing.
            let _settled = timers().wheel_next(cpu, tick_of(now));
        }
        let held = lock(base);
        let global = match self.purpose {
            Purpose::Foreign | Purpose::Reactor(_) => device::note_set(base),
            Purpose::Workers => wake_times(base.wheel_next_due(), tick_time(now)).global,
        };
        (held, global)
    }

    fn activate(&self, cpu: CpuId) {
        match self.purpose {
            // The expiry thread is the only one.
            Purpose::Foreign => wake::wake(),
            Purpose::Reactor(number) => {
                if let Some(reactor) = reactors::of_number(number) {
                    reactor.lower(Instant::ZERO);
                }
            }
            Purpose::Workers => {
                if let Some(base) = base(cpu) {
                    base.local().parker.unpark();
                }
            }
        }
    }

    #[cfg(feature = "tracepoints")]
    #[inline]
    fn step(&self, step: Step) {
        if recording::has_hierarchy() {
            record(Event::Hierarchy {
                tree: self.purpose.number(),
                step,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::task::{Context, Wake, Waker};
    use std::time::Duration;

    use tickless_core::time::Span;

    use super::*;
    use crate::time::{Instant as Point, sleep_until};

    #[derive(Default)]
    struct Woken(AtomicBool);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            // Relaxed: for the thread that wakes, and for one that looks until it sees it.
            self.0.store(true, Ordering::Relaxed);
        }
    }

    /// OBJ-23: a sleep that may end soon, and must end in some seconds, ends when the expiry thread is awake.
    ///
    /// If the machine does not run the test for those seconds, the attempt proves nothing, so there are several
    /// attempts.
    #[test]
    fn what_may_fire_is_taken_along() {
        const SLACK: Duration = Duration::from_secs(4);
        let taken_along = (0..8).any(|_| {
            let must = |soft: Instant| soft.roundest_within(SLACK.into());
            let mut soft = Instant::from_nanos(now_lower().as_nanos() + 1_000_000);
            if must(soft).saturating_since(soft) < Span::from_secs(1) {
                // Behind a round time, which would be next.
                soft = Instant::from_nanos(must(soft).as_nanos() + 1);
            }
            let hard = must(soft);
            let soft = Point::from_core(soft);
            let woken = Arc::<Woken>::default();
            let waker = Waker::from(Arc::clone(&woken));
            let mut sleep = pin!(sleep_until(soft).slack(SLACK));
            assert!(
                sleep
                    .as_mut()
                    .poll(&mut Context::from_waker(&waker))
                    .is_pending()
            );
            while Point::now() < soft {
                std::thread::sleep(Duration::from_micros(100));
            }
            let _more = take_along(None, now_lower());
            while !woken.0.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_micros(100));
            }
            now_lower() < hard
        });
        assert!(taken_along);
    }
}
