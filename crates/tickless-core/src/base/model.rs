//! Loom cases: the real code on a tiny host of two or three CPUs, without time.
//!
//! Each case is named after the race that it models, and lists all possible outcomes. So a case that explores less than
//! its name says fails, too. Callbacks use loom's cells, so that loom detects two callbacks that run at once, or a
//! callback that runs longer than the rules allow.
//!
//! # Limits
//!
//! - The locks are blocking locks; the locks of the hosts have models of their own (`tickless_link::bias`).
//! - Loom watches only atomics, locks and its own cells. The links, keys and heads of the entries are accessed only
//!   under the lock of their base. Miri or `assert_valid` detects an access without the lock; these cases do not.
//! - Time stands still: a timer that is due is due from the beginning of the case.
//! - The number of preemptions is bounded ([`TWO`], [`THREE`]).
//! - In loom a `Relaxed` load returns any value that the order of its one location allows, however old. Loom does not
//!   reorder stores or speculate loads beyond the C++ model of 2011.

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
/// The time that the clock always shows.
pub(crate) const NOW: i64 = 1_000;
/// The time that the clock shows in cases with timers that were far away at their start and are due now.
pub(crate) const LATE: i64 = 10_000_000;
/// The distance by which the time of day jumps forward when it is set.
pub(crate) const JUMP: i64 = 2_000;

loom::thread_local! {
    /// The CPU that the thread models.
    static CPU: core::cell::Cell<Option<u32>> = core::cell::Cell::new(None);
}

/// A host whose cancellers poll, or sleep if `SLEEPS` is true.
pub(crate) struct Host<const SLEEPS: bool> {
    bases: [OnceLock<Box<CpuBase<Self>>>; CPUS],
    pub(crate) now: i64,
    pub(crate) kicked: AtomicBool,
    /// True if the time of day was set.
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

/// Makes a machine of `cpus` CPUs, all online.
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

/// Makes the calling thread model `cpu` from now on; with `None` it models no CPU.
pub(crate) fn be(cpu: Option<u32>) {
    CPU.with(|this| this.set(cpu));
}

/// Starts a thread that models `cpu`.
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

/// The greatest number of preemptions in a case with two threads, and in a case with three threads. Without a bound a
/// case takes hours, or never ends if a thread polls.
pub(crate) const TWO: usize = 5;
pub(crate) const THREE: usize = 3;

/// Returns the number of preemptions to explore: one less than `preemptions` if [`SHORT`] is set. With one less, a case
/// takes a tenth of the time and finds nearly all errors.
pub(crate) fn explored(preemptions: usize) -> usize {
    preemptions - usize::from(std::env::var_os(SHORT).is_some())
}

/// The environment variable that the short check sets (`cargo xtask check --only models` explores all preemptions).
const SHORT: &str = "TICKLESS_SHORT_MODELS";

/// Explores every interleaving with at most `preemptions` preemptions, or [one less](explored), and compares the
/// outcomes with `expected`. Each outcome must be expected, and each expected outcome must occur, so that a case that
/// explores less than its name says fails.
pub(crate) fn explore<O: Ord + Debug + Send + 'static>(
    preemptions: usize,
    expected: impl IntoIterator<Item = O>,
    body: impl Fn() -> O + Send + Sync + 'static,
) {
    explore_all(explored(preemptions), expected, body);
}

/// Explores as [`explore`] does, but always with `preemptions` preemptions, for a case with an outcome that needs that
/// many.
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

/// Returns the number of pending timers on the CPUs below `cpus`, and checks that their bases are valid.
pub(crate) fn pending<const SLEEPS: bool>(machine: &Machine<SLEEPS>, cpus: u32) -> usize {
    for cpu in 0..cpus {
        machine.assert_valid(CpuId(cpu));
    }
    (0..cpus).map(|cpu| machine.pending(CpuId(cpu))).sum()
}

/// Returns the time for which CPU 0 is armed, after it has handled a kick if one was pending.
pub(crate) fn armed_after_kick<const SLEEPS: bool>(machine: &Machine<SLEEPS>) -> i64 {
    be(Some(0));
    take_kick(machine);
    machine.assert_valid(CpuId(0));
    let base = machine.platform().base(CpuId(0)).expect("it is there");
    base.armed().as_nanos()
}

/// Makes CPU 0 handle a kick if one is pending.
pub(crate) fn take_kick<const SLEEPS: bool>(machine: &Machine<SLEEPS>) {
    if machine.platform().kicked.swap(false, Ordering::AcqRel) {
        machine.retrigger(CpuId(0));
    }
}

/// A count that is hidden from loom, because loom would explore every order of its changes.
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

/// A cell that only one callback at a time may touch, in an order that loom can prove. Loom reports a violation.
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

/// Makes a timer that fires once and counts its firing.
pub(crate) fn once(count: &Count) -> Timer {
    let (count, touched) = (count.clone(), Touched::default());
    Arc::pin(HrTimer::new(Box::new(move |_| {
        touched.touch();
        count.add();
        Restart::No
    })))
}

/// Makes a timer that counts each firing and restarts itself for `next`.
pub(crate) fn going_on(count: &Count, next: i64) -> Timer {
    let (count, touched) = (count.clone(), Touched::default());
    Arc::pin(HrTimer::new(Box::new(move |expired| {
        touched.touch();
        count.add();
        expired.set_deadline(Instant::from_nanos(next));
        Restart::Yes
    })))
}
