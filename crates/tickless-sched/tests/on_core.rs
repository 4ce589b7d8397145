//! Tests of the writes that reach the device when the slice tick uses a timer of the core and the rearm is deferred.

use std::cell::{Cell, OnceCell, RefCell};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use tickless_core::base::{CpuBase, Timers};
use tickless_core::event::{DeviceConfig, DeviceWrite, Flush, InPast};
use tickless_core::hrtimer::{HrTimer, Restart, Start};
use tickless_core::link::lock::SpinLock;
use tickless_core::platform::{CpuId, Platform, Port, ThisCpu};
use tickless_core::time::{Instant, Span};
use tickless_sched::HrTick;
use tickless_sched::Weight;
use tickless_sched::fair::Slice;
use tickless_sched::hrtick::{
    CoreHost, CoreTimer, Decision, Extension, Reschedule, SETUP, SliceTimer, Switches,
};
use tickless_sched::load::Load;

/// A CPU, a clock that is set by hand, and a device that remembers its writes.
#[derive(Default)]
struct Host {
    now: Cell<i64>,
    writes: RefCell<Vec<i64>>,
    base: OnceCell<CpuBase<Host>>,
}

impl Port for Host {
    type Lock = SpinLock;
    type ExpiryLock = SpinLock;
    type Local = ();
    fn this_cpu(&self) -> Option<ThisCpu<'_, Self>> {
        self.base.get().map(|base| ThisCpu { base, token: None })
    }
    fn base(&self, _: CpuId) -> Option<&CpuBase<Self>> {
        self.base.get()
    }
    fn now(&self) -> Instant {
        Instant::from_nanos(self.now.get())
    }
    fn write_device(&self, _: &CpuBase<Self>, write: DeviceWrite) -> Result<(), InPast> {
        if let DeviceWrite::Absolute(when) = write {
            self.writes.borrow_mut().push(when.as_nanos());
        }
        Ok(())
    }
    fn kick(&self, _: &CpuBase<Self>) {}
}

impl Platform for Host {
    const DEFERRED_REARM: bool = true;
}

/// A host of a slice timer that masks interrupts on request, and counts the requests.
#[derive(Default)]
struct Masks {
    masked: Cell<u32>,
    kicks: Cell<u32>,
}

impl CoreHost for &Masks {
    fn kick(&self, _: CpuId) {
        self.kicks.set(self.kicks.get() + 1);
    }
    fn masked(&self, work: impl FnOnce()) {
        self.masked.set(self.masked.get() + 1);
        work();
    }
}

const CPU: CpuId = CpuId(0);

/// Makes a system of timers. In builds with mutants, it breaks the rule that the environment names.
fn timers() -> Timers<Host> {
    let timers = Timers::new(Host::default());
    let base = timers.new_base(DeviceConfig::software("by hand"), ());
    assert!(timers.platform().base.set(base).is_ok());
    timers.cpu_online(CPU);
    timers.platform().writes.take();
    timers
}

fn after(nanos: u64) -> Start {
    Start::at(Instant::from_nanos(i64::try_from(nanos).unwrap()))
}

const SLICE: Slice = Slice {
    weight: Weight::UNIT,
    left: 20_000,
};

