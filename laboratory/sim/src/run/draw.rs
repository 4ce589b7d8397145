//! Random scenarios, made from a seed to find bugs that no test looks for, and their reduction to the parts that
//! matter.
//!
//! A [`Draft`] is a short form of a scenario file: a profile, a size, and workloads. The CPUs of a workload are
//! described and not numbered, so that half of the machine is still a valid machine. Every draft keeps every promise on
//! a correct library: no workload keeps a CPU from its timers for as long as a timer may be late.
//!
//! ```
//! use tickless_sim::draw::Draft;
//! use tickless_sim::{Scenario, run};
//!
//! let draft = Draft::of(42);
//! let scenario = Scenario::from_toml(&draft.to_toml(), "drawn.toml")?;
//! assert!(run(&scenario, draft.seed).holds());
//! # Ok::<(), tickless_sim::InputError>(())
//! ```

mod classes;
mod load;

use std::fmt::Write;

pub use classes::Class;
use load::{late_max, least_period, readers_max};

use tickless_conformance::random::Random;

use crate::model::broadcast::BroadcastDevice;
use crate::model::profile::{EMBEDDED, Profile};
use crate::model::time::Picos;

/// The sizes that drafts may have. Small sizes are more frequent, because most mistakes need few CPUs and are found
/// sooner on them.
const SIZES: [u32; 14] = [1, 2, 2, 3, 4, 4, 6, 8, 8, 12, 16, 24, 32, 64];
/// The durations that drafts may have, in milliseconds.
const LENGTHS: [u64; 4] = [40, 80, 160, 320];
/// The shortest duration of a draft: two rounds of the checkers.
const SHORTEST: Picos = Picos::from_millis(20);

/// The shortest runtime, in microseconds. It fits into the smallest limit of a task: 18 % of half a millisecond,
/// divided among four tasks.
const LEAST_RUNTIME: u64 = 10;

/// The CPUs of a workload, on a machine of any size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Where {
    All,
    Housekeeping,
    Isolated,
    /// A single CPU, by its number modulo the number of CPUs.
    One(u32),
    /// The first half of the CPUs.
    Half,
}

/// A workload: the text of its fields, and its CPUs.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Part {
    place: Where,
    fields: String,
}

/// A random scenario.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Draft {
    /// The seed of both the random choices and the run.
    pub seed: u64,
    profile: &'static str,
    cpus: u32,
    duration: Picos,
    tick: &'static str,
    /// The slice of tasks, in microseconds, if tasks have a slice.
    slice: Option<u64>,
    /// The fields of the scenario's devices, if the devices differ from those of the profile.
    device: String,
    real_time: bool,
    slow_counter: bool,
    /// The table of the scenario's counter, if the counter is not ideal.
    counter: String,
    /// The bits of the isolated CPUs, repeated every 64 CPUs.
    isolated: u64,
    parts: Vec<Part>,
    /// The bits of the CPUs whose tasks run without a tick, repeated every 64 CPUs.
    tickless: u64,
    /// The idle state from which on the device of a CPU stops, and the device or timer that wakes the CPU instead.
    stops: Option<(String, BroadcastDevice)>,
    /// True if the run has faults, which its seed selects.
    has_faults: bool,
    /// The lines of the scenario's policies, if they differ from the default.
    policy: String,
}

impl Draft {
    /// Makes the random scenario of `seed`.
    #[must_use]
    pub fn of(seed: u64) -> Self {
        // The run draws from the seed too, and should not draw the same numbers.
        let mut random = Random::new(seed ^ 0x5CE7_A410_D4A7_0001);
        let (profile, _) = EMBEDDED[random.index(EMBEDDED.len())];
        let sizes: Vec<u32> = sizes_of(profile, SIZES.into_iter());
        let isolated = match random.below(3) {
            0 => 0,
            1 => random.bits() & random.bits(),
            // All but the first of eight.
            _ => 0xFEFE_FEFE_FEFE_FEFE,
        };
        let parts = 1 + random.below(5);
        let mut parts: Vec<Part> = (0..parts).map(|_| part(&mut random)).collect();
        // From numbers of their own, so that what else a seed draws stays what it was.
        let mut choices = Random::new(seed ^ 0x5CE7_A410_D4A7_0002);
        let mut policy = policy(&mut choices);
        for part in &mut parts {
            part.fields += &entitlement(&mut choices);
        }
        let mut reserving = Random::new(seed ^ 0x5CE7_A410_D4A7_0003);
        policy += &reserve(&mut parts, &policy, &mut reserving);
        let mut choices = Random::new(seed ^ 0x5CE7_A410_D4A7_0004);
        for part in &mut parts {
            part.fields += &sections(&part.fields, &mut choices);
        }
        let cpus = sizes[random.index(sizes.len())];
        let duration = Picos::from_millis(LENGTHS[random.index(LENGTHS.len())]);
        let tick = ["1 ms", "1 ms", "4 ms"][random.index(3)];
        let may_be_slow = cpus <= readers_max(profile);
        Self {
            seed,
            profile,
            cpus,
            duration,
            tick,
            slice: random.one_in(3).then(|| 20 + random.below(4_000)),
            // Half of them each, so that every kind of device meets everything that may stand in for it.
            device: if random.one_in(2) {
                device(&mut random)
            } else {
                String::new()
            },
            real_time: random.one_in(4),
            slow_counter: random.one_in(8) && may_be_slow,
            isolated,
            parts,
            counter: counter(may_be_slow, &mut random),
            tickless: match random.below(4) {
                0 => isolated,
                1 => random.bits() & random.bits(),
                _ => 0,
            },
            stops: random.one_in(2).then(|| stops(profile, &mut random)),
            has_faults: random.one_in(4),
            policy,
        }
    }

