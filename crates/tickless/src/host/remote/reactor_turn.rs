//! The turn that fires the timers of a [reactor's](super::reactors) threads: a task of the runtime takes the turn if
//! the reactor rang, and the expiry thread takes it if the reactor did not ring.
//!
//! A turn finds its timers in the reactor's tree, as the expiry thread finds them in the tree of all other foreign
//! threads.

use std::num::NonZeroU32;
use std::sync::atomic::Ordering;
use std::sync::{MutexGuard, PoisonError, TryLockError};

use tickless_core::time::Instant;

use super::expire::take_along;
#[cfg(feature = "tokio")]
use super::reactors::Runtimes as _;
use super::reactors::{self, Attached, By, Reactor};
use super::trees;
use crate::host::device;
use crate::host::doorbell::GRACE;
#[cfg(feature = "tokio")]
use crate::host::lifecycle;
#[cfg(feature = "tokio")]
use crate::host::process::Host;
use crate::host::process::TURN_BUDGET;
use crate::host::registry::EXPIRY_THREAD;
use crate::host::thread::{
    Thread, ThreadBase, ThreadKind, now_lower, turn_taken_by_this_thread, with_thread,
};

/// The number of turns that a task takes in a row if more timers are due, before it lets other tasks of the runtime
/// run. Each such turn saves a system call and a pass through the reactor.
const IN_A_ROW: u32 = 4;

/// The time at which a reactor's descriptor is set for the timers that a turn left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SetDescriptor {
    /// The turn sets the descriptor.
    AtOnce,
    /// The function [`end_turn`] sets the descriptor; the task that takes the turn calls it before the reactor waits.
    AtEnd,
}

/// Fires the due timers of the runtime's threads after the reactor rang, and makes the reactor ring for the next
/// timers. Called by a task of the runtime. Returns whether the task has to call [`end_turn`].
pub(crate) fn take_turn(attached: &Attached, setting: SetDescriptor) -> bool {
    let reactor = attached.reactor;
    if !attached.is_attached() {
        return false;
    }
    if turn_taken_by_this_thread().is_some() {
        // A runtime that is driven inside of a callback: the turn that the callback belongs to is not over.
        let later = now_lower().as_nanos().saturating_add(GRACE);
        reactor.doorbell.postpone(later);
        return false;
    }
    join(attached);
    // Relaxed: a hint.
    reactor.was_active.store(true, Ordering::Relaxed);
    let first = act_in_a_row(reactor);
    match first {
        Some(first) if setting == SetDescriptor::AtEnd => {
            reactor.doorbell.put_off(first.as_nanos())
        }
        Some(first) => reactor.doorbell.lower_by_reactor(first.as_nanos()),
        None => {
            // That thread lowers the doorbell afterwards.
            let later = now_lower().as_nanos().saturating_add(GRACE);
            reactor.doorbell.revive(later);
        }
    }
    reactor.tell_expiry_thread();
    first.is_some() && setting == SetDescriptor::AtEnd
}

/// Ends a turn. The task that took the turn calls this when it is polled again, after the tasks that the turn woke.
/// Makes the reactor ring for the timers that these tasks started and that the turn left, or takes another turn if
/// timers are due. Returns whether the task has to call this function again.
pub(crate) fn end_turn(attached: &Attached, setting: SetDescriptor) -> bool {
    if !attached.is_attached() {
        return false;
    }
    let doorbell = &attached.reactor.doorbell;
    if doorbell.until() <= now_lower().as_nanos() {
        return take_turn(attached, setting);
    }
    doorbell.lower_by_reactor(i64::MAX);
    false
}

/// Fires the due timers and the timers that may fire, as when the reactor rang, because a task of the runtime called
/// for it. The call does not show that the reactor rings.
pub(crate) fn take_turn_along(attached: &Attached) {
    // In a turn of this thread, or while another thread takes one, the reactor rings in time.
    if attached.is_attached()
        && turn_taken_by_this_thread().is_none()
        && let Some(first) = act_in_a_row(attached.reactor)
    {
        attached.reactor.lower(first);
    }
}

