//! Switches that break one rule on purpose, to prove that the suite notices.
//!
//! A test that has never failed proves nothing. Each name in [`NAMES`] marks a place where a patch puts
//! [`mutant!`](crate::mutant) into a condition of a copy of the sources. The variable `TICKLESS_MUTANT` arms one of
//! these switches. `cargo xtask mutants` runs the suite once for each switch and demands that the suite fails.

#[cfg(target_os = "none")]
use core::sync::atomic::{AtomicUsize, Ordering};

/// Every rule that can be broken, in the order in which `cargo xtask mutants` breaks them.
///
/// The list is that of spec, with the deviations that `docs/decisions` explains.
pub const NAMES: &[&str] = &[
    // Flush points of the deferred rearm (spec ), each removed in turn.
    "flush-s1-user-exit",
    "flush-s3-kernel-exit",
    "flush-s4-soft-work",
    "flush-s5-switched",
    "flush-s5-same-task",
    "flush-s6-nested-interrupt",
    "flush-s7-slice-extension",
    "flush-s8-masked-return",
    "flush-s9-offline",
    "flush-s10-turn-end",
    // Runtimes attached by themselves.
    "attach-not-by-first-timer",
    "attach-without-io-asked-again",
    "attach-panic-shown",
    "attach-of-another-runtime",
    "attach-by-thread-that-blocks",
    "attach-detached-again",
    "detach-not-for-good",
    "declined-after-its-end",
    "attach-survives-shutdown",
    "attach-in-child-of-fork",
    "reactor-of-parent-changed-by-child",
    "left-not-noticed",
    "left-for-nested-not-noticed",
    "join-of-first-runtime-alone",
    // Deferred rearm.
    "stale-not-set-by-start-rearm-7",
    "stale-not-set-by-cancel-rearm-7",
    "stale-not-set-by-clock-set-rearm-7",
    "clock-set-not-told-tim-34",
    "stale-not-set-by-soft-stage-soft-5",
    "armed-kept-in-interrupt-irq-8",
    "deferred-rearm-survives-offline-hp-3",
    "hang-survives-offline-hp-2",
    "hang-survives-deep-idle",
    "soft-pending-survives-offline",
    "kick-survives-offline-b55",
    // Moving between bases.
    "queued-dropped-in-transit",
    "remote-base-judged-by-old-deadline-loc-5",
    "remote-base-not-judged-loc-5",
    "offline-base-accepted-loc-16",
    "owner-not-rechecked-loc-2",
    // Evaluation and programming.
    "soft-next-not-refreshed-b45",
    "first-not-reevaluated-when-later",
    "first-a-little-earlier-not-armed-inv-1",
    "equal-written-again-rearm-2",
    "lazy-restart-writes-lazy-1",
    "lazy-cancel-writes-lazy-2",
    "skip-equal-on-clock-set",
    "caller-not-kicked-b66",
    "restart-into-the-past-comes-first",
    "late-restart-keeps-its-pass",
    "overrun-timer-not-paced",
    "requeue-missing-when-earlier",
    "lazy-compares-other-clock-lazy-4",
    "saturation-missing-tim-2",
    // The order of equal deadlines.
    "bucket-last-in-first-out-q-2",
    "far-cascaded-behind-newer-q-2",
    "far-cascaded-to-next-behind-newer-q-2",
    // Far-exact timers.
    "far-not-cascaded-when-due",
    "far-not-cascaded-to-next-inv-1",
    "early-armed-value-not-settled-lazy-7",
    "far-start-not-armed-inv-1",
    "far-while-running-obj-15",
    "far-filed-by-hard-expiry-obj-9",
    // The wheel.
    "wheel-clock-not-forwarded-r07",
    "wheel-clock-stepped-after-callbacks",
    "wheel-beyond-range-fires-early",
    "wheel-earlier-left-in-slot-c-1-8",
    "wheel-requeue-not-rechecked-r05",
    "wheel-shut-while-running-r14",
    "wheel-moved-while-running",
    "wheel-fires-while-running",
    "wheel-idle-cpu-not-kicked",
    // The base lock.
    "biased-while-barriers-disturb",
    "lock-owner-enters-beside-stranger",
    "lock-stranger-enters-beside-owner",
    // Devices.
    "forced-kept-at-interrupt",
    "forced-kept-at-normal-programming",
    "forced-kept-at-state-change",
    "forced-kept-by-broadcast",
    "forced-kept-at-refused-write",
    "coupled-range-zero",
    "equality-comparator-late-test-b13",
    // The migration hierarchy (spec C-C).
    "hierarchy-walk-ends-at-stranded-event-r52",
    "hierarchy-ignore-mark-kept-r53",
    "hierarchy-sequence-not-compared-state-3",
    "hierarchy-child-read-before-group-order-2",
    "hierarchy-state-read-unlocked-order-4",
    "hierarchy-fast-path-at-root-r15",
    "hierarchy-cpu-of-event-not-refreshed-r18",
    "hierarchy-no-walk-after-remote-expiry-r58",
    "hierarchy-stale-wakeup-kept",
    "hierarchy-promise-of-highest-group-r21",
    "hierarchy-promise-not-withdrawn",
    "hierarchy-relies-on-former-root",
    "hierarchy-forecast-of-root-alone-r16",
    "isolated-set-takes-the-last-cpu",
    "isolated-set-leaves-first",
    "isolated-set-not-waited-for",
    // The tick, and deep idle (spec C-7).
    "tick-counts-by-one",
    "tick-stall-all-contend-r41",
    "tick-old-count-in-interrupt-r33",
    "tick-timer-not-reprogrammed-after-use-r36",
    "tick-phase-lost",
    "tick-stopped-outside-idle-r40",
    "tick-deferment-unlimited",
    "tick-duty-kept",
    "tick-pending-pass-ignored-r12",
    "tick-forecast-forgotten",
    "tick-idle-not-undone-r60",
    "tick-restart-cancels-first",
    "broadcast-switch-counts-the-awake-as-waiting-r39",
    "broadcast-not-forced",
    // Combined reads of a slow counter (spec C-6).
    "combined-late-holder-stores",
    "combined-overtaker-looks-late",
    "combined-waits-masked",
    "combined-non-maskable-joins-r46",
    "combined-lock-kept-on-unwind",
    "combined-leaves-without-publication",
    "combined-fresh-joins-read-in-flight",
    // Rules of the kernel, which its tests alone execute.
    "kernel-soft-stage-without-end",
    "kernel-soft-rest-forgotten",
    "kernel-soft-thread-keeps-the-cpu",
    "kernel-counter-not-judged",
    "kernel-counters-not-compared",
    "kernel-counter-not-moved",
    "kernel-calibration-not-refined",
    "kernel-tick-overdue-not-counted",
    // Run queues and the tick of a slice (spec X-5).
    "sched-balance-carries-nothing",
    "sched-balance-forgets-nothing",
    "sched-carry-lost",
    "sched-credit-not-capped",
    "sched-deadline-admits-all",
    "sched-deadline-debt-forgiven",
    "sched-deadline-wakes-with-all",
    "sched-debt-left-by-sleeping",
    "sched-paid-sleeper-is-owed",
    "sched-pinned-task-pulled",
    "sched-device-left-to-fire-for-nothing-lazy-8",
    "sched-enqueue-moves-the-tick",
    "sched-extension-flushed-unmasked-b6",
    "sched-extension-granted-twice",
    "sched-extension-not-flushed-flush-7",
    "sched-extension-without-a-tick",
    "sched-filter-drops-too-little-tick-16",
    "sched-first-start-wins-tick-23",
    "sched-idle-tick-kept",
    "sched-interrupts-charged-to-tasks",
    "sched-left-over-tick-kept",
    "sched-tick-of-a-sleeper-kept",
    "sched-kick-not-filtered-tick-17",
    "sched-owed-rearm-forgotten-flush-5",
    "sched-pick-ignores-eligibility",
    "sched-placed-without-own-weight",
    "sched-reweight-keeps-virtual-time",
    "sched-same-task-not-rearmed-tick-8",
    "sched-short-request-waits",
    "sched-slice-not-protected",
    "sched-start-not-filtered-tick-16",
    "sched-summary-not-rotated",
    "sched-summary-of-own-place-alone",
    "sched-tick-charges-the-one-that-runs-b62",
    "sched-tick-for-one-task",
    "sched-tick-not-stretched-tick-6",
    "sched-tick-started-from-afar-b61",
    "sched-tick-without-minimum-b64",
];

