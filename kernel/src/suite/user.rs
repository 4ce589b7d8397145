//! Tests of user mode: interrupts come from user mode and from the kernel, and each carries out the flush point of its
//! exit.

use alloc::string::String;

use tickless_core::event::Flush;
use tickless_core::hrtimer::{Expired, Restart, Setup, Start};
use tickless_core::link::lock::Lock;
use tickless_core::platform::Platform;
use tickless_core::time::{Monotonic, Span};
use tickless_sched::{Request, Weight};

use super::exact::{lateness_of_entry, on_grid};
use super::fixture::{Spread, Verdict, ensure, kept, timer};
use crate::arch;
use crate::classes::Want;
use crate::console::say;
use crate::host::Host;
use crate::lock::MaskingLock;
use crate::machine::{Machine, machine};
use crate::note::Count;
use crate::parameters::Parameters;
use crate::tasks::{self, Leaves, Ran, Tick};
use crate::user::{self, Ended, Program, execute};

const SLICE: Span = Span::from_millis(3);
/// Firings of the timer in each part.
const TIMES: u64 = 1_000;
/// The time between two firings, which is on a count of the machine's counter.
const EVERY: Span = Span::from_nanos(137_600);
/// The rounds of a program between two system calls, by the task that runs it.
const ROUNDS: [usize; 2] = [3_000, 700];
/// The programs that do what user mode must not do.
const CULPRITS: [Program; 5] = [
    Program::Reads,
    Program::Writes,
    Program::Jumps,
    Program::Usurps,
    Program::Asks,
];

/// The end of each task; `None` before.
static ENDED: Lock<MaskingLock, [Option<Ended>; user::STACKS]> =
    Lock::new(MaskingLock::new(), [None; user::STACKS]);

/// Executes a program in the executing task, and finishes the task.
fn end_with(task: usize, program: Program, arguments: [usize; 2]) {
    let _mask = arch::mask();
    let ended = execute(program, task, arguments);
    ENDED.lock(None)[task] = Some(ended);
    tasks::leave(Leaves::Finished);
}

/// The body of a task that never gives up the CPU.
fn forever(task: usize) {
    end_with(task, Program::Forever, [0, 0]);
}

/// The body of three tasks: two alternate between computing and system calls, and one never leaves the kernel.
fn by_turns(task: usize) {
    if let Some(&rounds) = ROUNDS.get(task) {
        end_with(task, Program::Rounds, [rounds, 0x1000 * (task + 1)]);
    }
    let mut count = 0_u64;
    while !user::MUST_END.is_there() {
        count = core::hint::black_box(count + 1);
    }
    let _mask = arch::mask();
    tasks::leave(Leaves::Finished);
}

/// The body of a task that does what user mode must not do, for example to memory of the kernel.
fn culprit(task: usize) {
    end_with(task, CULPRITS[task], [(&raw const ENDED).addr(), 1]);
}

#[derive(Clone, Copy, Debug)]
struct Counts {
    interrupts: u64,
    in_user: u64,
    decided_in_user: u64,
    writes: u64,
    flushes: [u64; Flush::COUNT],
}

impl Counts {
    fn now(machine: &Machine) -> Self {
        let local = machine.host().here();
        Self {
            interrupts: local.timer_interrupts.get(),
            in_user: local.timer_in_user.get(),
            decided_in_user: local.decided_in_user.get(),
            writes: local.device_writes.get(),
            flushes: machine.timers.stats(machine.here()).flushes,
        }
    }

    fn since(machine: &Machine, then: &Self) -> Self {
        let mut counts = Self::now(machine);
        counts.interrupts -= then.interrupts;
        counts.in_user -= then.in_user;
        counts.decided_in_user -= then.decided_in_user;
        counts.writes -= then.writes;
        for (count, before) in counts.flushes.iter_mut().zip(then.flushes) {
            *count -= before;
        }
        counts
    }

    fn of(&self, place: Flush) -> u64 {
        self.flushes[place as usize]
    }

