//! Tests that compare the lag of every task with a model that serves all tasks at once.
//!
//! The oracle does not use virtual time. It gives each task that competes its part of every nanosecond, takes the time
//! of the running one from it, and shares out the lags of tasks that join and leave: in fixed point, with 32 bits after
//! the point.

use core::pin::Pin;
use std::boxed::Box;
use std::vec::Vec;

use proptest::prelude::*;
use tickless_core::time::Span;

use super::at;
use crate::amount::{Request, Weight};
use crate::fair::{Entity, FairQueue, Sleep};

/// The number one, a nanosecond in fixed point.
const ONE: i128 = 1 << 32;

/// A task in the fluid.
#[derive(Clone, Copy, Debug, Default)]
struct Drop {
    weight: i128,
    request: i128,
    /// Service that the task is owed.
    lag: i128,
    /// True if the task competes.
    inside: bool,
}

struct World {
    queue: FairQueue<usize>,
    tasks: Vec<Pin<Box<Entity<usize>>>>,
    drops: Vec<Drop>,
    running: Option<usize>,
    /// The task that moves to another worker at present.
    pulled: Option<usize>,
    now: u64,
    /// Largest distance of the queue from the fluid by its rounding, in nanoseconds.
    rounding: i128,
    /// Bound on the lag besides the task's own request, in nanoseconds.
    granularity: i128,
}

impl World {
    fn new(tasks: &[(u64, u64)], granularity: u64) -> Self {
        let [key] = tickless_link::id::Realm::new().keys();
        let drops = tasks.iter().map(|(weight, request)| Drop {
            weight: i128::from(*weight),
            request: i128::from(*request),
            ..Drop::default()
        });
        let made = tasks.iter().map(|(weight, request)| {
            let weight = Weight::new(*weight).expect("within bounds");
            let request = Request::new(Span::from_nanos(*request)).expect("within bounds");
            Box::pin(Entity::new(weight, request))
        });
        Self {
            queue: FairQueue::new(key),
            drops: drops.collect(),
            tasks: made.collect(),
            running: None,
            pulled: None,
            now: 0,
            rounding: 2,
            granularity: i128::from(granularity),
        }
    }

    fn weight(&self) -> i128 {
        self.drops
            .iter()
            .filter(|drop| drop.inside)
            .map(|drop| drop.weight)
            .sum()
    }

    /// Shares `lag` out among the competing tasks, by weight.
    fn share_out(&mut self, lag: i128) {
        let whole = self.weight();
        for drop in self.drops.iter_mut().filter(|drop| drop.inside) {
            drop.lag += lag * drop.weight / whole;
        }
        self.round(1);
    }

    /// Notes that the queue rounded `times` times.
    fn round(&mut self, times: i128) {
        let unit = i128::from(Weight::UNIT.get());
        let most = self
            .drops
            .iter()
            .map(|drop| drop.weight)
            .max()
            .unwrap_or(unit);
        self.rounding += times * (2 * most / unit + 2);
    }

    fn join(&mut self, task: usize) {
        let lag = self.drops[task].lag;
        if self.weight() == 0 {
            self.drops[task].lag = 0;
        } else {
            self.share_out(-lag);
        }
        self.drops[task].inside = true;
    }

    /// Lets a task leave. `kept` returns the part of its lag that the task keeps.
    fn leave(&mut self, task: usize, kept: impl FnOnce(i128) -> i128) {
        let lag = self.drops[task].lag;
        self.drops[task].inside = false;
        self.drops[task].lag = if self.weight() == 0 { 0 } else { kept(lag) };
        self.share_out(lag);
    }

    /// Releases tasks as the queue does before a task joins. It is called by the test to see which tasks left.
    fn let_go(&mut self) {
        self.queue.charge(at(self.now));
        if self.queue.waiting() == 0 {
            let _none = self.queue.best();
            self.notice_departures();
        }
    }

    fn put(&mut self, task: usize) {
        self.let_go();
        let was_delayed = self.drops[task].inside && self.running != Some(task);
        let was_running = self.running == Some(task);
        let enqueued = self
            .queue
            .enqueue(self.tasks[task].as_ref(), task, at(self.now))
            .expect("it sleeps, or runs");
        assert_eq!(enqueued.was_current, was_running);
        if was_running {
            self.running = None;
        } else if !was_delayed {
            self.join(task);
        }
    }

