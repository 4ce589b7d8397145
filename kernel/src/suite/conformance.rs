//! The conformance suites of the core, on the host of the kernel, executed by the machine that the kernel runs on.

use alloc::boxed::Box;
use alloc::string::String;

use tickless_conformance::Host;
use tickless_conformance::kit::Suite;
use tickless_conformance::suites::each;

use super::fixture::{Verdict, ensure};
use super::played::Played;
use crate::arch;
use crate::console::say;
use crate::late::Late;
use crate::machine::Machine;
use crate::note::Count;
use crate::parameters::Parameters;
use crate::played::play;
use crate::thread::{Thread, switch};

/// Runs the cases of all suites for the kernel's own host: a case that fails panics, and ends the run.
pub(super) fn own(_machine: &'static Machine, _parameters: &Parameters) -> Verdict {
    on_a_thread(OWN)
}

/// Runs the cases of all suites for the virtual hosts of the rig.
#[cfg(feature = "conformance-rig")]
pub(super) fn of_the_rig(_machine: &'static Machine, _parameters: &Parameters) -> Verdict {
    on_a_thread(OF_THE_RIG)
}

/// Runs `suites` on a stack as large as that of a test on an operating system: a suite makes machines there.
fn on_a_thread(hosts: usize) -> Verdict {
    let thread = SUITES.set(Box::new(Thread::with_stack(STACK)));
    thread.begin(run_all, hosts);
    let before = arch::mask();
    switch(&KERNEL, thread);
    arch::restore(before);
    ensure!(RAN.get() > 0, "no case ran");
    say!("  {} bytes of stack", thread.used());
    Ok(())
}

/// The cases that are left out although the kernel has what they need: the suite, the case, and the reason.
const EXCEPT: &[(&str, &str, &str)] = &[(
    "interrupt",
    "an_interrupt_can_be_executed_for_another_cpu",
    "a device of a CPU is written by that CPU alone",
)];
/// Bytes of the stack of the suites.
const STACK: usize = 2 * 1024 * 1024;
static KERNEL: Thread = Thread::running();
static SUITES: Late<Thread> = Late::new();
static RAN: Count = Count::new();
/// The argument of the thread that runs the suites for the kernel's own host, and of the thread that runs them for the
/// hosts of the rig.
const OWN: usize = 0;
#[cfg(feature = "conformance-rig")]
const OF_THE_RIG: usize = 1;

fn run_all(hosts: usize) {
    let ran = play(|| match hosts {
        OWN => run::<Played>(),
        #[cfg(feature = "conformance-rig")]
        _ => run::<tickless_conformance::Deferred>() + run::<tickless_conformance::Immediate>(),
        #[cfg(not(feature = "conformance-rig"))]
        _ => 0,
    });
    RAN.set(ran);
    arch::mask();
    if let Some(thread) = SUITES.get() {
        switch(thread, &KERNEL);
    }
}

struct Progress {
    suite: &'static Suite,
    passed: usize,
    /// The value of the machine's counter when the suite began.
    began: u64,
}

impl Progress {
    fn say<H: Host>(&self) {
        let Self { suite, passed, .. } = self;
        let took = (arch::counter() - self.began) / u64::from(arch::kilohertz().0);
        let (name, all) = (suite.name, suite.cases.len());
        say!("  {}: {name}: {passed} of {all} cases, {took} ms", H::NAME);
    }
}

/// Runs the cases whose needs `H` fulfils, and returns their number. Prints each case that is left out, with the
/// reason, and each suite when it has finished.
fn run<H: Host>() -> u64 {
    let (mut ran, mut all) = (0, 0);
    let mut progress: Option<Progress> = None;
    each::<H>(&mut |suite, name, case| {
        all += 1;
        if progress
            .as_ref()
            .is_none_or(|it| it.suite.name != suite.name)
        {
            let before = progress.replace(Progress {
                suite,
                passed: 0,
                began: arch::counter(),
            });
            if let Some(before) = before {
                before.say::<H>();
            }
        }
        if let Some(reason) = left_out::<H>(suite, name) {
            say!(
                "  {}: without {}::{name}, because {reason}",
                H::NAME,
                suite.name
            );
            return;
        }
        case();
        ran += 1;
        if let Some(progress) = &mut progress {
            progress.passed += 1;
        }
    });
    if let Some(last) = progress {
        last.say::<H>();
    }
    say!("  {}: {ran} of {all} cases pass", H::NAME);
    ran
}

/// Returns why the case `name` of `suite` does not run for `H`; `None` if it does.
fn left_out<H: Host>(suite: &Suite, name: &str) -> Option<String> {
    let is_own = H::NAME == Played::NAME;
    let mut except = EXCEPT.iter().filter(|_| is_own);
    if let Some((.., reason)) = except.find(|except| except.0 == suite.name && except.1 == name) {
        return Some(String::from(*reason));
    }
    let lacks = suite.lacking::<H>(name);
    (!lacks.is_empty()).then(|| alloc::format!("it has no {lacks}"))
}
