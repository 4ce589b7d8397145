//! Properties of the timekeeper's clock under any sequence of the keeper's operations.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
enum Action {
    Advance,
    Steer(i32),
    Tick(u64),
    Set(i64),
    Switch(usize),
    Sleep(u64),
}

fn actions() -> impl Strategy<Value = Action> {
    prop_oneof![
        4 => Just(Action::Advance),
        2 => (-600_000_i32..=600_000).prop_map(Action::Steer),
        1 => (800_000_u64..1_200_000).prop_map(Action::Tick),
        1 => any::<i64>().prop_map(Action::Set),
        1 => (0..COUNTERS.len()).prop_map(Action::Switch),
        1 => any::<u64>().prop_map(Action::Sleep),
    ]
}

const COUNTERS: [Counter; 3] = [TSC, ODD, NARROW];

/// A machine of four CPUs whose copies of the counter lag, each by its own amount.
struct Machine {
    timekeeper: Timekeeper,
    keeper: Keeper,
    /// True time, in picoseconds.
    picos: u64,
    counter: Counter,
    start: u64,
    lags: [u64; 4],
    shown: [Instant; 4],
}

impl Machine {
    fn new(counter: Counter, start: u64, lags: [u64; 4]) -> Self {
        let start = start & counter.mask();
        let (timekeeper, keeper) = Timekeeper::new(counter, Cycles(start));
        Self {
            timekeeper,
            keeper,
            picos: 0,
            counter,
            start,
            lags,
            shown: [Instant::ZERO; 4],
        }
    }

    fn cycles(&self, lag: u64) -> Cycles {
        let counted = u128::from(self.picos) * u128::from(self.counter.frequency.0) / 1_000_000_000;
        let counted = u64::try_from(counted).expect("some hours");
        Cycles(self.start.wrapping_add(counted).wrapping_sub(lag) & self.counter.mask())
    }

    /// Reads the clock on all CPUs, and checks that no clock went back by more than `by`, and that the latch, which a
    /// reader on top of the writer reads, gives the same time as the record (TIM-18, B38).
    fn look(&mut self, by: u64) -> Result<(), TestCaseError> {
        for (cpu, lag) in self.lags.into_iter().enumerate() {
            let at = self.cycles(lag);
            let now = self.timekeeper.now(|| at);
            let back = self.shown[cpu].saturating_since(now).as_nanos();
            prop_assert!(back <= by, "{now:?} after {:?}", self.shown[cpu]);
            prop_assert_eq!(now, self.timekeeper.now_on_top_of_writer(|_| at));
            self.shown[cpu] = now;
        }
        Ok(())
    }