/// Spec, in tens of its nanoseconds: the interrupt leaves the device to the scheduler, which starts the tick for
/// the task that it picked; the device is written once, for that tick.
#[test]
fn tick_26_an_interrupt_and_the_schedule_behind_it_write_the_device_once() {
    let timers = timers();
    let host = timers.platform();
    let fired = Arc::new(AtomicU32::new(0));
    let slice = pin!(HrTimer::with_setup(SETUP, false, {
        let fired = Arc::clone(&fired);
        move |_| {
            // Relaxed: one thread.
            fired.fetch_add(1, Ordering::Relaxed);
            Restart::No
        }
    }));
    let other = pin!(HrTimer::new(|_| Restart::No));
    let masks = Masks::default();
    let timer = CoreTimer::new(&timers, slice.as_ref(), CPU, &masks);
    let mut tick = HrTick::new(Switches::of::<Host>());
    assert!(
        tick.fair_is_on() && tick.deadline_is_on(),
        "the rearm is deferred"
    );
    tick.start(Span::from_micros(10), &timer);
    let _ = other.as_ref().start(&timers, after(60_000));
    assert_eq!(host.writes.take(), [10_000]);

    host.now.set(10_000);
    assert_eq!(timers.interrupt(CPU).fired, 1);
    assert_eq!(fired.load(Ordering::Relaxed), 1);
    assert_eq!(tick.fired(true), Reschedule::Hard);
    assert!(host.writes.take().is_empty(), "left to the scheduler");
    tick.begin_batch(true);
    let outcome = tick.picked(SLICE, 2, Load::NONE, true, &timer);
    assert_eq!(outcome, Reschedule::No);
    assert!(timer.queued().is_none(), "recorded");
    tick.end_batch(Decision::Keep, Flush::Switched, &timer);
    assert_eq!(host.writes.take(), [30_000], "once");
    assert_eq!(timers.stats(CPU).flushes[Flush::Switched as usize], 1);

    // Spec: the CPU becomes idle. The tick goes, lazily, and the device stays armed for it.
    tick.begin_batch(false);
    tick.end_batch(Decision::CancelIfIdle, Flush::Switched, &timer);
    assert!(!timer.is_active());
    assert!(host.writes.take().is_empty());
    // It comes too early once, and is then armed for what is first.
    host.now.set(30_000);
    assert_eq!(timers.interrupt(CPU).fired, 0);
    timers.flush_deferred(CPU, Flush::UserExit);
    assert_eq!(host.writes.take(), [60_000]);
    other.as_ref().cancel(&timers);
}

/// FLUSH-7, B6: an extension starts the tick and settles the device, with interrupts masked.
#[test]
fn flush_7_b6_an_extension_settles_the_device_with_interrupts_masked() {
    let timers = timers();
    let host = timers.platform();
    let slice = pin!(HrTimer::with_setup(SETUP, false, |_| Restart::No));
    let other = pin!(HrTimer::new(|_| Restart::No));
    let masks = Masks::default();
    let timer = CoreTimer::new(&timers, slice.as_ref(), CPU, &masks);
    let mut tick = HrTick::new(Switches::ON);
    tick.start(Span::from_micros(10), &timer);
    let _ = other.as_ref().start(&timers, after(90_000));
    host.now.set(10_000);
    assert_eq!(timers.interrupt(CPU).fired, 1);
    host.writes.take();

    let mut extension = Extension::default();
    extension.ask();
    assert!(extension.grant(true, &mut tick, &timer));
    assert_eq!(masks.masked.get(), 1, "around the flush");
    assert_eq!(
        host.writes.take(),
        [30_000],
        "once, for the end of the extension"
    );
    assert_eq!(timers.stats(CPU).flushes[Flush::SliceExtension as usize], 1);
    // The tick ends it; the task is not granted another one.
    host.now.set(30_000);
    assert_eq!(timers.interrupt(CPU).fired, 1);
    assert!(!extension.grant(true, &mut tick, &timer));
    tick.begin_batch(true);
    tick.end_batch(Decision::Keep, Flush::Switched, &timer);
    assert_eq!(host.writes.take(), [90_000]);
    other.as_ref().cancel(&timers);
}

/// TICK-17, B61: a thread that is not on the timer's CPU never accesses the timer, but kicks the CPU.
#[test]
fn b61_a_start_from_elsewhere_is_a_kick() {
    let timers = timers();
    let slice = pin!(HrTimer::with_setup(SETUP, false, |_| Restart::No));
    let masks = Masks::default();
    let remote = CoreTimer::new(&timers, slice.as_ref(), CpuId(1), &masks);
    let mut tick = HrTick::new(Switches::ON);
    tick.start(Span::from_micros(50), &remote);
    assert_eq!(masks.kicks.get(), 1);
    assert!(!remote.is_active());
    let local = CoreTimer::new(&timers, slice.as_ref(), CPU, &masks);
    tick.kicked(false, &local);
    assert_eq!(local.queued(), Some(Instant::from_nanos(50_000)));
    tick.offline(&local);
    assert!(!local.is_active());
}
