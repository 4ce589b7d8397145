//! The conversion of measurements into the costs of a profile, each with its source.

use std::collections::BTreeMap;
use std::time::Duration;

use tickless_sim::{Cost, Costs, Distance, IdleState, Mark, Picos, Profile, Topology};

use super::alone::Round;
use super::figure::Figure;
use super::pairs::Wakes;
use crate::machine::Machine;

/// The measurements so far.
#[derive(Debug)]
pub(super) struct Measured {
    costs: BTreeMap<&'static str, Cost>,
    /// A profile of a similar machine, for costs that cannot be measured.
    other: Profile,
    /// The lateness of a worker that sleeps.
    late: Option<Figure>,
    exit: Option<Figure>,
}

/// The costs of a thread that is alone, round by round.
#[derive(Debug, Default)]
pub(super) struct Alone {
    pub(super) rounds: Vec<Round>,
    /// The times of firing a timer, from rounds of their own.
    pub(super) fires: Vec<f64>,
}

/// Names of line transfers and lock hand-overs, from near to far.
const LINES: [&str; 4] = ["line_core", "line_cache", "line_socket", "line_remote"];
const HANDS: [&str; 3] = ["hand_cache", "hand_socket", "hand_remote"];

/// A function that computes a cost from the times of a round.
type Formula = fn(&dyn Fn(&str) -> f64) -> f64;

/// The costs that a thread measures alone, with their formulas.
const ALONE: [(&str, Formula, &str); 14] = [
    (
        "counter",
        |get| get("counter"),
        "a sleep made and dropped, which is the library's reading of the counter",
    ),
    (
        "slow_counter",
        |get| get("slow_counter"),
        "a clock that takes a system call: that of the thread's CPU time",
    ),
    (
        "load",
        |get| get("load"),
        "a walk through a ring of 64 lines",
    ),
    ("exchange", |get| get("exchange"), "AtomicU64::swap"),
    (
        "lock",
        |get| get("lock"),
        "the lock of a base in its owner's hands, taken and released",
    ),
    (
        "device_write",
        |get| get("start first") - get("start same"),
        "start of the first exact timer for another time, less one for the same: the next sleep's deadline is stored",
    ),
    (
        "hr_start",
        |get| get("start in place") - get("lock"),
        "start of a queued exact timer that stays in place, 256 others, less lock",
    ),
    (
        "tree_insert",
        |get| get("start") - get("start in place"),
        "start of an exact timer among 256 to 512 in random order, less one in place",
    ),
    (
        "tree_erase",
        |get| get("cancel") - get("lock"),
        "cancel of these, less lock: the path of cancelling is in it",
    ),
    (
        "wheel_arm",
        |get| get("arm") - get("lock") - get("counter"),
        "256 coarse timers armed in a row, less lock and counter",
    ),
    (
        "wheel_cancel",
        |get| get("delete") - get("lock"),
        "these deleted in a row, less lock",
    ),
    (
        "soft_check",
        |get| get("is due") - get("counter"),
        "Worker::is_due, less counter",
    ),
    (
        "soft_run",
        |get| get("turn") - get("kernel clock"),
        "a turn of a worker that finds nothing, less the clock",
    ),
    (
        "search_step",
        |get| get("search_step"),
        "the next bit of a mask and a comparison",
    ),
];

fn picos(nanos: f64) -> Picos {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "times of seconds at most, which are not negative; the cast saturates"
    )]
    Picos((nanos * 1_000.0).round() as u64)
}

impl Measured {
    pub(super) fn new(machine: &Machine) -> Self {
        let name = if machine.is_virtual {
            "vm-64"
        } else if machine.cpu.contains("AMD") {
            "epyc-128"
        } else {
            "skl-112"
        };
        Self {
            costs: BTreeMap::new(),
            other: Profile::embedded(name).expect("it comes with the command"),
            late: None,
            exit: None,
        }
    }

