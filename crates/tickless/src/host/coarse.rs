//! Coarse timers of threads: the tick, and who comes for them.
//!
//! The tick is a millisecond of the monotonic clock, counted from its beginning: nobody has to count it. A thread files
//! its coarse timers on its own wheels. It finds them due in its own turns; for a thread that does not take turns the
//! background driver comes, as for the exact ones.

use std::sync::atomic::Ordering;

use tickless_core::hrtimer::Frozen;
use tickless_core::platform::CpuId;
use tickless_core::time::{Instant, Span};
use tickless_core::wheel::idle::{TickTime, wake_times};
use tickless_core::wheel::{Kind as Wheel, PassEnd, Tick};

use super::remote::{expiry_thread as background, stuck, trees as tree};
use super::thread::{self as seat, Kind, Local, Seat, with_thread};
use super::{Host, TURN_BUDGET, device, timers};

/// How long a tick is, in nanoseconds.
pub(crate) const TICK: u64 = 1_000_000;

/// The tick in progress at `when`.
#[inline]
pub(crate) fn tick_of(when: Instant) -> Tick {
    Tick(when.as_nanos().max(0).cast_unsigned() / TICK)
}

/// The tick in progress.
pub(crate) fn now() -> Tick {
    tick_of(timers().platform().clock.exact())
}

/// The tick in progress, or the one before if that ended less than 100 µs ago: nothing fires early for it, and it costs
/// a reading of the counter.
#[inline]
pub(crate) fn recently() -> Tick {
    let clock = &timers().platform().clock;
    tick_of(with_thread(|thread| thread.reading.at_earliest(clock)))
}

/// When `tick` begins.
#[inline]
pub(crate) fn instant_of(tick: Tick) -> Instant {
    let nanos = tick.0.saturating_mul(TICK);
    Instant::from_nanos(i64::try_from(nanos).unwrap_or(i64::MAX))
}

/// `now` as idle code wants it.
pub(crate) fn tick_time(now: Instant) -> TickTime {
    let tick = tick_of(now);
    TickTime {
        tick,
        began: instant_of(tick),
        period: Span::from_nanos(TICK),
    }
}

/// When something is due on the wheels of `seat`, or before; [`Instant::FOREVER`] if there is nothing. Lock-free.
#[inline]
pub(crate) fn first_due(seat: &Seat) -> Instant {
    seat.wheel_first_due().map_or(Instant::FOREVER, instant_of)
}

/// As [`first_due`], for this thread's own seat, and exact: what was due and was taken back is forgotten.
pub(crate) fn settle_first_due(seat: &Seat) -> Instant {
    let next = timers().wheel_next(seat.cpu(), recently());
    let due = |tick: Option<Tick>| tick.map_or(Instant::FOREVER, instant_of);
    due(next.local).min(due(next.global))
}

/// Runs what is due at `now` on the global wheel of another thread: how many fired.
pub(super) fn pull(cpu: CpuId, now: Instant, budget: u32) -> u32 {
    timers()
        .run_wheel(cpu, Wheel::Global, tick_of(now), budget)
        .fired
}

/// Lets the worker on `seat` go to sleep: until when it may, for its wheels and for those of others.
///
/// Others look after its global wheel from here on, if it takes part, unless it wakes by itself at `wakes_at` within a
/// tick.
pub(crate) fn enter_idle(seat: &Seat, wakes_at: Instant) -> Instant {
    let (cpu, now) = (seat.cpu(), timers().platform().clock.exact());
    let at = tick_time(now);
    if wakes_at <= now.saturating_add(at.period) {
        // It wakes within a tick, so it counts as awake.
        return first_due(seat);
    }
    let mut until = Instant::FOREVER;
    timers().wheel_enter_idle(cpu, at.tick, |next| {
        let times = wake_times(next, at);
        until = times.local;
        if !times.may_idle {
            return false;
        }
        until = until.min(tree::workers().enter_idle(cpu, times.global));
        if until > now.saturating_add(at.period) {
            return true;
        }
        // Awake, as far as others are concerned (R60).
        tree::workers().leave_idle(cpu);
        false
    });
    until
}

