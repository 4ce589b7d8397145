//! Tests of deadline servers, rule by rule.

use core::pin::Pin;
use std::boxed::Box;
use std::string::ToString;
use std::vec::Vec;

use super::*;

const MS: u64 = 1_000_000;

fn at(millis: u64) -> RunTime {
    RunTime::from_nanos(millis * MS)
}

fn reservation(runtime: u64, deadline: u64, period: u64) -> Reservation {
    let [runtime, deadline, period] = [runtime, deadline, period].map(Span::from_millis);
    Reservation::new(runtime, deadline, period).expect("it makes sense")
}

/// A queue, which is dropped before its servers.
struct World {
    queue: DeadlineQueue<u32>,
    servers: Vec<Pin<Box<Server<u32>>>>,
}

impl World {
    /// Creates servers of these runtimes and periods, in milliseconds.
    fn new(servers: &[(u64, u64)]) -> Self {
        let mut queue = DeadlineQueue::new(Bandwidth::percent(95));
        let admit = |(runtime, period): &(u64, u64)| {
            let server = queue.admit(reservation(*runtime, *period, *period));
            Box::pin(server.expect("there is room"))
        };
        let servers = servers.iter().map(admit).collect();
        Self { queue, servers }
    }

    fn enqueue(&mut self, number: u32, millis: u64) -> Enqueued {
        let server = self.servers[number as usize].as_ref();
        self.queue
            .enqueue(server, number, at(millis))
            .expect("it is in no queue")
    }

    fn sleep(&mut self, number: u32, millis: u64) {
        let server = self.servers[number as usize].as_ref();
        self.queue.sleep(server, at(millis)).expect("it runs");
    }

    fn pick(&mut self, millis: u64) -> Option<u32> {
        self.queue.pick(at(millis))
    }

    fn left(&mut self, millis: u64) -> u64 {
        self.queue.account(at(millis)).left().span().as_nanos() / MS
    }
}

#[test]
fn reservations_that_make_no_sense_are_refused() {
    let new = |runtime: u64, deadline: u64, period: u64| {
        Reservation::new(
            Span::from_nanos(runtime),
            Span::from_nanos(deadline),
            Span::from_nanos(period),
        )
    };
    assert!(matches!(
        new(0, MS, MS),
        Err(ReservationError::RuntimeTooShort(_))
    ));
    assert!(matches!(
        new(2 * MS, MS, 3 * MS),
        Err(ReservationError::RuntimeBeyondDeadline(..))
    ));
    assert!(matches!(
        new(MS, 3 * MS, 2 * MS),
        Err(ReservationError::DeadlineBeyondPeriod(..))
    ));
    assert!(matches!(
        new(MS, MS, u64::MAX),
        Err(ReservationError::PeriodTooLong(_))
    ));
    assert_eq!(
        new(9_999, MS, MS).unwrap_err().to_string(),
        "a runtime of 9999 ns is shorter than 10000 ns"
    );
}

#[test]
fn what_could_not_be_kept_is_not_promised() {
    let World { mut queue, servers } = World::new(&[(5, 10), (4, 10)]);
    let refused = queue
        .admit(reservation(1, 10, 10))
        .expect_err("95 % is the limit");
    assert_eq!(
        refused.to_string(),
        "10.0 % of the CPU and 90.0 % that are admitted already come to more than 95.0 %"
    );
    queue
        .dismiss(servers[0].as_ref())
        .expect("admitted here, and idle");
    let again = queue.dismiss(servers[0].as_ref());
    assert_eq!(again, Err(Refusal::NotAdmitted), "not twice");
    assert!(queue.admit(reservation(1, 10, 10)).is_ok());
}

#[test]
fn a_server_of_another_queue_is_refused() {
    let here = World::new(&[(1, 10)]);
    let mut there = World::new(&[]).queue;
    let stranger = here.servers[0].as_ref();
    let refused = there.enqueue(stranger, 7, at(0)).expect_err("not admitted");
    assert_eq!((refused.item, refused.why), (7, Refusal::NotAdmitted));
    assert_eq!(there.dismiss(stranger), Err(Refusal::NotAdmitted));
}

