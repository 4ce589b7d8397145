//! The measurement of the memory that the core takes for each CPU: data, and the stack in an interrupt.

use core::pin::Pin;

use tickless_core::base::CpuBase;
use tickless_core::coarse::{Restart as Again, Tick, Timeout, WheelKind, WheelTimer};
use tickless_core::hierarchy::{CpuNode, Group, WIDTH_DEFAULT};
use tickless_core::hrtimer::{Expired, HrTimer, Restart, Setup, Stage, Start};
use tickless_core::time::{Monotonic, Span};
use tickless_sched::{Request, Weight};

use super::fixture::{Verdict, ensure};
use crate::arch;
use crate::classes::Want;
use crate::console::say;
use crate::host::{Host, Local};
use crate::lock::MaskingLock;
use crate::machine::{Machine, PERIOD, TICKING, machine};
use crate::note::Count;
use crate::parameters::Parameters;
use crate::tasks::{self, Leaves, Tick as TaskTick};

static FIRED: Count = Count::new();

type Function = fn(&mut Expired<'_, '_, Monotonic>) -> Restart;

static HARD: HrTimer<Function> =
    HrTimer::with_setup(Setup::new().stage(Stage::Hard), false, |_| {
        FIRED.add(1);
        Restart::No
    });
static SOFT: HrTimer<Function> =
    HrTimer::with_setup(Setup::new().stage(Stage::Soft), false, |_| {
        FIRED.add(1);
        Restart::No
    });
static COARSE: WheelTimer<fn(&mut Timeout) -> Again> = WheelTimer::new(WheelKind::Global, |_| {
    FIRED.add(1);
    Again::No
});

fn wait_for(fired: u64) {
    while FIRED.get() < fired {
        arch::relax();
    }
}

/// The body of a task. Each task does one thing more than the task before.
fn body(task: usize) {
    let machine = machine();
    let before = FIRED.get();
    let timer = Pin::static_ref(if task == 0 { &HARD } else { &SOFT });
    if task > 1 {
        machine.start_tick();
        let now = machine.tick_time().tick;
        let armed = Pin::static_ref(&COARSE).arm(machine.timers, now, Tick(now.0 + 3));
        armed.expect("it is not armed");
        wait_for(before + 1);
        machine.end_tick();
    } else {
        let soon = Start::after(Span::from_nanos(PERIOD.as_nanos() / 2));
        let _started = timer.start(machine.timers, soon.pinned());
        wait_for(before + 1);
    }
    let _mask = arch::mask();
    tasks::leave(Leaves::Finished);
}

/// Prints the sizes of the parts of a CPU, and the depth of the stack of a thread that calls and is interrupted.
pub(super) fn sizes(_machine: &'static Machine, _parameters: &Parameters) -> Verdict {
    say!(
        "  of each CPU: base {} bytes ({} the kernel's own), tick {TICKING}, node {}; a group of {WIDTH_DEFAULT} {}",
        size_of::<CpuBase<Host>>(),
        size_of::<Local>(),
        size_of::<CpuNode<MaskingLock>>(),
        size_of::<Group<MaskingLock, WIDTH_DEFAULT>>(),
    );
    let tick = TaskTick {
        is_lazy: true,
        filter: true,
        slices: false,
    };
    let ran = tasks::run(
        tick,
        &[Want::Share(Weight::UNIT, Request::DEFAULT); 3],
        body,
    );
    ensure!(ran.left == 0, "{} tasks did not finish", ran.left);
    let [hard, soft, coarse] = [0, 1, 2].map(tasks::stack_used);
    say!(
        "  stack: {hard} bytes with a hard interrupt, {soft} with a soft stage, {coarse} with a tick and its wheels"
    );
    ensure!(hard > 0, "a thread has no stack");
    Ok(())
}
