//! The sources of time that a machine has, read one by one. The checks that compare clocks and the command that shows
//! clocks use this module; timers do not.
//!
//! Every function is safe. A function takes as long as the instruction or the call that it names, so measurements of
//! the function show the cost of the instruction or call.

use std::io;
use std::sync::Barrier;
use std::thread;

use rustix::thread::{CpuSet, sched_setaffinity};
use tickless_core::clock::Counter;
use tickless_core::clock::watchdog::{
    AgreementCheck, AgreementStep, CounterVerdict, Exchange, Heard, ReadOut, Role, Side,
};
use tickless_core::platform::CpuId;
use tickless_core::time::convert::Cycles;

/// A clock of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum KernelClock {
    /// `CLOCK_MONOTONIC`.
    Monotonic,
    /// `CLOCK_MONOTONIC_RAW`, which is not steered.
    MonotonicRaw,
    /// `CLOCK_MONOTONIC_COARSE`, as of the last tick.
    MonotonicCoarse,
    /// `CLOCK_REALTIME`.
    Realtime,
    /// `CLOCK_BOOTTIME`.
    Boottime,
    /// `CLOCK_TAI`.
    Tai,
    /// `CLOCK_PROCESS_CPUTIME_ID`.
    ProcessCpu,
    /// `CLOCK_THREAD_CPUTIME_ID`.
    ThreadCpu,
}

impl KernelClock {
    /// All clocks.
    pub const ALL: [Self; 8] = [
        Self::Monotonic,
        Self::MonotonicRaw,
        Self::MonotonicCoarse,
        Self::Realtime,
        Self::Boottime,
        Self::Tai,
        Self::ProcessCpu,
        Self::ThreadCpu,
    ];

    /// Returns the clock's name in the manual, in small letters and without `CLOCK_`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Monotonic => "monotonic",
            Self::MonotonicRaw => "monotonic_raw",
            Self::MonotonicCoarse => "monotonic_coarse",
            Self::Realtime => "realtime",
            Self::Boottime => "boottime",
            Self::Tai => "tai",
            Self::ProcessCpu => "process_cputime",
            Self::ThreadCpu => "thread_cputime",
        }
    }

    const fn number(self) -> libc::clockid_t {
        match self {
            Self::Monotonic => libc::CLOCK_MONOTONIC,
            Self::MonotonicRaw => libc::CLOCK_MONOTONIC_RAW,
            Self::MonotonicCoarse => libc::CLOCK_MONOTONIC_COARSE,
            Self::Realtime => libc::CLOCK_REALTIME,
            Self::Boottime => libc::CLOCK_BOOTTIME,
            Self::Tai => libc::CLOCK_TAI,
            Self::ProcessCpu => libc::CLOCK_PROCESS_CPUTIME_ID,
            Self::ThreadCpu => libc::CLOCK_THREAD_CPUTIME_ID,
        }
    }

    /// Reads the clock as programs do: through the vDSO, if the kernel provides the clock there. Returns nanoseconds; 0
    /// if the kernel does not know the clock.
    #[inline]
    #[must_use]
    pub fn read(self) -> u64 {
        let mut time = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // SAFETY: the time lives as long as the call, which writes it.
        let refused = unsafe { libc::clock_gettime(self.number(), &raw mut time) };
        if refused == 0 { nanos(time) } else { 0 }
    }

    /// Reads the clock by a system call. Returns nanoseconds; 0 if the kernel does not know the clock, or a filter
    /// forbids the call.
    #[inline]
    #[must_use]
    pub fn read_by_system_call(self) -> u64 {
        let mut time = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // SAFETY: as above: the arguments are those that this system call has.
        let refused =
            unsafe { libc::syscall(libc::SYS_clock_gettime, self.number(), &raw mut time) };
        if refused == 0 { nanos(time) } else { 0 }
    }

    /// Returns the resolution that the kernel reports, in nanoseconds; `None` if the kernel does not know the clock.
    #[must_use]
    pub fn resolution(self) -> Option<u64> {
        let mut time = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // SAFETY: as above.
        let refused = unsafe { libc::clock_getres(self.number(), &raw mut time) };
        (refused == 0).then(|| nanos(time))
    }
}

/// Returns the nanoseconds since 1970; a time before 1970 counts as 1970.
#[inline]
fn nanos(time: libc::timespec) -> u64 {
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    seconds
        .wrapping_mul(1_000_000_000)
        .wrapping_add(u64::try_from(time.tv_nsec).unwrap_or(0))
}

/// An ordered way to read the time-stamp counter: the processor does not read the counter before earlier loads have
/// finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ordered {
    /// `lfence; rdtsc`.
    Fenced,
    /// `rdtscp`; only a processor that has this instruction gets the variant.
    WithProcessor(HasProcessor),
}

/// A proof that the processor has `rdtscp`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HasProcessor(());

