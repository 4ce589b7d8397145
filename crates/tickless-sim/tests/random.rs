//! Random operations on random machines, against a flat list of what should fire when (spec 12.2, oracles O1 to O5 and O9).

use std::cell::Cell;
use std::rc::Rc;

use tickless_core::hrtimer::{Expired, Restart, Setup, Stage, Start, TryCancel};
use tickless_core::time::{Boottime, ClockId, Instant, Monotonic, Realtime, Span, Tai};
use tickless_sim::random::Random;
use tickless_sim::{Config, Deferred, DeviceClass, Immediate, Machine, Preemptible, TestTimer};

/// What the list says of one timer.
#[derive(Clone, Copy, Debug, Default)]
struct Expected {
    /// The soft and the hard expiry, on the timer's clock, while it is queued.
    queued: Option<(i64, i64)>,
    fired: u64,
}

/// What the next callback of a timer does.
#[derive(Clone, Copy, Debug, Default)]
struct Behaviour {
    /// Starts again this much later, so often.
    again: Option<(u64, u32)>,
    /// Takes this long.
    takes: i64,
}

struct Subject<C: Config, T: ClockId> {
    timer: TestTimer<C, T>,
    expected: Rc<Cell<Expected>>,
    behaviour: Rc<Cell<Behaviour>>,
}

trait AnySubject<C: Config> {
    fn start(&self, machine: &Machine<C>, cpu: u32, random: &mut Random);
    fn cancel(&self, machine: &Machine<C>, cpu: u32);
    fn agrees(&self) -> bool;
    fn overdue(&self, machine: &Machine<C>) -> Option<i64>;
}

fn shows<C: Config, T: ClockId>(machine: &Machine<C>) -> i64 {
    machine.monotonic().as_nanos() + machine.offset(T::CLOCK)
}

impl<C: Config, T: ClockId> Subject<C, T> {
    fn new(machine: &Machine<C>, random: &mut Random) -> Self {
        let expected = Rc::new(Cell::new(Expected::default()));
        let behaviour = Rc::new(Cell::new(Behaviour::default()));
        let mut setup = Setup::new().stage(match random.below(3) {
            0 => Stage::Soft,
            1 => Stage::Hard,
            _ => Stage::Default,
        });
        if random.one_in(4) {
            setup = setup.lazy();
        }
        let timer = {
            let (machine, expected, behaviour) =
                (machine.clone(), Rc::clone(&expected), Rc::clone(&behaviour));
            TestTimer::with_setup(
                &machine.clone(),
                setup,
                move |expired: &mut Expired<'_, '_, T>| {
                    let now = shows::<C, T>(&machine);
                    let mut state = expected.get();
                    let (soft, _) = state
                        .queued
                        .take()
                        .expect("O2: fired although it was not queued");
                    assert!(now >= soft, "O2: fired {} ns early", soft - now);
                    state.fired += 1;
                    let todo = behaviour.get();
                    machine.spend(todo.takes);
                    let mut answer = Restart::No;
                    if let Some((interval, times)) = todo.again
                        && times > 0
                    {
                        expired.forward_now(Span::from_nanos(interval));
                        let deadline = expired.deadline().as_nanos();
                        // What was slack stays slack.
                        state.queued = Some((deadline, deadline));
                        behaviour.set(Behaviour {
                            again: Some((interval, times - 1)),
                            ..todo
                        });
                        expired.set_deadline(Instant::from_nanos(deadline));
                        answer = Restart::Yes;
                    }
                    expected.set(state);
                    answer
                },
            )
        };
        Self {
            timer,
            expected,
            behaviour,
        }
    }
}

impl<C: Config, T: ClockId> AnySubject<C> for Subject<C, T> {
    fn start(&self, machine: &Machine<C>, cpu: u32, random: &mut Random) {
        let distance = match random.below(8) {
            0 => random.between(-5_000_000, 0),
            1 => 0,
            2..=4 => random.between(1, 20_000),
            5 | 6 => random.between(1, 5_000_000),
            _ => random.between(1, 80_000_000_000),
        };
        let slack = if random.one_in(3) {
            random.below(100_000)
        } else {
            0
        };
        let soft = shows::<C, T>(machine).saturating_add(distance);
        let mut start = Start::<T>::at(Instant::from_nanos(soft)).slack(Span::from_nanos(slack));
        if random.one_in(4) {
            start = start.pinned();
        }
        self.behaviour.set(Behaviour {
            again: random.one_in(4).then(|| {
                (
                    1 + random.below(3_000_000),
                    u32::try_from(random.below(4)).unwrap(),
                )
            }),
            takes: if random.one_in(6) {
                random.between(0, 30_000)
            } else {
                0
            },
        });
        let hard = soft + i64::try_from(slack).unwrap();
        let mut state = self.expected.get();
        let before = state.fired;
        state.queued = Some((soft, hard));
        if random.one_in(5) {
            self.expected.set(state);
            if machine.on(cpu, || self.timer.start_checked(start)).is_err() {
                assert!(
                    shows::<C, T>(machine) >= soft,
                    "a checked start refused a time to come"
                );
                state.queued = None;
                self.expected.set(state);
            }
        } else {
            self.expected.set(state);
            machine.on(cpu, || self.timer.start(start));
        }
        assert_eq!(self.expected.get().fired, before, "a start fires nothing");
    }