    /// Fails unless each interrupt wrote the device once, at the flush point of its exit.
    fn each_is_paid(&self) -> Verdict {
        let decided = self.of(Flush::Switched) + self.of(Flush::SameTask);
        say!(
            "  {} interrupts, {} in user mode: flushed on the way to user mode {}, to the kernel {}, behind a choice \
             {decided}; {} writes",
            self.interrupts,
            self.in_user,
            self.of(Flush::UserExit),
            self.of(Flush::KernelExit),
            self.writes
        );
        if !Host::DEFERRED_REARM {
            return Ok(());
        }
        ensure!(
            self.of(Flush::UserExit) == self.in_user - self.decided_in_user,
            "{} interrupts in user mode, of which {} chose a task",
            self.in_user,
            self.decided_in_user
        );
        let in_kernel = self.interrupts - self.in_user;
        let decided_in_kernel = decided.checked_sub(self.decided_in_user);
        ensure!(
            Some(self.of(Flush::KernelExit))
                == decided_in_kernel.map(|decided| in_kernel - decided),
            "{in_kernel} interrupts in the kernel, of which {decided_in_kernel:?} chose a task"
        );
        let flushed: u64 = self.flushes.iter().sum();
        ensure!(
            flushed == self.interrupts,
            "{flushed} flushes of {} interrupts",
            self.interrupts
        );
        Ok(())
    }
}

/// The lateness of a periodic timer, by the mode that its interrupts came in.
struct Beat {
    user: Spread,
    kernel: Spread,
    /// Interrupts of user mode whose lateness is the machine's constant one.
    exact: Count,
    early: Count,
    joined: Count,
    /// Interrupts of user mode so far.
    in_user: Count,
    at_end: fn(),
}

impl Beat {
    fn new(at_end: fn()) -> Self {
        let in_user = Count::new();
        in_user.set(machine().host().here().timer_in_user.get());
        Self {
            user: Spread::new(),
            kernel: Spread::new(),
            exact: Count::new(),
            early: Count::new(),
            joined: Count::new(),
            in_user,
            at_end,
        }
    }

    fn fired(&self) -> u64 {
        self.user.count.get() + self.kernel.count.get() + self.joined.get()
    }

    fn fire(&self, expired: &mut Expired<'_, '_, Monotonic>) -> Restart {
        let host = machine().host();
        let deadline = expired.deadline();
        let in_user = host.here().timer_in_user.get();
        let was_user = in_user != self.in_user.get();
        self.in_user.set(in_user);
        self.early
            .add(u64::from(host.time_of(arch::counter()) < deadline));
        match lateness_of_entry(host, deadline) {
            Some(late) if was_user => {
                self.user.note(late);
                self.exact
                    .add(u64::from(arch::ENTRY_LATENESS.contains(&late)));
            }
            Some(late) => self.kernel.note(late),
            // The interrupt of an earlier timer runs what became due in the meantime, too.
            None => self.joined.add(1),
        }
        // Halfway to the next one, in whichever mode that is.
        #[cfg(target_arch = "x86_64")]
        arch::watch_early(u64::from(arch::kilohertz().0) * EVERY.as_nanos() / 2_000_000);
        if self.fired() >= TIMES {
            (self.at_end)();
            return Restart::No;
        }
        expired.forward(expired.now(), EVERY);
        Restart::Yes
    }
}

/// Runs `tasks` tasks while the periodic timer fires.
fn under_beat(
    machine: &'static Machine,
    slices: bool,
    tasks: usize,
    body: fn(usize),
    at_end: fn(),
) -> (&'static Beat, Counts, Ran) {
    // The device may still be armed for a timer of an earlier test.
    machine.timers.retrigger(machine.here());
    let beat = kept(Beat::new(at_end));
    let ticking = timer(Setup::new(), |expired| beat.fire(expired));
    let _started = ticking.start(machine.timers, Start::at(on_grid(machine)).pinned());
    let before = Counts::now(machine);
    let ran = run(slices, tasks, body);
    (beat, Counts::since(machine, &before), ran)
}

fn run(slices: bool, tasks: usize, body: fn(usize)) -> Ran {
    let tick = Tick {
        is_lazy: true,
        filter: true,
        slices,
    };
    *ENDED.lock(None) = [None; user::STACKS];
    user::MUST_END.set(false);
    let wants = [Want::Share(Weight::UNIT, Request::clamped(SLICE)); user::STACKS];
    tasks::run(tick, &wants[..tasks], body)
}

/// One task in user mode, which never gives up the CPU: each interrupt comes from user mode, on time to the nanosecond.
fn alone(machine: &'static Machine, parameters: &Parameters) -> Verdict {
    let (beat, counts, ran) = under_beat(machine, false, 1, forever, tasks::end);
    counts.each_is_paid()?;
    say!("  one that never lets go: entered {} late", beat.user);
    ensure!(beat.early.get() == 0, "{} were early", beat.early.get());
    ensure!(ran.left == 1, "a task that never lets go has ended");
    if parameters.is_exact {
        // The last interrupt ends it.
        ensure!(
            counts.in_user == TIMES && counts.decided_in_user == 1,
            "{} interrupts came in user mode, {} chose a task",
            counts.in_user,
            counts.decided_in_user
        );
        ensure!(
            counts.interrupts == TIMES && counts.writes == TIMES,
            "{} interrupts and {} writes for {TIMES} deadlines",
            counts.interrupts,
            counts.writes
        );
        ensure!(
            beat.exact.get() == TIMES || parameters.is_relative,
            "{} of {TIMES} were entered {:?} ns late",
            beat.exact.get(),
            arch::ENTRY_LATENESS
        );
    }
    Ok(())
}