#[cfg(all(target_arch = "x86_64", not(miri)))]
impl Ordered {
    /// Returns the ways that this processor has.
    #[must_use]
    pub fn ways() -> Vec<Self> {
        use core::arch::x86_64::__cpuid;
        const FEATURES: u32 = 0x8000_0001;
        #[allow(
            unused_unsafe,
            clippy::allow_attributes,
            reason = "newer compilers know that the intrinsic is safe"
        )]
        // SAFETY: the instruction exists on every x86-64 processor and touches no memory.
        let leaf = |number| unsafe { __cpuid(number) };
        let has = leaf(0x8000_0000).eax >= FEATURES && leaf(FEATURES).edx & (1 << 27) != 0;
        let mut ways = vec![Self::Fenced];
        ways.extend(has.then_some(Self::WithProcessor(HasProcessor(()))));
        ways
    }

    /// Reads the counter in this way.
    #[inline]
    #[must_use]
    pub fn read(self) -> u64 {
        match self {
            Self::Fenced => Self::read_fenced(),
            Self::WithProcessor(has) => has.read(),
        }
    }

    /// Reads the counter after a fence.
    #[inline]
    #[must_use]
    pub fn read_fenced() -> u64 {
        super::clock::counter::read_ordered()
    }
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
impl HasProcessor {
    /// Reads the counter.
    #[inline]
    #[must_use]
    pub fn read(self) -> u64 {
        let mut processor = 0;
        // SAFETY: the processor has the instruction, as `ways` found before it made this; the number is written to a
        // local variable.
        unsafe { core::arch::x86_64::__rdtscp(&raw mut processor) }
    }
}

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
impl Ordered {
    /// Returns the ways that this processor has: no way is known on this architecture.
    #[must_use]
    pub fn ways() -> Vec<Self> {
        Vec::new()
    }

    /// Returns 0, because there is no counter.
    #[must_use]
    pub fn read(self) -> u64 {
        0
    }

    /// Returns 0, because there is no counter.
    #[must_use]
    pub fn read_fenced() -> u64 {
        0
    }
}

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
impl HasProcessor {
    /// Returns 0, because there is no counter.
    #[must_use]
    pub fn read(self) -> u64 {
        0
    }
}

/// Reads the clock `read` between two readings of a clock of the kernel. The result is for a
/// [`FrequencyCheck`](tickless_core::clock::watchdog::FrequencyCheck) whose reference counts nanoseconds in 64 bits.
#[inline]
pub fn read_out(reference: KernelClock, read: impl FnOnce() -> u64) -> ReadOut {
    let before = Cycles(reference.read());
    let counter = Cycles(read());
    let behind = Cycles(reference.read());
    ReadOut {
        before,
        counter,
        behind,
    }
}

/// The result of comparing a counter on two CPUs.
#[derive(Clone, Copy, Debug)]
pub struct Agreement {
    /// The verdict of the comparison.
    pub verdict: CounterVerdict,
    /// The readings that the first CPU received from the second CPU in the last try.
    pub first: Heard,
    /// The readings that the second CPU received from the first CPU.
    pub second: Heard,
}

/// The number of checks of one side for the answer of the other. They take some milliseconds, because the waiting
/// thread may have to wait for other threads of its CPU.
const LOOKS: u32 = 200_000;

/// Compares the values of `read` on two CPUs: two threads, pinned to them, exchange readings for `rounds` rounds.
///
/// The processor must not execute `read` before earlier loads. So `read` has to be an [`Ordered`] read of the
/// time-stamp counter, or a clock.
///
/// # Errors
///
/// If a thread cannot be started, or may not run on its CPU.
pub fn agreement(
    counter: Counter,
    first: u32,
    second: u32,
    rounds: u32,
    read: impl Fn() -> u64 + Sync,
) -> io::Result<Agreement> {
    let mut check = AgreementCheck::new(counter, CpuId(first), CpuId(second));
    let exchange = Exchange::new();
    loop {
        let attempt = check.attempt();
        // Both threads are there before one of them waits: starting one takes longer than an answer.
        let start = Barrier::new(2);
        let side = |role, cpu| {
            let pinned = pin(cpu);
            start.wait();
            pinned?;
            let side = Side::new(&exchange, role, counter, attempt, rounds);
            Ok(side.run(LOOKS, || Cycles(read())))
        };
        let (side, start) = (&side, &start);
        let (one, other) = thread::scope(|scope| {
            let other =
                thread::Builder::new().spawn_scoped(scope, move || side(Role::Second, second));
            let other = match other {
                Ok(other) => other,
                Err(error) => return (Err(error), Ok(Err(Heard::default()))),
            };
            let one = thread::Builder::new().spawn_scoped(scope, move || side(Role::First, first));
            let one = match one {
                Ok(one) => one.join(),
                Err(error) => {
                    start.wait();
                    Ok(Err(error))
                }
            };
            (flatten(one), flatten(other.join()))
        });
        let (one, other): (Result<Heard, Heard>, Result<Heard, Heard>) = (one?, other?);
        if let AgreementStep::Done(verdict) = check.feed(one, other) {
            let heard = |side: Result<Heard, Heard>| side.unwrap_or_else(|heard| heard);
            return Ok(Agreement {
                verdict,
                first: heard(one),
                second: heard(other),
            });
        }
    }
}

