//! The paths of interrupts on which a deferred rearm has to be flushed (spec ).
//!
//! A kernel's entry code, soft stage and scheduler are collected here as a script. Each flush point has the number of
//! the specification and a switch that removes the flush point, to prove that the suite notices its absence.

use tickless_core::event::Flush;
use tickless_core::hrtimer::ExpiryReport;
use tickless_core::platform::CpuId;

use crate::host::Host;
use crate::rig::Rig;

/// The code that a timer interrupt interrupted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interrupted {
    /// The code is a user's program.
    User,
    /// The code is the kernel, with interrupts enabled.
    Kernel,
    /// The code is the kernel, with interrupts masked: the handler was called by hand, as hypervisors do (spec
    /// FLUSH-8).
    Masked,
}

/// The steps of a reschedule that is pending when the interrupt returns.
pub struct Schedule<'a> {
    /// True if the scheduler picks another task.
    pub switches: bool,
    /// True if the task gets a time-slice extension instead (spec FLUSH-7).
    pub extension: bool,
    /// A function that runs with interrupts enabled before the scheduler is reached: in this window a nested interrupt
    /// can come.
    pub before: Option<&'a dyn Fn()>,
    /// A function that runs in the scheduler, as when the picked task starts its slice timer.
    pub pick: Option<&'a dyn Fn()>,
}

impl core::fmt::Debug for Schedule<'_> {
    fn fmt(&self, formatter: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        formatter
            .debug_struct("Schedule")
            .field("switches", &self.switches)
            .field("extension", &self.extension)
            .finish_non_exhaustive()
    }
}

impl Schedule<'_> {
    /// A reschedule that picks another task and does nothing else.
    pub const SWITCH: Self = Self {
        switches: true,
        extension: false,
        before: None,
        pick: None,
    };
}

/// The number of interrupts in a row without a pause that the rig calls a storm.
const STORM: u32 = 10_000;
/// The shortest pause between two interrupts, in nanoseconds.
const PAUSE: i64 = 1_000;

impl<H: Host> Rig<H> {
    /// Lets time pass until the true time `until`, delivering timer interrupts to programs in user mode.
    ///
    /// # Panics
    ///
    /// Panics if the CPUs take ten thousand interrupts without a pause of a microsecond.
    pub fn run_until(&self, until: i64) {
        match &self.ticks {
            Some(_) => self.run_ticking_until(until),
            None => self.run_until_by(until, &|_| (Interrupted::User, Schedule::SWITCH)),
        }
    }

