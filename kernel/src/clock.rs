//! The clock of the kernel: two counters, and a switch between them while every CPU continues to run.
//!
//! | counter | its readers | drives the time |
//! |---|---|---|
//! | the CPU's own | read it inline, behind the guard of [`GuardedClock`] | from the start |
//! | the one that all CPUs share ([`arch::SHARED`]) | call [`Combined`], which reads it once for all that wait | after [`Machine::drive_time_by`](crate::machine::Machine::drive_time_by) |
//!
//! # Ground rules
//!
//! The CPU that switches the counter holds the lock of the [`Keeper`], with interrupts masked, until all CPUs have
//! answered the switch twice. So no other CPU waits for that lock: [`Clock::advance`] tries it, and [`Clock::max_idle`]
//! is a copy.
//!
//! A reading of the clock sets a note on its CPU. An interrupt that arrives during a reading does not answer a switch:
//! the reading answers, at its end. A reading with interrupts masked is no exception, because the interrupt comes when
//! the mask ends.

use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};

#[cfg(feature = "conformance")]
use tickless_core::clock::Timekeeper;
use tickless_core::clock::combined::{Combined, Patience, SlowCounter};
use tickless_core::clock::{Counter, CounterId, Keeper, Offsets, SetSequence};
use tickless_core::clock::{Counters, GuardedClock, SwitchHost, Switched};
use tickless_core::link::lock::Lock;
use tickless_core::time::convert::Cycles;
use tickless_core::time::{Instant, Span};

#[cfg(not(feature = "conformance"))]
use crate::arch;
use crate::arch::CPUS_MAX;
use crate::exit::{Code, end};
use crate::fault;
use crate::late::Late;
use crate::lock::MaskingLock;
use crate::note::Note;
#[cfg(feature = "conformance")]
use crate::played as arch;

/// The counter of each CPU, which the CPU's device may compare with.
pub(crate) const OWN: CounterId = CounterId(0);
/// The counter that all CPUs share, which is slow to read.
pub(crate) const SHARED: CounterId = CounterId(1);
/// Bits of the shared counter that are read: the half that one access reads.
const SHARED_BITS: u32 = 32;
/// The polls of a waiting reader after which it takes the holder for lost: some seconds, in an emulator that runs other
/// CPUs at each poll.
const LOOKS_MAX: u32 = 20_000_000;

/// Returns the description of one of the two counters, for the timekeeper.
pub(crate) fn counter(id: CounterId) -> Counter {
    if id == SHARED {
        Counter {
            id,
            frequency: arch::shared_kilohertz(),
            bits: SHARED_BITS,
            can_inline: false,
        }
    } else {
        Counter {
            id: OWN,
            frequency: arch::kilohertz(),
            bits: 64,
            can_inline: true,
        }
    }
}

/// The notes and requests by which a switch and the other CPUs meet.
#[derive(Debug, Default)]
struct Meeting {
    /// True if the CPU reads the clock, or executes an interrupt on top of a reading.
    is_reading: AtomicBool,
    /// True if a switch waits for the end of a reading that may be in progress on the CPU.
    is_asked: Note,
    /// True if the CPU has to stand still.
    must_stop: Note,
    /// True if the CPU executes an interrupt that no mask holds back.
    is_on_top: Note,
}

/// Counts of the shared counter's reads, and the settings of how it is read. For tests and measurements.
#[derive(Debug, Default)]
pub(crate) struct Sharing {
    /// Reads of the device.
    pub(crate) samples: AtomicU64,
    /// Reads that began with interrupts unmasked: none is allowed, except on top of other reads.
    pub(crate) unmasked: AtomicU64,
    /// Polls of waiting readers, and the number of these polls with interrupts masked by the reader.
    pub(crate) looks: AtomicU64,
    /// True if each reader reads the device itself.
    pub(crate) is_direct: Note,
    /// A function of a test, which each read of the device calls before it ends.
    pub(crate) during: Late<fn()>,
}

/// The counter that all CPUs share.
#[derive(Debug)]
pub(crate) struct Shared {
    sharing: Sharing,
    cpus: u32,
}

impl SlowCounter for Shared {
    type Sample = Cycles;
    type Masked = u64;

