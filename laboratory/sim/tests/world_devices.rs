//! Tests of machines with every kind of clock event device.

mod support;

use tickless_sim::{DeviceClass, Outcome, Picos, Scenario, run};

use support::{kept, read, refusal, rows};

const WORKLOADS: &str = "
[[workload]]
kind = \"cyclictest\"
cpus = \"0\"
period = \"777 us\"

[[workload]]
kind = \"starts\"
cpus = \"1\"
timers = 6
repetitions = 20
gap = \"3 ms\"

[[workload]]
kind = \"daemons\"
cpus = \"2\"
tasks = 2
period = \"5 ms\"
period_max = \"60 ms\"
work = \"20 us\"

[[workload]]
kind = \"network\"
cpus = \"3\"
connections = 20
gap = \"400 us\"
work = \"3 us\"
timeout = \"4 ms\"
timeout_max = \"200 ms\"
cancelled = 90
";

fn text(head: &str, device: &str) -> String {
    format!(
        "name = \"devices\"\nprofile = \"skl-112\"\ncpus = 4\nduration = \"300 ms\"\n{head}\n[device]\n{device}\n\
         {WORKLOADS}"
    )
}

fn scenario(head: &str, device: &str) -> Scenario {
    read(&text(head, device))
}

fn holds(head: &str, device: &str) -> Outcome {
    kept(&scenario(head, device), 1)
}

const KINDS: [&str; 5] = [
    "countdown",
    "equality",
    "less-or-equal",
    "coupled",
    "software",
];

#[test]
fn every_promise_is_kept_with_every_kind() {
    for kind in KINDS {
        for rest in [
            "",
            "exit = \"2 us\"",
            "frequency = \"1.193182 MHz\"\nlongest = \"54 ms\"",
            "frequency = \"24 MHz\"\nshortest = \"20 us\"\nlongest = \"1 ms\"",
        ] {
            for head in ["", "slow_counter = true", "real_time = true"] {
                let outcome = holds(head, &format!("kind = \"{kind}\"\n{rest}"));
                assert!(outcome.counts.exact_fires > 400, "{:?}", outcome.counts);
            }
        }
    }
}

#[test]
fn profiles_have_the_device_of_their_machine() {
    let of = |profile| {
        let text = text("", "")
            .replace("[device]\n", "")
            .replace("skl-112", profile);
        let scenario = read(&text);
        assert_eq!(scenario.device, None);
        assert!(run(&scenario, 1).holds());
        (
            scenario.profile.device.kind,
            scenario.profile.device.exit > Picos::ZERO,
        )
    };
    assert_eq!(
        ["skl-112", "hsw-144", "epyc-128", "vm-64"].map(of),
        [
            (DeviceClass::Coupled, false),
            (DeviceClass::Coupled, false),
            (DeviceClass::Countdown, false),
            (DeviceClass::LessOrEqual, true),
        ]
    );
}

#[test]
fn a_comparator_that_is_written_too_late_is_written_again() {
    // What is nearer than a microsecond is written as the shortest delay, which is over when the write is.
    let missed = holds(
        "",
        "kind = \"equality\"\nshortest = \"100 ns\"\nexit = \"500 ns\"",
    );
    assert!(missed.counts.device_refused > 0, "{:?}", missed.counts);
    // A write that takes longer than the delay that is tried first: it grows.
    let slow = holds("", "kind = \"equality\"\nexit = \"4 us\"");
    assert!(slow.counts.device_refused > missed.counts.device_refused);
    for kind in ["countdown", "less-or-equal", "coupled", "software"] {
        let other = holds(
            "",
            &format!("kind = \"{kind}\"\nshortest = \"100 ns\"\nexit = \"4 us\""),
        );
        assert_eq!(other.counts.device_refused, 0);
    }
}

