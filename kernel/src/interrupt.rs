//! The course of an interrupt from its entry to its end: due timers, the soft stage, and the flush points.
//!
//! ```text
//!   entry (masked)   timer: Timers::interrupt      the device is left to a flush point
//!                    call:  Timers::retrigger      a kick of the core, or a job, or "leave idle"
//!   exit  (masked)   soft work?  flush (FLUSH-4), unmask, soft stage and wheels for a limited time, mask
//!                    some left?  it is given to a thread
//!                    a slice ended?  another task is chosen, and the device written behind that (FLUSH-5)
//!                    flush (FLUSH-3)
//! ```
//!
//! # Ground rules
//!
//! Interrupts nest only while the soft stage runs. A nested interrupt flushes at its own exit. It leaves the soft work
//! that it raised, and the choice of another thread, to the stage that it interrupted. A chosen thread continues at
//! once; the code after the choice runs when the thread that left is chosen again.

use core::fmt;

use tickless_core::event::Flush;
use tickless_core::platform::CpuId;
use tickless_core::time::{Instant, Span};

use crate::arch::{self, Interrupted};
use crate::exit::{Code, end};
use crate::host::Local;
use crate::machine::{Machine, machine};
use crate::note::{Count, Note};
use crate::serial::last_line;
use crate::{soft, tasks, user};

fn enter(entered: u64) -> (&'static Machine, &'static Local, CpuId) {
    let machine = machine();
    let local = machine.host().here();
    local.interrupts.add(1);
    local.entered.set(entered);
    // One on top of a soft stage is part of the interrupt that the stage ends.
    if !local.is_in_soft.is_there() {
        tasks::interrupt_begins();
    }
    #[cfg(target_arch = "x86_64")]
    crate::deep::leave(machine);
    machine.count_in_interrupt();
    (machine, local, machine.here())
}

/// Handles an interrupt of the executing CPU's device; the counter was at `entered`.
pub(crate) fn timer(entered: u64, interrupted: Interrupted) {
    let (machine, local, cpu) = enter(entered);
    local.timer_interrupts.add(1);
    // By the address: what the exit goes by is the processor's word.
    if user::holds(interrupted.at) {
        local.timer_in_user.add(1);
    }
    expire(machine, local, cpu);
}

/// Does the work of a timer interrupt, and leaves the write of the device to a flush point.
fn expire(machine: &Machine, local: &Local, cpu: CpuId) {
    local.writes_in_interrupt.set(0);
    local.owes_rearm.leave();
    let _report = machine.timers.interrupt(cpu);
}

/// Handles an interrupt of the comparator that wakes CPUs out of deep idle; the counter was at `entered`.
#[cfg(target_arch = "x86_64")]
pub(crate) fn broadcast(entered: u64) {
    let (machine, local, cpu) = enter(entered);
    local.broadcasts.add(1);
    if crate::deep::handle(machine) {
        expire(machine, local, cpu);
    }
}

/// Handles an interrupt that another CPU sent to the executing one.
pub(crate) fn ipi(entered: u64) {
    let (machine, local, cpu) = enter(entered);
    local.calls.add(1);
    crate::clock::answer();
    #[cfg(target_arch = "x86_64")]
    if local.is_called.take() {
        expire(machine, local, cpu);
    }
    if local.is_tick_kicked.take() {
        tasks::tick_kicked();
    }
    if local.is_kicked.take() {
        machine.timers.retrigger(cpu);
    }
}

/// Handles an interrupt that no mask holds back, on top of any code of the CPU.
#[cfg(target_arch = "x86_64")]
pub(crate) fn masked() {
    let host = machine().host();
    let local = host.here();
    crate::clock::on_top(|| {
        let now = host.clock().now_on_top_of_writer();
        local.unmaskable_time.set(now.as_nanos().unsigned_abs());
    });
    local.unmaskable.add(1);
}

/// Handles a machine check, on top of any code of the CPU: reads the clock as [`masked`] does. `end` ends the machine
/// check. If the interrupted code cannot continue, ends the run.
#[cfg(target_arch = "x86_64")]
pub(crate) fn machine_check(at: usize, end: fn() -> Result<(), arch::machine_check::Lost>) {
    let host = machine().host();
    let local = host.here();
    crate::clock::on_top(|| {
        let now = host.clock().now_on_top_of_writer().as_nanos();
        local.machine_check_time.set(now.unsigned_abs());
        if let Err(lost) = end() {
            fault(format_args!("machine check at {at:#x}, {now} ns: {lost}"));
        }
    });
    local.machine_checks.add(1);
}

/// Handles an interrupt of no known source.
#[cfg_attr(
    target_arch = "riscv64",
    expect(dead_code, reason = "each cause of a trap has a name there")
)]
pub(crate) fn stray() {
    machine().host().here().strays.add(1);
}

