//! Tests of random scenarios: for all workloads, machines and policies, and with any faults, every promise is kept, and
//! two runs with the same seed are identical.
//!
//! `TICKLESS_SEEDS=N` tries N seeds, `TICKLESS_SEEDS=N..` the one seed N, as in the histories of `random.rs`.

use std::fmt::Write;

use tickless_conformance::random::Random;
use tickless_sim::baseline::{
    Balance, DeadlineTick, Governor, Hrtick, Isolation, Migration, MigratorRule, Placement, Reads,
    Rearm, Scheduler, SleepLength, Soft, Target, Tree,
};
use tickless_sim::{FaultKind, Picos, Policy, Scenario, run_twice};

/// The number of seeds of an ordinary run.
const SEEDS: u64 = 60;
/// The sizes of machines with EPYC's sockets, caches and cores.
const SIZES: [u32; 8] = [1, 2, 4, 8, 16, 24, 64, 128];

fn pick<T: Copy, const N: usize>(random: &mut Random, from: [T; N]) -> T {
    from[random.index(N)]
}

/// Returns the fields of a random workload.
fn workload(random: &mut Random, has_isolated: bool) -> String {
    let mut up_to = |limit: u64| 1 + random.below(limit);
    let which = up_to(14);
    match which {
        1 => format!(
            "kind = \"cyclictest\"\nperiod = \"{} us\"",
            50 + up_to(3_000)
        ),
        2 => format!(
            "kind = \"duty\"\nwork = \"{} us\"\ngap = \"{} us\"",
            up_to(3_000),
            up_to(9_000)
        ),
        3 => format!(
            "kind = \"polls\"\ntimers = {}\nperiod = \"1 ms\"\nperiod_max = \"{} ms\"\nwork = \"1 us\"\n\
             work_max = \"20 us\"",
            up_to(4),
            up_to(300)
        ),
        4 => format!(
            "kind = \"network\"\nconnections = {}\ngap = \"{} us\"\nwork = \"3 us\"\ntimeout = \"1 ms\"\n\
             timeout_max = \"{} ms\"\ncancelled = {}",
            up_to(40),
            20 + up_to(20_000),
            up_to(500),
            up_to(100)
        ),
        5 | 6 => format!(
            "kind = \"daemons\"\ntasks = {}\nperiod = \"1 ms\"\nperiod_max = \"{} ms\"\nwork = \"1 us\"\n\
             work_max = \"{} us\"",
            up_to(3),
            up_to(200),
            up_to(900)
        ),
        7 if has_isolated => format!(
            "kind = \"remote-arms\"\ngap = \"{} us\"\ntimeout = \"{} us\"",
            20 + up_to(9_000),
            up_to(30_000)
        ),
        8..=13 => application(random, which),
        _ => "kind = \"busy\"".to_owned(),
    }
}

/// Returns the fields of a random workload that imitates a program that people run.
fn application(random: &mut Random, which: u64) -> String {
    let mut up_to = |limit: u64| 1 + random.below(limit);
    match which {
        9 => format!(
            "kind = \"dbench\"\ntasks = {}\nwork = \"5 us\"\nwork_max = \"{} us\"\ntimeout = \"{} us\"",
            up_to(2),
            5 + up_to(500),
            up_to(20_000)
        ),
        10 => format!(
            "kind = \"desktop\"\ntimers = {}\nperiod = \"2 ms\"\nperiod_max = \"{} ms\"\nwork = \"1 us\"\n\
             work_max = \"5 us\"\nslack = \"{} us\"\ngap = \"{} ms\"",
            up_to(6),
            2 + up_to(100),
            up_to(3_000),
            20 + up_to(90)
        ),
        11 => format!(
            "kind = \"hackbench\"\ngroups = {}\ntasks = {}\nmessages = {}\nsize = 8\nroom = {}\nwork = \"{} ns\"",
            up_to(3),
            up_to(5),
            up_to(60),
            up_to(600),
            up_to(3_000)
        ),
        8 | 12 => format!(
            "kind = \"alarms\"\nclock = \"{}\"\ntimers = {}\nperiod = \"1 ms\"\nperiod_max = \"{} ms\"",
            ["realtime", "boottime", "tai"][usize::try_from(up_to(3)).unwrap_or(1) - 1],
            up_to(4),
            up_to(100),
        ),
        _ => format!(
            "kind = \"compute\"\nwork = \"{} us\"\nrepetitions = {}",
            up_to(1_000),
            up_to(8)
        ),
    }
}

