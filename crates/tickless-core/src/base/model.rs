//! Loom cases: the real code on a tiny host of two or three CPUs, without time.
//!
//! Each is named after the race that it tells, and lists what can come out of it, so that a case that explores less
//! than its name says is noticed too. Callbacks use loom's cells where two of them at once, or one that outlives what
//! it was promised, would go unnoticed otherwise.
//!
//! # Limits
//!
//! - The locks are of a kind that blocks; those of the hosts have models of their own (`tickless_link::bias`).
//! - Only atomics, locks and loom's cells are watched. The links, keys and heads of the entries are reached under the
//!   lock of their base alone, and who forgets it is noticed by Miri or by `assert_valid`, not here.
//! - Time stands still: what is due is due from the beginning.
//! - The number of preemptions is bounded ([`TWO`], [`THREE`]).
//! - Loom holds a `Relaxed` load to the order of one location and lets it be as old as that allows. It does not let
//!   stores pass one another or loads be speculated further than the C++ model of 2011 has them.

use core::fmt::Debug;
use core::pin::Pin;
use std::boxed::Box;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, OnceLock};

use loom::cell::UnsafeCell;
use loom::thread;
use tickless_link::lock::ModelLock;
use tickless_link::sync::{AtomicBool, Ordering};

use super::{CpuBase, Timers};
use crate::clock::{Offsets, SetSequence};
use crate::cpu::CpuId;
use crate::event::{DeviceConfig, DeviceWrite, InPast};
use crate::hrtimer::{Expired, HrTimer, Restart, Start};
use crate::platform::{Platform, Port, Recent, ThisCpu, Waiting};
use crate::time::{Instant, Monotonic, Offset};

const CPUS: usize = 3;
/// Time that the clock shows, for ever.
pub(crate) const NOW: i64 = 1_000;
/// Time that the clock shows where timers were far away when they were started and are due.
pub(crate) const LATE: i64 = 10_000_000;
/// Distance that the time of day jumps forward, once it does.
pub(crate) const JUMP: i64 = 2_000;

loom::thread_local! {
    /// CPU that the thread models.
    static CPU: core::cell::Cell<Option<u32>> = core::cell::Cell::new(None);
}

/// A host whose cancellers poll, or sleep.
pub(crate) struct Host<const SLEEPS: bool> {
    bases: [OnceLock<Box<CpuBase<Self>>>; CPUS],
    pub(crate) now: i64,
    pub(crate) kicked: AtomicBool,
    /// The time of day was set.
    pub(crate) jumped: AtomicBool,
}

impl<const SLEEPS: bool> Host<SLEEPS> {
    /// Returns true if CPU 0 was kicked.
    pub(crate) fn was_kicked(&self) -> bool {
        // Relaxed: asked when all threads have ended.
        self.kicked.load(Ordering::Relaxed)
    }
}

impl<const SLEEPS: bool> Port for Host<SLEEPS> {
    type Lock = ModelLock;
    type ExpiryLock = ModelLock;
    type Local = ();

    fn this_cpu(&self) -> Option<ThisCpu<'_, Self>> {
        let base = self.base(CpuId(CPU.with(core::cell::Cell::get)?))?;
        Some(ThisCpu { base, token: None })
    }
    fn base(&self, cpu: CpuId) -> Option<&CpuBase<Self>> {
        self.bases.get(cpu.0 as usize)?.get().map(|base| &**base)
    }
    fn now(&self) -> Instant {
        Instant::from_nanos(self.now)
    }
    fn write_device(&self, _base: &CpuBase<Self>, _write: DeviceWrite) -> Result<(), InPast> {
        Ok(())
    }
    fn kick(&self, base: &CpuBase<Self>) {
        assert_eq!(
            base.cpu(),
            CpuId(0),
            "the only one that is kicked in these cases"
        );
        // Not a store: loom 0.7 would let it come between what a swap reads and what that writes, where nothing can.
        self.kicked.swap(true, Ordering::AcqRel);
    }
}

impl<const SLEEPS: bool> Platform for Host<SLEEPS> {
    const WAITING: Waiting = if SLEEPS {
        Waiting::Sleep
    } else {
        Waiting::Spin
    };

    fn recent(&self) -> Recent {
        Recent {
            moment: None,
            now: Instant::ZERO,
        }
    }
    fn now_and_offsets(&self, seen: SetSequence) -> (Instant, Option<(SetSequence, Offsets)>) {
        // Acquire: pairs with the Release of who sets the clock.
        let jumped = self.jumped.load(Ordering::Acquire);
        let current = if jumped {
            SetSequence::START.next()
        } else {
            SetSequence::START
        };
        let offsets = Offsets {
            realtime: Offset::from_nanos(if jumped { JUMP } else { 0 }),
            ..Offsets::default()
        };
        (self.now(), (seen != current).then_some((current, offsets)))
    }
}

pub(crate) type Machine<const SLEEPS: bool> = Arc<Timers<Host<SLEEPS>>>;

/// A machine of `cpus` CPUs, all online.
pub(crate) fn machine<const SLEEPS: bool>(cpus: u32) -> Machine<SLEEPS> {
    machine_at(NOW, cpus)
}

pub(crate) fn machine_at<const SLEEPS: bool>(now: i64, cpus: u32) -> Machine<SLEEPS> {
    let timers = Timers::new(Host {
        bases: [const { OnceLock::new() }; CPUS],
        now,
        kicked: AtomicBool::new(false),
        jumped: AtomicBool::new(false),
    });
    for cpu in 0..cpus {
        // Loom gives a thread a small stack.
        let base = Box::new(timers.new_base(DeviceConfig::software("modelled"), ()));
        assert!(timers.platform().bases[cpu as usize].set(base).is_ok());
        timers.cpu_online(CpuId(cpu));
    }
    Arc::new(timers)
}

