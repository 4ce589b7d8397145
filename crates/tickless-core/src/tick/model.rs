//! Loom cases of the tick on weak memory: the CPU that counts, the CPUs that read the count, and the CPU that is kicked
//! to check again.
//!
//! Each case is named after its race, and lists the possible outcomes.
//!
//! # Limits
//!
//! - The cases have two or three threads, and one or two operations for each thread.
//! - The lock is a blocking lock; the locks of the hosts have models of their own (`tickless_link::bias`).
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

/// The maximum number of preemptions in a schedule. Without a bound a case takes hours.
const PREEMPTIONS: usize = 3;

const PERIOD: Span = Span::from_nanos(10);

type Count = Arc<TickCount<ModelLock>>;

fn count() -> Count {
    Arc::new(TickCount::new(PERIOD, Instant::ZERO))
}

fn at(nanos: i64) -> Instant {
    Instant::from_nanos(nanos)
}

/// Returns the count, and checks that the instant belongs to it. If not, the pair was torn.
fn tick(count: &Count) -> u64 {
    let now = count.now();
    let began = now.began.as_nanos().unsigned_abs();
    assert_eq!(began, now.tick.0 * PERIOD.as_nanos(), "one pair");
    now.tick.0
}

/// A reader that reads while a CPU counts sees the old pair or the new pair.
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

/// Two CPUs count at the same time. One of them counts the tick. The other finds no tick to count, and sees the new
/// count.
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

/// R41. Two CPUs find that no CPU counts, while the CPU with the duty counts again. The ticks are counted once, and
/// afterwards a CPU without the duty can count again.
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

/// R41. The same race without the CPU that has the duty. One of the two CPUs counts in every schedule.
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

/// Two CPUs tick and no CPU has the duty. One of them gets the duty, and the ticks are counted once.
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

/// A CPU with the duty stops its tick while another CPU ticks. The other CPU has the duty afterwards, or takes it at
/// its next tick.
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

/// R43. A reader whose clock is ahead reads the idle time while the CPU wakes, and then a second reader reads it.
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

/// R44. A dependency is added and kicks the CPU while the CPU handles an earlier kick. Either the CPU finds the
/// dependency, or it is kicked again.
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
