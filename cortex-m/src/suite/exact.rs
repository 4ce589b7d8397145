//! Tests of exact timers: their lateness, their order, and the counter's wrap.

use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering};

use tickless_core::base::TryCancel;
use tickless_core::hrtimer::{Restart, Start};
use tickless_core::time::{Instant, Span};

use super::fixture::{Verdict, ensure, timer};
use crate::board;
use crate::exit::say;
use crate::host::{self, CPU};

/// The delay of timers that must not fire before their test has finished its preparation.
const AHEAD: Span = Span::from_millis(10);
/// The counts from the deadline to the entry of the interrupt: the phase of the device within a count, and the reading
/// of the counter at the entry.
const ENTRY_LATENESS: core::ops::RangeInclusive<i32> = 1..=2;

// Relaxed throughout: one processor, and what a callback notes is read after its interrupt.

/// A count that a callback writes. It needs no atomic exchange, an instruction that some processors do not have.
struct Count(AtomicU32);

impl Count {
    const fn new() -> Self {
        Self(AtomicU32::new(0))
    }

    fn add(&self, more: u32) {
        self.0.store(self.get() + more, Ordering::Relaxed);
    }

    fn get(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Returns the next instant on the grid of the counter that is at least `AHEAD` from now.
fn on_grid() -> Instant {
    let soon = host::now().saturating_add(AHEAD);
    debug_assert_eq!(soon.as_nanos() % 40, 0);
    soon
}

/// Tests that the counter continues after its 32 bits wrapped around, without a step back and without a jump forward.
pub(super) fn counter() -> Verdict {
    /// The largest step between two readings of the counter, with an interrupt between them.
    const STEP_MAX: u64 = 50;
    /// The count before which the first period of the counter ends.
    const COUNTS: u64 = 60_000;
    let mut last = board::counts();
    ensure!(
        last < COUNTS / 2,
        "the first period is over before the test"
    );
    // Masked, so that it is read while its interrupt is pending.
    cortex_m::interrupt::free(|_| {
        while last < COUNTS {
            let next = board::counts();
            ensure!(next >= last, "the counter went back from {last} to {next}");
            ensure!(
                next - last <= STEP_MAX,
                "the counter leapt from {last} to {next}"
            );
            last = next;
        }
        Ok(())
    })
}

/// Measures how late the interrupt is entered, with a timer that fires 10,000 times, each 100 µs.
pub(super) fn lateness() -> Verdict {
    const TIMES: u32 = 10_000;
    const EVERY: Span = Span::from_micros(100);
    static FIRED: Count = Count::new();
    static EARLY: Count = Count::new();
    static LEAST: AtomicI32 = AtomicI32::new(i32::MAX);
    static MOST: AtomicI32 = AtomicI32::new(i32::MIN);
    let ticking = timer(|expired| {
        let late = host::entered_behind(expired.deadline());
        EARLY.add(u32::from(host::now() < expired.deadline()));
        LEAST.store(LEAST.load(Ordering::Relaxed).min(late), Ordering::Relaxed);
        MOST.store(MOST.load(Ordering::Relaxed).max(late), Ordering::Relaxed);
        FIRED.add(1);
        if FIRED.get() >= TIMES {
            return Restart::No;
        }
        expired.forward_now(EVERY);
        Restart::Yes
    });
    let before = host::interrupts();
    let _started = ticking.start(host::timers(), Start::at(on_grid()));
    until(|| !ticking.is_active());
    let interrupts = host::interrupts() - before;
    let (least, most) = (LEAST.load(Ordering::Relaxed), MOST.load(Ordering::Relaxed));
    say!("  {interrupts} interrupts, entered {least} to {most} counts of 40 ns late");
    ensure!(EARLY.get() == 0, "{} callbacks were early", EARLY.get());
    ensure!(
        interrupts == TIMES,
        "{interrupts} interrupts for {TIMES} deadlines"
    );
    ensure!(
        ENTRY_LATENESS.contains(&least) && ENTRY_LATENESS.contains(&most),
        "an interrupt was not entered {ENTRY_LATENESS:?} counts late"
    );
    Ok(())
}

/// Tests that a thousand timers with random deadlines, started in random order, fire in the order of their deadlines.
pub(super) fn order() -> Verdict {
    const TIMERS: u32 = 1_000;
    const WITHIN: u32 = 50_000_000;
    static FIRED: Count = Count::new();
    static EARLY: Count = Count::new();
    static WRONG: Count = Count::new();
    /// The deadline of the timer that fired last, in nanoseconds after the beginning.
    static LAST: AtomicU32 = AtomicU32::new(0);
    let begin = host::now().saturating_add(Span::from_millis(20));
    let mut drawn = 1_u64;
    for _ in 0..TIMERS {
        // A full period over 64 bits; the upper bits are well mixed.
        drawn = drawn
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let behind = (drawn >> 33) as u32 % WITHIN;
        let when = begin.saturating_add(Span::from_nanos(u64::from(behind)));
        let one = timer(move |expired| {
            EARLY.add(u32::from(host::now() < expired.deadline()));
            WRONG.add(u32::from(behind < LAST.load(Ordering::Relaxed)));
            LAST.store(behind, Ordering::Relaxed);
            FIRED.add(1);
            Restart::No
        });
        let _started = one.start(host::timers(), Start::at(when));
    }
    until(|| FIRED.get() == TIMERS);
    ensure!(host::now() > begin, "all fired before the first was due");
    ensure!(EARLY.get() == 0, "{} timers were early", EARLY.get());
    ensure!(WRONG.get() == 0, "{} timers were out of order", WRONG.get());
    Ok(())
}

/// Tests that a timer that becomes due while interrupts are masked, and is then restarted for a later time, fires once,
/// at the later time.
pub(super) fn moved() -> Verdict {
    static FIRED: Count = Count::new();
    static EARLY: Count = Count::new();
    let one = timer(|expired| {
        FIRED.add(1);
        EARLY.add(u32::from(host::now() < expired.deadline()));
        Restart::No
    });
    let before = host::interrupts();
    cortex_m::interrupt::free(|_| {
        let _started = one.start(host::timers(), Start::after(Span::from_micros(10)));
        let later = host::now().saturating_add(Span::from_micros(50));
        while host::now() < later {}
        let _started = one.start(host::timers(), Start::after(AHEAD));
    });
    until(|| FIRED.get() > 0);
    let interrupts = host::interrupts() - before;
    say!("  {interrupts} interrupts");
    ensure!(
        FIRED.get() == 1 && EARLY.get() == 0,
        "it fired early, or more than once"
    );
    ensure!(interrupts <= 2, "{interrupts} interrupts for one deadline");
    Ok(())
}

/// Tests starts and cancels of timers while the interrupt of another timer interrupts them at random points.
pub(super) fn storm() -> Verdict {
    const TIMES: u32 = 2_000;
    const EVERY: Span = Span::from_micros(20);
    /// The least number of firings that must interrupt the starts.
    const INTERRUPTED_MIN: u32 = 40;
    static FIRED: Count = Count::new();
    static ENDED: AtomicBool = AtomicBool::new(false);
    let ticking = timer(|expired| {
        FIRED.add(1);
        expired.forward_now(EVERY);
        if ENDED.load(Ordering::Relaxed) {
            Restart::No
        } else {
            Restart::Yes
        }
    });
    let idle = timer(|_| Restart::No);
    let _started = ticking.start(host::timers(), Start::after(EVERY));
    for _ in 0..TIMES {
        let _started = idle.start(host::timers(), Start::after(AHEAD));
        let cancel = idle.try_cancel(host::timers());
        ensure!(cancel == TryCancel::Removed, "the cancel says {cancel:?}");
    }
    ENDED.store(true, Ordering::Relaxed);
    until(|| !ticking.is_active());
    say!("  {} interrupted {TIMES} starts and cancels", FIRED.get());
    ensure!(FIRED.get() >= INTERRUPTED_MIN, "it was hardly interrupted");
    Ok(())
}

/// Tests a sleep of three hours: the counter wraps around 62 times, and the device cannot be programmed so far ahead.
pub(super) fn hours() -> Verdict {
    static LATE: AtomicI32 = AtomicI32::new(-1);
    let when = on_grid().saturating_add(Span::from_secs(3 * 3_600));
    let one = timer(|expired| {
        LATE.store(host::entered_behind(expired.deadline()), Ordering::Relaxed);
        Restart::No
    });
    let before = host::interrupts();
    let _started = one.start(host::timers(), Start::at(when));
    until(|| !one.is_active());
    let late = LATE.load(Ordering::Relaxed);
    say!(
        "  {} interrupts, entered {late} counts of 40 ns late",
        host::interrupts() - before
    );
    ensure!(host::now() >= when, "it fired early");
    ensure!(
        ENTRY_LATENESS.contains(&late),
        "it was not entered {ENTRY_LATENESS:?} counts late"
    );
    ensure!(host::timers().pending(CPU) == 0, "a timer is left");
    Ok(())
}

/// Sleeps until `is_over` returns true, which an interrupt causes.
fn until(is_over: impl Fn() -> bool) {
    while !is_over() {
        board::wait_unless(&is_over);
    }
}