    /// Returns the number of CPUs.
    #[must_use]
    pub const fn cpus(&self) -> u32 {
        self.cpus
    }

    /// Returns the duration of the run.
    #[must_use]
    pub const fn duration(&self) -> Picos {
        self.duration
    }

    /// Returns the number of workloads.
    #[must_use]
    pub fn workloads(&self) -> usize {
        self.parts().count()
    }

    /// Returns the workloads that have CPUs, with the text by which a file names these CPUs.
    fn parts(&self) -> impl Iterator<Item = (&Part, String)> {
        let has_isolated = (0..self.cpus).any(|cpu| is_in(self.isolated, cpu));
        self.parts.iter().filter_map(move |part| {
            let cpus = match part.place {
                Where::All => "all".to_owned(),
                Where::Housekeeping => "housekeeping".to_owned(),
                Where::Isolated => has_isolated.then(|| "isolated".to_owned())?,
                Where::One(cpu) => (cpu % self.cpus).to_string(),
                Where::Half => format!("0-{}", (self.cpus - 1) / 2),
            };
            Some((part, cpus))
        })
    }

    /// Returns the scenario in the format of a file.
    #[must_use]
    pub fn to_toml(&self) -> String {
        let Self {
            seed,
            profile,
            cpus,
            duration,
            tick,
            ..
        } = self;
        let late_max = late_max(tick);
        let mut text = format!(
            "# Drawn from the seed {seed}.\nname = \"draw-{seed}\"\nprofile = \"{profile}\"\ncpus = {cpus}\n\
             duration = \"{duration}\"\ntick = \"{tick}\"\nlate_max = \"{late_max}\"\n"
        );
        for (name, bits) in [("isolated", self.isolated), ("tickless", self.tickless)] {
            let cpus = (0..*cpus).filter(|cpu| is_in(bits, *cpu));
            let cpus: Vec<String> = cpus.map(|cpu| cpu.to_string()).collect();
            if !cpus.is_empty() {
                // Writing to a string cannot fail.
                let _infallible = writeln!(text, "{name} = \"{}\"", cpus.join(","));
            }
        }
        if let Some((state, stand_in)) = &self.stops {
            let stand_in = stand_in.name();
            let _infallible = writeln!(text, "stops_in = \"{state}\"\nbroadcast = \"{stand_in}\"");
        }
        for (name, is_set) in [
            ("real_time", self.real_time),
            ("slow_counter", self.slow_counter),
        ] {
            if is_set {
                let _infallible = writeln!(text, "{name} = true");
            }
        }
        if self.has_faults {
            text += "faults = \"drawn\"\n";
        }
        if let Some(micros) = self.slice {
            let _infallible = writeln!(text, "slice = \"{micros} us\"");
        }
        if !self.device.is_empty() {
            let _infallible = write!(text, "\n[device]\n{}", self.device);
        }
        text += &self.counter;
        if !self.policy.is_empty() {
            let _infallible = write!(text, "\n[policy]\n{}", self.policy);
        }
        for (part, cpus) in self.parts() {
            let fields = &part.fields;
            let _infallible = write!(text, "\n[[workload]]\n{fields}cpus = \"{cpus}\"\n");
        }
        text
    }