/// Three tasks: two alternate between user mode and the kernel, and one is a thread of the kernel.
fn mixed(machine: &'static Machine, parameters: &Parameters) -> Verdict {
    #[cfg(target_arch = "x86_64")]
    let unmaskable = machine.host().here().unmaskable.get();
    let calls = user::CALLS.get();
    let end = || user::MUST_END.leave();
    let (beat, counts, ran) = under_beat(machine, true, ROUNDS.len() + 1, by_turns, end);
    counts.each_is_paid()?;
    let calls = user::CALLS.get() - calls;
    say!(
        "  two that call the kernel: entered {} late in user mode ({} of {} exactly), {} in the kernel; {} \
         preemptions, {calls} system calls",
        beat.user,
        beat.exact.get(),
        beat.user.count.get(),
        beat.kernel,
        ran.preempted
    );
    ensure!(beat.early.get() == 0, "{} were early", beat.early.get());
    ensure!(ran.left == 0, "{} tasks did not finish", ran.left);
    let [user, kernel] = [Flush::UserExit, Flush::KernelExit].map(|place| counts.of(place));
    ensure!(
        counts.in_user > 0 && counts.in_user < counts.interrupts,
        "{} of {} interrupts came in user mode",
        counts.in_user,
        counts.interrupts
    );
    ensure!(
        user > 0 && kernel > 0 || !Host::DEFERRED_REARM,
        "flushed {user} times on the way to user mode, and {kernel} to the kernel"
    );
    ensure!(
        counts.decided_in_user > 0 && ran.preempted > 0 || !Host::DEFERRED_REARM,
        "{} interrupts in user mode chose a task",
        counts.decided_in_user
    );
    #[cfg(target_arch = "x86_64")]
    {
        let unmaskable = machine.host().here().unmaskable.get() - unmaskable;
        say!("  {unmaskable} interrupts that no mask holds back");
        ensure!(
            unmaskable >= TIMES - 1 || !parameters.is_exact && unmaskable > 0,
            "{unmaskable} interrupts came that no mask holds back"
        );
    }
    let ended = *ENDED.lock(None);
    let mut rounds = 0;
    for (task, ended) in ended.iter().enumerate().take(ROUNDS.len()) {
        match *ended {
            // Each round is a call, and so is the exit.
            Some(Ended::Exited(value)) if value < usize::MAX => rounds += value as u64 + 1,
            other => return Err(alloc::format!("task {task} lost a register: {other:?}")),
        }
    }
    ensure!(
        rounds == calls,
        "the tasks count {rounds} system calls, the kernel {calls}"
    );
    if parameters.is_exact && !parameters.is_relative {
        // A program computes without a mask; what is late became due while its task was on its way back there.
        let late = beat.user.count.get() - beat.exact.get();
        ensure!(
            late * 20 < beat.user.count.get(),
            "{late} of {} interrupts in user mode are late",
            beat.user.count.get()
        );
    }
    Ok(())
}

/// Tasks that do what user mode must not do: each task ends, and the kernel continues.
fn culprits() -> Verdict {
    let ran = run(true, CULPRITS.len(), culprit);
    ensure!(ran.left == 0, "{} tasks did not finish", ran.left);
    let touched = (&raw const ENDED).addr();
    let ended = *ENDED.lock(None);
    for (&program, ended) in CULPRITS.iter().zip(ended) {
        let where_to = match program {
            Program::Reads | Program::Writes | Program::Jumps => touched,
            _ => 0,
        };
        ensure!(
            ended == Some(Ended::Faulted(where_to)),
            "{program:?} was let through: {ended:?}"
        );
    }
    Ok(())
}

/// Tests the origin of interrupts, the flush points of their exits, and the limits of tasks in user mode.
pub(super) fn user(machine: &'static Machine, parameters: &Parameters) -> Verdict {
    let results: [(&str, Verdict); 3] = [
        ("alone", alone(machine, parameters)),
        ("mixed", mixed(machine, parameters)),
        ("culprits", culprits()),
    ];
    for (part, result) in results {
        result.map_err(|reason: String| alloc::format!("{part}: {reason}"))?;
    }
    Ok(())
}