    fn sample(&self) -> Cycles {
        let sharing = &self.sharing;
        // Relaxed, as below: counts, which their readers take when all is over.
        sharing.samples.fetch_add(1, Ordering::Relaxed);
        let value = arch::shared_counter();
        if !arch::is_masked() && !self.is_non_maskable() && !sharing.is_direct.is_there() {
            sharing.unmasked.fetch_add(1, Ordering::Relaxed);
        }
        if let Some(during) = sharing.during.get() {
            during();
        }
        Cycles(value)
    }

    fn mask(&self) -> u64 {
        arch::mask()
    }

    fn unmask(&self, masked: u64) {
        arch::restore(masked);
    }

    fn is_non_maskable(&self) -> bool {
        here().is_on_top.is_there()
    }

    fn is_alone(&self) -> bool {
        self.cpus == 1
    }

    fn relax(&self, attempt: u32) -> Patience {
        self.sharing.looks.fetch_add(1, Ordering::Relaxed);
        arch::relax();
        if attempt > LOOKS_MAX {
            end(
                Code::Wedged,
                format_args!("kernel: wedged: a read of the shared counter does not end"),
            );
        }
        // A holder is masked, and comes back.
        Patience::Lasts
    }
}

/// Both counters.
#[derive(Debug)]
pub(crate) struct Pair {
    shared: Combined<Shared, SHARED_BITS>,
}

impl Pair {
    /// Returns a sample that began within the call.
    pub(crate) fn read_fresh(&self, counter: CounterId) -> Cycles {
        if counter == SHARED && !self.sharing().is_direct.is_there() {
            self.shared.read_fresh()
        } else {
            self.read(counter)
        }
    }

    /// Returns the counts of the shared counter's reads.
    pub(crate) fn sharing(&self) -> &Sharing {
        &self.shared.counter().sharing
    }
}

impl Counters for Pair {
    #[inline(always)]
    fn read_inlined(&self) -> Cycles {
        Cycles(fault::counter())
    }

    fn read(&self, counter: CounterId) -> Cycles {
        if counter != SHARED {
            return self.read_inlined();
        }
        if self.sharing().is_direct.is_there() {
            return self.shared.counter().sample();
        }
        self.shared.read_joined()
    }
}

static MEETINGS: [Meeting; CPUS_MAX] = [const { Meeting::new() }; CPUS_MAX];
/// The number of CPUs that stand still, and a flag that says whether they have to.
static STANDING: AtomicUsize = AtomicUsize::new(0);
static STAND: AtomicBool = AtomicBool::new(false);
/// The CPU that switches.
static SWITCHES: AtomicUsize = AtomicUsize::new(0);

impl Meeting {
    const fn new() -> Self {
        Self {
            is_reading: AtomicBool::new(false),
            is_asked: Note::new(),
            must_stop: Note::new(),
            is_on_top: Note::new(),
        }
    }
}

fn here() -> &'static Meeting {
    &MEETINGS[arch::cpu()]
}

/// Reads the clock, so that a switch that turned the guard off waits for the end of the reading.
#[inline]
pub(crate) fn reading<T>(read: impl FnOnce() -> T) -> T {
    let meeting = here();
    // Relaxed, as below: the interrupts that look at it execute on this CPU.
    let is_nested = meeting.is_reading.load(Ordering::Relaxed);
    meeting.is_reading.store(true, Ordering::Relaxed);
    // The guard is looked at behind the note.
    core::sync::atomic::compiler_fence(Ordering::SeqCst);
    let value = read();
    core::sync::atomic::compiler_fence(Ordering::SeqCst);
    meeting.is_reading.store(is_nested, Ordering::Relaxed);
    if !is_nested && meeting.is_asked.is_there() {
        meeting.is_asked.set(false);
        wake_switch();
    }
    value
}

/// Wakes the CPU that switches, which sleeps where a pause lets no other CPU run.
fn wake_switch() {
    if !arch::PAUSE_YIELDS {
        // Relaxed: written before the request that this answers.
        arch::interrupt_cpu(SWITCHES.load(Ordering::Relaxed));
    }
}

/// Passes the time of a CPU that is masked and waits for another one, which wakes it.
pub(crate) fn pause_masked() {
    if arch::PAUSE_YIELDS {
        arch::relax();
    } else {
        arch::sleep_masked();
    }
}