#[test]
fn a_server_is_queued_once() {
    let mut world = World::new(&[(1, 10)]);
    world.enqueue(0, 0);
    let again = world.queue.enqueue(world.servers[0].as_ref(), 5, at(0));
    assert_eq!(again.expect_err("queued").why, Refusal::Queued);
    assert_eq!(
        world.queue.dismiss(world.servers[0].as_ref()),
        Err(Refusal::Elsewhere)
    );
    assert_eq!(
        world.queue.sleep(world.servers[0].as_ref(), at(0)),
        Err(Refusal::Elsewhere)
    );
}

#[test]
fn the_earliest_deadline_runs_first() {
    let mut world = World::new(&[(4, 20), (1, 5), (2, 10)]);
    for number in 0..3 {
        world.enqueue(number, 0);
    }
    let order: Vec<_> = core::iter::from_fn(|| world.pick(0)).collect();
    assert_eq!(order, [1, 2, 0]);
}

#[test]
fn an_earlier_deadline_preempts() {
    let mut world = World::new(&[(4, 20), (1, 5)]);
    world.enqueue(0, 0);
    assert_eq!(world.pick(0), Some(0));
    assert!(world.enqueue(1, 1).preempts);
    assert!(world.queue.account(at(1)).is_due());
    assert!(!world.enqueue(0, 1).is_throttled);
    assert_eq!(world.pick(1), Some(1));
    world.sleep(1, 2);
    assert_eq!(world.pick(2), Some(0));
    assert_eq!(world.left(2), 3, "it ran for one of its four");
}

#[test]
fn a_server_that_used_its_runtime_waits_for_the_next_period() {
    let mut world = World::new(&[(2, 10)]);
    world.enqueue(0, 0);
    assert_eq!(world.pick(0), Some(0));
    // It overruns by 3: a period and a half has to be paid for.
    assert!(world.queue.account(at(5)).is_due());
    assert!(world.enqueue(0, 5).is_throttled);
    assert_eq!((world.queue.runnable(), world.queue.throttled()), (0, 1));
    assert_eq!(world.pick(5), None);
    assert_eq!(world.queue.next_replenishment(), Some(at(20)));
    assert_eq!(world.queue.replenish(at(19)), 0);
    assert_eq!(world.queue.replenish(at(20)), 1);
    assert_eq!(world.pick(20), Some(0));
    assert_eq!(world.left(20), 1);
}

#[test]
fn what_was_used_beyond_the_runtime_is_paid_by_those_that_slept_too() {
    let run_over = || {
        let mut world = World::new(&[(2, 10)]);
        world.enqueue(0, 0);
        world.pick(0);
        // It overruns by 3: a period and a half has to be paid for.
        world.sleep(0, 5);
        world
    };
    // Two periods gave four, for five that were used; of what begins now one is left.
    for (wakes, left) in [(21, 1), (29, 1), (30, 2), (99, 2)] {
        let mut world = run_over();
        assert!(!world.enqueue(0, wakes).is_throttled, "{wakes}");
        world.pick(wakes);
        assert_eq!(world.left(wakes), left, "{wakes}");
    }
}

#[test]
fn a_host_that_comes_late_to_replenish_forgives_no_debt() {
    // In the second period that pays, in the one after it, and after that; with a deadline at its end and before it.
    for (deadline, comes, left) in [
        (10, 20, 1),
        (10, 29, 1),
        (10, 30, 2),
        (4, 20, 1),
        (4, 26, 1),
    ] {
        let mut world = World::new(&[]);
        let server = world.queue.admit(reservation(2, deadline, 10));
        world.servers.push(Box::pin(server.expect("there is room")));
        world.enqueue(0, 0);
        world.pick(0);
        assert!(world.enqueue(0, 5).is_throttled);
        assert_eq!(world.queue.next_replenishment(), Some(at(20)));
        assert_eq!(world.queue.replenish(at(comes)), 1);
        world.pick(comes);
        assert_eq!(world.left(comes), left, "{deadline} {comes}");
    }
}