#[test]
fn a_device_that_counts_only_so_far_fires_for_nothing() {
    let far = holds("", "kind = \"countdown\"");
    let near = holds("", "kind = \"countdown\"\nlongest = \"300 us\"");
    assert_eq!(far.counts.spurious, 0);
    assert!(near.counts.spurious > 1_000, "{:?}", near.counts);
    // A CPU that sleeps is woken by it, and goes to sleep again.
    assert!(near.deep_idle_permille() < far.deep_idle_permille());
}

#[test]
fn a_cpu_that_works_for_less_than_a_tick_does_not_hand_on_what_is_due() {
    // Devices that count slowly fire at slightly different moments of a tick, so that now one, now another is awake.
    let text = "name = \"handing on\"\nprofile = \"epyc-128\"\nduration = \"200 ms\"\nlate_max = \"2 ms\"\n
        [device]\nkind = \"countdown\"\nfrequency = \"1.193182 MHz\"\nlongest = \"200 us\"\n
        [[workload]]\nkind = \"daemons\"\ncpus = \"all\"\ntasks = 1\nperiod = \"1 ms\"\nperiod_max = \"42 ms\"\n\
        work = \"1 us\"\nwork_max = \"806 us\"\n";
    let scenario = read(text);
    for seed in 0..4 {
        let outcome = run(&scenario, seed);
        assert!(outcome.holds(), "{:#?}", outcome.violations);
        assert!(outcome.counts.remote_fires > 100);
    }
}

#[test]
fn a_write_that_leaves_the_guest_makes_everything_later() {
    // The timer that is started is the first of its CPU: each start writes.
    let start = |kind: &str, exit: &str| {
        let text = text("", &format!("kind = \"{kind}\"\nexit = \"{exit}\""));
        let text = text.replace("timers = 6", "timers = 1");
        let scenario = read(&text);
        let outcome = run(&scenario, 1);
        assert!(outcome.holds(), "{:#?}", outcome.violations);
        outcome.series("fresh").expect("it is measured").max()
    };
    for kind in KINDS {
        let more = start(kind, "3 us") - start(kind, "0 ns");
        assert!(more >= Picos::from_micros(3), "{kind} {more}");
    }
}

#[test]
fn a_coupled_device_needs_no_clock_unless_that_is_another_one() {
    let start = |kind: &str, head: &str| {
        let outcome = holds(head, &format!("kind = \"{kind}\""));
        outcome.late_exact.mean()
    };
    assert!(start("coupled", "") < start("less-or-equal", ""));
    assert!(start("coupled", "slow_counter = true") > start("coupled", ""));
}

/// The mistakes in the table of the device, each with the error.
const WRONG: &str = r#"
kind = "abacus" | s.toml:7: kind: unknown variant `abacus`; expected one of `countdown`, `equality`, `less-or-equal`, `coupled`, `software`
frequency = "25 ms" | s.toml:7: frequency: "25 ms" is not a frequency of a device; 1 kHz to 4 GHz, as a number and a unit, such as "25 MHz"
longest = "1 us" | s.toml:7: longest: a device that counts 1 us at most; 100 us, and twice the shortest delay, at least
shortest = "2 ms" | s.toml:7: shortest: nothing sooner than 2 ms; 1 ms at most
kind = "countdown"\nexit = "1 s" | s.toml:8: exit: 1 s to leave the guest; 1 ms at most
exits = true | s.toml:7: exits: unknown field `exits`; expected one of `kind`, `frequency`
shortest = "soon" | s.toml:7: shortest: "soon" is not a time
"#;

#[test]
fn what_cannot_be_is_refused() {
    for [device, said] in rows(WRONG) {
        let error = refusal(&text("", &device));
        assert!(error.starts_with(&said), "{error}\nis not\n{said}");
    }
    let whole = text("", "").replace("[device]\n", "device = \"coupled\"\n");
    let error = refusal(&whole);
    let said = "s.toml:6: device: invalid type: string \"coupled\"";
    assert!(error.starts_with(said), "{error}");
}