    fn act(&mut self, action: &Action, by: u64) {
        let now = self.cycles(by);
        let timekeeper = &self.timekeeper;
        let keeper = &mut self.keeper;
        match *action {
            Action::Advance => keeper.advance(timekeeper, now),
            Action::Steer(rate) => keeper.steer(timekeeper, now, rate),
            Action::Tick(nanos) => keeper.set_tick(timekeeper, now, Span::from_nanos(nanos)),
            Action::Set(nanos) => {
                let realtime = Offset::from_nanos(nanos);
                keeper.set_offsets(
                    timekeeper,
                    Offsets {
                        realtime,
                        ..Offsets::default()
                    },
                );
            }
            Action::Switch(to) => {
                self.counter = COUNTERS[to];
                self.start = 0xFFF0_0000;
                let new = self.cycles(0);
                self.keeper
                    .switch_counter(&self.timekeeper, now, self.counter, new)
                    .expect("it counts");
            }
            Action::Sleep(slept) => {
                keeper.suspend(timekeeper, now);
                self.start = self.start.wrapping_add(slept);
                let now = self.cycles(0);
                let slept = Slept::Lasted(Span::from_nanos(slept));
                self.keeper.resume(&self.timekeeper, now, slept);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// ORACLE-10: time never runs backwards on any CPU, for any operation of the keeper between two readings, and for
    /// any lag of a CPU's copy of the counter behind the copy that the keeper reads.
    #[test]
    fn time_is_monotonic(
        counter in 0..COUNTERS.len(),
        start in any::<u64>(),
        lags in [0_u64..200_000, 0_u64..200_000, 0_u64..10, 0_u64..1],
        steps in vec((0_u64..40_000_000_000, actions()), 1..80),
    ) {
        let mut machine = Machine::new(COUNTERS[counter], start, lags);
        machine.look(0)?;
        for (step, action) in steps {
            machine.picos += step * 100;
            machine.look(0)?;
            machine.act(&action, 0);
            machine.look(0)?;
        }
        prop_assert_eq!(machine.keeper.counts().refused, 0);
    }

    /// A keeper that reads a lagging copy of the counter turns back the time of the other CPUs by that lag at most.
    #[test]
    fn a_keeper_that_lags_turns_time_back_by_no_more_than_that(
        lags in [0_u64..2_000, 0_u64..2_000, 0_u64..10, 0_u64..1],
        steps in vec((0_u64..40_000_000_000, actions(), 0_usize..4), 1..80),
    ) {
        let mut machine = Machine::new(TSC, 0, lags);
        for (step, action, cpu) in steps {
            machine.picos += step * 100;
            machine.look(0)?;
            machine.act(&action, lags[cpu]);
            // At a cycle of the slowest counter each, where one took the place of another.
            machine.look(lags[cpu] * 50 + 50)?;
        }
    }

    /// The time between two readings is as long as the rates allow, up to the steps of the counter: no action makes it
    /// jump.
    #[test]
    fn time_goes_by_the_counter(
        counter in 0..COUNTERS.len(),
        steps in vec((0_u64..20_000_000_000, actions()), 1..80),
    ) {
        let mut machine = Machine::new(COUNTERS[counter], 0, [0; 4]);
        let mut last = 0;
        for (step, action) in steps {
            machine.picos += step * 100;
            machine.look(0)?;
            let now = machine.shown[3].as_nanos();
            // The tick by 10 %, frequency by 500 ppm, the lowest step of the factor, and a count.
            let nanos = i64::try_from(step / 10).expect("small");
            let (slowest, fastest) = (nanos - nanos * 102 / 1_000, nanos + nanos * 102 / 1_000);
            let count = 50;
            prop_assert!((slowest - count..=fastest + count).contains(&(now - last)), "{} for {nanos}", now - last);
            machine.act(&action, 0);
            machine.look(0)?;
            last = machine.shown[3].as_nanos();
            prop_assert!((last - now).abs() <= 50, "a jump by {}", last - now);
        }
    }

    /// CPL-14: for any steering, the clock shows a deadline at the cycle that is programmed for this deadline, to
    /// within a cycle and the truncation of the reverse factor. A later deadline gives no earlier cycle.
    #[test]
    fn what_is_programmed_is_when_the_clock_shows_it(
        counter in 0..COUNTERS.len(),
        steps in vec((0_u64..2_000_000_000, actions()), 0..20),
        near in 0_i64..10_000_000_000,
        further in 0_i64..1_000_000_000,
    ) {
        let mut machine = Machine::new(COUNTERS[counter], 0, [0; 4]);
        for (step, action) in steps {
            machine.picos += step * 100;
            machine.act(&action, 0);
        }
        machine.look(0)?;
        let base = machine.keeper.record().base.as_nanos();
        let id = machine.counter.id;
        let at = |nanos| machine.timekeeper.cycles_at(id, Instant::from_nanos(nanos)).expect("it drives the time");
        let origin = machine.keeper.record().base_cycles;
        let distance = |cycles: Cycles| cycles.0.wrapping_sub(origin.0) & machine.counter.mask();
        let programmed = at(base + near);
        let shows = machine.timekeeper.now(|| programmed).as_nanos();
        let cycle = 1_000_000 / i64::from(machine.counter.frequency.0) + 1;
        let factor = i64::from(machine.keeper.record().reverse.mult());
        let truncated = near / factor + 1;
        prop_assert!(shows >= base + near - truncated, "early by {}", base + near - shows);
        prop_assert!(shows <= base + near + cycle + truncated, "late by {}", shows - base - near);
        prop_assert!(distance(at(base + near + further)) >= distance(programmed));
    }

    /// The cycle programmed for a time is the cycle at which the clock showed that time, to within a cycle, a
    /// nanosecond, and the rounding of the two factors. Until the rate changes, both factors are those of the
    /// installation. Each of them is rounded to the nearest separately (spec CPL-1), so the error has either sign.
    #[test]
    fn the_time_of_a_cycle_leads_back_to_it(
        counter in 0..COUNTERS.len(),
        rate in -500_000_i32..=500_000,
        ahead in 0_u64..1_000_000_000,
    ) {
        let counter = COUNTERS[counter];
        let (timekeeper, mut keeper) = Timekeeper::new(counter, Cycles(1_000));
        keeper.steer(&timekeeper, Cycles(1_000), rate);
        let shows = timekeeper.now(|| Cycles(1_000 + ahead));
        let back = timekeeper.cycles_at(counter.id, shows).expect("it drives the time").0 - 1_000;
        let nanosecond = u64::from(counter.frequency.0) / 1_000_000 + 1;
        let record = keeper.record();
        let rounded = ahead / u64::from(record.reverse.mult().min(record.scale.mult())) + 1;
        prop_assert!(back <= ahead + 1 + rounded, "late: {back} for {ahead}");
        prop_assert!(back + nanosecond + rounded >= ahead, "early: {back} for {ahead}");
    }
}