#[test]
fn sleeping_does_not_renew_the_runtime() {
    let mut world = World::new(&[(2, 10)]);
    world.enqueue(0, 0);
    world.pick(0);
    world.sleep(0, 1);
    // 1 left until 10: within the bandwidth at 5, beyond it at 6.
    world.enqueue(0, 5);
    world.pick(5);
    assert_eq!(world.left(5), 1);
    world.sleep(0, 5);
    world.enqueue(0, 6);
    world.pick(6);
    assert_eq!(world.left(6), 2, "a new period");
    assert!(world.queue.account(at(8)).is_due());
    world.sleep(0, 8);
    assert!(world.enqueue(0, 9).is_throttled, "it still is");
    assert_eq!(world.queue.next_replenishment(), Some(at(16)));
    let server = world.servers[0].as_ref();
    assert_eq!(world.queue.dequeue(server, at(9)), Some(0));
    assert!(!world.enqueue(0, 30).is_throttled, "long over");
}

#[test]
fn a_server_with_an_early_deadline_has_no_more_than_its_density() {
    let mut world = World::new(&[]);
    let server = world
        .queue
        .admit(reservation(2, 4, 10))
        .expect("there is room");
    world.servers.push(Box::pin(server));
    world.enqueue(0, 0);
    world.pick(0);
    world.sleep(0, 0);
    // 2 ms before its deadline it may have half of that, not the 2 it did not use, nor a period that overlaps.
    world.enqueue(0, 2);
    world.pick(2);
    assert_eq!(world.left(2), 1);
    assert!(world.queue.account(at(3)).is_due());
    assert!(world.enqueue(0, 3).is_throttled);
    assert_eq!(world.queue.next_replenishment(), Some(at(10)));
}

#[test]
fn a_server_that_wakes_behind_its_early_deadline_has_no_more_than_its_bandwidth() {
    // One of 2 ms in 10 was used: that is what 5 ms give.
    for (wakes, throttled) in [(4, true), (5, true), (6, false), (10, false)] {
        let mut world = World::new(&[]);
        let server = world.queue.admit(reservation(2, 4, 10));
        world.servers.push(Box::pin(server.expect("there is room")));
        world.enqueue(0, 0);
        world.pick(0);
        world.sleep(0, 1);
        assert_eq!(world.enqueue(0, wakes).is_throttled, throttled, "{wakes}");
        let again = if throttled { 10 } else { wakes };
        if throttled {
            assert_eq!(world.queue.next_replenishment(), Some(at(10)));
            assert_eq!(world.queue.replenish(at(10)), 1);
        }
        world.pick(again);
        assert_eq!(world.left(again), 2, "{wakes}");
    }
}

#[test]
fn servers_that_are_admitted_keep_their_deadlines() {
    // 94 % in odd periods, always running: each period of each is served before its end.
    let given = [(2, 7), (3, 11), (5, 13)];
    let mut world = World::new(&given);
    for number in 0..3 {
        world.enqueue(number, 0);
    }
    let mut served = [0_u64; 3];
    let mut running = world.pick(0);
    for millis in 1..=7 * 11 * 13 {
        if let Some(number) = running {
            served[number as usize] += 1;
        }
        world.queue.replenish(at(millis));
        if running.is_none() || world.queue.account(at(millis)).is_due() {
            if let Some(number) = running {
                world.enqueue(number, millis);
            }
            running = world.pick(millis);
        }
        for ((runtime, period), served) in given.into_iter().zip(served) {
            let due = millis / period * runtime;
            let of = (runtime, period);
            assert!(
                served >= due,
                "at {millis} ms {served} of {due} ms for {of:?}"
            );
            assert!(
                served <= due + runtime,
                "at {millis} ms {served} ms for {of:?}"
            );
        }
    }
}