    pub(super) fn other(&self) -> &Profile {
        &self.other
    }

    fn put(&mut self, name: &'static str, figure: Option<Figure>, mark: Mark, source: String) {
        if let Some(figure) = figure {
            let cost = Cost {
                value: picos(figure.value),
                low: picos(figure.low),
                high: picos(figure.high),
                mark,
                source,
            };
            self.costs.insert(name, cost);
        }
    }

    /// Records the costs of a thread that is alone.
    pub(super) fn alone(&mut self, Alone { rounds, fires }: Alone) {
        let take = |formula: Formula| {
            let value = |round: &Round| {
                let get = |name: &str| round.get(name).copied().unwrap_or(f64::NAN);
                formula(&get)
            };
            Figure::of(rounds.iter().map(value).collect())
        };
        for (name, formula, how) in ALONE {
            let source = format!("{} rounds: {how}", rounds.len());
            self.put(name, take(formula), Mark::A, source);
        }
        if let (Some(cost), Some(exact)) = (
            self.costs.get_mut("counter"),
            take(|get| get("kernel clock")),
        ) {
            cost.source += &format!(
                "; the exact reading, by the kernel's page, is {:.1} ns",
                exact.value
            );
        }
        for (name, figure, how) in [
            (
                "soft_raise",
                take(|get| get("load")),
                "a store in user space, taken for a load",
            ),
            (
                "slow_counter_serial",
                take(|_| 0.0),
                "not measured: CPUs do not wait for each other in a system call",
            ),
        ] {
            self.put(name, figure, Mark::C, how.to_owned());
        }
        let count = fires.len();
        let besides = take(|get| get("turn") / 256.0 + get("lock")).map_or(0.0, |one| one.value);
        let fires = Figure::of(fires.into_iter().map(|fire| fire - besides).collect());
        let how = "a turn with 256 coarse timers that are due, less lock and an empty turn";
        self.put(
            "wheel_expire",
            fires,
            Mark::A,
            format!("{count} rounds: {how}"),
        );
    }

    /// Records the lateness of a sleeping worker for its timer, and of a polling one.
    pub(super) fn fires(&mut self, late: Option<Figure>, polls: Option<Figure>) {
        let how = "lateness of a worker that polls";
        self.put("device_fire", polls, Mark::A, how.to_owned());
        self.exit = late.zip(polls).map(|(late, polls)| less(late, polls.value));
        self.late = late;
    }

    /// Records the processor time of a thread that sleeps in the kernel.
    pub(super) fn parks(&mut self, spent: Option<Figure>, nap: Duration) {
        let how = format!(
            "CPU time of a thread that sleeps {nap:?} without the library, less the reading"
        );
        let reading = self
            .costs
            .get("slow_counter")
            .map_or(0.0, |cost| cost.value.0 as f64 / 1_000.0);
        let spent = spent.map(|spent| less(spent, reading));
        self.put("park", spent, Mark::A, how);
    }

    /// Returns the cost of leaving idle.
    pub(super) fn idle_exit(&self) -> Picos {
        self.exit.map_or(Picos::ZERO, |exit| picos(exit.value))
    }

    /// Records the costs of waking a thread of the same CPU, and of switching to it.
    pub(super) fn switches(&mut self, wake: Option<Figure>, switch: Option<Figure>) {
        let how = "Unparker::unpark of a worker that sleeps on the same CPU";
        self.put("wake", wake, Mark::A, how.to_owned());
        let how = "half of a yield to a thread of the same CPU that yields back, the system call included";
        self.put("switch", switch, Mark::A, how.to_owned());
        let thread = wake.zip(switch).map(|(wake, switch)| Figure {
            value: wake.value + 2.0 * switch.value,
            low: wake.low + 2.0 * switch.low,
            high: wake.high + 2.0 * switch.high,
        });
        let how = "wake and two switches, as measured";
        self.put("soft_thread", thread, Mark::B, how.to_owned());
    }