/// The worker on `seat` is awake.
pub(crate) fn leave_idle(seat: &Seat) {
    timers().wheel_leave_idle(seat.cpu());
    tree::workers().leave_idle(seat.cpu());
}

/// Whether the worker on `seat` has to look after others at `now`. Lock-free.
pub(crate) fn is_needed(seat: &Seat, now: Instant) -> bool {
    tree::workers().remote_work_due(seat.cpu(), now)
}

/// Runs the coarse timers of sleeping workers that are due at `now` and that the worker on `seat`, this thread, is to
/// look after; whether more is due.
pub(super) fn look_after_others(seat: &Seat, now: Instant) -> bool {
    let mut budget = TURN_BUDGET;
    let pull = tree::workers().serve_remote(seat.cpu(), now, &mut budget);
    pull.has_more
}

/// Runs what is due at `now` on the wheels of `seat`: how many fired, and whether more is due.
pub(super) fn run(seat: &Seat, now: Instant) -> (u32, bool) {
    let (cpu, now) = (seat.cpu(), tick_of(now));
    let (mut fired, mut more) = (0, false);
    if timers().wheel_is_due(cpu, now) {
        for wheel in Wheel::ALL {
            let pass = timers().run_wheel(cpu, wheel, now, TURN_BUDGET);
            fired += pass.fired;
            more |= pass.end == PassEnd::Budget;
        }
    }
    (fired, more)
}

/// To whom the global coarse timers go that the thread on `seat` arms; `None` if they stay there.
#[inline]
pub(super) fn housekeeper(seat: &Seat) -> Option<CpuId> {
    // Relaxed: a wish, and wherever a timer goes it is found.
    match seat.local().housekeeper.load(Ordering::Relaxed) {
        Local::NOBODY => None,
        number => appointed(seat, CpuId(number)),
    }
}

/// Has another worker look after what the one on `seat` arms while it is isolated, or ends that.
pub(crate) fn appoint(seat: &Seat, wanted: bool) {
    // Nobody in particular: it is replaced when it is used.
    let number = if wanted { seat.cpu().0 } else { Local::NOBODY };
    seat.local().housekeeper.store(number, Ordering::Relaxed);
}

/// `housekeeper` if it still looks after others, or else another one from here on.
fn appointed(seat: &Seat, housekeeper: CpuId) -> Option<CpuId> {
    if tree::takes_part(seat) {
        // Not isolated.
        return None;
    }
    if seat::seat(housekeeper).is_some_and(tree::takes_part) {
        return Some(housekeeper);
    }
    // One that turned up since is as good as any.
    let other = stuck::members().next()?.cpu();
    seat.local().housekeeper.store(other.0, Ordering::Relaxed);
    Some(other)
}

/// Sees to it that somebody comes in time for what this thread armed just now, in the tick `now` or the one after.
#[inline]
pub(crate) fn armed(now: Tick) {
    with_thread(|thread| {
        let Some(seat) = thread.seat() else {
            // Filed with the background driver.
            background::wake_for_the_asked();
            return;
        };
        if seat.local().kind() == Kind::Worker {
            match housekeeper(seat).and_then(seat::seat) {
                Some(housekeeper) => stuck::watch(housekeeper),
                None => stuck::watch_armed(seat, now),
            }
        } else {
            device::changed_own(seat);
        }
    });
}

/// Locks the base of `seat`.
pub(super) fn freeze(seat: &Seat) -> Frozen<'_, Host> {
    let token = with_thread(|thread| {
        let is_own = thread.seat().is_some_and(|own| std::ptr::eq(own, seat));
        thread.token().filter(|_| is_own)
    });
    seat.freeze(token)
}
