use std::fs;
use std::path::Path;

use super::{CPUS_MAX, CacheKind, CpuSet, Topology, TopologyError};

pub(crate) fn set(list: &str) -> CpuSet {
    list.parse().expect("a list of the test")
}

pub(crate) fn fixture(name: &str) -> Topology {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures/topology")
        .join(name);
    Topology::read_from(&path).unwrap_or_else(|error| panic!("{error}"))
}

/// Reads a machine that consists of `files`, each with its content. Files about CPUs and nodes are named without their
/// directory.
fn read(name: &str, files: &[(&str, &str)]) -> Result<Topology, TopologyError> {
    let directory = format!("tickless-{}-{name}", std::process::id());
    let root = std::env::temp_dir().join(directory);
    for (path, content) in files {
        let is_of_system = path.starts_with("cpu/") || path.starts_with("node/");
        let directory = if is_of_system {
            "sys/devices/system"
        } else {
            ""
        };
        let path = root.join(directory).join(path);
        fs::create_dir_all(path.parent().expect("it is in a directory")).expect("a directory");
        fs::write(path, content).expect("a file");
    }
    let machine = Topology::read_from(&root);
    fs::remove_dir_all(&root).expect("it was made above");
    machine
}

#[test]
fn isolated_partitions_of_control_groups_are_isolated() {
    const ROOT: &str = "sys/fs/cgroup/cpuset.cpus.isolated";
    const OWN: &str = "proc/self/cgroup";
    const PARTITION: &str = "sys/fs/cgroup/a/cpuset.cpus.partition";
    const EFFECTIVE: &str = "sys/fs/cgroup/a/cpuset.cpus.effective";
    let online = ("cpu/online", "0-7\n");
    let boot = ("cpu/isolated", "7\n");
    let own = (OWN, "3:cpuset:/x\n0::/a/b\n");
    let of_b = ("sys/fs/cgroup/a/b/cpuset.cpus.partition", "member\n");
    let partition = |kind| (PARTITION, kind);
    let effective = (EFFECTIVE, "4-5\n");
    for (number, (files, isolated)) in [
        (vec![boot], "7"),
        (vec![boot, (ROOT, "2-3\n")], "2-3,7"),
        (vec![(ROOT, "\n")], ""),
        (vec![own, of_b, partition("isolated\n"), effective], "4-5"),
        (
            vec![own, partition("isolated\n"), effective, (ROOT, "1")],
            "1,4-5",
        ),
        (vec![own, of_b, partition("root\n"), effective], ""),
        (
            vec![own, partition("isolated invalid (no CPU)\n"), effective],
            "",
        ),
        (
            vec![(OWN, "0::/\n"), partition("isolated\n"), effective],
            "",
        ),
        (
            vec![(OWN, "0::/../a\n"), partition("isolated\n"), effective],
            "",
        ),
    ]
    .into_iter()
    .enumerate()
    {
        let files: Vec<_> = files.into_iter().chain([online]).collect();
        let machine = read(&format!("partition-{number}"), &files);
        let machine = machine.unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(machine.isolated(), &set(isolated), "{files:?}");
    }
    let wrong = read("partition-wrong", &[(ROOT, "x"), online]).expect_err("no list");
    assert!(
        wrong.to_string().contains("cpuset.cpus.isolated"),
        "{wrong}"
    );
}

#[test]
fn lists_are_read_and_written() {
    for (list, written) in [
        ("", ""),
        (" \n", ""),
        ("0", "0"),
        ("0-3,8,10-11\n", "0-3,8,10-11"),
        ("3,1,2,2,0-1", "0-3"),
        ("62-66,128", "62-66,128"),
        ("0-15:2/4", "0-1,4-5,8-9,12-13"),
        ("0-7:1/2,1", "0-2,4,6"),
        ("65535", "65535"),
    ] {
        assert_eq!(set(list).to_string(), written, "{list:?}");
        assert_eq!(set(written), set(list));
    }
}