    /// Finds the tasks that slept in debt and were released since. Each had paid when its turn came, some of them only
    /// because another task had left.
    fn notice_departures(&mut self) {
        loop {
            let gone = (0..self.tasks.len()).filter(|task| {
                let here = [self.running, self.pulled].contains(&Some(*task))
                    || self.tasks[*task].is_queued();
                self.drops[*task].inside && !here
            });
            let Some(task) = gone.max_by_key(|task| self.drops[*task].lag) else {
                return;
            };
            let slack = self.rounding * ONE;
            let lag = self.drops[task].lag;
            assert!(lag > -slack, "it left before it had paid");
            self.leave(task, |_| 0);
        }
    }

    fn pick(&mut self) {
        if let Some(task) = self.running {
            self.put(task);
        }
        self.running = self.queue.pick(at(self.now));
        self.notice_departures();
    }

    /// Lets the running task, or no task, have the CPU for `nanos` nanoseconds.
    fn run(&mut self, nanos: u64) {
        self.now += nanos;
        if let Some(running) = self.running {
            let whole = self.weight();
            let served = i128::from(nanos) * ONE;
            for drop in self.drops.iter_mut().filter(|drop| drop.inside) {
                drop.lag += served * drop.weight / whole;
            }
            self.drops[running].lag -= served;
        }
        let due = self.queue.account(at(self.now)).is_due();
        self.notice_departures();
        if due || self.running.is_none() {
            self.pick();
        }
    }

    /// Returns the rest of the running task's request, by the clock.
    fn left(&self) -> u64 {
        let slice = self.queue.slice().expect("one runs");
        let work = u64::try_from(slice.left).expect("not over") * slice.weight.get();
        work.div_ceil(Weight::UNIT.get())
    }

    fn sleep(&mut self) {
        let Some(task) = self.running.take() else {
            return;
        };
        let slept = self
            .queue
            .sleep(self.tasks[task].as_ref(), at(self.now))
            .expect("it runs");
        if slept == Sleep::Left {
            let most = self.drops[task].request * ONE;
            self.leave(task, |lag| lag.min(most));
        }
        self.pick();
    }

    fn finish(&mut self) {
        if let Some(task) = self.running.take() {
            self.queue.retire(at(self.now));
            // Another one takes its place, with what the entity remembers: nothing.
            self.tasks[task] = {
                let drop = self.drops[task];
                let weight = Weight::clamped(u64::try_from(drop.weight).expect("positive"));
                let request = u64::try_from(drop.request).expect("positive");
                let request = Request::clamped(Span::from_nanos(request));
                Box::pin(Entity::new(weight, request))
            };
            self.leave(task, |_| 0);
            self.pick();
        }
    }

    fn wake(&mut self, task: usize) {
        if self.running == Some(task) {
            return;
        }
        self.let_go();
        let refused = self
            .queue
            .enqueue(self.tasks[task].as_ref(), task, at(self.now));
        match refused {
            Err(refused) => assert_eq!(refused.item, task, "it waits already"),
            Ok(enqueued) => {
                if !self.drops[task].inside {
                    self.join(task);
                }
                if enqueued.preempts {
                    self.pick();
                }
            }
        }
    }

    fn reweight(&mut self, task: usize, weight: u64) {
        let to = Weight::new(weight).expect("within bounds");
        self.queue
            .reweight(self.tasks[task].as_ref(), to, at(self.now))
            .expect("it is here");
        self.drops[task].weight = i128::from(weight);
        self.round(2);
    }

    /// Lets a waiting task leave, as if for another queue, and return with its lag.
    fn travel(&mut self, task: usize) {
        let waited = self.queue.dequeue(self.tasks[task].as_ref(), at(self.now));
        if let Some(item) = waited {
            // One that slept is owed nothing.
            let most = item.map_or(0, |_| self.drops[task].request * ONE);
            self.leave(task, |lag| lag.min(most));
            self.put(task);
        }
    }

    /// Lets another worker pull a task and return it with its lag.
    fn pull(&mut self) {
        let Some(task) = self.queue.pull(at(self.now)) else {
            self.notice_departures();
            return;
        };
        // Those that slept and had paid were let go before.
        self.pulled = Some(task);
        self.notice_departures();
        self.pulled = None;
        let most = self.drops[task].request * ONE;
        self.leave(task, |lag| lag.min(most));
        self.put(task);
    }

    /// Compares the queue with the fluid, and checks the sum of all lags.
    fn check(&mut self) {
        self.queue.tree.assert_valid();
        let slack = self.rounding;
        let mut sum = 0;
        for task in 0..self.tasks.len() {
            let drop = self.drops[task];
            let lag = if self.running == Some(task) {
                self.queue.current_lag()
            } else {
                self.queue.lag(self.tasks[task].as_ref())
            };
            assert_eq!(lag.is_some(), drop.inside, "task {task}");
            let Some(lag) = lag else {
                continue;
            };
            sum += drop.lag;
            let fluid = drop.lag.div_euclid(ONE);
            let apart = (i128::from(lag) - fluid).abs();
            assert!(
                apart <= slack,
                "task {task}: {lag} ns, in the fluid {fluid} ns, {slack} allowed"
            );
        }
        assert!(sum.abs() <= slack * ONE, "lags come to nothing");
    }