/// Answers a switch, in the interrupt that another CPU sent.
pub(crate) fn answer() {
    let meeting = here();
    // Relaxed: see `reading`. A reading under way answers at its end.
    if meeting.is_asked.is_there() && !meeting.is_reading.load(Ordering::Relaxed) {
        meeting.is_asked.set(false);
        wake_switch();
    }
    if meeting.must_stop.take() {
        // Release: what this CPU did before is over when the switch sees it stand.
        STANDING.fetch_add(1, Ordering::Release);
        wake_switch();
        // Acquire: pairs with the Release in `stop_cpus`: what was installed is seen.
        while STAND.load(Ordering::Acquire) {
            pause_masked();
        }
        STANDING.fetch_sub(1, Ordering::Release);
        wake_switch();
    }
}

/// Calls `act` on top of any code that the executing CPU runs, another such call among it.
#[cfg(target_arch = "x86_64")]
pub(crate) fn on_top(act: impl FnOnce()) {
    let meeting = here();
    let was_on_top = meeting.is_on_top.is_there();
    meeting.is_on_top.set(true);
    act();
    assert!(
        meeting.is_on_top.is_there(),
        "what came on top of this left its note"
    );
    meeting.is_on_top.set(was_on_top);
}

/// Returns true if the executing CPU runs on top of other code that masks do not protect from it.
#[cfg(target_arch = "x86_64")]
pub(crate) fn is_on_top() -> bool {
    here().is_on_top.is_there()
}

#[derive(Debug)]
pub(crate) struct Clock {
    clock: GuardedClock<Pair>,
    keeper: Lock<MaskingLock, Keeper>,
    /// The nanoseconds for which no CPU needs to read the clock.
    max_idle: AtomicU64,
    /// The counter that drives the time.
    current: AtomicU32,
}

impl Clock {
    /// Makes a clock that starts at zero, driven by each CPU's own counter, on a machine with `cpus` CPUs.
    pub(crate) fn new(cpus: u32) -> Self {
        let pair = Pair {
            shared: Combined::new(Shared {
                sharing: Sharing::default(),
                cpus,
            }),
        };
        let clock = GuardedClock::new(pair, counter(OWN));
        let (clock, keeper) = clock.expect("each CPU's counter counts, in 64 bits");
        Self {
            clock,
            max_idle: AtomicU64::new(keeper.max_idle().as_nanos()),
            keeper: Lock::new(MaskingLock::new(), keeper),
            current: AtomicU32::new(OWN.0),
        }
    }

    /// Returns the current time.
    #[inline]
    pub(crate) fn now(&self) -> Instant {
        reading(|| self.clock.now())
    }

    /// Returns the time at the end of the count in progress, whichever counter drives the time.
    pub(crate) fn now_upper(&self) -> Instant {
        let now = if self.clock.is_inlined() {
            self.now()
        } else {
            let counters = self.clock.counters();
            let timekeeper = self.clock.timekeeper();
            timekeeper.now_by(|counter| counters.read_fresh(counter))
        };
        #[cfg(feature = "conformance")]
        if arch::is_on() {
            // A counter that is played shows the time itself: no part of a count is over.
            return now;
        }
        // Relaxed: a switch leaves the time where it was, to a count of the slower counter.
        let frequency = counter(CounterId(self.current.load(Ordering::Relaxed))).frequency;
        let count = 1_000_000_u64.div_ceil(u64::from(frequency.0));
        now.saturating_add(Span::from_nanos(count))
    }

    pub(crate) fn now_and_offsets(
        &self,
        seen: SetSequence,
    ) -> (Instant, Option<(SetSequence, Offsets)>) {
        reading(|| self.clock.now_and_offsets(seen))
    }

    /// Returns the current time, read on top of an interrupted writer of the clock.
    #[cfg(target_arch = "x86_64")]
    pub(crate) fn now_on_top_of_writer(&self) -> Instant {
        self.clock.now_on_top_of_writer()
    }

    #[inline]
    pub(crate) fn cycles_at(&self, counter: CounterId, when: Instant) -> Option<Cycles> {
        self.clock.timekeeper().cycles_at(counter, when)
    }