/// Returns the index of the name in [`NAMES`]; fails the build if the list lacks the name.
#[doc(hidden)]
#[must_use]
pub const fn index_of(name: &str) -> usize {
    let mut index = 0;
    while index < NAMES.len() {
        if same(NAMES[index].as_bytes(), name.as_bytes()) {
            return index;
        }
        index += 1;
    }
    panic!("mutant! names a switch that mutants::NAMES does not list");
}

const fn same(left: &[u8], right: &[u8]) -> bool {
    if left.len() != right.len() {
        return false;
    }
    let mut index = 0;
    while index < left.len() {
        if left[index] != right[index] {
            return false;
        }
        index += 1;
    }
    true
}

/// Returns true if the switch at `index` is armed.
///
/// # Panics
///
/// Panics if the variable names a switch that [`NAMES`] does not list.
#[cfg(not(target_os = "none"))]
#[doc(hidden)]
#[must_use]
pub fn armed(index: usize) -> bool {
    extern crate std;
    static ARMED: std::sync::OnceLock<Option<usize>> = std::sync::OnceLock::new();
    let named = || std::env::var("TICKLESS_MUTANT").ok().map(|name| place_of(&name));
    *ARMED.get_or_init(named) == Some(index)
}

/// The index of the switch that is armed on a machine without variables.
#[cfg(target_os = "none")]
static ARMED: AtomicUsize = AtomicUsize::new(usize::MAX);

/// Arms the switch of this name.
///
/// # Panics
///
/// Panics if [`NAMES`] does not list the name.
#[cfg(target_os = "none")]
pub fn arm(name: &str) {
    // Relaxed: the kernel arms a switch before it starts its other CPUs.
    ARMED.store(place_of(name), Ordering::Relaxed);
}

/// Returns true if the switch at `index` is armed.
#[cfg(target_os = "none")]
#[doc(hidden)]
#[inline]
#[must_use]
pub fn armed(index: usize) -> bool {
    // Relaxed: see `arm`.
    ARMED.load(Ordering::Relaxed) == index
}

fn place_of(name: &str) -> usize {
    let place = NAMES.iter().position(|known| *known == name);
    place.expect("the armed switch is in mutants::NAMES")
}

/// `true` while the named rule is to be broken.
#[macro_export]
macro_rules! mutant {
    ($name:literal) => {
        $crate::mutants::armed(const { $crate::mutants::index_of($name) })
    };
}
