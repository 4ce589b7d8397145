//! Tests that a hand-over equals an enqueue, a sleep and a pick.

use core::pin::Pin;
use std::boxed::Box;
use std::vec::Vec;

use proptest::prelude::*;
use tickless_core::time::Span;

use super::at;
use crate::amount::{Request, Weight};
use crate::fair::{Entity, FairQueue, Slice};

/// A queue whose tasks work alternately.
struct World {
    queue: FairQueue<usize>,
    tasks: Vec<Pin<Box<Entity<usize>>>>,
    running: Option<usize>,
    now: u64,
    /// True if the test uses hand-overs in place of the three steps where it can.
    at_once: bool,
    hand_overs: usize,
}

/// Observable state of a queue.
#[derive(Debug, PartialEq)]
struct Seen {
    running: Option<usize>,
    slice: Option<Slice>,
    current_lag: Option<i64>,
    lags: Vec<Option<i64>>,
    waiting: usize,
    delayed: usize,
    picks: u64,
}

impl World {
    fn new(tasks: &[(u32, u64)], at_once: bool) -> Self {
        let made = tasks.iter().map(|(times, micros)| {
            let request = Request::new(Span::from_micros(*micros)).expect("within bounds");
            Box::pin(Entity::new(Weight::UNIT.times(*times), request))
        });
        Self {
            tasks: made.collect(),
            queue: FairQueue::default(),
            running: None,
            now: 0,
            at_once,
            hand_overs: 0,
        }
    }

    /// Lets another task wake up. After a further `behind` the running task sleeps or finishes.
    fn pass(&mut self, to: usize, is_over: bool, behind: u64) {
        let waits = self.tasks[to].is_queued() && self.queue.delayed() == 0;
        if Some(to) == self.running || waits {
            return;
        }
        let woken_at = at(self.now);
        self.now += behind;
        let now = at(self.now);
        let from = self.running.take().filter(|_| !is_over);
        let from = from.map(|from| self.tasks[from].as_ref());
        let woken = self.tasks[to].as_ref();
        if self.at_once && self.queue.hand_over(from, woken, woken_at, now) {
            self.hand_overs += 1;
            self.running = Some(to);
            return;
        }
        // Refused where it waits already.
        let _queued = self.queue.enqueue(woken, to, woken_at);
        if let Some(from) = from {
            let _slept = self.queue.sleep(from, now).expect("it runs");
        }
        self.running = self.queue.pick(now);
    }

    fn step(&mut self, action: u8, task: usize, nanos: u64) {
        self.now += nanos;
        let task = task % self.tasks.len();
        let now = at(self.now);
        match action {
            0..=5 => self.pass(task, false, nanos / 3),
            6 => self.pass(task, true, nanos / 2),
            7 => {
                // Woken, while another one goes on.
                if Some(task) != self.running {
                    let _queued = self.queue.enqueue(self.tasks[task].as_ref(), task, now);
                }
            }
            8 => {
                let _verdict = self.queue.account(now);
            }
            9 => {
                // It is over before another one wakes up.
                self.queue.retire(now);
                self.running = None;
            }
            _ => {
                if let Some(running) = self.running.take() {
                    let slept = self.queue.sleep(self.tasks[running].as_ref(), now);
                    assert!(slept.is_ok(), "it runs");
                }
                self.running = self.queue.pick(now);
            }
        }
        self.queue.tree.assert_valid();
    }

    fn seen(&mut self) -> Seen {
        let queue = &mut self.queue;
        Seen {
            running: self.running,
            slice: queue.slice(),
            current_lag: queue.current_lag(),
            lags: self
                .tasks
                .iter()
                .map(|task| queue.lag(task.as_ref()))
                .collect(),
            waiting: queue.waiting(),
            delayed: queue.delayed(),
            picks: queue.picks.get(),
        }
    }
}

proptest! {
    #[test]
    fn a_task_that_hands_over_does_what_the_three_steps_do(
        tasks in prop::collection::vec((1_u32..4, 20_u64..3_000), 2..5),
        steps in prop::collection::vec((0_u8..11, 0_usize..4, 0_u64..2_000_000), 1..60),
    ) {
        let mut worlds = [false, true].map(|at_once| World::new(&tasks, at_once));
        for (number, (action, task, nanos)) in steps.into_iter().enumerate() {
            let [by_steps, at_once] = worlds.each_mut().map(|world| {
                world.step(action, task, nanos);
                world.seen()
            });
            prop_assert_eq!(by_steps, at_once, "after step {}", number);
        }
    }
}

/// Two tasks that wake each other need only hand-overs, whether or not they owe time.
#[test]
fn two_that_work_by_turns_hand_over_each_time() {
    let mut world = World::new(&[(1, 3_000), (1, 3_000)], true);
    for round in 0..1_000 {
        world.now += [200, 350, 0][round % 3];
        world.pass(round % 2, false, 50);
        assert_eq!(world.running, Some(round % 2));
        assert_eq!(world.hand_overs, round + 1);
    }
}

/// The task runs while another one sleeps in debt, which is the only entry of the tree.
#[test]
fn a_task_hands_over_neither_to_itself_nor_to_one_of_another_queue() {
    let mut world = World::new(&[(1, 3_000), (1, 3_000), (2, 3_000)], true);
    world.pass(0, false, 0);
    world.now += 500;
    world.pass(1, false, 50);
    assert_eq!((world.running, world.queue.delayed()), (Some(1), 1));
    let [running, third] = [1, 2].map(|task| world.tasks[task].as_ref());
    let mut other = FairQueue::default();
    let _there = other.enqueue(third, 2, at(1)).expect("no queue has it");
    let now = at(world.now);
    for from in [Some(running), None] {
        for to in [running, third] {
            assert!(!world.queue.hand_over(from, to, now, now));
        }
    }
    world.queue.tree.assert_valid();
    let slept = world.queue.sleep(running, now);
    assert!(slept.is_ok(), "it runs as before");
    drop(other);
}

#[test]
fn what_is_no_hand_over_is_refused_and_changes_nothing() {
    let mut world = World::new(&[(1, 3_000), (1, 3_000), (1, 3_000)], true);
    world.pass(0, false, 0);
    let [first, second, third] = [0, 1, 2].map(|task| world.tasks[task].as_ref());
    let queue = &mut world.queue;
    assert!(
        !queue.hand_over(Some(first), first, at(1), at(1)),
        "to itself"
    );
    assert!(!queue.hand_over(None, first, at(1), at(1)), "it runs here");
    assert!(
        !queue.hand_over(Some(third), second, at(1), at(1)),
        "it does not run"
    );
    let mut other = FairQueue::default();
    let _there = other.enqueue(second, 1, at(1)).expect("no queue has it");
    assert!(
        !queue.hand_over(Some(first), second, at(1), at(1)),
        "it is elsewhere"
    );
    let _waits = queue.enqueue(third, 2, at(1)).expect("no queue has it");
    assert!(
        !queue.hand_over(Some(first), third, at(1), at(1)),
        "it waits here"
    );
    assert!(queue.sleep(first, at(1)).is_ok(), "it runs as before");
    assert_eq!(queue.pick(at(1)), Some(2));
    drop(other);
}
