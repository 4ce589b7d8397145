//! Loom cases: the CPU that counts, the CPUs that read, and the CPU that is asked to look again, on weak memory.
//!
//! Each is named after the race that it tells, and lists what can come out of it.
//!
//! # Limits
//!
//! - Two or three threads, and one or two operations each.
//! - The lock is of a kind that blocks; those of the hosts have models of their own (`tickless_link::bias`).
//! - The number of preemptions is bounded ([`PREEMPTIONS`]).

use std::sync::Arc;

use loom::thread;
use tickless_link::lock::ModelLock;
use tickless_link::sync::{AtomicBool, Ordering};

use super::count::{Duty, SeenCounts};
use super::{Dependencies, Dependency, IdleTime, TickCount};
use crate::base::model::explore;
use crate::cpu::CpuId;
use crate::time::{Instant, Span};

/// Number of times that threads may be interrupted. Without a bound a case takes hours.
const PREEMPTIONS: usize = 3;

const PERIOD: Span = Span::from_nanos(10);

type Count = Arc<TickCount<ModelLock>>;

fn count() -> Count {
    Arc::new(TickCount::new(PERIOD, Instant::ZERO))
}

fn at(nanos: i64) -> Instant {
    Instant::from_nanos(nanos)
}

/// The count; the instant fits it, or the pair was torn.
fn tick(count: &Count) -> u64 {
    let now = count.now();
    let began = now.began.as_nanos().unsigned_abs();
    assert_eq!(began, now.tick.0 * PERIOD.as_nanos(), "one pair");
    now.tick.0
}

/// A reader that comes while a CPU counts sees the pair before or after.
#[test]
fn a_reader_against_who_counts() {
    explore(PREEMPTIONS, [0, 3], || {
        let count = count();
        let reader = {
            let count = Arc::clone(&count);
            thread::spawn(move || tick(&count))
        };
        assert_eq!(count.update(at(35)), 3);
        reader.join().unwrap()
    });
}

/// Two count at one moment: one of them does, and the other, which finds nothing to do, sees that count.
#[test]
fn two_who_count_at_once() {
    explore(PREEMPTIONS, [(0, 2), (2, 0)], || {
        let count = count();
        let other = {
            let count = Arc::clone(&count);
            thread::spawn(move || {
                let ticks = count.update(at(25));
                assert_eq!(tick(&count), 2);
                ticks
            })
        };
        let ticks = count.update(at(20));
        assert_eq!(tick(&count), 2);
        (ticks, other.join().unwrap())
    });
}

/// R41. Two CPUs find that none counts, and the one that should is back. The ticks are counted once, and afterwards a
/// CPU can help out again.
#[test]
fn r41_two_contenders_against_who_has_the_duty() {
    explore(PREEMPTIONS, [(2, 0, 0), (0, 2, 0), (0, 0, 2)], || {
        let count = count();
        let contender = || {
            let count = Arc::clone(&count);
            thread::spawn(move || count.rescue(at(20)))
        };
        let contenders = [contender(), contender()];
        let own = count.update(at(20));
        let [first, second] = contenders.map(|thread| thread.join().unwrap());
        assert_eq!(tick(&count), 2);
        assert_eq!(count.rescue(at(30)), 1, "no CPU is left in line");
        (own, first, second)
    });
}

/// R41. Without the CPU that has the duty: one of the others gets through, however they meet.
#[test]
fn r41_two_contenders_alone() {
    explore(PREEMPTIONS, [(0, 1), (1, 0)], || {
        let count = count();
        let other = {
            let count = Arc::clone(&count);
            thread::spawn(move || count.rescue(at(10)))
        };
        let own = count.rescue(at(10));
        let other = other.join().unwrap();
        assert_eq!(tick(&count), 1);
        (own, other)
    });
}

/// Two CPUs tick and none has the duty: one gets it, and both ticks are counted once.
#[test]
fn two_cpus_take_the_duty() {
    explore(PREEMPTIONS, [0, 1], || {
        let count = count();
        let ticks = |cpu| {
            let count = Arc::clone(&count);
            move || count.tick(CpuId(cpu), at(10), true, &mut SeenCounts::default())
        };
        let other = thread::spawn(ticks(1));
        let own = ticks(0)();
        assert_eq!(own + other.join().unwrap(), 1);
        match count.duty() {
            Duty::Taken { by } => by.0,
            free @ Duty::Free { .. } => panic!("one of the CPUs took it: {free:?}"),
        }
    });
}

/// A CPU with the duty stops its tick while another CPU ticks: that one has it afterwards, or at its next tick.
#[test]
fn the_duty_is_given_up_against_a_tick() {
    explore(PREEMPTIONS, [false, true], || {
        let count = count();
        count.tick(CpuId(0), at(10), true, &mut SeenCounts::default());
        let other = {
            let count = Arc::clone(&count);
            thread::spawn(move || count.tick(CpuId(1), at(20), true, &mut SeenCounts::default()))
        };
        assert!(count.give_up(CpuId(0)));
        let took = other.join().unwrap() == 1;
        count.tick(CpuId(1), at(30), true, &mut SeenCounts::default());
        assert_eq!(tick(&count), 3);
        assert_eq!(count.duty(), Duty::Taken { by: CpuId(1) });
        took
    });
}

/// R43. A reader whose clock is ahead asks while the CPU wakes, and then another one.
#[test]
fn r43_a_reader_against_a_cpu_that_wakes() {
    explore(PREEMPTIONS, [(40, 40), (45, 45)], || {
        let (account, mut writer) = IdleTime::new();
        account.enter(&mut writer, at(50));
        let account = Arc::new(account);
        let reader = {
            let account = Arc::clone(&account);
            thread::spawn(move || account.read(at(95)).as_nanos())
        };
        account.exit(&mut writer, at(90));
        let first = reader.join().unwrap();
        let second = account.read(at(99)).as_nanos();
        assert!(first <= second);
        (first, second)
    });
}

/// R44. A dependency comes, and its kick, while the CPU answers an earlier kick. Either it finds the dependency, or it
/// is kicked again.
#[test]
fn r44_a_dependency_against_a_kick_that_is_answered() {
    explore(
        PREEMPTIONS,
        [(false, true), (true, false), (true, true)],
        || {
            let dependencies = Arc::new(Dependencies::new());
            // As `CpuBase` notes a kick: who finds it noted does not kick again.
            let kicked = Arc::new(AtomicBool::new(true));
            let setter = {
                let (dependencies, kicked) = (Arc::clone(&dependencies), Arc::clone(&kicked));
                thread::spawn(move || {
                    assert!(dependencies.set(Dependency::Scheduler));
                    !kicked.swap(true, Ordering::AcqRel)
                })
            };
            kicked.swap(false, Ordering::AcqRel);
            let found = dependencies.first().is_some();
            let kicks_again = setter.join().unwrap();
            assert!(found || kicks_again);
            (found, kicks_again)
        },
    );
}
