//! The tests of the kernel, and the report of their results.
//!
//! Each test is a function that the first CPU runs. Its output is the same in each run where [one instruction takes one
//! nanosecond](Parameters::is_exact), and the command compares runs.

use tickless_core::platform::{CpuId, Platform};
use tickless_core::time::Span;

use self::fixture::Verdict;
use crate::arch::{self, Begins};
use crate::console::say;
use crate::exit::Code;
use crate::host::{Host, Local};
use crate::idle;
use crate::interrupt;
use crate::machine::Machine;
use crate::parameters::Parameters;
use crate::processors::NotStarted;

mod afar;
mod clocks;
mod coarse;
#[cfg(feature = "conformance")]
mod conformance;
#[cfg(target_arch = "x86_64")]
mod deep;
mod exact;
mod extended;
mod fixture;
mod hackbench;
mod hotplug;
mod interrupted;
mod isolation;
#[cfg(target_arch = "x86_64")]
mod machine_check;
mod noise;
#[cfg(feature = "conformance")]
mod played;
mod quiet;
mod reserved;
mod rules;
mod sizes;
mod soft;
mod switches;
mod threads;
mod traced;
mod trouble;
mod user;
mod watched;

type Function = fn(&'static Machine, &Parameters) -> Verdict;

/// One test.
struct Test {
    name: &'static str,
    /// The number of CPUs that the test needs.
    cpus: usize,
    /// The limit of the test's guest time, in seconds.
    seconds: u64,
    run: Function,
    /// True if the test runs only when it is named.
    is_extra: bool,
    /// True if devices do not fire in this test. In any other test a device that does not fire is a failure.
    is_rescued: bool,
}

/// Describes a test that runs only when its name is requested.
const fn extra(name: &'static str, cpus: usize, seconds: u64, run: Function) -> Test {
    Test {
        is_extra: true,
        ..test(name, cpus, seconds, run)
    }
}

const fn test(name: &'static str, cpus: usize, seconds: u64, run: Function) -> Test {
    Test {
        name,
        cpus,
        seconds,
        run,
        is_extra: false,
        is_rescued: false,
    }
}

/// All tests, in their order: the tests that run without a tick are first.
const TESTS: &[Test] = &[
    test("lateness", 1, 2, exact::lateness),
    test("order", 1, 1, exact::order),
    test("greedy", 1, 1, exact::greedy),
    test("soft", 1, 1, soft::soft),
    test("softloop", 1, 1, soft::softloop),
    test("moved", 1, 1, exact::moved),
    test("withdrawn", 1, 1, exact::withdrawn),
    test("writes", 1, 1, exact::writes),
    test("storm", 1, 1, exact::storm),
    test("sweep", 1, 1, exact::sweep),
    #[cfg(target_arch = "x86_64")]
    test("unmaskable", 1, 1, exact::unmaskable),
    test("remote", 2, 1, exact::remote),
    test("silent", 1, 11, quiet::silent),
    test("instants", 1, 1, quiet::instants),
    test("hotplug", 2, 1, hotplug::hotplug),
    test("wheel", 1, 2, coarse::wheel),
    test("tickless", 1, 11, coarse::tickless),
    test("kicked", 2, 1, coarse::kicked),
    test("served", 4, 1, coarse::served),
    test("asleep", 4, 1, coarse::asleep),
    test("threads", 1, 2, threads::threads),
    test("interrupted", 1, 1, interrupted::interrupted),
    test("user", 1, 5, user::user),
    test("afar", 2, 4, afar::afar),
    test("extended", 1, 1, extended::extended),
    test("reserved", 1, 2, reserved::reserved),
    test("rules", 1, 1, rules::rules),
    test("switches", 1, 5, switches::switches),
    test("set", 4, 1, isolation::set),
    test("isolated", 4, 62, coarse::isolated),
    test("noise", 4, 130, noise::noise),
    test("lockless", 1, 2, coarse::lockless),
    test("overdue", 1, 1, coarse::overdue),
    test("stopped", 2, 1, coarse::stopped),
    #[cfg(target_arch = "x86_64")]
    test("broadcast", 2, 4, deep::broadcast),
    test("combined", 2, 5, clocks::combined),
    #[cfg(target_arch = "x86_64")]
    test("machine-check", 2, 1, machine_check::machine_check),
    #[cfg(target_arch = "x86_64")]
    test("awake", 1, 1, machine_check::awake),
    test("switch", 1, 10, clocks::switch),
    Test {
        is_rescued: true,
        ..test("dead", 1, 2, trouble::dead)
    },
    test("absent", 1, 2, trouble::absent),
    test("halves", 1, 75, trouble::halves),
    // Last: a jump stays in the clock, and later tests compare it with the counter.
    test("watched", 1, 20, watched::watched),
    extra("fails", 1, 1, trouble::fails),
    extra("panics", 1, 1, trouble::panics),
    extra("faults", 1, 1, trouble::faults),
    extra("wedges", 1, 1, trouble::wedges),
    extra(trouble::MUTE, 2, 1, trouble::mute),
    #[cfg(target_arch = "x86_64")]
    extra("unrestartable", 1, 1, machine_check::unrestartable),
    #[cfg(target_arch = "x86_64")]
    extra("uncorrected", 1, 1, machine_check::uncorrected),
    extra("measure", 1, 30, switches::measure),
    extra("hackbench", 1, 60, hackbench::hackbench),
    extra("sizes", 1, 1, sizes::sizes),
    extra("trace", 1, 2, traced::traced),
    #[cfg(feature = "conformance")]
    extra("conformance", 1, 600, conformance::own),
    #[cfg(feature = "conformance-rig")]
    extra("conformance-rig", 1, 600, conformance::of_the_rig),
    extra("shared", 2, 60, clocks::measure),
];

/// The factor by which a test may exceed its limit where guest time follows the host's clock, because the host may
/// execute other programs meanwhile.
const PATIENCE: u64 = 30;

/// The milliseconds within which a CPU that was started has to come online.
const ANSWER_MILLIS: u64 = 500;

/// Brings all CPUs up, runs the tests and prints their results.
pub(crate) fn run(machine: &'static Machine, parameters: &Parameters) -> Code {
    limit(parameters, 1);
    introduce(machine, parameters);
    if let Err((cpu, reason)) = start_cpus(machine, parameters) {
        say!("kernel: CPU {cpu} {reason}");
        return Code::Unusable;
    }
    // Each of them sleeps before the first test begins.
    idle::until_time(machine.now().saturating_add(Span::from_millis(1)));
    let wanted = |test: &&Test| {
        let is_named = |names: &str| names.split(',').any(|name| name == test.name);
        parameters.test.map_or(!test.is_extra, is_named)
    };
    let mut code = Code::Passed;
    let (mut passed, mut failed, mut skipped) = (0, 0, 0);
    for test in TESTS.iter().filter(wanted) {
        if machine.cpus() < test.cpus {
            say!(
                "skipped: {}, because it needs {} CPUs",
                test.name,
                test.cpus
            );
            skipped += 1;
            continue;
        }
        limit(parameters, test.seconds);
        // No tick moves the record of time between tests: a device is up to 0.1 µs late for each second since.
        machine.host().clock().advance();
        let (rescues, unpaid) = (interrupt::RESCUES.get(), unpaid(machine));
        let mut verdict = (test.run)(machine, parameters);
        if unpaid != self::unpaid(machine) && Host::DEFERRED_REARM {
            verdict = verdict.and(Err("an interrupt did not write its device once".into()));
        }
        let rescued = interrupt::RESCUES.get() - rescues;
        if rescued > 0 && !test.is_rescued {
            verdict = verdict.and(Err(alloc::format!("{rescued} devices did not fire")));
        }
        match verdict {
            Ok(()) => {
                say!("passed: {}", test.name);
                passed += 1;
            }
            Err(reason) => {
                say!("failed: {}: {reason}", test.name);
                failed += 1;
                code = Code::Failed;
            }
        }
    }
    for (cpu, local) in machine
        .host()
        .cpus()
        .filter(|(_, local)| local.strays.get() > 0)
    {
        say!(
            "kernel: CPU {cpu} had {} interrupts of no source",
            local.strays.get()
        );
    }
    say!("kernel: {passed} passed, {failed} failed, {skipped} skipped");
    let mut names = parameters
        .test
        .into_iter()
        .flat_map(|names| names.split(','));
    if let Some(name) = names.find(|name| TESTS.iter().all(|test| test.name != *name)) {
        say!("kernel: there is no test of the name {name}");
        return Code::Unusable;
    }
    code
}

/// Returns the number of interrupts that did not write their device exactly once, and of those that found a write owed:
/// none does, because an exit unmasks interrupts for the soft stage alone, behind a flush (FLUSH-6).
fn unpaid(machine: &Machine) -> [u64; 2] {
    let missed = |cpu: usize| {
        let cpu = CpuId(u32::try_from(cpu).unwrap_or(u32::MAX));
        machine.timers.stats(cpu).missed_flushes
    };
    let of = |(cpu, local): (usize, &Local)| [local.miswritten.get(), missed(cpu)];
    let sum = |sum: [u64; 2], [written, missed]: [u64; 2]| [sum[0] + written, sum[1] + missed];
    machine.host().cpus().map(of).fold([0; 2], sum)
}

/// Starts the other CPUs, one after the other. If one of them does not run, returns its number and the reason.
fn start_cpus(
    machine: &'static Machine,
    parameters: &Parameters,
) -> Result<(), (usize, NotStarted)> {
    let answer = Span::from_millis(ANSWER_MILLIS * patience(parameters));
    for cpu in 1..machine.cpus() {
        // The wait for one CPU ends before the run does, however many CPUs were waited for.
        limit(parameters, 1);
        let is_mute = parameters.test == Some(trouble::MUTE) && cpu + 1 == machine.cpus();
        let begins = if is_mute {
            Begins::Mute
        } else {
            Begins::Kernel
        };
        machine
            .start_cpu(cpu, begins, answer)
            .map_err(|reason| (cpu, reason))?;
    }
    Ok(())
}

/// Prints the test and the machine.
fn introduce(machine: &Machine, parameters: &Parameters) {
    say!(
        "kernel: {}, {} CPUs, {} device, {}{}",
        arch::NAME,
        machine.cpus(),
        if arch::is_coupled() && !parameters.is_relative {
            "coupled"
        } else {
            "relative"
        },
        if Host::DEFERRED_REARM {
            "written at a flush point"
        } else {
            "written in the interrupt"
        },
        if parameters.is_exact {
            ", 1 ns an instruction"
        } else {
            ""
        },
    );
}

/// Ends the run when more than `seconds` of guest time pass, and allows one rescue of devices that do not fire.
fn limit(parameters: &Parameters, seconds: u64) {
    interrupt::allow_rescue();
    interrupt::watch(seconds * patience(parameters));
}

/// Returns the factor by which limits are longer in this run.
fn patience(parameters: &Parameters) -> u64 {
    if parameters.is_exact { 1 } else { PATIENCE }
}