    fn cancel(&self, machine: &Machine<C>, cpu: u32) {
        let was_queued = self.expected.get().queued.is_some();
        let answer = machine.on(cpu, || self.timer.try_cancel());
        assert_eq!(
            answer == TryCancel::Removed,
            was_queued,
            "the answer of a cancel is exact"
        );
        self.expected.set(Expected {
            queued: None,
            ..self.expected.get()
        });
    }

    fn agrees(&self) -> bool {
        self.timer.is_queued() == self.expected.get().queued.is_some()
    }

    fn overdue(&self, machine: &Machine<C>) -> Option<i64> {
        let (_, hard) = self.expected.get().queued?;
        Some(shows::<C, T>(machine) - hard)
    }
}

/// How late a timer may be at the end of a run: what callbacks took, the devices' rounding, the backoff after a hang.
const LATE_MAX: i64 = 101_000_000;

/// Tells the seed of a run that fails, and how to repeat it.
struct Says {
    seed: u64,
}

impl Drop for Says {
    #[expect(clippy::print_stderr, reason = "the one line that repeats a failure")]
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("seed {0} fails; again with TICKLESS_SEEDS={0}..", self.seed);
        }
    }
}

fn run<C: Config>(seed: u64) {
    let _says = Says { seed };
    let mut random = Random::new(seed);
    let class = DeviceClass::ALL[random.index(DeviceClass::ALL.len())];
    let cpus = [1, 2, 4][random.index(3)];
    let machine = Machine::<C>::with_devices(cpus, class);
    let mut subjects: Vec<Box<dyn AnySubject<C>>> = Vec::new();
    for _ in 0..12 {
        subjects.push(match random.below(6) {
            0 => Box::new(Subject::<C, Realtime>::new(&machine, &mut random)),
            1 => Box::new(Subject::<C, Boottime>::new(&machine, &mut random)),
            2 => Box::new(Subject::<C, Tai>::new(&machine, &mut random)),
            _ => Box::new(Subject::<C, Monotonic>::new(&machine, &mut random)),
        });
    }
    machine.set_wall(0, 1_700_000_000_000_000_000);
    let mut online: Vec<bool> = (0..cpus).map(|_| true).collect();
    for _ in 0..150 {
        let cpu = u32::try_from(random.index(cpus as usize)).unwrap();
        let subject = random.index(subjects.len());
        let operation = random.below(20);
        match operation {
            0..=7 => subjects[subject].start(&machine, cpu, &mut random),
            8..=10 => subjects[subject].cancel(&machine, cpu),
            11..=14 => {
                let span = [10_000, 1_000_000, 200_000_000][random.index(3)];
                machine.run_until(machine.now() + random.between(0, span));
            }
            15 => machine.set_wall(
                cpu,
                1_700_000_000_000_000_000 + random.between(-10_000_000_000, 10_000_000_000),
            ),
            16 => machine.steer(i32::try_from(random.between(-500_000, 500_000)).unwrap()),
            17 => machine.suspend_for(random.between(0, 5_000_000_000)),
            18 if cpus > 1 => {
                // CPU 0 keeps house.
                if cpu != 0 {
                    if online[cpu as usize] {
                        machine.offline(cpu)
                    } else {
                        machine.online(cpu)
                    }
                    online[cpu as usize] = !online[cpu as usize];
                }
            }
            _ => machine.set_idleness(cpu, cpu != 0 && random.one_in(2), random.one_in(2)),
        }
        machine.advance_timekeeper();
        machine.deliver_all();
        machine.check();
        for subject in &subjects {
            assert!(subject.agrees(), "the queue and the list differ");
        }
    }
    machine.run_until(machine.now() + 100_000_000);
    for subject in &subjects {
        if let Some(late) = subject.overdue(&machine) {
            assert!(late <= LATE_MAX, "O3: {late} ns overdue and not fired");
        }
    }
}

/// `TICKLESS_SEEDS=N` runs N seeds, `TICKLESS_SEEDS=N..` the one seed N.
fn seeds() -> std::ops::Range<u64> {
    let Ok(wanted) = std::env::var("TICKLESS_SEEDS") else {
        return 0..300;
    };
    let parsed = match wanted.strip_suffix("..") {
        Some(one) => one.parse().map(|seed| seed..seed + 1),
        None => wanted.parse().map(|count| 0..count),
    };
    parsed.unwrap_or_else(|_| {
        panic!("TICKLESS_SEEDS is a count like 1000 or a seed like 17.., not {wanted:?}")
    })
}

#[test]
fn deferred() {
    seeds().for_each(run::<Deferred>);
}

#[test]
fn immediate() {
    seeds().for_each(run::<Immediate>);
}

#[test]
fn preemptible() {
    seeds().for_each(run::<Preemptible>);
}