    /// Lets time pass until `until`. For each interrupt of a CPU, `path` returns the code that the interrupt interrupts
    /// and the steps that follow.
    ///
    /// # Panics
    ///
    /// Panics like [`run_until`](Rig::run_until).
    pub fn run_until_by<'s>(&self, until: i64, path: &dyn Fn(u32) -> (Interrupted, Schedule<'s>)) {
        let mut storm = 0;
        let mut last = self.now();
        while let Some((at, cpu)) = self.next_interrupt(until) {
            storm = if at > last + PAUSE { 0 } else { storm + 1 };
            last = at;
            assert!(storm < STORM, "an interrupt storm on CPU {cpu} at {at} ns");
            self.host().set_now(at.max(self.now()));
            let (interrupted, schedule) = path(cpu);
            self.interrupt(cpu, interrupted, &schedule);
            self.check();
        }
        self.host().set_now(until.max(self.now()));
        self.check();
    }

    /// Returns the next interrupt up to `until` that can be delivered.
    fn next_interrupt(&self, until: i64) -> Option<(i64, u32)> {
        (0..self.cpus())
            .filter(|&cpu| !self.cpu(cpu).masked.get())
            .filter_map(|cpu| {
                let kicked = self.is_kicked(cpu).then(|| self.now());
                let fires = self.fires_at(cpu);
                [kicked, fires]
                    .into_iter()
                    .flatten()
                    .min()
                    .map(|at| (at, cpu))
            })
            .filter(|&(at, _)| at <= until)
            .min()
    }

    /// Delivers to `cpu` everything that is due there now.
    pub fn deliver_due(&self, cpu: u32) {
        let mut rounds = 0;
        while !self.is_masked(cpu) && self.is_due(cpu) {
            self.interrupt(cpu, Interrupted::Kernel, &Schedule::SWITCH);
            rounds += 1;
            assert!(rounds < STORM, "an interrupt storm on CPU {cpu}");
        }
    }

    /// Returns true if `cpu` was kicked, or its device has fired.
    fn is_due(&self, cpu: u32) -> bool {
        self.is_kicked(cpu) || self.fires_at(cpu).is_some_and(|at| at <= self.now())
    }

    /// Delivers to every CPU everything that is due there now.
    pub fn deliver_all(&self) {
        for cpu in 0..self.cpus() {
            self.deliver_due(cpu);
        }
    }

    /// Makes `cpu` reschedule on the return from its next interrupt.
    pub fn set_need_resched(&self, cpu: u32) {
        self.place(cpu, |placement| placement.need_resched = true);
    }

    fn take_need_resched(&self, cpu: u32) -> bool {
        let was_set = self.cpu(cpu).placement.get().need_resched;
        self.place(cpu, |placement| placement.need_resched = false);
        was_set
    }

    /// Executes one interrupt on `cpu`, with everything that is due, and its whole return path.
    pub fn interrupt(&self, cpu: u32, interrupted: Interrupted, schedule: &Schedule<'_>) {
        self.on(cpu, || {
            if self.host().interrupt(cpu) {
                return;
            }
            let state = self.cpu(cpu);
            let was_masked = state.masked.replace(true);
            state.depth.set(state.depth.get() + 1);
            // FLUSH-6: whatever the interrupted exit path still owed.
            self.flush(cpu, Flush::NestedInterrupt);
            self.handle(cpu);
            let outermost = state.depth.get() == 1;
            if outermost {
                self.soft_stage(cpu);
            }
            state.depth.set(state.depth.get() - 1);
            match interrupted {
                Interrupted::User => self.exit_to_user(cpu, schedule),
                Interrupted::Kernel => self.exit_to_kernel(cpu, schedule),
                Interrupted::Masked => {
                    self.flush(cpu, Flush::MaskedReturn);
                }
            }
            state.masked.set(was_masked);
            if !was_masked {
                self.assert_nothing_owed(cpu);
            }
        });
    }

    /// Executes the handlers: kick, timer, or that of a device that has nothing to do with timers.
    fn handle(&self, cpu: u32) {
        if self.host().take_kick(cpu) {
            self.timers().retrigger(CpuId(cpu));
        }
        if self.fires_at(cpu).is_some_and(|at| at <= self.now()) {
            self.host().set_fires_at(cpu, None);
            // What it left is due at once: the flush arms the device in the past.
            let _turn = self.timers().interrupt(CpuId(cpu));
            self.cpu(cpu).rearm_owed.set(Self::DEFERRED_REARM);
        }
    }

    /// Runs the timer interrupt of `cpu` and stops before its return path, with interrupts masked. An owed rearm then
    /// stays owed until [`flush`](Rig::flush) or [`leave_interrupt`](Rig::leave_interrupt).
    pub fn enter_interrupt(&self, cpu: u32) -> ExpiryReport {
        let state = self.cpu(cpu);
        state.masked.set(true);
        self.host().set_fires_at(cpu, None);
        let turn = self.on(cpu, || self.timers().interrupt(CpuId(cpu)));
        state.rearm_owed.set(Self::DEFERRED_REARM);
        turn
    }

    /// Executes the return path of an interrupt that was [entered](Rig::enter_interrupt), to a program in user mode.
    pub fn leave_interrupt(&self, cpu: u32) {
        self.on(cpu, || {
            self.soft_stage(cpu);
            self.exit_to_user(cpu, &Schedule::SWITCH);
        });
        self.cpu(cpu).masked.set(false);
    }

    /// Executes a flush point of `cpu`.
    ///
    /// # Panics
    ///
    /// Panics if a rearm is owed and interrupts are enabled (B6).
    pub fn flush(&self, cpu: u32, reason: Flush) {
        // The flag is tested first, without a lock (spec REARM-10).
        if self.cpu(cpu).rearm_owed.take() {
            assert!(
                self.cpu(cpu).masked.get(),
                "B6: a flush with timer delivery enabled"
            );
            self.on(cpu, || self.timers().flush_deferred(CpuId(cpu), reason));
        }
    }

    /// Executes FLUSH-4 and the soft stage: before soft work, which runs with interrupts enabled and may take long, an
    /// owed rearm is flushed.
    fn soft_stage(&self, cpu: u32) {
        let state = self.cpu(cpu);
        while self.host().take_soft_raised(cpu) {
            self.flush(cpu, Flush::SoftWork);
            state.masked.set(false);
            self.deliver_due(cpu);
            let _turn = self.timers().soft_interrupt(CpuId(cpu));
            self.deliver_due(cpu);
            state.masked.set(true);
        }
    }

    fn exit_to_user(&self, cpu: u32, schedule: &Schedule<'_>) {
        let state = self.cpu(cpu);
        // FLUSH-1: with a reschedule pending the scheduler flushes, after it knows the next timer (spec REARM-11).
        if !state.placement.get().need_resched {
            self.flush(cpu, Flush::UserExit);
            return;
        }
        while self.take_need_resched(cpu) {
            state.masked.set(false);
            if let Some(before) = schedule.before {
                before();
            }
            self.deliver_due(cpu);
            state.masked.set(true);
            if schedule.extension {
                // FLUSH-7: the extension takes the place of the scheduler. Masked again, see B6.
                self.flush(cpu, Flush::SliceExtension);
            } else {
                self.schedule(cpu, schedule);
            }
        }
    }

    fn exit_to_kernel(&self, cpu: u32, schedule: &Schedule<'_>) {
        if self.take_need_resched(cpu) {
            self.schedule(cpu, schedule);
        }
        // FLUSH-3.
        self.flush(cpu, Flush::KernelExit);
    }

    /// Executes the scheduler, with interrupts masked. Tasks that give up the CPU call it, too.
    pub fn schedule(&self, cpu: u32, schedule: &Schedule<'_>) {
        self.on(cpu, || {
            if let Some(pick) = schedule.pick {
                pick();
            }
            // FLUSH-5: both ends.
            if schedule.switches {
                self.flush(cpu, Flush::Switched);
            } else {
                self.flush(cpu, Flush::SameTask);
            }
        });
    }

    /// Checks INV-2: no code runs with interrupts enabled while a rearm is owed.
    fn assert_nothing_owed(&self, cpu: u32) {
        assert!(
            !self.cpu(cpu).rearm_owed.get(),
            "INV-2: CPU {cpu} leaves an interrupt while a rearm is owed"
        );
    }
}