#[test]
fn wrong_lists_name_the_token_that_is_wrong() {
    for (list, token, says) in [
        ("3-1", "3-1", "did you mean \"1-3\""),
        ("0,,4", "", "a comma with nothing beside it"),
        ("0,", "", "a comma with nothing beside it"),
        ("x", "x", "neither a CPU number nor a range"),
        ("0,1x", "1x", "neither a CPU number nor a range"),
        ("0 1", "0 1", "neither a CPU number nor a range"),
        ("-1", "-1", "neither a CPU number nor a range"),
        ("1-", "1-", "neither a CPU number nor a range"),
        ("1-2-3", "1-2-3", "neither a CPU number nor a range"),
        ("+1", "+1", "neither a CPU number nor a range"),
        ("0-65536", "0-65536", "CPU numbers end at 65535"),
        (
            "99999999999999999999",
            "99999999999999999999",
            "CPU numbers end at 65535",
        ),
        ("0-7:0/2", "0-7:0/2", "no stride"),
        ("0-7:3/2", "0-7:3/2", "no stride"),
        ("0-7:2", "0-7:2", "no stride"),
        ("1-2:", "1-2:", "no stride"),
        ("0,4-N", "4-N", "depends on the machine"),
        ("N", "N", "depends on the machine"),
        ("All", "All", "depends on the machine"),
        ("n", "n", "neither a CPU number nor a range"),
    ] {
        let error = list.parse::<CpuSet>().expect_err(list);
        assert_eq!(error.token(), token, "{list:?}");
        assert_eq!(error.list(), list);
        assert!(error.to_string().contains(says), "{error}");
    }
}

#[test]
fn lists_for_a_machine_end_where_it_ends() {
    let machine = set("0-3,8");
    assert_eq!(CpuSet::parse_within("1-2,8", &machine), Ok(set("1-2,8")));
    for (list, says) in [
        (
            "9",
            "CPU 9 in the CPU list \"9\" is not one of this machine, which has 0-3,8",
        ),
        ("0,2-5", "\"2-5\" in the CPU list \"0,2-5\" contains CPU 4"),
        ("", "the CPU list \"\" names no CPU"),
        (" ", "the CPU list \"\" names no CPU"),
        (
            "9-N",
            "\"9-N\" in the CPU list \"9-N\" begins behind the last CPU of this machine, which is 8",
        ),
        (
            "N-2",
            "\"N-2\" in the CPU list \"N-2\" ends before it begins; did you mean \"2-N\"?",
        ),
        ("3-N", "\"3-N\" in the CPU list \"3-N\" contains CPU 4"),
        ("0-all", "\"0-all\" in the CPU list \"0-all\" is neither"),
    ] {
        let error = CpuSet::parse_within(list, &machine).expect_err(list);
        assert!(error.to_string().starts_with(says), "{error}");
    }
}

#[test]
fn lists_for_a_machine_may_name_its_last_cpu_and_all() {
    let machine = set("0-3,8");
    for (list, means) in [
        ("N", "8"),
        ("0,N", "0,8"),
        ("N-N", "8"),
        ("8-N,1", "1,8"),
        ("all", "0-3,8"),
        ("ALL", "0-3,8"),
        ("3,all", "0-3,8"),
        ("all:1/2", "0,2,8"),
        ("0-3:1/3,N", "0,3,8"),
    ] {
        assert_eq!(
            CpuSet::parse_within(list, &machine),
            Ok(set(means)),
            "{list}"
        );
    }
    assert_eq!(CpuSet::parse_within("1-N", &set("0-1")), Ok(set("1")));
}

#[test]
fn sets_answer_what_sets_are_asked() {
    let cpus = set("1,63-64,200");
    assert_eq!(cpus.len(), 4);
    assert_eq!((cpus.first(), cpus.last()), (Some(1), Some(200)));
    assert_eq!((set("").first(), set("").last()), (None, None));
    assert_eq!(cpus.iter().collect::<Vec<_>>(), [1, 63, 64, 200]);
    assert!(!cpus.contains(65) && !cpus.contains(CPUS_MAX) && !cpus.contains(u32::MAX));
    assert_eq!(cpus.intersection(&set("0-63")), set("1,63"));
    // What is left has no words that are all zero, or equality would fail.
    assert_eq!(cpus.difference(&set("64-300")), set("1,63"));
    assert!(set("63").is_subset(&cpus) && !cpus.is_subset(&set("63")));
    assert!(CpuSet::new().is_empty() && CpuSet::new().is_subset(&cpus));
}

