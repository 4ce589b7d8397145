//! Executes task switches in a queue of a given number of tasks, so that a tool can count the instructions.
//!
//! ```text
//! cargo build --release -p tickless-sched --example switches
//! valgrind --tool=callgrind --toggle-collect='*counted*' target/release/examples/switches 1000 switch
//! ```
//!
//! The number of instructions that valgrind prints, divided by the number of rounds that this program prints, is the
//! cost of one round. A round of `switch` enqueues the running task and picks the next one. A round of `sleep` puts the
//! running task to sleep, picks the next one and wakes the sleeper. A round of `account` checks whether a decision is
//! due.
#![expect(clippy::print_stdout, reason = "a command talks to its user")]

use std::hint::black_box;
use std::pin::Pin;

use tickless_sched::{Entity, FairQueue, Request, RunTime, Weight};

const ROUNDS: u64 = 1_000;
const SLICE: u64 = 3_000_000;

struct World {
    queue: FairQueue<u32>,
    tasks: Vec<Pin<Box<Entity<u32>>>>,
    running: u32,
    now: u64,
}

impl World {
    fn new(count: u32) -> Self {
        let weight = |number: u32| Weight::UNIT.times(1 + number % 3);
        let tasks: Vec<_> = (0..count)
            .map(|number| Box::pin(Entity::new(weight(number), Request::DEFAULT)))
            .collect();
        let mut queue = FairQueue::default();
        for (number, task) in (0..).zip(&tasks) {
            let _joined = queue
                .enqueue(task.as_ref(), number, RunTime::ZERO)
                .expect("new");
        }
        let running = queue.pick(RunTime::ZERO).expect("there are some");
        Self {
            queue,
            tasks,
            running,
            now: 0,
        }
    }

    fn switch(&mut self, slice: u64) {
        self.now += slice;
        let now = RunTime::from_nanos(self.now);
        let task = self.tasks[self.running as usize].as_ref();
        let _back = self.queue.enqueue(task, self.running, now).expect("it ran");
        self.running = self.queue.pick(now).expect("it waits at least");
    }

    fn sleep(&mut self) {
        self.now += 1_000;
        let now = RunTime::from_nanos(self.now);
        let sleeper = self.running;
        let task = self.tasks[sleeper as usize].as_ref();
        let _slept = self.queue.sleep(task, now).expect("it runs");
        let next = self.queue.pick(now);
        let _woken = self.queue.enqueue(task, sleeper, now).expect("it sleeps");
        self.running = next
            .or_else(|| self.queue.pick(now))
            .expect("it waits at least");
    }

    fn account(&mut self) {
        self.now += 100;
        let now = RunTime::from_nanos(self.now);
        let _verdict = black_box(self.queue.account(now));
    }
}

#[inline(never)]
fn counted(world: &mut World, operation: &str) {
    for _ in 0..ROUNDS {
        match operation {
            "switch" => world.switch(SLICE),
            "sleep" => world.sleep(),
            _ => world.account(),
        }
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let count = arguments
        .next()
        .and_then(|count| count.parse().ok())
        .unwrap_or(1_000);
    let operation = arguments.next().unwrap_or_else(|| "switch".to_owned());
    let mut world = World::new(count);
    // What is measured is a queue in use, not one that was just filled.
    for _ in 0..ROUNDS {
        world.switch(SLICE);
    }
    counted(&mut world, black_box(&operation));
    println!("{ROUNDS} rounds of {operation} with {count} tasks");
}