/// Takes turns while more timers are due. Returns the time of the next timer; `None` if another thread takes a turn at
/// present.
fn act_in_a_row(reactor: &Reactor) -> Option<Instant> {
    let mut first = act(reactor, By::Reactor)?;
    for _again in 1..IN_A_ROW {
        if first > now_lower() {
            break;
        }
        // Nothing is lost if another thread came in between: it found the rest, and this rings for what it found.
        first = act(reactor, By::Reactor)?;
    }
    Some(first)
}

/// Takes turns of the expiry thread in place of the reactors that should have rung.
pub(super) fn stand_in() {
    for reactor in reactors::all() {
        let now = now_lower().as_nanos();
        if !reactor.look(now) {
            continue;
        }
        match act(reactor, By::ExpiryThread) {
            Some(first) => reactor.lower(first),
            // Relaxed: the expiry thread's own.
            None => reactor
                .not_before
                .store(now.saturating_add(GRACE), Ordering::Relaxed),
        }
    }
}

/// Fires the due timers. Returns the time of the next timer; `None` if another thread fires them at present.
fn act(reactor: &Reactor, by: By) -> Option<Instant> {
    let role = take_role(reactor)?;
    // Relaxed: the role orders it.
    reactor
        .is_reactors_turn
        .store(by == By::Reactor, Ordering::Relaxed);
    reactor.doorbell.take();
    let tree = reactor.tree();
    tree.leave_idle(EXPIRY_THREAD);
    let now = now_lower();
    let mut budget = TURN_BUDGET;
    let pull = tree.serve_remote(EXPIRY_THREAD, now, &mut budget);
    let has_more = pull.has_more | take_along(Some(reactor.number()), now);
    let first = tree.enter_idle(EXPIRY_THREAD, Instant::FOREVER);
    // Before the doorbell is lowered: a reactor that does not get the role from here on comes too early to miss that.
    drop(role);
    if reactor.is_inherited() {
        // A callback forked, and this is the child.
        return Some(Instant::FOREVER);
    }
    Some(if has_more { now } else { first })
}

fn take_role(reactor: &Reactor) -> Option<MutexGuard<'_, ()>> {
    match reactor.role.try_lock() {
        Ok(role) => Some(role),
        Err(TryLockError::Poisoned(poisoned)) => Some(PoisonError::into_inner(poisoned)),
        Err(TryLockError::WouldBlock) => None,
    }
}

/// Makes this thread one of the runtime's workers. From then on the reactor rings for this thread, if otherwise only
/// the expiry thread would fire its timers. The function does nothing for a thread without timers.
///
/// The cost is one load and a comparison if the reactor rings for the thread already.
#[inline]
pub(crate) fn join(attached: &Attached) {
    let number = Some(attached.reactor.number());
    if let Some(base) = with_thread(Thread::base)
        && base.local().remote.reactor() != number
    {
        join_slow(base, attached);
    }
}

#[cold]
fn join_slow(base: &ThreadBase, attached: &Attached) {
    if base.local().kind() == ThreadKind::Foreign && attached.is_attached() {
        trees::move_to(base, attached.reactor.number());
        device::renew(base);
    }
}

/// Returns the base of this thread, and the number of the reactor that rings for it.
#[inline]
fn rung_for() -> Option<(&'static ThreadBase, NonZeroU32)> {
    if !cfg!(feature = "tokio") {
        return None;
    }
    let base = with_thread(Thread::base)?;
    Some((base, base.local().remote.reactor()?))
}

/// Returns whether tasks that this thread polls make the runtime fire timers of the thread early ([`take_along_soon`]).
#[inline]
pub(crate) fn is_taken_along() -> bool {
    rung_for().is_some()
}

/// Makes the runtime take a turn after the running task if the first timer of this thread may fire at `now`, though it
/// need not yet. Then no thread is woken for that timer later (spec OBJ-23). Called while a task of an attached runtime
/// runs.
#[inline]
pub(crate) fn take_along_soon(now: Instant) {
    if let Some((base, number)) = rung_for()
        && base.may_fire_from() <= now
        && let Some(reactor) = reactors::of_number(number)
    {
        reactor.call();
    }
}

/// Joins the runtime of this thread, if it has one, before the thread starts a timer.
pub(super) fn settle() {
    #[cfg(feature = "tokio")]
    if let Some(attached) = Host::attached()
        && with_thread(lifecycle::enter).is_some()
    {
        join(&attached);
    }
}