/// Returns the table of a random counter, or an empty text.
fn counter(random: &mut Random) -> String {
    if !random.one_in(3) {
        return String::new();
    }
    let frequency = pick(
        random,
        ["1 GHz", "2.5 GHz", "14.318 MHz", "24 MHz", "3579 kHz"],
    );
    let bits = pick(
        random,
        [64, 56, 32, 24 + u32::from(frequency.contains("GHz")) * 8],
    );
    let mut text = format!("\n[counter]\nfrequency = \"{frequency}\"\nbits = {bits}\n");
    if random.one_in(2) {
        text += &format!("error_ppm = {}\n", random.between(-500, 500));
    }
    if random.one_in(3) {
        text += &format!("skew = \"{} ns\"\n", random.below(20_000));
    }
    if random.one_in(2) {
        text += &format!("wraps_at = \"{} us\"\n", random.below(200_000));
    }
    text + &format!("stops_in_deep_idle = {}\n", random.one_in(3))
}

fn device(random: &mut Random) -> String {
    let kinds = [
        "countdown",
        "equality",
        "less-or-equal",
        "coupled",
        "software",
    ];
    let frequencies = ["1.193182 MHz", "24 MHz", "2.45 GHz"];
    format!(
        "\n[device]\nkind = \"{}\"\nfrequency = \"{}\"\nshortest = \"{} ns\"\nlongest = \"{} us\"\n\
         exit = \"{} ns\"\n",
        pick(random, kinds),
        pick(random, frequencies),
        1 + random.below(10_000),
        1_000 + (1 << random.below(25)),
        pick(random, [0, 0, 600, 5_000]),
    )
}

fn policy(random: &mut Random) -> Policy {
    let mut one_in = |times: u64| random.one_in(times);
    Policy {
        target: if one_in(10) {
            Target::Single
        } else if one_in(5) {
            Target::Search
        } else {
            Target::Local
        },
        isolation: if one_in(4) {
            Isolation::TakePart
        } else {
            Isolation::Exclude
        },
        sleep_length: if one_in(4) {
            SleepLength::IncludingMovable
        } else {
            SleepLength::Own
        },
        tree: pick(random, [Tree::Linked, Tree::Linked, Tree::Plain]),
        handover: pick(random, [MigratorRule::LowestBit, MigratorRule::Rotating]),
        rearm: pick(
            random,
            [
                Rearm::Deferred,
                Rearm::Deferred,
                Rearm::Immediate,
                Rearm::Eager,
            ],
        ),
        soft: pick(
            random,
            [
                Soft::FirstDue,
                Soft::FirstDue,
                Soft::Unconditional,
                Soft::Bitmap,
            ],
        ),
        reads: Reads::Direct,
        scheduler: pick(random, [Scheduler::Fifo, Scheduler::Fifo, Scheduler::Fair]),
        hrtick: pick(
            random,
            [Hrtick::On, Hrtick::On, Hrtick::Unfiltered, Hrtick::Off],
        ),
        // No task of these machines has a reservation.
        deadline_hrtick: DeadlineTick::default(),
        balance: pick(random, [Balance::None, Balance::Idle]),
        governor: pick(random, [Governor::NextEvent, Governor::History]),
        migration: pick(random, [Migration::Off, Migration::On]),
        placement: pick(random, [Placement::Previous, Placement::Near]),
    }
}