    /// Returns the smallest scenario that still `fails`. Drops workloads, halves the CPUs and the duration, and drops
    /// settings, and repeats that until no further reduction fails.
    ///
    /// `fails` returns true if a draft shows the failure, and should test for the same failure each time.
    #[must_use]
    pub fn shrunk(&self, mut fails: impl FnMut(&Self) -> bool) -> Self {
        let mut least = self.clone();
        // Each turn takes something away, and there is only so much.
        while let Some(less) = least.smaller().into_iter().find(&mut fails) {
            least = less;
        }
        least
    }

    /// Returns the drafts that are a step smaller, the largest steps first.
    fn smaller(&self) -> Vec<Self> {
        let mut all = Vec::new();
        let mut push = |change: &dyn Fn(&mut Self)| {
            let mut less = self.clone();
            change(&mut less);
            if less != *self {
                all.push(less);
            }
        };
        for index in 0..self.parts.len() {
            push(&|less| drop(less.parts.remove(index)));
        }
        let half = sizes_of(self.profile, (1..=self.cpus / 2).rev());
        if let Some(&cpus) = half.first() {
            push(&|less| less.cpus = cpus);
        }
        push(&|less| less.duration = Picos(less.duration.0 / 2).max(SHORTEST).min(less.duration));
        push(&|less| {
            for part in &mut less.parts {
                part.fields = without(&without(&part.fields, "section"), "section_every");
            }
        });
        push(&|less| less.isolated = 0);
        push(&|less| less.tickless = 0);
        push(&|less| less.has_faults = false);
        push(&|less| less.stops = None);
        push(&|less| less.slice = None);
        push(&|less| less.device.clear());
        push(&|less| less.real_time = false);
        push(&|less| less.slow_counter = false);
        push(&|less| less.counter.clear());
        push(&|less| less.policy.clear());
        for gone in KEYS {
            push(&|less| less.policy = without(&less.policy, gone));
        }
        all
    }
}

/// Returns true if `cpu` is in the set with these bits. The first CPU never is, because one CPU has to stay for
/// housekeeping.
const fn is_in(bits: u64, cpu: u32) -> bool {
    cpu > 0 && bits >> (cpu % 64) & 1 == 1
}

fn without(text: &str, key: &str) -> String {
    let is_of = |line: &&str| line.split_once(" = ").is_some_and(|(name, _)| name == key);
    let lines = text.lines().filter(|line| !is_of(line));
    lines.map(|line| format!("{line}\n")).collect()
}

/// The keys of a policy that a draft may set.
const KEYS: [&str; 7] = [
    "scheduler",
    "hrtick",
    "deadline_hrtick",
    "balance",
    "placement",
    "governor",
    "migration",
];

/// Makes a random scheduler with its settings, the data on which the governor decides, and the migration of exact
/// timers. No choice disables a mechanism of the library.
fn policy(random: &mut Random) -> String {
    let mut text = String::new();
    let mut line = |key: &str, value: &str| {
        // Writing to a string cannot fail.
        let _infallible = writeln!(text, "{key} = \"{value}\"");
    };
    if random.one_in(2) {
        line("scheduler", "fair");
        line("hrtick", ["on", "on", "unfiltered", "off"][random.index(4)]);
        line("balance", ["none", "idle"][random.index(2)]);
        line("placement", ["previous", "near"][random.index(2)]);
    }
    line("governor", ["next-event", "history"][random.index(2)]);
    line("migration", ["off", "on"][random.index(2)]);
    text
}

/// Makes a random entitlement for a workload's tasks, if tasks share their CPU fairly.
fn entitlement(random: &mut Random) -> String {
    let weight = [1, 1, 2, 7][random.index(4)];
    let request = random.one_in(3).then(|| 10 + random.below(5_000));
    let request = request.map(|micros| format!("request = \"{micros} us\"\n"));
    format!("weight = {weight}\n{}", request.unwrap_or_default())
}

/// Makes random critical sections for the tasks of a workload with these `fields`, in one case of three. The tasks
/// request an extension in these sections. The sections cover a fifth to all of the computation, so that many slices
/// end in them.
fn sections(fields: &str, random: &mut Random) -> String {
    let drawn = random.one_in(3);
    let section = 1 + random.below(60);
    let every = section + random.below(section * 4 + 1);
    if !drawn || classes::value(fields, "runtime").is_some() {
        return String::new();
    }
    format!("section = \"{section} us\"\nsection_every = \"{every} us\"\n")
}

