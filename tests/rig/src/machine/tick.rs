//! The tick of the machine, which drives the wheels.

use tickless_core::coarse::{Kind, PassEnd, Tick};
use tickless_core::platform::CpuId;

use super::{Config, Machine, lock};

/// How long a tick is, in nanoseconds of true time.
pub const TICK: i64 = 1_000_000;

impl<C: Config> Machine<C> {
    /// The tick in progress.
    #[must_use]
    pub fn tick(&self) -> Tick {
        Tick((self.now() / TICK).unsigned_abs())
    }

    /// Lets time pass until `tick` begins. Every CPU that is online and whose tick is not stopped takes each tick, and
    /// runs its wheels if something is due.
    pub fn run_to_tick(&self, tick: Tick) {
        while self.tick() < tick {
            let next = i64::try_from(self.tick().0 + 1).expect("within the machine's life") * TICK;
            if self.is_quiet_until(next) {
                self.host().now.set(next);
            } else {
                self.run_until(next);
            }
            for cpu in 0..self.cpus() {
                if !self.cpu(cpu).tick_stopped.get() && self.base(cpu).is_online() {
                    self.take_tick(cpu);
                }
            }
        }
    }

    /// One tick of `cpu`: asks without a lock, and runs all its wheels if the answer is yes. Returns how many timers
    /// fired.
    pub fn take_tick(&self, cpu: u32) -> u32 {
        let now = self.tick();
        if !self.timers().wheel_is_due(CpuId(cpu), now) {
            return 0;
        }
        self.on(cpu, || {
            let run = |kind| self.run_wheel(CpuId(cpu), kind, now);
            Kind::ALL.into_iter().map(run).sum()
        })
    }

    /// What `cpu` is told of its local wheel when it wants to sleep.
    #[must_use]
    pub fn next_local(&self, cpu: u32) -> Option<u64> {
        let next = self.timers().wheel_next(CpuId(cpu), self.tick());
        next.local.map(|due| due.0)
    }

    /// Puts `cpu` to sleep until its first timer, whenever that is.
    ///
    /// # Panics
    ///
    /// When it does not fall asleep.
    pub fn sleep(&self, cpu: u32) {
        self.set_idleness(cpu, false, true);
        let tick = self.tick();
        let sleeps = self.on(cpu, || {
            let timers = self.timers();
            timers.wheel_enter_idle(CpuId(cpu), tick, |_| true)
        });
        assert!(sleeps, "CPU {cpu} stays awake");
    }

    /// Ends the [sleep](Self::sleep) of `cpu`.
    pub fn wake(&self, cpu: u32) {
        self.set_idleness(cpu, false, false);
        self.on(cpu, || self.timers().wheel_leave_idle(CpuId(cpu)));
    }

    /// Lets `by` run the global wheel of `cpu`, as a migrator does for one that sleeps.
    pub fn run_remotely(&self, by: u32, cpu: u32) -> u32 {
        self.on(by, || self.run_wheel(CpuId(cpu), Kind::Global, self.tick()))
    }

    /// Passes until the budget suffices.
    fn run_wheel(&self, cpu: CpuId, kind: Kind, now: Tick) -> u32 {
        let mut fired = 0;
        loop {
            let pass = self.timers().run_wheel(cpu, kind, now, C::EXPIRY_BUDGET);
            fired += pass.fired;
            if pass.end != PassEnd::Budget {
                return fired;
            }
        }
    }

    /// Hands the coarse timers of `cpu`, which left, to the first CPU that is online.
    pub(super) fn take_over_wheels(&self, cpu: u32) {
        let heir = (0..self.cpus()).find(|&other| self.base(other).is_online());
        self.on(heir.expect("one CPU stays"), || {
            lock::with_two_allowed(|| self.timers().wheel_offline(CpuId(cpu), self.tick()));
        });
    }

    /// Whether no interrupt comes up to `until`.
    fn is_quiet_until(&self, until: i64) -> bool {
        (0..self.cpus()).all(|cpu| {
            let state = self.cpu(cpu);
            !state.kicked.get() && state.device.fires_at.get().is_none_or(|at| at > until)
        })
    }
}
