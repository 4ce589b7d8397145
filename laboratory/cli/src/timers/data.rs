//! The output of `tickless timers --json`: the live state of the timers as data.

use serde_json::{Map, Value, json};
use tickless::Stats;
use tickless::hrtimer::Clock;
use tickless::inspect::{
    CpuReport, DeviceReport, Group, Hierarchy, Queued, Reactor, Snapshot, Thread, Timer, WheelKind,
    WheelReport,
};

use super::rows;

/// Returns the whole document. Times are nanoseconds of the monotonic clock unless a timer names another clock; `null`
/// means never, or unknown.
pub(super) fn document(snapshot: &Snapshot, stats: &Stats) -> Value {
    let counter = tickless::clock::time_stamp_counter();
    let stats: Map<_, _> = rows(stats)
        .into_iter()
        .map(|(name, count)| (name.to_owned(), count.into()))
        .collect();
    json!({
        "now_ns": snapshot.now,
        "tick": snapshot.tick.0,
        "tick_period_ns": snapshot.tick_period.as_nanos(),
        "threads": snapshot.threads.iter().map(thread).collect::<Vec<_>>(),
        "background": {
            "running": snapshot.expiry_thread.is_running,
            "sleeps_until_ns": snapshot.expiry_thread.sleeps_until,
        },
        "hierarchies": snapshot.hierarchies.iter().map(hierarchy).collect::<Vec<_>>(),
        "reactors": snapshot.reactors.iter().map(reactor).collect::<Vec<_>>(),
        "stats": stats,
        "clock": {
            "time_stamp_counter_hz": counter.as_ref().ok(),
            "why_not": counter.as_ref().err().map(ToString::to_string),
            "told_of_sets": tickless::clock::is_told_of_sets(),
            "last_set": tickless::clock::last_set().map(|set| json!({
                "noticed_ns": set.noticed,
                "realtime_ns": set.realtime,
                "boottime_ns": set.boottime,
                "tai_ns": set.tai,
            })),
        },
    })
}

fn thread(thread: &Thread) -> Value {
    let state = &thread.state;
    json!({
        "number": thread.number,
        "role": thread.role.name(),
        "thread": thread.id,
        "name": thread.name,
        "isolated": thread.is_isolated,
        "reactor": thread.reactor,
        "armed_ns": finite(state.armed.as_nanos()),
        "sleeps": state.wheels_sleep,
        "sorted": state.sorted,
        "far": state.far,
        "wheels": state.wheels.iter().map(wheel).collect::<Vec<_>>(),
        "device": device(&state.device),
        "counts": counts(state),
        "timers": thread.timers.iter().map(timer).collect::<Vec<_>>(),
    })
}

fn finite(nanos: i64) -> Option<i64> {
    (nanos != i64::MAX).then_some(nanos)
}

fn counts(state: &CpuReport) -> Value {
    let stats = &state.stats;
    json!({
        "interrupts": stats.interrupts,
        "spurious": stats.spurious,
        "starts": stats.starts,
        "in_place": stats.in_place,
        "filed_early": stats.filed_early,
        "far_in_slot": stats.far_in_slot,
        "expired": stats.expired,
        "cancelled": stats.cancelled,
        "device_writes": stats.device_writes,
        "clamped": stats.clamped,
        "coarse_arms": stats.coarse_arms,
        "coarse_in_slot": stats.coarse_in_slot,
        "coarse_expired": stats.coarse_expired,
        "coarse_cancelled": stats.coarse_cancelled,
    })
}

fn name(kind: WheelKind) -> &'static str {
    match kind {
        WheelKind::Local => "local",
        WheelKind::Global => "global",
        WheelKind::Deferrable => "deferrable",
    }
}

fn wheel(wheel: &WheelReport) -> Value {
    json!({
        "kind": name(wheel.kind),
        "clock": wheel.clock.0,
        "first_due": wheel.first_due.map(|tick| tick.0),
        "pending": wheel.pending,
        "running": wheel.is_running,
    })
}

fn device(device: &DeviceReport) -> Value {
    json!({
        "name": device.name,
        "state": format!("{:?}", device.state).to_lowercase(),
        "min_delay_ns": device.min_delay.as_nanos(),
        "max_delay_ns": device.max_delay.as_nanos(),
        "next_event_ns": finite(device.next_event.as_nanos()),
    })
}

fn timer(timer: &Timer) -> Value {
    let mut document = match timer.queued {
        Queued::Sorted {
            clock,
            stage,
            soft,
            hard,
            filed,
            lazy,
        } => json!({
            "queue": "sorted",
            "clock": clock_name(clock),
            "stage": format!("{stage:?}").to_lowercase(),
            "softexpires_ns": soft,
            "expires_ns": hard,
            "filed_ns": filed,
            "lazy": lazy,
        }),
        Queued::Far { soft, hard, filed } => json!({
            "queue": "far",
            "clock": clock_name(Clock::Monotonic),
            "softexpires_ns": soft,
            "expires_ns": hard,
            "filed_ns": filed,
        }),
        Queued::Wheel { kind, expiry, due } => json!({
            "queue": "wheel",
            "wheel": name(kind),
            "expires_tick": expiry.0,
            "due_tick": due.0,
        }),
        _ => json!({ "queue": "unknown" }),
    };
    document["callback"] = timer.callback.into();
    document["running"] = timer.is_running.into();
    document
}

fn clock_name(clock: Clock) -> String {
    format!("{clock:?}").to_lowercase()
}

fn hierarchy(hierarchy: &Hierarchy) -> Value {
    json!({
        "of": hierarchy.name,
        "available": hierarchy.available,
        "groups": hierarchy.groups.iter().map(group).collect::<Vec<_>>(),
    })
}

fn reactor(reactor: &Reactor) -> Value {
    json!({
        "number": reactor.number,
        "served_by": reactor.served_by.name(),
        "rings_at_ns": reactor.rings_at,
        "expired": reactor.expired,
        "expired_by_background": reactor.expired_by_fallback,
        "hierarchy": hierarchy(&reactor.hierarchy),
    })
}

fn group(group: &Group) -> Value {
    let members = group.members.iter().map(|member| {
        json!({
            "thread": member.thread,
            "place": member.place,
            "available": member.is_available,
            "idle": member.is_idle,
            "wakeup_ns": member.wakeup,
        })
    });
    json!({
        "group": group.number,
        "level": group.level,
        "parent": group.parent.map(|(parent, _)| parent),
        "place": group.parent.map(|(_, place)| place),
        "active": group.active,
        "migrator": group.migrator,
        "first_event_ns": group.first_event,
        "members": members.collect::<Vec<_>>(),
    })
}
