//! Tests of `tickless::Workers`, groups of threads that are workers.

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use support::ms;
use tickless::topology::{CpuSet, Topology};
use tickless::worker::Builder;
use tickless::{BuildError, Parking, Workers, time};

fn allowed() -> CpuSet {
    let machine = Topology::read().expect("the kernel tells");
    machine.allowed().unwrap_or(machine.online()).clone()
}

fn on_cpu() -> u32 {
    u32::try_from(rustix::thread::sched_getcpu()).expect("CPU numbers fit")
}

#[test]
fn workers_run_timers_and_return_what_they_found() {
    let _patience = support::begin();
    for parking in [Parking::Sleep, Parking::Spin] {
        let builder = Workers::builder().workers(3).name("shard").parking(parking);
        let workers = builder
            .spawn(|worker, number| {
                let name = thread::current().name().map(str::to_owned);
                worker.block_on(async {
                    time::sleep(ms(1)).await;
                    tickless::coarse::sleep(ms(1)).await;
                });
                (number, name)
            })
            .expect("threads can be had");
        assert_eq!((workers.len(), workers.unparkers().len()), (3, 3));
        for (number, ended) in workers.join().into_iter().enumerate() {
            let name = format!("shard-{number}");
            assert_eq!(ended.expect("no panic"), (number, Some(name)));
        }
    }
}

#[test]
fn there_are_as_many_workers_as_cpus_by_default() {
    let _patience = support::begin();
    let workers = Workers::builder().spawn(|_, number| number);
    let workers = workers.expect("threads can be had");
    let cpus = thread::available_parallelism().map_or(1, usize::from);
    assert_eq!(workers.len(), cpus);
    assert!(workers.join().into_iter().all(|ended| ended.is_ok()));
}

#[test]
fn absurd_wishes_are_refused() {
    let _patience = support::begin();
    for absurd in [usize::MAX, usize::MAX / 2, 200_000, 65_536] {
        let refused = Workers::builder().workers(absurd).spawn(|_, number| number);
        assert!(
            matches!(refused, Err(BuildError::TooMany { workers, most }) if workers == absurd && most < 65_536),
            "{refused:?}"
        );
    }
    let refused = Workers::builder().name("a\0b").spawn(|_, number| number);
    assert!(matches!(refused, Err(BuildError::NulInName)), "{refused:?}");
}

#[test]
#[cfg_attr(portable_host, ignore = "no pinning on the portable host")]
fn pinned_workers_stay_on_their_cpus() {
    let _patience = support::begin();
    let cpus = allowed();
    let workers = Workers::builder().pin(cpus.clone()).spawn(|worker, _| {
        let mut seen = CpuSet::new();
        for _ in 0..20 {
            worker.block_on(time::sleep(support::us(100)));
            seen.insert(on_cpu());
        }
        seen
    });
    let ended = workers.expect("these CPUs are ours").join();
    for (cpu, seen) in cpus.iter().zip(ended) {
        assert_eq!(seen.expect("no panic").to_string(), cpu.to_string());
    }
}

#[test]
#[cfg_attr(portable_host, ignore = "no pinning on the portable host")]
fn all_is_set_before_the_first_begins() {
    let _patience = support::begin();
    let cpus = allowed();
    let quiet: CpuSet = cpus.iter().skip(1).collect();
    // With a CPU alone no worker is isolated, which is a test too.
    let workers = Workers::builder()
        .pin(cpus)
        .isolate(quiet)
        .name("")
        .spawn(|worker, _| worker.is_isolated())
        .expect("these CPUs are ours");
    let isolated: Vec<_> = workers
        .join()
        .into_iter()
        .map(|ended| ended.expect("no panic"))
        .collect();
    assert!(!isolated[0] && isolated[1..].iter().all(|isolated| *isolated));
}

#[test]
fn a_worker_that_panics_is_a_result_and_harms_no_other() {
    let _patience = support::begin();
    let workers = Workers::builder().workers(2).spawn(|worker, number| {
        assert!(number == 0, "on purpose");
        worker.block_on(time::sleep(ms(2)));
    });
    let ended = workers.expect("threads can be had").join();
    assert!(ended[0].is_ok() && ended[1].is_err());
}

#[test]
fn if_one_cannot_be_had_none_begins() {
    let _patience = support::begin();
    let began = Arc::new(AtomicU32::new(0));
    let spawn = |builder: Builder| {
        let began = Arc::clone(&began);
        builder.spawn(move |_, _| began.fetch_add(1, Ordering::Relaxed))
    };
    let (cpus, machine) = (allowed(), Topology::read().expect("the kernel tells"));
    let mut beyond = cpus.clone();
    beyond.insert(machine.possible().last().map_or(1, |last| last + 1));
    let error = spawn(Workers::builder().pin(beyond)).err();
    assert!(
        matches!(error, Some(BuildError::NotOfThisMachine { .. })),
        "{error:?}"
    );
    // A CPU that is there, and that this process is not to use: a set of CPUs forbids it, a mask can be taken off.
    let beside = support::on_thread(move || {
        let first = cpus.first().expect("one at least");
        let other = machine.online().iter().find(|cpu| !cpus.contains(*cpu))?;
        let both: CpuSet = [first, other].into_iter().collect();
        let error = Workers::builder().pin(both).spawn(|_, _| ()).err();
        let mut mask = rustix::thread::CpuSet::new();
        mask.set(usize::try_from(other).expect("CPU numbers fit"));
        let is_forbidden = rustix::thread::sched_setaffinity(None, &mask).is_err();
        Some((is_forbidden, error))
    });
    if let Some((is_forbidden, error)) = beside {
        let is_refused = matches!(error, Some(BuildError::Pin { .. }));
        assert_eq!(is_refused, is_forbidden, "{error:?}");
    }
    assert!(spawn(Workers::builder().workers(0)).is_err());
    assert_eq!(began.load(Ordering::Relaxed), 0);
}
