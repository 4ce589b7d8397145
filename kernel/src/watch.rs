//! The watch over the counters: the checks of the core's [`Watchdog`], and what the kernel does by their verdicts.
//!
//! | when | what | a bad counter |
//! |---|---|---|
//! | a CPU starts | the register that moves its counter gets the value of the first CPU; both counters are compared | drives the time no longer |
//! | twice a second | the counter of the executing CPU is compared with the one that all CPUs share | the same |
//! | the first good check | the frequency, which was measured for a moment, is refined | |
//!
//! # Ground rules
//!
//! The timer of the checks fires in the soft stage of the first CPU, which holds no lock when it switches the counter.
//! Two CPUs that compare their counters have interrupts masked.

use core::pin::Pin;
use core::sync::atomic::{AtomicU64, Ordering};

use alloc::boxed::Box;

use tickless_core::clock::CounterId;
use tickless_core::clock::watchdog::{
    AgreementCheck, AgreementStep, Candidate, Condemned, CounterVerdict, Exchange, FrequencyCheck,
    Heard, INTERVAL, LIMIT_PPM, Look, Next, ReadOut, Role, Side, Watchdog,
};
use tickless_core::hrtimer::{Expired, HrTimer, Restart, Setup, Stage, Start};
use tickless_core::link::lock::Lock;
use tickless_core::platform::CpuId;
use tickless_core::time::convert::Cycles;
use tickless_core::time::{Instant, Monotonic};

use crate::arch;
use crate::clock::{OWN, SHARED, counter, pause_masked};
use crate::console::say;
use crate::fault;
use crate::late::Late;
use crate::lock::MaskingLock;
use crate::machine::{Machine, machine};
use crate::note::Note;

/// The readings that two CPUs send each other: an emulator changes the CPU at each of them.
const ROUNDS: u32 = 50;
/// The polls for one reading of the other CPU.
const LOOKS: u32 = 100_000;

type Function = fn(&mut Expired<'_, '_, Monotonic>) -> Restart;

static TIMER: HrTimer<Function> =
    HrTimer::with_setup(Setup::new().stage(Stage::Soft), false, check);
static WATCH: Late<Lock<MaskingLock, Watch>> = Late::new();
static EXCHANGE: Late<Exchange> = Late::new();
/// What the CPU that started received; the first CPU looks at it after [`HAS_MET`].
static SECOND: Lock<MaskingLock, Option<Heard>> = Lock::new(MaskingLock::new(), None);
static HAS_MET: Note = Note::new();
/// The register that moves the counter of the first CPU.
static ADJUSTMENT: AtomicU64 = AtomicU64::new(0);

struct Watch {
    watchdog: Watchdog<2>,
    check: FrequencyCheck,
    /// The parts per million by which the counter is fast, and the clock is slowed.
    refined: i32,
}

impl Watch {
    fn new(now: Instant) -> Self {
        let candidate = |id: CounterId, name, rating| Candidate {
            counter: counter(id),
            name,
            rating,
        };
        let candidates = [candidate(OWN, "own", 300), candidate(SHARED, "shared", 250)];
        Self {
            watchdog: Watchdog::new(candidates, now),
            check: FrequencyCheck::new(counter(OWN), counter(SHARED), LIMIT_PPM),
            refined: 0,
        }
    }

    /// Takes a verdict on the counter of each CPU.
    fn judge(&mut self, verdict: CounterVerdict) -> Option<Condemned> {
        self.watchdog.judge(OWN, Some(SHARED), verdict)
    }
}

/// Begins the watch, with all counters good, on the first CPU. The register of this CPU is what others get.
pub(crate) fn begin(machine: &'static Machine) {
    let fresh = Watch::new(machine.now());
    match WATCH.get() {
        Some(watch) => *watch.lock(None) = fresh,
        None => {
            WATCH.set(Box::new(Lock::new(MaskingLock::new(), fresh)));
            EXCHANGE.set(Box::new(Exchange::new()));
        }
    }
    // Relaxed: the CPUs that look at it are started, or asked, afterwards.
    ADJUSTMENT.store(fault::adjustment().unwrap_or(0), Ordering::Relaxed);
}

/// Has the counter checked twice a second from now on.
pub(crate) fn check_from_now_on(machine: &'static Machine) {
    let first = Start::after(INTERVAL).pinned();
    let _started = Pin::static_ref(&TIMER).start(machine.timers, first);
}