fn scenario(seed: u64) -> (Scenario, String) {
    let mut random = Random::new(seed);
    let cpus = pick(&mut random, SIZES);
    let isolated: Vec<String> = (1..cpus)
        .filter(|_| random.one_in(5))
        .map(|cpu| cpu.to_string())
        .collect();
    let has_isolated = !isolated.is_empty();
    let mut text = format!(
        "name = \"random\"\nprofile = \"epyc-128\"\ncpus = {cpus}\nduration = \"200 ms\"\nlate_max = \"6 ms\"\n\
         real_time = {}\nslow_counter = {}\n",
        random.one_in(4),
        random.one_in(8) && cpus <= 8,
    );
    if has_isolated {
        text += &format!("isolated = \"{}\"\n", isolated.join(","));
    }
    if random.one_in(4) && cpus > 1 {
        text += &format!("tickless = \"{}\"\n", cpus / 2);
    } else if random.one_in(3) && has_isolated {
        text += "tickless = \"isolated\"\n";
    }
    if random.one_in(3) {
        let by = pick(&mut random, ["device", "timer"]);
        text += &format!("stops_in = \"C2\"\nbroadcast = \"{by}\"\n");
    }
    if random.one_in(2) {
        text += &device(&mut random);
    }
    text += &counter(&mut random);
    for _ in 0..=random.below(4) {
        let set = match random.below(3) {
            0 if has_isolated => "isolated",
            1 => "housekeeping",
            _ => "all",
        };
        let fields = workload(&mut random, has_isolated);
        let (one_in, priority) = (1 + random.below(4), 1 + random.below(3));
        let written = write!(
            text,
            "\n[[workload]]\n{fields}\ncpus = \"{set}\"\none_in = {one_in}\npriority = {priority}\n"
        );
        assert!(written.is_ok(), "strings take everything");
    }
    let read = Scenario::from_toml(&text, "random.toml");
    let mut scenario = read.unwrap_or_else(|error| panic!("{error}\n{text}"));
    scenario.policy = policy(&mut random);
    scenario.slice = random
        .one_in(2)
        .then(|| Picos::from_micros(10 + random.below(5_000)));
    scenario.draws_faults = random.one_in(2);
    (scenario, text)
}

fn seeds() -> std::ops::Range<u64> {
    let Ok(wanted) = std::env::var("TICKLESS_SEEDS") else {
        return 0..SEEDS;
    };
    let (count, seed) = (wanted.parse(), wanted.trim_end_matches("..").parse::<u64>());
    match (count, seed) {
        (Ok(count), _) => 0..count,
        (_, Ok(seed)) => seed..seed + 1,
        _ => panic!("TICKLESS_SEEDS is a count like 1000 or a seed like 17.., not {wanted:?}"),
    }
}

#[test]
fn every_promise_is_kept_in_random_worlds() {
    let (mut fires, mut remote, mut searched, mut broadcasts) = (0, 0, 0, 0);
    let mut faults = std::collections::BTreeMap::<_, u64>::new();
    for seed in seeds() {
        let (scenario, text) = scenario(seed);
        let outcome = run_twice(&scenario, seed);
        assert!(
            outcome.holds(),
            "seed {seed} fails; again with TICKLESS_SEEDS={seed}..\n{:?}\n{text}\n{:?}\n{:?}\n{:?}\n{:#?}",
            outcome.broken,
            scenario.policy,
            outcome.faults,
            outcome.fault_counts,
            outcome.violations
        );
        fires += outcome.counts.coarse_fires;
        remote += outcome.counts.remote_fires;
        broadcasts += outcome.counts.broadcasts;
        searched += u64::from(scenario.policy.target == Target::Search);
        for (kind, count) in outcome.fault_counts {
            *faults.entry(kind).or_default() += count;
        }
    }
    if seeds().end > 1 && seeds().start == 0 {
        // Worlds in which nothing happens prove nothing.
        assert!(
            fires > 1_000 && remote > 100 && searched > 0 && broadcasts > 1_000,
            "{fires} {remote} {searched} {broadcasts}"
        );
        let happened = |kind: &FaultKind| faults.get(kind.name()).is_some_and(|count| *count > 0);
        let mut drawn = FaultKind::ALL
            .iter()
            .filter(|kind| **kind != FaultKind::RunsOff);
        assert!(drawn.all(happened), "{faults:?}");
    }
}
