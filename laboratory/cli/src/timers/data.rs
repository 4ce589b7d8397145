//! The output of `tickless timers --json`: the live state of the timers as data.

use serde_json::{Map, Value, json};
use tickless::Stats;
use tickless::inspect::{Hierarchy, Queued, Reactor, Snapshot, Thread, Timer};

use super::rows;

/// Returns the document. Times are nanoseconds of the timer's clock; `null` means never.
pub(super) fn document(snapshot: &Snapshot, stats: &Stats) -> Value {
    let stats: Map<_, _> = rows(stats)
        .into_iter()
        .map(|(name, count)| (name.to_owned(), count.into()))
        .collect();
    json!({
        "now_ns": snapshot.now,
        "threads": snapshot.threads.iter().map(thread).collect::<Vec<_>>(),
        "hierarchies": snapshot.hierarchies.iter().map(hierarchy).collect::<Vec<_>>(),
        "reactors": snapshot.reactors.iter().map(reactor).collect::<Vec<_>>(),
        "stats": stats,
    })
}

fn thread(thread: &Thread) -> Value {
    let armed = thread.state.armed.as_nanos();
    json!({
        "number": thread.number,
        "role": thread.role.name(),
        "thread": thread.id,
        "name": thread.name,
        "isolated": thread.is_isolated,
        "reactor": thread.reactor,
        "armed_ns": (armed != i64::MAX).then_some(armed),
        "timers": thread.timers.iter().map(timer).collect::<Vec<_>>(),
    })
}

fn timer(timer: &Timer) -> Value {
    let (queue, expires) = match timer.queued {
        Queued::Sorted { hard, .. } => ("sorted", json!({"expires_ns": hard})),
        Queued::Far { hard, .. } => ("far", json!({"expires_ns": hard})),
        Queued::Wheel { due, .. } => ("wheel", json!({"due_tick": due.0})),
        _ => ("unknown", json!({})),
    };
    let mut document = expires;
    document["queue"] = queue.into();
    document["callback"] = timer.callback.into();
    document["running"] = timer.is_running.into();
    document
}

fn hierarchy(hierarchy: &Hierarchy) -> Value {
    let groups = hierarchy.groups.iter().map(|group| {
        json!({
            "group": group.number,
            "level": group.level,
            "parent": group.parent.map(|(parent, _)| parent),
            "migrator": group.migrator,
        })
    });
    json!({
        "of": hierarchy.name,
        "available": hierarchy.available,
        "groups": groups.collect::<Vec<_>>(),
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