/// Ends the checks.
pub(crate) fn end(machine: &Machine) {
    Pin::static_ref(&TIMER).cancel(machine.timers);
}

/// Compares the counter of the executing CPU with the shared one.
fn check(expired: &mut Expired<'_, '_, Monotonic>) -> Restart {
    let (machine, now) = (machine(), expired.now());
    let Some(watch) = WATCH.get() else {
        return Restart::No;
    };
    let read = || {
        let before = arch::mask();
        let shared = || Cycles(arch::shared_counter());
        let read_out = ReadOut {
            before: shared(),
            counter: Cycles(fault::counter()),
            behind: shared(),
        };
        arch::restore(before);
        read_out
    };
    let (condemned, refined) = {
        let mut watch = watch.lock(None);
        let verdict = watch.check.run(read);
        watch.watchdog.checked(now);
        let refined = match verdict {
            CounterVerdict::Good { ppm, within_ppm }
                if ppm.abs_diff(watch.refined) > within_ppm.max(1) =>
            {
                watch.refined = ppm;
                Some(ppm)
            }
            _ => None,
        };
        (watch.judge(verdict), refined)
    };
    if let Some(ppm) = refined {
        say!("kernel: the counter of the CPUs is fast by {ppm} ppm, and the clock allows for it");
        machine.host().clock().steer(-1_000 * ppm);
    }
    if let Some(condemned) = condemned {
        obey(machine, &condemned);
        return Restart::No;
    }
    expired.set_deadline(watch.lock(None).watchdog.next_check());
    Restart::Yes
}

/// Switches the counter if the one that drives the time was condemned.
pub(crate) fn obey(machine: &Machine, condemned: &Condemned) {
    say!("kernel: {condemned}");
    if let Next::SwitchTo(better) = condemned.next {
        let _switched = machine.drive_time_by(better.counter.id);
    }
}

/// Lets the executing CPU, which starts, meet the first one: its counter is moved to that of the first CPU, and both are
/// compared. Called masked.
pub(crate) fn arrive(machine: &Machine) {
    // Relaxed: see `begin`.
    let wanted = ADJUSTMENT.load(Ordering::Relaxed);
    if fault::adjustment().is_some_and(|adjustment| adjustment != wanted) {
        fault::adjust(wanted);
    }
    machine.host().here().has_arrived.leave();
    arch::interrupt_cpu(0);
    let Some(exchange) = EXCHANGE.get() else {
        return;
    };
    let mut side = Side::new(exchange, Role::Second, counter(OWN), 0, ROUNDS);
    // The first CPU says when it is over.
    while !HAS_MET.take() {
        match side.look(|| Cycles(fault::counter())) {
            Look::Answered => arch::interrupt_cpu(0),
            Look::Waiting | Look::Over => pause_masked(),
        }
    }
    *SECOND.lock(None) = Some(side.heard());
    arch::interrupt_cpu(0);
}

/// Compares the counter of the first CPU, which executes this, with that of `cpu`, which has [arrived](arrive). Returns
/// the counter that the comparison condemned, for [`obey`].
pub(crate) fn meet(cpu: usize) -> Option<Condemned> {
    let (exchange, watch) = (EXCHANGE.get()?, WATCH.get()?);
    let before = arch::mask();
    *SECOND.lock(None) = None;
    let read = || Cycles(fault::counter());
    let mut side = Side::new(exchange, Role::First, counter(OWN), 0, ROUNDS);
    side.open(read);
    arch::interrupt_cpu(cpu);
    let mut left = LOOKS;
    let first = loop {
        match side.look(read) {
            Look::Over => break Ok(side.heard()),
            Look::Answered => {
                left = LOOKS;
                arch::interrupt_cpu(cpu);
            }
            Look::Waiting if left > 0 => {
                left -= 1;
                pause_masked();
            }
            Look::Waiting => {
                if side.close() {
                    break Err(side.heard());
                }
            }
        }
    };
    HAS_MET.leave();
    arch::interrupt_cpu(cpu);
    let second = loop {
        if let Some(heard) = SECOND.lock(None).take() {
            break heard;
        }
        pause_masked();
    };
    arch::restore(before);
    let id = |cpu| CpuId(u32::try_from(cpu).unwrap_or(u32::MAX));
    let mut check = AgreementCheck::new(counter(OWN), id(0), id(cpu));
    match check.feed(first, Ok(second)) {
        AgreementStep::Done(verdict) => watch.lock(None).judge(verdict),
        AgreementStep::Again => None,
    }
}