/// Executes the end of each interrupt, masked.
pub(crate) fn exit(interrupted: Interrupted) {
    let machine = machine();
    let local = machine.host().here();
    let is_outermost = !local.is_in_soft.is_there();
    if is_outermost && soft::is_due(local) && !tasks::has_the_rest() {
        flush(machine, local, Flush::SoftWork);
        soft::stage(machine, local);
        // An idle CPU does the rest before it sleeps.
        if soft::is_due(local) && !tasks::do_the_rest() && !local.is_idle.is_there() {
            soft::pause(machine);
        }
    }
    // On top of a soft stage another thread is chosen by the interrupt that the stage ends.
    let decides = is_outermost && local.must_decide.take();
    if decides {
        // The thread that is chosen is charged from here on.
        tasks::interrupt_ends();
        // The decision starts its tick first, and then writes the device once, for both (FLUSH-5).
        let owes = local.owes_rearm.take();
        if owes && interrupted.was_user {
            local.decided_in_user.add(1);
        }
        tasks::decide_in_interrupt(owes, || {
            if owes {
                note_writes(machine, local);
            }
        });
    }
    let place = if interrupted.was_user {
        Flush::UserExit
    } else {
        Flush::KernelExit
    };
    flush(machine, local, place);
    if is_outermost && !decides {
        tasks::interrupt_ends();
    }
}

/// Carries out the write of the device that the last timer interrupt left to a flush point.
fn flush(machine: &Machine, local: &Local, place: Flush) {
    // Tested first, without a lock (spec REARM-10).
    if !local.owes_rearm.take() {
        return;
    }
    machine.timers.flush_deferred(machine.here(), place);
    note_writes(machine, local);
}

/// Counts an interrupt that did not write the device exactly once. An interrupt that was withdrawn too late and finds
/// the device stopped has nothing to write.
fn note_writes(machine: &Machine, local: &Local) {
    let is_right = match local.writes_in_interrupt.get() {
        0 => machine.armed(arch::cpu()) == Instant::FOREVER,
        writes => writes == 1,
    };
    if !is_right {
        local.miswritten.add(1);
    }
}

/// The devices that did not fire, and that the watchdog had written again.
pub(crate) static RESCUES: Count = Count::new();
/// True if the watchdog has rescued devices since the last limit: one that does not fire twice ends the run.
static IS_RESCUED: Note = Note::new();

/// Lets the watchdog rescue devices once more.
pub(crate) fn allow_rescue() {
    IS_RESCUED.set(false);
}

/// Handles the watchdog, at `now`. Where the device of a CPU should have fired long ago, reports the device and has the
/// CPU write it again; otherwise ends the run. Called on top of any code on a PC, so it takes no lock.
pub(crate) fn watchdog(now: Instant) {
    /// The time after which a device counts as one that does not fire.
    const OVERDUE: Span = Span::from_millis(5);
    /// The seconds in which the rescued timers have to come.
    const SECONDS: u64 = 30;
    if IS_RESCUED.is_there() {
        wedged();
    }
    let machine = machine();
    let is_dead = |cpu| machine.armed(cpu).saturating_add(OVERDUE) < now;
    for (cpu, local) in machine.host().cpus().filter(|&(cpu, _)| is_dead(cpu)) {
        IS_RESCUED.leave();
        RESCUES.add(1);
        last_line(format_args!(
            "kernel: the device of CPU {cpu} did not fire at {}, and is written again",
            machine.armed(cpu).as_nanos()
        ));
        local.is_kicked.leave();
        arch::interrupt_cpu_on_top(cpu);
    }
    if !IS_RESCUED.is_there() {
        wedged();
    }
    watch(SECONDS);
}

/// The watchdog while a test tries it, and does not let it end the run.
#[derive(Debug)]
pub(crate) struct Trial {
    pub(crate) is_on: Note,
    /// The counter before which the watchdog must not come.
    pub(crate) due: Count,
    /// The interrupts of the watchdog, and those of them that came early.
    pub(crate) fired: Count,
    pub(crate) early: Count,
}

/// The only [`Trial`].
pub(crate) static TRIAL: Trial = Trial {
    is_on: Note::new(),
    due: Count::new(),
    fired: Count::new(),
    early: Count::new(),
};

/// Counts the interrupt of the watchdog for the test that tries it. Returns false if no test does.
pub(crate) fn try_watchdog() -> bool {
    let is_tried = TRIAL.is_on.is_there();
    if is_tried {
        TRIAL.fired.add(1);
        let is_early = arch::counter() < TRIAL.due.get();
        TRIAL.early.add(u64::from(is_early));
    }
    is_tried
}

/// Has the watchdog call [`watchdog`] in so many seconds of the counter.
pub(crate) fn watch(seconds: u64) {
    arch::set_watchdog(arch::counter() + seconds * u64::from(arch::kilohertz().0) * 1_000);
}

/// Handles the watchdog on top of any code of the CPU.
#[cfg(target_arch = "x86_64")]
pub(crate) fn watchdog_on_top() {
    crate::clock::on_top(|| watchdog(machine().host().clock().now_on_top_of_writer()));
}

/// Ends a run that exceeded its guest time: a timer was lost, or a CPU waits for ever.
pub(crate) fn wedged() -> ! {
    last_line(format_args!(
        "kernel: wedged: the guest time of this run is over"
    ));
    for (cpu, local) in machine().host().cpus() {
        last_line(format_args!(
            "  CPU {cpu}: {} interrupts, armed for {}, tick stopped: {}",
            local.interrupts.get(),
            machine().armed(cpu).as_nanos(),
            local.is_tick_stopped.is_there(),
        ));
    }
    arch::exit(Code::Wedged as u32)
}

/// Ends a run in which the machine reported an error that no kernel should cause.
pub(crate) fn fault(text: fmt::Arguments<'_>) -> ! {
    end(
        Code::Fault,
        format_args!("kernel: fault on CPU {}: {text}", arch::cpu()),
    )
}
