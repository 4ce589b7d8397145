//! The driver of the core's watchdog on a machine: every half second a CPU compares the counter with [`STAND_IN`], and
//! its own copy of the counter with the copy of another CPU.
//!
//! The cost of the checks is not charged to any CPU: some microseconds in half a second.

use tickless_core::clock::watchdog::{
    AgreementCheck, AgreementStep, Candidate, Condemned, CounterVerdict, Exchange, FrequencyCheck,
    LIMIT_PPM, Next, ReadOut, Role, Side, Watchdog,
};
use tickless_core::platform::CpuId;
use tickless_core::time::convert::Cycles;

use super::counter::{CounterModel, Running, STAND_IN};
use super::{COUNTER, SPARE};
use crate::model::current_cpu;
use crate::model::time::Picos;

/// The time between two readings of a read-out: a read of a slow counter.
const READ: Picos = Picos::from_micros(1);
/// The delay after which a reading reaches another CPU.
const WAY: Picos = Picos::from_nanos(100);
const ROUNDS: u32 = 4;

/// The watchdog, and the counters that it compares.
#[derive(Debug)]
pub(super) struct WatchdogHost {
    watchdog: Watchdog<2>,
    rate: FrequencyCheck,
    reference: Running,
    condemned: Option<Condemned>,
}

impl WatchdogHost {
    pub(super) fn new(model: CounterModel) -> Self {
        let (counter, spare) = (model.nominal(COUNTER), STAND_IN.nominal(SPARE));
        let candidate = |counter, name, rating| Candidate {
            counter,
            name,
            rating,
        };
        let candidates = [
            candidate(counter, "primary", 300),
            candidate(spare, "stand-in", 250),
        ];
        Self {
            watchdog: Watchdog::new(candidates, Picos::ZERO.instant()),
            rate: FrequencyCheck::new(counter, spare, LIMIT_PPM),
            reference: Running::new(STAND_IN, 0, 0),
            condemned: None,
        }
    }

    /// Returns the time of the next check; `None` once a counter is condemned, because no counter is left with which to
    /// compare the other one.
    pub(super) fn next_check(&self) -> Option<Picos> {
        let is_over = self.condemned.is_some();
        (!is_over).then(|| Picos::of_instant(self.watchdog.next_check()))
    }

    /// Checks at `at`, where `read` is what a CPU reads. Returns true if another counter is to drive the time.
    pub(super) fn check(
        &mut self,
        (cpu, cpus): (u32, u32),
        at: Picos,
        read: impl Fn(u32, Picos) -> Cycles,
        is_online: impl Fn(u32) -> bool,
    ) -> bool {
        let mut now = at;
        let mut verdict = self.rate.run(|| {
            let reference = |at| self.reference.read(current_cpu::NO_CPU, at);
            let taken = ReadOut {
                before: reference(now),
                counter: read(cpu, now + READ),
                behind: reference(now + READ * 2),
            };
            now += READ * 3;
            taken
        });
        let mut reference = Some(SPARE);
        let partner = |cpu: CpuId| is_online(cpu.0);
        if let Some(partner) = self.watchdog.partner(CpuId(cpu), cpus, partner)
            && !verdict.is_bad()
        {
            verdict = self.compare(cpu, partner.0, now, read);
            reference = None;
        }
        self.watchdog.checked(at.instant());
        self.condemned = self.watchdog.judge(COUNTER, reference, verdict);
        self.condemned
            .is_some_and(|condemned| matches!(condemned.next, Next::SwitchTo(_)))
    }

    /// The machine sleeps, and the two counters need not go on alike.
    pub(super) fn sleeps(&mut self) {
        self.rate.start_again();
    }

    /// Compares the copies of two CPUs.
    fn compare(
        &self,
        first: u32,
        second: u32,
        mut now: Picos,
        read: impl Fn(u32, Picos) -> Cycles,
    ) -> CounterVerdict {
        let Some(counter) = self.watchdog.current().map(|current| current.counter) else {
            return CounterVerdict::Good {
                ppm: 0,
                within_ppm: 0,
            };
        };
        let mut check = AgreementCheck::new(counter, CpuId(first), CpuId(second));
        let exchange = Exchange::new();
        let side = |role| Side::new(&exchange, role, counter, check.attempt(), ROUNDS);
        let (mut one, mut other) = (side(Role::First), side(Role::Second));
        one.open(|| read(first, now));
        for _ in 0..ROUNDS {
            now += WAY;
            let _answered = other.look(|| read(second, now));
            now += WAY;
            let _answered = one.look(|| read(first, now));
        }
        match check.feed(Ok(one.heard()), Ok(other.heard())) {
            AgreementStep::Done(verdict) => verdict,
            // Both have answered.
            AgreementStep::Again => CounterVerdict::Good {
                ppm: 0,
                within_ppm: 0,
            },
        }
    }

    /// Returns a line of text on the condemned counter.
    pub(super) fn said(&self) -> Option<String> {
        self.condemned.map(|condemned| condemned.to_string())
    }
}
