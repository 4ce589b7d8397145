//! The snapshots of a machine's whole state, for the checkers of [promises](crate::promise) that need them.

use tickless_core::hierarchy::HierarchyHost;
use tickless_core::platform::CpuId;
use tickless_core::time::Instant;
use tickless_core::wheel::idle::wake_times;

use crate::machine::broadcast;
use crate::machine::machine::Machine;
use crate::machine::scheduler::Life;
use crate::model::current_cpu;
use crate::model::time::Picos;
use crate::promise::Promise;
use crate::promise::armed_not_later_than_first::Armed;
use crate::promise::covered::{self, Level};

/// The number of CPUs that one sample checks. On larger machines the samples check different CPUs in turn, so that the
/// checks do not take longer than the simulation.
const LOOKS: u32 = 256;

/// Checks, after the executing `cpu` has handled an event, that its device fires no later than its first timer is due.
pub(super) fn armed_in_time(machine: &Machine, cpu: u32) {
    let host = machine.host();
    let first = current_cpu::looking(|| machine.timers.next_event(CpuId(cpu)));
    if first.is_forever() {
        return;
    }
    let due = host.moment(first);
    let local = host.local(cpu);
    let by = broadcast::interrupts(machine.wakener.as_deref(), host, cpu);
    let armed = Armed {
        due,
        cursor: current_cpu::cursor(),
        written: by.written,
        rounding: local.written.late.get(),
        fires: by.fires,
    };
    let Some(what) = armed.is_late(|| host.clocks.slop(due - by.written)) else {
        return;
    };
    // An interrupt that was lost was armed for all the same, a CPU that is being kicked is about to arm, and one that
    // does nothing but run timers is left alone for a moment (spec IRQ-3). A CPU that came back late from where its
    // device stops is being called.
    let is_known = local.fault.rescue.get() != Picos::FOREVER
        || local.fault.is_kicked.get()
        || local.awaits_call.get()
        || current_cpu::looking(|| machine.timers.is_backing_off(CpuId(cpu)));
    if !is_known {
        host.check(Promise::ArmedNotLaterThanFirst, cpu, Some(what));
    }
}

/// Checks the machine between two events, when no walk is in progress.
pub(super) fn sample(machine: &mut Machine) {
    let cpus = u32::try_from(machine.cpus.len()).unwrap_or(u32::MAX);
    let node = |cpu: u32| machine.tree.host().node(CpuId(cpu));
    let first = (0..cpus)
        .filter_map(node)
        .filter(|node| node.is_available())
        .map(|node| node.wakeup())
        .min();
    // A CPU that went offline made another one its heir: that is about to wake up and to promise, and the groups have
    // all times already.
    let has_heirs = machine.host().heirs.get() > 0;
    let promised = if has_heirs {
        Some(Picos::ZERO)
    } else {
        first
            .filter(|first| !first.is_forever())
            .map(Picos::of_instant)
    };
    lags(machine);
    for cpu in 0..cpus {
        machine.check_reserved(cpu);
    }
    let first = machine.looked_at;
    let looks = cpus.min(LOOKS);
    machine.looked_at = (first + looks) % cpus;
    for cpu in (0..looks).map(|look| (first + look) % cpus) {
        is_covered(machine, cpu, promised);
    }
}

/// Checks the lag of the tasks that wait in fair queues.
fn lags(machine: &mut Machine) {
    for task in 0..machine.tasks.len() {
        let one = &machine.tasks[task];
        let cpu = one.cpu;
        let fair = machine.cpus[cpu as usize].waiting.fair();
        let lag = fair.and_then(|fair| fair.lag(one.entity.as_ref()));
        if let (Some(lag), Ok(task)) = (lag, u32::try_from(task)) {
            // One that sleeps in the queue is owed nothing, however long no decision was made.
            let sleeps = machine.tasks[task as usize].life != Life::Ready;
            let lag = if sleeps { lag.min(0) } else { lag };
            machine.check_lag_of(cpu, task, lag);
        }
    }
}

/// Checks that some CPU expires the first global timer of `cpu`, if `cpu` sleeps (PULL-2).
fn is_covered(machine: &Machine, cpu: u32, promised: Option<Picos>) {
    let tables = machine.tree.host();
    let Some(node) = tables.node(CpuId(cpu)) else {
        return;
    };
    // It is in an interrupt still, and has not said what it armed there.
    let state = &machine.cpus[cpu as usize];
    if state.is_put_off {
        return;
    }
    // A CPU that left gave it its timers, and kicked it.
    let host = machine.host();
    if host.local(cpu).fault.is_kicked.get() {
        return;
    }
    if !node.is_available() || !node.is_idle() {
        return;
    }
    // No CPU has gone by a later one.
    let now = host.count.now();
    let next = machine.timers.wheel_next(CpuId(cpu), now.tick);
    let time = wake_times(next, now).global;
    if time.is_forever() {
        return;
    }
    // It wakes for it itself: the timer is too near to be told (spec C-3.2).
    let tick = state.tick.pinned();
    if tick
        .deadline(&machine.timers)
        .is_some_and(|wake| wake <= time)
    {
        return;
    }
    let mut next = node.leaf();
    let levels = std::iter::from_fn(|| {
        let id = next?;
        let group = tables.group(id);
        next = group.parent();
        Some(Level {
            group: id.0,
            first: Some(Picos::of_instant(group.first())),
            is_active: group.state().is_active(),
        })
    });
    let time = Picos::of_instant(time);
    let wrong = covered::uncovered(levels, &time, promised);
    let wrong = wrong.map(|why| format!("no CPU looks after its global timer of {time}: {why}"));
    host.check(Promise::Covered, cpu, wrong);
}

/// Checks the remaining timers when the run ends at `end`. No timer may be overdue, and each timer that was armed and
/// neither fired nor was cancelled must still be queued.
pub(crate) fn end(machine: &Machine, end: Picos) {
    current_cpu::enter(current_cpu::NO_CPU, end);
    let host = machine.host();
    // A clock that was set forward makes due what was not: give it the same time.
    let is_new = end - host.clocks.settled_at() < machine.late_max;
    // What is due before that is overdue.
    let oldest = host.clocks.shows_picos(current_cpu::NO_CPU, end) - machine.late_max;
    let mut pending = 0;
    for cpu in 0..u32::try_from(machine.cpus.len()).unwrap_or(u32::MAX) {
        let id = CpuId(cpu);
        machine.timers.assert_valid(id);
        pending += machine.timers.wheel_pending(id) + machine.timers.pending(id);
        let first = first_of(machine, cpu);
        // A CPU in the middle of something is not late yet.
        let is_busy = machine.cpus[cpu as usize].cursor >= end;
        if first < oldest.instant() && !is_busy && !is_new {
            let first = Picos::of_instant(first);
            let mut checker = host.checker.borrow_mut();
            checker.lost(cpu, first, (oldest, end), &host.clocks);
        }
    }
    if let Some(recorder) = &host.recorder {
        recorder.end(end, pending as u64);
    }
    host.checker.borrow_mut().ends_with(pending);
}

/// Returns the due time of the first timer of `cpu`, by its queues.
fn first_of(machine: &Machine, cpu: u32) -> Instant {
    let now = machine.host().count.now();
    let next = machine.timers.wheel_next(CpuId(cpu), now.tick);
    let coarse = [next.local, next.global].into_iter().flatten().min();
    let began = |tick: u64| (machine.period * tick).instant();
    let coarse = coarse.map_or(Instant::FOREVER, |tick| began(tick.0));
    coarse.min(machine.timers.next_event(CpuId(cpu)))
}