    /// Moves the base of the time record to now; the CPU that counts ticks calls it. A CPU that finds another CPU at
    /// the record leaves the work to that CPU.
    pub(crate) fn advance(&self) {
        if let Some(mut keeper) = self.keeper.try_lock(None) {
            let now = self.clock.counters().read(keeper.counter().id);
            keeper.advance(self.clock.timekeeper(), now);
        }
    }

    /// Returns the longest time that may pass before a CPU has to read the clock.
    pub(crate) fn max_idle(&self) -> Span {
        // Relaxed: a CPU that sleeps is told of a switch by an interrupt, and looks again.
        Span::from_nanos(self.max_idle.load(Ordering::Relaxed))
    }

    /// Changes the rate of the clock. Called by the CPU that switches counters.
    pub(crate) fn steer(&self, parts_per_billion: i32) {
        let mut keeper = self.keeper.lock(None);
        let now = self.clock.counters().read(keeper.counter().id);
        keeper.steer(self.clock.timekeeper(), now, parts_per_billion);
    }

    /// Returns the record of time.
    #[cfg(feature = "conformance")]
    pub(crate) fn timekeeper(&self) -> &Timekeeper {
        self.clock.timekeeper()
    }

    /// Changes the record of time.
    #[cfg(feature = "conformance")]
    pub(crate) fn keep<R>(&self, change: impl FnOnce(&mut Keeper, &Timekeeper) -> R) -> R {
        let mut keeper = self.keeper.lock(None);
        change(&mut keeper, self.clock.timekeeper())
    }

    pub(crate) fn pair(&self) -> &Pair {
        self.clock.counters()
    }

    /// Returns true if readers read the counter inline.
    pub(crate) fn is_inlined(&self) -> bool {
        self.clock.is_inlined()
    }

    /// Lets the counter `id` drive the time, while `others` read the clock. `tell` is called after the clock was
    /// switched.
    pub(crate) fn switch(
        &self,
        id: CounterId,
        others: impl Iterator<Item = usize> + Clone,
        tell: impl FnMut(),
    ) -> Switched {
        let mut host = Others {
            clock: self,
            others,
            tell,
        };
        let mut keeper = self.keeper.lock(None);
        let switched = self.clock.switch(&mut keeper, counter(id), &mut host);
        switched.expect("both counters can drive the time")
    }
}

/// The other CPUs, as the switch notifies them and waits for them.
struct Others<'a, I, T> {
    clock: &'a Clock,
    others: I,
    tell: T,
}

impl<I: Iterator<Item = usize> + Clone, T: FnMut()> SwitchHost for Others<'_, I, T> {
    fn wait_for_readers(&mut self) {
        // Relaxed: each CPU reads `SWITCHES` after its flag, which is set with Release.
        SWITCHES.store(arch::cpu(), Ordering::Relaxed);
        for cpu in self.others.clone() {
            MEETINGS[cpu].is_asked.leave();
            arch::interrupt_cpu(cpu);
        }
        for cpu in self.others.clone() {
            while MEETINGS[cpu].is_asked.is_there() {
                pause_masked();
            }
        }
    }

    fn stop_cpus(&mut self, install: &mut dyn FnMut()) {
        // Relaxed: each CPU reads `STAND` after its flag, which is set with Release.
        STAND.store(true, Ordering::Relaxed);
        for cpu in self.others.clone() {
            MEETINGS[cpu].must_stop.leave();
            arch::interrupt_cpu(cpu);
        }
        let wait_for = |standing: usize| {
            // Acquire: pairs with the Release of `answer`.
            while STANDING.load(Ordering::Acquire) != standing {
                pause_masked();
            }
        };
        wait_for(self.others.clone().count());
        install();
        // Release: pairs with the Acquire of `answer`.
        STAND.store(false, Ordering::Release);
        if !arch::PAUSE_YIELDS {
            for cpu in self.others.clone() {
                arch::interrupt_cpu(cpu);
            }
        }
        wait_for(0);
    }

    fn tell_ticks(&mut self, counter: &Counter) {
        // Relaxed: as in `now_upper`.
        self.clock.current.store(counter.id.0, Ordering::Relaxed);
        (self.tell)();
    }
}