/// The calling thread is `cpu` from here on; `None` if it is none.
pub(crate) fn be(cpu: Option<u32>) {
    CPU.with(|this| this.set(cpu));
}

/// A thread that is `cpu`.
pub(crate) fn on<const SLEEPS: bool, R: Send + 'static>(
    machine: &Machine<SLEEPS>,
    cpu: Option<u32>,
    body: impl FnOnce(&Timers<Host<SLEEPS>>) -> R + Send + 'static,
) -> thread::JoinHandle<R> {
    let machine = Arc::clone(machine);
    thread::spawn(move || {
        be(cpu);
        body(&machine)
    })
}

pub(crate) fn at(nanos: i64) -> Start {
    Start::at(Instant::<Monotonic>::from_nanos(nanos))
}

/// Number of preemptions in a case with two threads, and in one with three. Without a bound a case takes hours, or for
/// ever where a thread polls.
pub(crate) const TWO: usize = 5;
pub(crate) const THREE: usize = 3;

/// Returns how many of so many preemptions are explored: one less if [`SHORT`] is set, which takes a tenth of the time
/// and finds nearly all that the last one does.
pub(crate) fn explored(preemptions: usize) -> usize {
    preemptions - usize::from(std::env::var_os(SHORT).is_some())
}

/// The variable that the short check sets (`cargo xtask check --only models` explores all).
const SHORT: &str = "TICKLESS_SHORT_MODELS";

/// Explores every interleaving with so many preemptions at most, or [one less](explored), and compares what can come
/// out with `expected`: nothing else may, and all of it does, so that a case that explores less than its name says is
/// noticed.
pub(crate) fn explore<O: Ord + Debug + Send + 'static>(
    preemptions: usize,
    expected: impl IntoIterator<Item = O>,
    body: impl Fn() -> O + Send + Sync + 'static,
) {
    explore_all(explored(preemptions), expected, body);
}

/// Explores as [`explore`] does, always with so many preemptions: for a case of which an outcome takes that many.
pub(crate) fn explore_all<O: Ord + Debug + Send + 'static>(
    preemptions: usize,
    expected: impl IntoIterator<Item = O>,
    body: impl Fn() -> O + Send + Sync + 'static,
) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.max_branches = 10_000;
    let seen = Arc::new(Mutex::new(BTreeSet::new()));
    let outcomes = Arc::clone(&seen);
    builder.check(move || {
        let outcome = body();
        outcomes.lock().unwrap().insert(outcome);
    });
    let seen = core::mem::take(&mut *seen.lock().unwrap());
    assert_eq!(seen, expected.into_iter().collect());
}

/// The timers of all CPUs up to `cpus`, which are in order.
pub(crate) fn pending<const SLEEPS: bool>(machine: &Machine<SLEEPS>, cpus: u32) -> usize {
    for cpu in 0..cpus {
        machine.assert_valid(CpuId(cpu));
    }
    (0..cpus).map(|cpu| machine.pending(CpuId(cpu))).sum()
}

/// Returns the time that CPU 0 is armed for, after it took the kick if there was one.
pub(crate) fn armed_after_kick<const SLEEPS: bool>(machine: &Machine<SLEEPS>) -> i64 {
    be(Some(0));
    take_kick(machine);
    machine.assert_valid(CpuId(0));
    let base = machine.platform().base(CpuId(0)).expect("it is there");
    base.armed().as_nanos()
}

/// CPU 0 takes the kick if there is one.
pub(crate) fn take_kick<const SLEEPS: bool>(machine: &Machine<SLEEPS>) {
    if machine.platform().kicked.swap(false, Ordering::AcqRel) {
        machine.retrigger(CpuId(0));
    }
}

/// Counts without telling loom, which would explore every order of it.
#[derive(Clone, Default)]
pub(crate) struct Count(Arc<Mutex<u32>>);

impl Count {
    pub(crate) fn add(&self) {
        *self.0.lock().unwrap() += 1;
    }
    pub(crate) fn get(&self) -> u32 {
        *self.0.lock().unwrap()
    }
}

/// A cell that only one callback at a time may touch, each after the one before: loom notices when it is not so.
#[derive(Default)]
pub(crate) struct Touched(UnsafeCell<()>);

impl Touched {
    pub(crate) fn touch(&self) {
        // The pointer is not used: that it is given out is what loom checks.
        self.0.with_mut(|_| ());
    }
}

pub(crate) type Timer =
    Pin<Arc<HrTimer<Box<dyn FnMut(&mut Expired<'_, '_, Monotonic>) -> Restart + Send>>>>;

/// A timer that fires once, and counts it.
pub(crate) fn once(count: &Count) -> Timer {
    let (count, touched) = (count.clone(), Touched::default());
    Arc::pin(HrTimer::new(Box::new(move |_| {
        touched.touch();
        count.add();
        Restart::No
    })))
}

/// A timer that fires, counts it, and goes on at `next`.
pub(crate) fn going_on(count: &Count, next: i64) -> Timer {
    let (count, touched) = (count.clone(), Touched::default());
    Arc::pin(HrTimer::new(Box::new(move |expired| {
        touched.touch();
        count.add();
        expired.set_deadline(Instant::from_nanos(next));
        Restart::Yes
    })))
}