    /// Records the costs of transferring a cache line, or handing over a lock, to a CPU at `distance`.
    pub(super) fn lines(
        &mut self,
        distance: Distance,
        (from, to): (u32, u32),
        line: Option<Figure>,
        hand: Option<Figure>,
    ) {
        let place = distance as usize - Distance::Core as usize;
        let how = format!("a word stored by CPU {from} and CPU {to} by turns, one way");
        self.put(LINES[place], line, Mark::A, how);
        // Within a core as within a cache.
        let how = format!(
            "an ordinary lock of the library, by turns in the hands of CPU {from} and CPU {to}"
        );
        self.put(HANDS[place.saturating_sub(1)], hand, Mark::A, how);
    }

    /// Records the costs of waking a worker on another CPU, a sleeping one and a polling one. The nearest CPU counts,
    /// except for `ipi_remote`.
    pub(super) fn wakes(
        &mut self,
        distance: Distance,
        (from, to): (u32, u32),
        asleep: &Wakes,
        awake: &Wakes,
    ) {
        let how = format!(
            "from Unparker::unpark on CPU {from} until a worker that polls on CPU {to} sees it"
        );
        if distance == Distance::Remote {
            self.put("ipi_remote", awake.latency, Mark::A, how.clone());
        }
        if self.costs.contains_key("ipi") {
            return;
        }
        self.put("ipi", awake.latency, Mark::A, how);
        let how = format!("Unparker::unpark on CPU {from} of a worker that sleeps on CPU {to}");
        self.put("ipi_send", asleep.send, Mark::A, how);
        let exit = self.exit.map_or(0.0, |exit| exit.value);
        let idle = asleep.latency.map(|latency| less(latency, exit));
        let how = format!(
            "from Unparker::unpark on CPU {from} until a worker that slept on CPU {to} runs, less the exit from idle"
        );
        self.put("ipi_idle", idle, Mark::A, how);
    }

    /// Makes the profile. Costs that were not measured come from the profile of a similar machine, and their source
    /// says so.
    pub(super) fn into_profile(
        mut self,
        about: String,
        topology: Topology,
        idle: Vec<IdleState>,
    ) -> Profile {
        for names in [&LINES[..], &HANDS[..], &["ipi", "ipi_remote"]] {
            self.no_pair_is_so_far_away(names);
        }
        let mut costs = self.other.costs.clone();
        for name in Costs::NAMES {
            let Some(cost) = costs.get_mut(name) else {
                continue;
            };
            if let Some(measured) = self.costs.remove(name) {
                *cost = measured;
            } else {
                cost.mark = Mark::C;
                cost.source = format!(
                    "not measured in user space; that of {}: {}",
                    self.other.name, cost.source
                );
            }
        }
        Profile {
            name: "local".to_owned(),
            about,
            topology,
            costs,
            idle,
            ..self.other
        }
    }

    /// Gives each cost of `names` that was not measured the value of the nearest measured one.
    fn no_pair_is_so_far_away(&mut self, names: &[&'static str]) {
        let Some(known) = names.iter().find(|name| self.costs.contains_key(**name)) else {
            return;
        };
        let known = (*known, self.costs[known].clone());
        let mut last = known;
        for name in names {
            if let Some(cost) = self.costs.get(name) {
                last = (name, cost.clone());
                continue;
            }
            let mut cost = last.1.clone();
            cost.mark = Mark::C;
            cost.source = format!(
                "no two CPUs that were measured are that far apart; as {}",
                last.0
            );
            self.costs.insert(name, cost);
        }
    }
}

/// Subtracts `nanos`, which were measured separately, from a figure.
fn less(figure: Figure, nanos: f64) -> Figure {
    Figure {
        value: (figure.value - nanos).max(0.0),
        low: (figure.low - nanos).max(0.0),
        high: (figure.high - nanos).max(0.0),
    }
}