fn flatten<T>(joined: thread::Result<io::Result<T>>) -> io::Result<T> {
    joined.unwrap_or_else(|_| {
        Err(io::Error::other(
            "the thread that reads the counter panicked",
        ))
    })
}

fn pin(cpu: u32) -> io::Result<()> {
    let mut cpus = CpuSet::new();
    let number = usize::try_from(cpu).unwrap_or(usize::MAX);
    if number < CpuSet::MAX_CPU {
        cpus.set(number);
    }
    Ok(sched_setaffinity(None, &cpus)?)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use tickless_core::clock::CounterId;
    use tickless_core::clock::watchdog::{Doubt, FrequencyCheck, LIMIT_PPM, Reason};
    use tickless_core::time::convert::Kilohertz;

    use super::*;

    const NANOS: Counter = Counter {
        id: CounterId(1),
        frequency: Kilohertz(1_000_000),
        bits: 64,
        can_inline: false,
    };

    fn cpus() -> Vec<u32> {
        let allowed = rustix::thread::sched_getaffinity(None).expect("it can be asked");
        let cpus = (0..CpuSet::MAX_CPU).filter(|&cpu| allowed.is_set(cpu));
        cpus.map(|cpu| u32::try_from(cpu).expect("few")).collect()
    }

    #[test]
    fn both_ways_to_a_clock_of_the_kernel_lead_to_the_same_one() {
        for clock in KernelClock::ALL {
            let before = clock.read();
            let called = clock.read_by_system_call();
            let behind = clock.read();
            assert!(before > 0, "{}", clock.name());
            assert!(clock.resolution() > Some(0), "{}", clock.name());
            let ordered = before <= called && called <= behind;
            // An administrator may set those of the wall.
            let is_set = matches!(clock, KernelClock::Realtime | KernelClock::Tai);
            assert!(
                ordered || is_set,
                "{}: {before} {called} {behind}",
                clock.name()
            );
        }
    }

    #[test]
    fn ordered_reads_of_one_thread_do_not_go_back() {
        let mut last = 0;
        for way in Ordered::ways() {
            for _ in 0..1_000 {
                let now = way.read();
                assert!(now >= last, "{way:?}");
                last = now;
            }
        }
    }

    /// Tests spec C-6.6 with the readings of a real clock.
    #[test]
    fn two_clocks_of_the_kernel_are_judged() {
        let mut check = FrequencyCheck::new(NANOS, NANOS, LIMIT_PPM);
        let read_out = || read_out(KernelClock::Monotonic, || KernelClock::MonotonicRaw.read());
        let verdict = check.run(read_out);
        let is_first = matches!(
            verdict,
            CounterVerdict::Inconclusive(Doubt::First | Doubt::SlowReadOut { .. })
        );
        assert!(is_first, "{verdict}");
        thread::sleep(std::time::Duration::from_millis(5));
        let verdict = check.run(read_out);
        assert!(!verdict.is_bad(), "{verdict}");
    }

    #[test]
    fn threads_on_two_cpus_agree_on_one_count_and_notice_a_copy_that_lags() {
        let cpus = cpus();
        let [first, second, ..] = cpus[..] else {
            return;
        };
        let count = AtomicU64::new(1_000_000);
        let read = || count.fetch_add(1, Ordering::Relaxed);
        let agreement = agreement(NANOS, first, second, 100, read).expect("they can be started");
        assert!(!agreement.verdict.is_bad(), "{}", agreement.verdict);
        for heard in [agreement.first, agreement.second] {
            assert_eq!(heard.nearest.is_some(), heard.readings > 0, "{heard:?}");
        }
        // The copy of the second CPU.
        let lags = || {
            let cpu = u32::try_from(rustix::thread::sched_getcpu()).expect("few");
            read() - if cpu == second { 500_000 } else { 0 }
        };
        let verdict = super::agreement(NANOS, first, second, 100, lags).map(|found| found.verdict);
        let verdict = verdict.expect("they can be started");
        let lag = matches!(verdict, CounterVerdict::Bad(Reason::Lags { cpu, .. }) if cpu == CpuId(second));
        // A machine may be too busy for an answer.
        let is_busy = matches!(
            verdict,
            CounterVerdict::Inconclusive(Doubt::NoAnswer { .. })
        );
        assert!(lag || is_busy, "{verdict}");
    }

    #[test]
    fn a_cpu_that_is_none_is_an_error() {
        let first = cpus()[0];
        assert!(agreement(NANOS, first, 999_999, 10, || 0).is_err());
    }
}
