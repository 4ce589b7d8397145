use super::{Arguments, Plan, Reason, Workload};
use clap::{Args, FromArgMatches};
use std::path::Path;
use std::time::Duration;
use tickless::topology::Topology;

fn parsed(line: &str) -> Result<Arguments, String> {
    let command = Arguments::augment_args(clap::Command::new("noise"));
    let matches = command.try_get_matches_from(line.split_whitespace());
    let matches = matches.map_err(|error| error.to_string())?;
    Arguments::from_arg_matches(&matches).map_err(|error| error.to_string())
}

/// Returns a machine from the descriptions of the library's tests.
fn machine(name: &str) -> Topology {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = root.join("../crates/tickless/tests/fixtures/topology");
    Topology::read_from(&root.join(name)).expect("it is well known")
}

fn settled(line: &str, name: &str) -> Result<Plan, String> {
    let plan = parsed(line)?.settle_on(&machine(name));
    plan.map_err(|failure| failure.to_string())
}

#[test]
fn isolated_cpus_are_measured_if_there_are_any() {
    let plan = settled("noise", "two-sockets").unwrap();
    assert_eq!(plan.cpus.to_string(), "2-3,6-7,10-11,14-15");
    assert_eq!((plan.reason, plan.main_cpu), (Reason::Isolated, 0));
    assert_eq!(plan.isolated, plan.cpus);
}

#[test]
fn otherwise_all_but_the_first_are() {
    let plan = settled("noise", "two-cores").unwrap();
    assert_eq!(plan.cpus.to_string(), "1");
    assert_eq!((plan.reason, plan.main_cpu), (Reason::AllButFirst, 0));
    let plan = settled("noise", "hybrid").unwrap();
    assert_eq!(plan.cpus.to_string(), "1-6");
    assert!(plan.isolated.is_empty());
}

#[test]
fn a_machine_with_one_cpu_is_told_how_to_measure_it_all_the_same() {
    let error = settled("noise", "one-cpu").unwrap_err();
    assert!(error.contains("may use CPU 0 only"), "{error}");
    assert!(error.contains("with -c 0"), "{error}");
    let plan = settled("noise -c 0", "one-cpu").unwrap();
    assert_eq!((plan.cpus.to_string(), plan.main_cpu), ("0".to_owned(), 0));
}

#[test]
fn cpus_are_named_as_the_kernels_parameters_name_them() {
    for (list, cpus, main) in [
        ("4-N", "4-15", 0),
        ("all", "0-15", 0),
        ("0-7:2/4", "0-1,4-5", 8),
        ("N", "15", 0),
    ] {
        let plan = settled(&format!("noise -c {list}"), "two-sockets").unwrap();
        assert_eq!(plan.cpus.to_string(), cpus);
        assert_eq!(
            (plan.reason, plan.main_cpu),
            (Reason::Named, main),
            "{list}"
        );
    }
    let plan = settled("noise -c 1 -C 3", "two-sockets").unwrap();
    assert_eq!(plan.main_cpu, 3);
}

#[test]
fn times_and_sizes_are_read_as_oslat_reads_them() {
    let plan = |line: &str| settled(line, "two-cores").unwrap();
    for (text, seconds) in [("60", 60), ("20m", 1_200), ("2H", 7_200), ("1D", 86_400)] {
        let plan = plan(&format!("noise -D {text}"));
        assert_eq!(plan.duration, Duration::from_secs(seconds));
    }
    assert_eq!(plan("noise").duration, Duration::from_secs(1));
    let quick = plan("noise --quick");
    assert!(quick.preheat + quick.duration < Duration::from_secs(1));
    assert_eq!(plan("noise --quick -D 3").duration, Duration::from_secs(3));
    for (text, bytes) in [
        ("4K", 4_096),
        ("1m", 1 << 20),
        ("100", 100),
        ("1G", 1 << 30),
    ] {
        let plan = plan(&format!("noise -w memmove -m {text}"));
        assert_eq!((plan.workload, plan.memory), (Workload::Memmove, bytes));
        assert_eq!(plan.all_memory(), 2 * bytes as u64);
    }
    assert_eq!(plan("noise").all_memory(), 0);
}

#[test]
fn nonsense_is_refused_with_what_would_be_right() {
    for (line, says) in [
        ("noise -c 3-1", "--cpu-list: \"3-1\""),
        ("noise -c 3-1", "did you mean \"1-3\"?"),
        ("noise -c 0,,4", "a comma with nothing beside it"),
        ("noise -c=", "names no CPU"),
        ("noise -c a", "\"a\" in the CPU list"),
        ("noise -c 1-", "\"1-\" in the CPU list"),
        (
            "noise -c 0-2",
            "contains CPU 2, which is not one of this machine: it has 0-1",
        ),
        ("noise -c 99999999999", "beyond every machine"),
        (
            "noise -C 7",
            "CPU 7 is not one of this machine, which has 0-1",
        ),
        ("noise -C x", "invalid digit"),
        ("noise -b 3", "4..=1024"),
        ("noise -b 1025", "4..=1024"),
        ("noise -f 100", "1..=99"),
        ("noise -f 0", "1..=99"),
        ("noise -T 0", "is not in 1.."),
        ("noise -w dance", "[possible values: no, memmove]"),
        ("noise -m 4K", "add -w memmove"),
        (
            "noise -w memmove -m 1X",
            "\"X\" is no unit of memory: K, M and G are",
        ),
        ("noise -w memmove -m K", "\"K\" is no size"),
        ("noise -w memmove -m 0", "no memory at all"),
        ("noise -w memmove -m 2G", "1G is the most"),
        ("noise -w memmove -m 99999999999999999999", "1G is the most"),
        ("noise -D ten", "ns, us, ms, s, m, h and d are"),
        ("noise -D 0", "longer than zero"),
        ("noise --tick 5", "has no unit"),
        ("noise --tick 20ns", "1us is the shortest"),
        ("noise --against tokio", "[possible values: bare]"),
    ] {
        let error = settled(line, "two-cores").expect_err(line);
        assert!(error.contains(says), "{line}: {error}");
    }
}