/// Gives a reservation to some of `parts`, if CPUs are shared fairly. Returns the rest of the policy. The sum of all
/// reservations is less than a CPU, wherever the tasks are.
fn reserve(parts: &mut [Part], policy: &str, random: &mut Random) -> String {
    let is_fair = classes::value(policy, "scheduler").is_some();
    let percent = 90 / (parts.len() as u64).max(1);
    for part in parts {
        let drawn = random.one_in(3);
        let period = 1_000 + random.below(20_000);
        let deadline = [period, period, period / 2][random.index(3)];
        let tasks = classes::value(&part.fields, "tasks").map_or(Ok(1), str::parse);
        let is_spread = ["dbench", "hackbench"].map(Some);
        let is_spread = is_spread.contains(&classes::value(&part.fields, "kind"));
        if let (true, true, false, Ok(tasks)) = (is_fair, drawn, is_spread, tasks) {
            let share = deadline * (1 + random.below(percent)) / 100;
            part.fields += &format!(
                "runtime = \"{} us\"\nruntime_deadline = \"{deadline} us\"\nruntime_period = \"{period} us\"\n",
                (share / std::cmp::max::<u64>(tasks, 1)).max(LEAST_RUNTIME),
            );
        }
    }
    if !is_fair {
        return String::new();
    }
    format!(
        "deadline_hrtick = \"{}\"\n",
        ["on", "on", "off"][random.index(3)]
    )
}

/// Returns one of the deeper idle states of a profile, and the device or timer that wakes a CPU whose device stops
/// there.
fn stops(profile: &str, random: &mut Random) -> (String, BroadcastDevice) {
    let states = Profile::embedded(profile).map_or_else(Vec::new, |profile| profile.idle);
    let state = &states[1 + random.index(states.len() - 1)];
    let stand_in = [BroadcastDevice::Device, BroadcastDevice::Timer][random.index(2)];
    (state.name.clone(), stand_in)
}

/// Returns those of `sizes` that the machine of a profile can have.
fn sizes_of(profile: &str, sizes: impl Iterator<Item = u32>) -> Vec<u32> {
    let topology = Profile::embedded(profile).map(|profile| profile.topology);
    let fits = |cpus: &u32| topology.is_some_and(|topology| topology.resized(*cpus).is_some());
    sizes.filter(fits).collect()
}

/// Returns the table of a counter that is not ideal, for one draft in three. A counter that stops is replaced by the
/// slow counter, which not every machine may have.
fn counter(may_be_slow: bool, random: &mut Random) -> String {
    if !random.one_in(3) {
        return String::new();
    }
    let (frequency, bits) = [
        ("2.5 GHz", 64),
        ("1 GHz", 56),
        ("24 MHz", 56),
        ("14.318 MHz", 32),
        ("3579 kHz", 24),
    ][random.index(5)];
    format!(
        "\n[counter]\nfrequency = \"{frequency}\"\nbits = {bits}\nerror_ppm = {}\nskew = \"{} ns\"\n\
         wraps_at = \"{} us\"\nstops_in_deep_idle = {}\n",
        random.between(-500, 500),
        [0, 0, 200, 20_000][random.index(4)],
        random.below(100_000),
        random.one_in(4) && may_be_slow,
    )
}

/// Makes a random device. A write of the device is always short enough that timers a few microseconds apart are not
/// late.
fn device(random: &mut Random) -> String {
    let mut one_of = |from: &[&str]| from[random.index(from.len())].to_owned();
    let kind = one_of(&[
        "countdown",
        "equality",
        "less-or-equal",
        "coupled",
        "software",
    ]);
    let frequency = one_of(&["1.193182 MHz", "14.318 MHz", "100 MHz", "1 GHz", "2.1 GHz"]);
    let shortest = one_of(&["1 ns", "1 us", "1 us", "10 us"]);
    let longest = one_of(&["1 ms", "54 ms", "42 s", "600 s"]);
    let exit = one_of(&["0 ns", "0 ns", "510 ns", "2 us"]);
    format!(
        "kind = \"{kind}\"\nfrequency = \"{frequency}\"\nshortest = \"{shortest}\"\nlongest = \"{longest}\"\n\
         exit = \"{exit}\"\n"
    )
}

fn part(random: &mut Random) -> Part {
    let place = match random.below(6) {
        0 | 1 => Where::All,
        2 => Where::Housekeeping,
        3 => Where::Isolated,
        4 => Where::One(u32::try_from(random.below(64)).unwrap_or(0)),
        _ => Where::Half,
    };
    let mut fields = fields(random);
    if random.one_in(8) {
        fields += "needs_tick = true\n";
    }
    Part { place, fields }
}