#[test]
fn one_cpu_of_which_nothing_is_known_is_a_core() {
    let machine = fixture("one-cpu");
    assert_eq!(machine.online(), &set("0"));
    assert_eq!(machine.possible(), &set("0"));
    assert_eq!(machine.present(), &set("0"));
    assert_eq!(machine.allowed(), None);
    assert_eq!(machine.cores(), [&set("0")]);
    assert_eq!(
        machine.packages().into_iter().collect::<Vec<_>>(),
        [(None, set("0"))]
    );
    assert!(machine.nodes().is_empty() && machine.caches().is_empty());
    assert!(machine.last_level_cache(0).is_none());
}

#[test]
fn two_cores_share_a_cache_a_package_and_a_node() {
    let machine = fixture("two-cores");
    assert_eq!(machine.cores(), [&set("0"), &set("1")]);
    assert_eq!(machine.packages()[&Some(0)], set("0-1"));
    let last = machine.last_level_cache(1).expect("it has one");
    assert_eq!((last.level, last.kind), (3, CacheKind::Unified));
    assert_eq!((last.size_kib, &last.cpus), (Some(32_768), &set("0-1")));
    assert_eq!(machine.last_level_caches().len(), 1);
    assert_eq!(machine.caches().len(), 7);
    let node = &machine.nodes()[0];
    assert_eq!((node.number, &node.cpus), (0, &set("0-1")));
    assert_eq!(node.memory_kib, Some(24_689_812));
    assert_eq!(machine.allowed(), Some(&set("0-1")));
    assert!(machine.isolated().is_empty() && machine.nohz_full().is_empty());
}

#[test]
fn two_sockets_have_four_nodes_and_half_of_them_is_isolated() {
    let machine = fixture("two-sockets");
    assert_eq!(machine.cpus().len(), 16);
    assert_eq!(machine.possible(), &set("0-31"));
    assert_eq!(machine.cores().len(), 8);
    assert_eq!(machine.cores()[1], &set("1,9"));
    assert_eq!(machine.packages()[&Some(1)], set("4-7,12-15"));
    assert_eq!(machine.last_level_caches().len(), 4);
    let cpu = machine.cpu(13).expect("it is online");
    assert_eq!(
        (cpu.package, cpu.core, cpu.node),
        (Some(1), Some(1), Some(2))
    );
    assert_eq!(cpu.siblings, set("5,13"));
    assert_eq!(machine.nodes()[2].distances, [21, 21, 10, 12]);
    assert_eq!(machine.isolated(), &set("2-3,6-7,10-11,14-15"));
    assert_eq!(machine.nohz_full(), machine.isolated());
    assert!(
        machine
            .allowed()
            .is_some_and(|cpus| cpus.intersection(machine.isolated()).is_empty())
    );
}

#[test]
fn a_hybrid_machine_with_cpus_offline_and_files_missing_is_told_as_far_as_it_is_known() {
    let machine = fixture("hybrid");
    assert_eq!(machine.online(), &set("0-6"));
    assert_eq!(machine.present(), &set("0-8"));
    assert!(machine.cpu(7).is_none());
    assert_eq!(machine.cores().len(), 5);
    let kinds: Vec<_> = machine
        .kinds()
        .iter()
        .map(|kind| (kind.name.as_str(), kind.cpus.clone()))
        .collect();
    assert_eq!(kinds, [("core", set("0-3")), ("atom", set("4-6"))]);
    assert_eq!(machine.cpu(0).and_then(|cpu| cpu.capacity), Some(1_024));
    assert_eq!(machine.cpu(6).and_then(|cpu| cpu.capacity), Some(612));
    assert_eq!(machine.cpu(6).and_then(|cpu| cpu.package), None);
    assert!(
        machine
            .last_level_cache(6)
            .is_some_and(|cache| cache.level == 3)
    );
    // Told by the others, as its own directory is empty; and no more than what is online.
    let second = machine
        .caches()
        .iter()
        .find(|cache| cache.level == 2 && cache.cpus.contains(4));
    assert_eq!(second.map(|cache| &cache.cpus), Some(&set("4-6")));
    assert!(machine.nodes().is_empty());
    assert!(machine.nohz_full().is_empty());
}

