//! A run of exact and coarse timers on all CPUs, whose trace is written out.

use alloc::collections::BTreeMap;
use core::pin::Pin;
use core::sync::atomic::{AtomicU64, Ordering};

use tickless_core::coarse::{Tick, Timeout, WheelKind, WheelTimer};
use tickless_core::hierarchy::{Hierarchy, HierarchyHost, WIDTH_DEFAULT};
use tickless_core::hrtimer::{Expired, HrTimer, Restart, Setup, Start};
use tickless_core::platform::Platform;
use tickless_core::time::{Monotonic, Span};
use tickless_core::trace::TimerId;
use tickless_core::trace::line::{FORMAT, Line, Number, Subject, VERSION};

use super::coarse;
use super::fixture::{Verdict, ensure, kept};
use crate::arch;
use crate::console::say;
use crate::host::Host;
use crate::idle;
use crate::machine::{Machine, PERIOD, machine};
use crate::parameters::Parameters;
use crate::trace;

/// The latest that a timer may be, in nanoseconds: a slot of the second level and a tick.
const LATE_MAX: u64 = 10_000_000;

/// Timers of each kind on each CPU.
const TIMERS: u64 = 10;

type Function = fn(&mut Expired<'_, '_, Monotonic>) -> Restart;
type CoarseFunction = fn(&mut Timeout) -> Restart;

/// Timers that are queued, on all CPUs: a CPU may run the global timers of another one.
static LEFT: AtomicU64 = AtomicU64::new(0);

/// Starts timers on the executing CPU: some move before they fire, and some are cancelled.
fn start_all() {
    let machine = machine();
    let before = arch::mask();
    let begin = machine.tick_time().tick;
    for step in 1..=TIMERS {
        let exact = kept(HrTimer::with_setup(Setup::new(), false, fire as Function));
        let exact = Pin::static_ref(exact);
        let at = |micros| Start::after(Span::from_micros(micros + step * 370)).pinned();
        let _started = exact.start(machine.timers, at(5_000));
        if step % 3 == 0 {
            let _started = exact.start(machine.timers, at(7_000));
        }
        let is_cancelled = step % 5 == 0;
        if is_cancelled {
            let _was = exact.try_cancel(machine.timers);
        }
        let kind = if step % 2 == 0 {
            WheelKind::Local
        } else {
            WheelKind::Global
        };
        let wheel = Pin::static_ref(kept(WheelTimer::new(kind, expire as CoarseFunction)));
        let _armed = wheel.arm(machine.timers, begin, Tick(begin.0 + 3 + 2 * step));
        // Relaxed: a count. The first CPU waits after all others have started their timers.
        LEFT.fetch_add(2 - u64::from(is_cancelled), Ordering::Relaxed);
    }
    arch::restore(before);
}

fn fire(_expired: &mut Expired<'_, '_, Monotonic>) -> Restart {
    ended();
    Restart::No
}

fn expire(_timeout: &mut Timeout) -> Restart {
    ended();
    Restart::No
}

fn ended() {
    // Relaxed: a count.
    LEFT.fetch_sub(1, Ordering::Relaxed);
    // The first CPU waits for the last timer.
    arch::interrupt_cpu(0);
}

/// Writes the trace of a run with exact and coarse timers on all CPUs, which ends with none queued.
pub(super) fn traced(machine: &'static Machine, _parameters: &Parameters) -> Verdict {
    ensure!(
        Host::TRACE,
        "the kernel was built without the feature that traces"
    );
    let cpus = machine.cpus();
    trace::begin(cpus);
    let verdict = coarse::ticking(machine, || {
        for cpu in 1..cpus {
            machine.call_on(cpu, start_all);
        }
        start_all();
        idle::until(|| LEFT.load(Ordering::Relaxed) == 0);
        Ok(())
    });
    let (events, lost) = write_all(machine);
    say!("  {events} events of {cpus} CPUs");
    verdict?;
    ensure!(lost == 0, "{lost} events were lost");
    Ok(())
}

/// Stops keeping events, and writes them out. Returns the number of events, and the number of lost ones.
fn write_all(machine: &Machine) -> (usize, u64) {
    let (cpus, now, tree) = (machine.cpus(), machine.now(), &machine.tree);
    let (entries, lost) = trace::end(cpus);
    say!(
        "trace: {{\"format\":\"{FORMAT}\",\"version\":{VERSION},\"unit\":\"ns\",\"scenario\":\"kernel\",\
         \"profile\":\"{}\",\"seed\":0,\"library\":\"{}\",\"cpus\":{cpus},\"tick\":{},\
         \"late_max\":{LATE_MAX},\"isolated\":[]}}",
        arch::NAME,
        env!("CARGO_PKG_VERSION"),
        PERIOD.as_nanos(),
    );
    let mut numbers = Numbers::default();
    let began = entries.first().map_or(now, |entry| entry.time);
    let mut lines = 2 + write_tree(tree, began.as_nanos());
    for entry in &entries {
        lines += u64::from(write(entry, &mut numbers));
    }
    let time = now.as_nanos();
    say!("trace: {{\"time\":{time},\"event\":\"end\",\"lines\":{lines},\"queued\":0}}");
    (entries.len(), lost)
}

/// The numbers of timers, by the address of each timer.
#[derive(Default)]
struct Numbers(BTreeMap<usize, Number>);

impl Numbers {
    fn of(&mut self, timer: TimerId, is_exact: bool) -> Number {
        let number = self.0.len() as u64 + 1;
        *self.0.entry(timer.0).or_insert(Number { number, is_exact })
    }
}

/// Writes the line of an entry; false if the file has no such event, or the timer is not known.
fn write(entry: &trace::Entry, numbers: &mut Numbers) -> bool {
    let timer = match entry.event.subject() {
        Some(Subject::Exact(timer)) => numbers.of(timer, true),
        Some(Subject::Coarse(timer)) => numbers.of(timer, false),
        Some(Subject::Either(timer)) => match numbers.0.get(&timer.0) {
            Some(known) => *known,
            None => return false,
        },
        None => Number::NONE,
    };
    if !entry.event.has_line() {
        return false;
    }
    let line = Line {
        time: entry.time.as_nanos(),
        cpu: u32::try_from(entry.cpu).ok(),
        event: &entry.event,
        timer,
    };
    say!("trace: {line}");
    true
}

/// Writes the lines of the hierarchy, which does not grow while events are kept. Returns how many there are.
fn write_tree(tree: &Hierarchy<impl HierarchyHost<WIDTH_DEFAULT>>, time: i64) -> u64 {
    let mut lines = 0;
    tree.for_each_setting(|setting| {
        say!("trace: {}", setting.line(0, time));
        lines += 1;
    });
    lines
}
