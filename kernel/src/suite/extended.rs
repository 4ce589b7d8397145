//! Tests of slice extensions: a thread whose slice ends in a critical section is not preempted there, once, and for 20
//! µs at most (FLUSH-7).

use alloc::boxed::Box;
use core::pin::Pin;

use tickless_core::hrtimer::{Expired, HrTimer, Restart};
use tickless_core::time::{Monotonic, Span};
use tickless_sched::hrtick::{EXTENSION, SETUP};
use tickless_sched::{Request, Weight};

use super::fixture::{Spread, Verdict, ensure};
use crate::arch;
use crate::classes::Want;
use crate::console::say;
use crate::late::Late;
use crate::machine::{Machine, machine};
use crate::note::{Count, Note};
use crate::parameters::Parameters;
use crate::tasks::{self, Function, Leaves, Ran, Tick};

/// The thread that has critical sections, one after the other. The other thread checks whether it is inside a section.
const HOLDS: usize = 0;
const SLICE: Span = Span::from_micros(200);
/// Slices of the first thread in each run.
const SLICES: u64 = 20;
/// The length of a section that ends before an extension does, and of a section that takes longer than a slice.
const SHORT: Span = Span::from_micros(6);
const LONG: Span = Span::from_micros(330);
/// The nanoseconds that the interrupt, the decision and the switch take at most after the end of a slice.
const SWITCH_MAX: u64 = 8_000;
/// The least time between two ticks of which the second is not the end of an extension.
const BETWEEN: Span = Span::from_micros(100);
/// The least time between two readings of the counter that shows that the other thread ran in between.
const GAP: Span = Span::from_micros(20);

/// The tick, whose callback notes when a slice ends.
static TICK: HrTimer<Function> = HrTimer::with_setup(SETUP, false, ends);
/// The length of a section, in counts, and a flag that says whether the thread asks for more time in it.
static LENGTH: Count = Count::new();
static ASKS: Note = Note::new();
/// True while the first thread is in a section, and a flag that it has finished.
static IS_INSIDE: Note = Note::new();
static IS_OVER: Note = Note::new();
/// The counter at the entry of the last tick that ended a slice, but not an extension.
static SLICE_END: Count = Count::new();

/// The observations of the other thread.
#[derive(Debug)]
struct Seen {
    /// The number of times that the second thread continued and found the first one in a section.
    found: Count,
    /// The time from the end of the first thread's slice until the second thread continued.
    delay: Spread,
}

static SEEN: [Late<Seen>; 3] = [const { Late::new() }; 3];
/// The number of the current run.
static WAY: Count = Count::new();

fn ends(expired: &mut Expired<'_, '_, Monotonic>) -> Restart {
    let entered = machine().host().here().entered.get();
    if entered - SLICE_END.get() > counts(BETWEEN) {
        SLICE_END.set(entered);
    }
    tasks::slice_ends(expired)
}

fn counts(span: Span) -> u64 {
    span.as_nanos() * u64::from(arch::kilohertz().0) / 1_000_000
}

fn body(task: usize) {
    if task == HOLDS {
        hold()
    } else {
        look()
    }
    let before = arch::mask();
    tasks::leave(Leaves::Finished);
    arch::restore(before);
}

/// Executes critical sections until the thread was preempted often enough.
fn hold() {
    let (gap, asks) = (counts(GAP), ASKS.is_there());
    let (mut slices, mut last) = (0, arch::counter());
    while slices < SLICES {
        if asks {
            tasks::ask_for_more();
        }
        IS_INSIDE.set(true);
        let mut left = LENGTH.get();
        while left > 0 {
            let now = arch::counter();
            let passed = now - last;
            if passed > gap {
                slices += 1;
            } else {
                left = left.saturating_sub(passed);
                if asks && (last..now).contains(&SLICE_END.get()) {
                    // It has its extension, and gets no second one.
                    tasks::ask_for_more();
                }
            }
            last = now;
        }
        IS_INSIDE.set(false);
        if asks {
            tasks::need_no_more();
        }
    }
    IS_OVER.leave();
}

/// Checks, each time that the thread gets the CPU, whether the first thread is in a section.
fn look() {
    let Some(seen) = SEEN[WAY.get() as usize].get() else {
        return;
    };
    let (host, gap, mut last) = (machine().host(), counts(GAP), arch::counter());
    while !IS_OVER.is_there() {
        let now = arch::counter();
        // Behind its end the first thread was not preempted.
        if now - last > gap && !IS_OVER.is_there() {
            seen.found.add(u64::from(IS_INSIDE.is_there()));
            let end = host.time_of(SLICE_END.get());
            let delay = host.time_of(now).saturating_since(end);
            seen.delay.note(delay.as_nanos());
        }
        last = now;
    }
}

/// Runs both threads once; returns the observations of the second thread, and the number of extensions.
fn run(way: usize, asks: bool, length: Span) -> (&'static Seen, u64) {
    let seen = SEEN[way].set(Box::new(Seen {
        found: Count::new(),
        delay: Spread::new(),
    }));
    WAY.set(way as u64);
    ASKS.set(asks);
    LENGTH.set(counts(length));
    IS_OVER.set(false);
    let wants = [Want::Share(Weight::UNIT, Request::clamped(SLICE)); 2];
    let Ran { extended, .. } = tasks::run_by(Pin::static_ref(&TICK), Tick::WHOLE, &wants, body);
    say!(
        "  sections of {} us, {}: preempted in one {} times of {}, {extended} extensions; {} behind the slice",
        length.as_nanos() / 1_000,
        if asks { "asking" } else { "not asking" },
        seen.found.get(),
        seen.delay.count.get(),
        seen.delay
    );
    (seen, extended)
}

/// Tests threads with short sections that do not ask for more time, that ask for it, and with long sections.
pub(super) fn extended(_machine: &'static Machine, parameters: &Parameters) -> Verdict {
    let (plain, none) = run(0, false, SHORT);
    let (short, shorts) = run(1, true, SHORT);
    let (long, longs) = run(2, true, LONG);
    ensure!(none == 0, "{none} extensions, and nothing asked for one");
    if !parameters.is_exact {
        return Ok(());
    }
    let all = |seen: &Seen| seen.delay.count.get();
    ensure!(
        plain.found.get() * 2 > all(plain) && plain.delay.greatest.get() <= SWITCH_MAX,
        "without a wish it was found in a section {} times of {}",
        plain.found.get(),
        all(plain)
    );
    ensure!(
        short.found.get() == 0 && shorts * 2 > SLICES,
        "a thread that asked was preempted in a short section {} times, and had {shorts} extensions",
        short.found.get()
    );
    ensure!(
        short.delay.greatest.get() <= SHORT.as_nanos() + SWITCH_MAX,
        "a thread made room {} ns behind its slice, with sections of {} ns",
        short.delay.greatest.get(),
        SHORT.as_nanos()
    );
    // A section asks once: a slice that ends in it a second time is not extended.
    let extension = EXTENSION.as_nanos();
    let range = extension..=extension + SWITCH_MAX;
    ensure!(
        longs * 4 > SLICES && longs < SLICES && range.contains(&long.delay.greatest.get()),
        "{longs} extensions of {SLICES} slices in long sections, the longest {} ns",
        long.delay.greatest.get()
    );
    ensure!(
        long.delay.least.get() <= SWITCH_MAX,
        "each end of a slice in a long section was put off"
    );
    Ok(())
}