#[test]
fn files_that_cannot_be_understood_are_named_with_their_content() {
    let online = ("cpu/online", "0-1");
    for (name, path, content, says) in [
        ("list", "cpu/isolated", "1-0", "did you mean \"0-1\""),
        (
            "id",
            "cpu/cpu1/topology/core_id",
            "one",
            "\"one\" is not a number",
        ),
        (
            "size",
            "cpu/cpu0/cache/index0/size",
            "8M",
            "\"8M\" is not a size",
        ),
        (
            "node",
            "node/node0/meminfo",
            "Node 0 MemTotal: 7",
            "\"7\" is not a size in kB",
        ),
        (
            "distance",
            "node/node0/distance",
            "10 far",
            "is not a row of distances",
        ),
    ] {
        let mut files = vec![online, (path, content)];
        if name == "size" {
            files.extend([
                ("cpu/cpu0/cache/index0/level", "1"),
                ("cpu/cpu0/cache/index0/type", "Data"),
            ]);
        }
        let error = read(name, &files).expect_err(name);
        assert!(error.path().ends_with(path), "{error}");
        assert!(error.to_string().contains(says), "{error}");
    }
}

#[test]
fn the_set_of_cpus_to_be_left_alone_is_empty_in_several_ways() {
    let online = ("cpu/online", "0-7\n");
    for (name, content) in [("empty", "\n"), ("null", "(null)\n"), ("gap", " (null)\n")] {
        let files = [
            online,
            ("cpu/isolated", content),
            ("cpu/nohz_full", content),
        ];
        let machine = read(&format!("alone-{name}"), &files).expect(name);
        assert!(machine.isolated().is_empty(), "{name}");
        assert!(machine.nohz_full().is_empty(), "{name}");
    }
    let machine = read("alone-absent", &[online]).expect("nothing is wrong");
    assert!(machine.isolated().is_empty() && machine.nohz_full().is_empty());

    let files = [
        online,
        ("cpu/isolated", "1-3,6\n"),
        ("cpu/nohz_full", "2\n"),
    ];
    let machine = read("alone-some", &files).expect("nothing is wrong");
    assert_eq!(machine.isolated(), &set("1-3,6"));
    assert_eq!(machine.nohz_full(), &set("2"));
}

#[test]
fn nodes_may_be_without_cpus_and_without_numbers_in_between() {
    let machine = read(
        "nodes",
        &[
            ("cpu/online", "0-3"),
            ("node/node0/cpulist", "0-3,8-11\n"),
            ("node/node10/cpulist", "\n"),
            ("node/node10/meminfo", "Node 10 MemTotal:  1024 kB\n"),
            ("node/node2/distance", "20 10 30\n"),
            ("node/possible", "0-10\n"),
        ],
    );
    let machine = machine.expect("nothing is wrong");
    let numbers: Vec<u32> = machine.nodes().iter().map(|node| node.number).collect();
    assert_eq!(numbers, [0, 2, 10]);
    let [first, second, third] = machine.nodes() else {
        panic!("three nodes");
    };
    assert_eq!(first.cpus, set("0-3"), "those that are online");
    assert!(second.cpus.is_empty() && third.cpus.is_empty());
    assert_eq!(second.distances, [20, 10, 30]);
    assert_eq!((second.memory_kib, third.memory_kib), (None, Some(1_024)));
    assert_eq!(machine.cpu(3).and_then(|cpu| cpu.node), Some(0));
}

#[test]
fn a_machine_without_cpus_is_none() {
    let error = read("empty", &[("cpu/online", "\n")]).expect_err("no CPU");
    assert!(
        error
            .to_string()
            .contains("\"\" is not a list with a CPU in it"),
        "{error}"
    );
    let error = Topology::read_from(Path::new("/nowhere")).expect_err("no file");
    assert_eq!(
        error.path(),
        Path::new("/nowhere/sys/devices/system/cpu/online")
    );
}

#[test]
fn this_machine_can_be_read() {
    // Where the test runs in a sandbox without /sys there is nothing to say.
    let Ok(machine) = Topology::read() else {
        return;
    };
    assert_eq!(machine.cpus().len(), machine.online().len());
    let in_cores: usize = machine.cores().iter().map(|core| core.len()).sum();
    assert_eq!(in_cores, machine.online().len());
}
