//! A complete host of the core on a plain thread, as a start for ports (`docs/porting.md`). The thread that takes the
//! turns is the only CPU; its device is the time until which the thread parks.
//! `cargo run -p tickless-conformance --example platform`
#![expect(clippy::print_stdout, reason = "an example prints")]

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{LazyLock, OnceLock};
use std::{pin::pin, thread, time};

use tickless_core::base::{CpuBase, Timers};
use tickless_core::coarse::{Tick, WheelKind, WheelTimer};
use tickless_core::event::{DeviceConfig, DeviceWrite, InPast};
use tickless_core::hrtimer::{HrTimer, Restart, Start};
use tickless_core::link::lock::SpinLock;
use tickless_core::platform::{CpuId, Platform, Port, ThisCpu};
use tickless_core::time::{Instant, Span};

const CPU: CpuId = CpuId(0);
const TICK: i64 = 1_000_000;
thread_local! {
    /// True on the thread that is the CPU.
    pub(crate) static IS_CPU: Cell<bool> = const { Cell::new(false) };
}

/// The platform that the core calls.
pub(crate) struct PlainThread {
    /// 1. A counter that never decreases.
    pub(crate) clock: fn() -> Instant,
    /// 2. A place for the base of each CPU.
    base: OnceLock<CpuBase<Self>>,
    /// 3. An event device: the time at which it fires, in nanoseconds.
    pub(crate) fires_at: AtomicI64,
    /// 4. An interrupt of the CPU from other threads: a flag, and the thread that has to check it.
    pub(crate) kicked: AtomicBool,
    thread: OnceLock<thread::Thread>,
}

impl Port for PlainThread {
    // Nothing interrupts a thread, so the lock need not mask anything.
    type Lock = SpinLock;
    type ExpiryLock = SpinLock;
    type Local = ();

    fn this_cpu(&self) -> Option<ThisCpu<'_, Self>> {
        let base = self.base.get().filter(|_| IS_CPU.get())?;
        Some(ThisCpu { base, token: None })
    }
    fn base(&self, cpu: CpuId) -> Option<&CpuBase<Self>> {
        self.base.get().filter(|_| cpu == CPU)
    }
    fn now(&self) -> Instant {
        (self.clock)()
    }
    fn write_device(&self, _base: &CpuBase<Self>, write: DeviceWrite) -> Result<(), InPast> {
        // A software device is told the instant, `FOREVER` for never. Relaxed: only the CPU touches it.
        if let DeviceWrite::Absolute(when) = write {
            self.fires_at.store(when.as_nanos(), Ordering::Relaxed);
        }
        Ok(())
    }
    fn kick(&self, _base: &CpuBase<Self>) {
        // Release: pairs with the exchange in `turn`, which has to find what the kick is for.
        self.kicked.store(true, Ordering::Release);
        self.thread.get().map(thread::Thread::unpark);
    }
}

impl Platform for PlainThread {}

fn tick(host: &PlainThread) -> Tick {
    Tick((host.now().as_nanos() / TICK).unsigned_abs())
}

pub(crate) fn new(clock: fn() -> Instant) -> Timers<PlainThread> {
    let timers = Timers::new(PlainThread {
        clock,
        base: OnceLock::new(),
        fires_at: AtomicI64::new(i64::MAX),
        kicked: AtomicBool::new(false),
        thread: OnceLock::new(),
    });
    let base = timers.new_base(DeviceConfig::software("park"), ());
    assert!(timers.platform().base.set(base).is_ok());
    timers
}

/// Runs everything that is due, as the interrupt handler of the CPU.
pub(crate) fn turn(timers: &Timers<PlainThread>) {
    let (host, tick) = (timers.platform(), tick(timers.platform()));
    // Acquire: see `kick`.
    if host.kicked.swap(false, Ordering::Acquire) {
        timers.retrigger(CPU);
    }
    if host.fires_at.load(Ordering::Relaxed) <= host.now().as_nanos() {
        host.fires_at.store(i64::MAX, Ordering::Relaxed);
        let _report = timers.interrupt(CPU);
    }
    let _report = timers.soft_interrupt(CPU);
    for kind in WheelKind::ALL {
        let _pass = timers.run_wheel(CPU, kind, tick, u32::MAX);
    }
}

/// Takes turns, and parks between them, until `is_done`.
pub(crate) fn run(timers: &Timers<PlainThread>, is_done: impl Fn() -> bool) {
    let host = timers.platform();
    while !is_done() {
        // From here on a thread that arms an earlier coarse timer kicks, and a kick ends the next park.
        let mut due = i64::MAX;
        timers.wheel_enter_idle(CPU, tick(host), |next| {
            let first = next.local.into_iter().chain(next.global).min();
            due = first.map_or(i64::MAX, |tick| tick.0.cast_signed() * TICK);
            true
        });
        let until = Instant::from_nanos(due.min(host.fires_at.load(Ordering::Relaxed)));
        let left = until.saturating_since(host.now()).as_nanos();
        thread::park_timeout(time::Duration::from_nanos(left));
        timers.wheel_leave_idle(CPU);
        turn(timers);
    }
}

/// Starts timers, and passes the order in which they fire to `say`.
pub(crate) fn demonstrate(say: fn(&str)) {
    static BEGIN: LazyLock<time::Instant> = LazyLock::new(time::Instant::now);
    static DONE: AtomicBool = AtomicBool::new(false);
    let timers = new(|| Instant::from_nanos(BEGIN.elapsed().as_nanos().try_into().expect("years")));
    // This thread becomes the CPU.
    IS_CPU.set(true);
    timers.platform().thread.get_or_init(thread::current);
    timers.wheel_online(CPU, Tick(0));
    timers.cpu_online(CPU);
    let exact = |line: &'static str| HrTimer::new(move |_| (say(line), Restart::No).1);
    let (first, second) = (pin!(exact("exact, 1 ms")), pin!(exact("exact, 2 ms")));
    let coarse = pin!(WheelTimer::new(WheelKind::Local, move |_| {
        say("coarse, 20 ms");
        DONE.store(true, Ordering::Relaxed);
        Restart::No
    }));
    let (one, two) = (Instant::from_nanos(TICK), Span::from_millis(2));
    let _ = second.as_ref().start(&timers, Start::after(two));
    let armed = coarse.as_ref().arm(&timers, Tick(0), Tick(20));
    armed.expect("it is not armed");
    // Another thread is no CPU: it kicks the one that gets its timer.
    let start = || first.as_ref().start(&timers, Start::at(one));
    let _ = thread::scope(|scope| scope.spawn(start).join()).expect("nothing panics");
    run(&timers, || DONE.load(Ordering::Relaxed));
}

fn main() {
    demonstrate(|line| println!("{line}"));
}