/// Makes a random workload of a program that people run.
fn messages(random: &mut Random) -> String {
    let mut number = |low: u64, high: u64| low + random.below(high - low + 1);
    match number(0, 2) {
        0 => {
            let (work, timeout) = (number(1, 20), number(20, 20_000));
            format!(
                "kind = \"dbench\"\ntasks = {}\nwork = \"{work} us\"\nwork_max = \"{} us\"\n\
                 timeout = \"{timeout} us\"\n",
                number(1, 3),
                number(work, 500),
            )
        }
        1 => {
            let (period, work) = (number(3, 20), number(1, 5));
            format!(
                "kind = \"desktop\"\ntimers = {}\nperiod = \"{period} ms\"\nperiod_max = \"{} ms\"\n\
                 work = \"{work} us\"\nwork_max = \"{} us\"\nslack = \"{} us\"\ngap = \"{} ms\"\n",
                number(1, 6),
                number(period, 150),
                number(work, 20),
                number(1, 3_000),
                number(20, 100),
            )
        }
        _ => format!(
            "kind = \"hackbench\"\ngroups = {}\ntasks = {}\nmessages = {}\nsize = {}\nroom = {}\n\
             work = \"{} ns\"\n",
            number(1, 3),
            number(1, 6),
            number(1, 60),
            number(1, 300),
            number(1, 4_096),
            number(100, 3_000),
        ),
    }
}

/// Makes a random workload. No workload keeps a CPU busy in one piece, with interrupts off, for longer than 800 us.
fn fields(random: &mut Random) -> String {
    let mut number = |low: u64, high: u64| low + random.below(high - low + 1);
    match number(0, 14) {
        0 => format!(
            "kind = \"cyclictest\"\nperiod = \"{} us\"\n",
            number(100, 5_000)
        ),
        1 => "kind = \"oslat\"\n".to_owned(),
        2 => format!(
            "kind = \"enqueue\"\nrepetitions = {}\ntimeout = \"{} ms\"\ngap = \"{} us\"\n",
            number(1, 200),
            number(1, 2_000),
            number(500, 20_000),
        ),
        3 => "kind = \"busy\"\none_in = 4\n".to_owned(),
        4 => format!(
            "kind = \"duty\"\nwork = \"{} us\"\ngap = \"{} us\"\n",
            number(10, 2_000),
            number(50, 20_000),
        ),
        5 => {
            let (period, work, timers) = (number(3, 20), number(1, 10), number(1, 5));
            let (period_max, work_max) = (number(period, 100), number(work, 100));
            let period = period.max(least_period(timers, work + work_max));
            format!(
                "kind = \"polls\"\ntimers = {timers}\nperiod = \"{period} ms\"\nperiod_max = \"{} ms\"\n\
                 work = \"{work} us\"\nwork_max = \"{work_max} us\"\n",
                period_max.max(period),
            )
        }
        6 => {
            let timeout = number(1, 50);
            format!(
                "kind = \"network\"\nconnections = {}\ngap = \"{} us\"\nwork = \"{} us\"\ntimeout = \"{timeout} ms\"\n\
                 timeout_max = \"{} ms\"\ncancelled = {}\n",
                number(1, 64),
                number(200, 3_000),
                number(1, 20),
                number(timeout, 400),
                number(1, 100),
            )
        }
        7 => {
            let (period, work) = (number(2, 20), number(5, 100));
            format!(
                "kind = \"daemons\"\ntasks = {}\nperiod = \"{period} ms\"\nperiod_max = \"{} ms\"\n\
                 work = \"{work} us\"\nwork_max = \"{} us\"\n",
                number(1, 4),
                number(period, 200),
                number(work, 2_000),
            )
        }
        8 => format!(
            "kind = \"remote-arms\"\ngap = \"{} us\"\ntimeout = \"{} ms\"\n",
            number(300, 5_000),
            number(1, 30),
        ),
        9..=11 => messages(random),
        12 | 13 => clocked(random),
        _ => format!(
            "kind = \"starts\"\ntimers = {}\nrepetitions = {}\ngap = \"{} ms\"\n",
            number(2, 32),
            number(1, 40),
            number(2, 20),
        ),
    }
}

/// Makes a random workload that uses clocks.
fn clocked(random: &mut Random) -> String {
    let mut number = |low: u64, high: u64| low + random.below(high - low + 1);
    if number(0, 1) == 0 {
        return format!(
            "kind = \"compute\"\nwork = \"{} us\"\nrepetitions = {}\n",
            number(20, 1_000),
            number(1, 8),
        );
    }
    let clock = ["realtime", "boottime", "tai"][usize::try_from(number(0, 2)).unwrap_or(0)];
    let period = number(1, 20);
    format!(
        "kind = \"alarms\"\nclock = \"{clock}\"\ntimers = {}\nperiod = \"{period} ms\"\nperiod_max = \"{} ms\"\n",
        number(1, 4),
        number(period, 100),
    )
}

#[cfg(test)]
mod tests;
