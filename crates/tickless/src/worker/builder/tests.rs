use super::{BuildError, Builder, WorkerPlace, Workers};
use crate::topology::CpuSet;
use crate::topology::tests::{fixture, set};

/// Returns the CPUs of the workers on the machine `two-sockets`, and the CPUs of the isolated workers.
fn places(builder: &Builder) -> (CpuSet, CpuSet) {
    let places = builder
        .places_on(&fixture("two-sockets"))
        .unwrap_or_else(|error| panic!("{error}"));
    let cpus = |wanted: fn(&WorkerPlace) -> bool| {
        let chosen = places.iter().filter(|place| wanted(place));
        chosen.filter_map(|place| place.cpu).collect()
    };
    (cpus(|_| true), cpus(|place| place.isolated))
}

fn refusal(builder: &Builder) -> BuildError {
    builder
        .places_on(&fixture("two-sockets"))
        .expect_err("it does not fit")
}

#[test]
fn each_cpu_gets_a_worker() {
    let machine = fixture("two-sockets");
    let all = machine.online().clone();
    assert_eq!(
        places(&Workers::builder().pin(all.clone())),
        (all.clone(), CpuSet::new())
    );
    assert_eq!(
        places(&Workers::builder().pin(set("1,3,5")).workers(2)),
        (set("1,3"), CpuSet::new())
    );
    assert_eq!(
        places(&Workers::builder().pin(set("0-3")).isolate(set("1-2"))),
        (set("0-3"), set("1-2"))
    );
}

#[test]
fn the_system_says_which_workers_are_isolated() {
    let machine = fixture("two-sockets");
    let quiet: CpuSet = machine
        .isolated()
        .iter()
        .chain(machine.nohz_full().iter())
        .collect();
    assert!(!quiet.is_empty(), "the machine has some");
    let all = machine.online().clone();
    let builder = Workers::builder().isolate_like_the_system();
    assert_eq!(
        places(&builder.clone().pin(all.clone())),
        (all, quiet.clone())
    );
    let only = builder.pin(quiet.clone());
    assert!(matches!(refusal(&only), BuildError::AllIsolated { cpus } if cpus == quiet));
}

/// Isolation follows the kernel's files, which change at run time.
#[test]
#[cfg_attr(portable_host, ignore = "no pinning")]
fn workers_follow_what_the_system_isolates() {
    use std::fs;
    let machine = crate::topology::Topology::read().expect("it can be read");
    let cpus: CpuSet = machine
        .allowed()
        .unwrap_or(machine.online())
        .iter()
        .take(2)
        .collect();
    let (gate, opened) = std::sync::mpsc::channel::<()>();
    let opened = std::sync::Arc::new(std::sync::Mutex::new(opened));
    let builder = Workers::builder().pin(cpus.clone());
    let workers = builder.spawn(move |worker, _| {
        // Taken by one of them at a time, which goes on taking turns.
        while opened.lock().expect("no panic").try_recv()
            == Err(std::sync::mpsc::TryRecvError::Empty)
        {
            let _turn = worker.turn();
            std::thread::yield_now();
        }
    });
    let workers = workers.expect("these CPUs are ours");
    let root = std::env::temp_dir().join(format!("tickless-{}-follow", std::process::id()));
    let group = root.join("sys/fs/cgroup");
    fs::create_dir_all(&group).expect("a directory");
    // A CPU where no worker is stays out of it.
    let more = |set: &CpuSet| set.union(&[60_000].into_iter().collect()).to_string();
    let first: CpuSet = cpus.iter().take(1).collect();
    let last = cpus.difference(&first);
    for (told, follows) in [
        (last.clone(), true),
        (CpuSet::new(), true),
        (first, last.len() == 1),
        (last, true),
        (cpus, false),
    ] {
        fs::write(group.join("cpuset.cpus.isolated"), more(&told)).expect("a file");
        let followed = workers.isolate_like(&root);
        match followed {
            Ok(isolated) => assert!(follows && isolated == told, "{told}: {isolated}"),
            // Workers of other tests may be left.
            Err(error) => assert!(!follows, "{told}: {error}"),
        }
    }
    fs::write(group.join("cpuset.cpus.isolated"), "x").expect("a file");
    let wrong = workers.isolate_like(&root).expect_err("no list");
    assert!(
        wrong.to_string().contains("cpuset.cpus.isolated"),
        "{wrong}"
    );
    drop(gate);
    fs::remove_dir_all(&root).expect("it was made above");
    for ended in workers.join() {
        ended.expect("no panic");
    }
}

#[test]
fn what_does_not_fit_is_refused_with_its_reason() {
    let pinned = Workers::builder().pin(set("0-1"));
    for (builder, says) in [
        (pinned.clone().workers(0), "at least one"),
        (Workers::builder().pin(CpuSet::new()), "at least one"),
        (
            pinned.clone().workers(3),
            "3 workers cannot have a CPU each on 2 (CPUs 0-1)",
        ),
        (
            Workers::builder().pin(set("0,4000-4001")),
            "CPUs 4000-4001 are not online",
        ),
        (
            Workers::builder().isolate(set("1")),
            "say which CPUs with `pin`",
        ),
        (
            Workers::builder().isolate_like_the_system(),
            "say which CPUs with `pin`",
        ),
        (
            pinned.clone().isolate(set("1-2")),
            "CPUs 2 are to be isolated, but workers are on 0-1 only",
        ),
        (
            pinned.clone().workers(1).isolate(set("1")),
            "CPUs 1 are to be isolated, but workers are on 0 only",
        ),
        (
            pinned.isolate(set("0-1")),
            "all workers, on CPUs 0-1, are to be isolated",
        ),
    ] {
        let error = match builder.workers {
            Some(0) => builder.places().expect_err("it does not fit"),
            _ => refusal(&builder),
        };
        assert!(error.to_string().contains(says), "{error}");
    }
}