    fn check_bound(&self) {
        let slack = self.rounding;
        for (task, drop) in self
            .drops
            .iter()
            .enumerate()
            .filter(|(_, drop)| drop.inside)
        {
            let lag = drop.lag.div_euclid(ONE);
            let most = drop.request.max(self.granularity) + slack;
            assert!(
                (-most..=most).contains(&lag),
                "task {task} is owed {lag} ns, {most} allowed"
            );
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    Run(u64),
    Sleep,
    Finish,
    Wake(usize),
    Reweight(usize, u64),
    Travel(usize),
    Pull,
}

const MOST: usize = 8;

fn weights() -> impl Strategy<Value = u64> {
    prop_oneof![
        Just(1 << 10),
        Just(1 << 20),
        Just(3 << 20),
        Just(88_761 << 10),
        Just(1 << 30),
        (1_u64 << 18)..(1 << 24),
    ]
}

fn requests() -> impl Strategy<Value = u64> {
    prop_oneof![
        Just(10_000),
        Just(3_000_000),
        Just(100_000_000),
        10_000_u64..10_000_000
    ]
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let task = 0..MOST;
    let step = prop_oneof![
        8 => (1_u64..200_000).prop_map(Step::Run),
        2 => (1_u64..20_000_000).prop_map(Step::Run),
        2 => Just(Step::Sleep),
        1 => Just(Step::Finish),
        4 => task.clone().prop_map(Step::Wake),
        1 => (task.clone(), weights()).prop_map(|(task, weight)| Step::Reweight(task, weight)),
        1 => task.prop_map(Step::Travel),
        1 => Just(Step::Pull),
    ];
    prop::collection::vec(step, 1..200)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// The queue owes each task the same service as the fluid, at all times.
    #[test]
    fn lags_are_those_of_the_fluid(
        tasks in prop::collection::vec((weights(), requests()), MOST),
        steps in steps(),
    ) {
        let mut world = World::new(&tasks, 0);
        for step in steps {
            match step {
                Step::Run(nanos) => world.run(nanos),
                Step::Sleep => world.sleep(),
                Step::Finish => world.finish(),
                Step::Wake(task) => world.wake(task),
                Step::Reweight(task, weight) => world.reweight(task, weight),
                Step::Travel(task) => world.travel(task),
                Step::Pull => world.pull(),
            }
            world.check();
        }
    }

    /// The bound of the report: all compete all the time, and a decision is made at each tick and at the end of each
    /// request, as a slice timer does.
    #[test]
    fn no_lag_is_beyond_a_request_in_a_steady_system(
        tasks in prop::collection::vec((weights(), requests()), 1..MOST),
        tick in 1_000_u64..5_000_000,
        ticks in 1_usize..400,
    ) {
        let longest = tasks.iter().map(|(_, request)| *request).max().unwrap_or(0);
        let mut world = World::new(&tasks, longest);
        for task in 0..tasks.len() {
            world.put(task);
        }
        world.pick();
        for _ in 0..ticks {
            let left = world.left().min(tick);
            world.run(left);
            world.check();
            world.check_bound();
        }
    }

    /// Tasks sleep, wake up, finish, and change their weight: the lags of tasks that left without them are with the
    /// others. No theorem, but what was found: one request is exceeded by a seventh in one history of 1,200, two in
    /// none of 3,000.
    #[test]
    fn no_lag_is_beyond_two_requests_while_tasks_come_and_go(
        tasks in prop::collection::vec((weights(), requests()), MOST),
        tick in 1_000_u64..5_000_000,
        steps in steps(),
    ) {
        let longest = tasks.iter().map(|(_, request)| *request).max().unwrap_or(0);
        let mut world = World::new(&tasks, 2 * longest);
        for step in steps {
            match step {
                Step::Run(_) if world.running.is_some() => {
                    let left = world.left().min(tick);
                    world.run(left);
                }
                Step::Run(nanos) => world.run(nanos),
                Step::Sleep => world.sleep(),
                Step::Finish => world.finish(),
                Step::Wake(task) => world.wake(task),
                Step::Reweight(task, weight) => world.reweight(task, weight),
                Step::Travel(task) => world.travel(task),
                Step::Pull => world.pull(),
            }
            world.check();
            world.check_bound();
        }
    }
}
