//! The random script of a task.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::thread;
use std::time::Duration;

use tickless::task::{self, JoinHandle, Spec, Weight};
use tickless::{Executor, coop, time};

use crate::round;
use crate::world::{Deed, Random, Value, World, guarded, lock, panic};

/// The maximum number of generations of tasks that tasks spawn.
const DEEP: u32 = 3;

fn spec(random: &mut Random) -> Spec {
    match random.below(6) {
        0 => Spec::new().weight(Weight::UNIT.times(2)),
        1 => Spec::new().name("named"),
        _ => Spec::new(),
    }
}

fn keep(world: &World, random: &mut Random, handle: JoinHandle<Value>) {
    if random.one_in(3) {
        handle.detach();
    } else {
        world.put(handle);
    }
}

/// Spawns a task on the worker that calls this function.
pub(crate) fn spawn(world: &Arc<World>, random: &mut Random, at: usize, depth: u32) {
    if world.may_spawn() {
        Deed::Task.count();
        let value = Value::new(world, random, "task");
        let body = script(value, Arc::clone(world), random.fork(), at, depth);
        let spec = spec(random);
        keep(world, random, task::spawn_with(spec, body));
    }
}

/// Spawns a task that stays on the worker that calls this function.
pub(crate) fn spawn_local(world: &Arc<World>, random: &mut Random, at: usize, depth: u32) {
    if world.may_spawn() {
        Deed::Local.count();
        let value = Value::new(world, random, "local");
        let body = script(value, Arc::clone(world), random.fork(), at, depth);
        let of_this_thread = Rc::new(Cell::new(false));
        let spawned = task::spawn_local_with(spec(random), async move {
            let value = body.await;
            of_this_thread.set(true);
            value
        });
        keep(world, random, spawned);
    }
}

pub(crate) fn spawn_on(world: &Arc<World>, executor: &Executor, at: usize, random: &mut Random) {
    if world.may_spawn() {
        Deed::Task.count();
        let value = Value::new(world, random, "task");
        let body = script(value, Arc::clone(world), random.fork(), at, 0);
        let spec = spec(random);
        keep(world, random, executor.spawn_with(spec, body));
    }
}

/// Returns a future that stores the waker of its task in the world, `times` times.
fn leave(world: &Arc<World>, times: u64) -> impl Future<Output = ()> + Send + 'static {
    let world = Arc::clone(world);
    let mut left = times;
    poll_fn(move |context| {
        if left == 0 {
            return Poll::Ready(());
        }
        left -= 1;
        let waker = context.waker().clone();
        lock(&world.wakers).push(waker);
        Poll::Pending
    })
}

fn script(
    value: Value,
    world: Arc<World>,
    mut random: Random,
    at: usize,
    depth: u32,
) -> Pin<Box<dyn Future<Output = Value> + Send>> {
    Box::pin(async move {
        let mut values = Vec::new();
        for _ in 0..random.below(8) {
            let deed = random.below(20);
            value.note(deed);
            match deed {
                0..2 => coop::yield_now().await,
                2..4 => time::sleep(Duration::from_nanos(random.below(300_000))).await,
                4..7 => leave(&world, 1 + random.below(3)).await,
                15 => wait(&world, &mut random).await,
                19 => values.push(Value::new(&world, &mut random, "value")),
                deed => at_once(deed, &world, &mut random, at, depth),
            }
        }
        // Not at the end: the compiler leaks a value that is returned when the drop of a local panics.
        drop(values);
        value.note("waits");
        if random.one_in(3) {
            leave(&world, u64::MAX).await;
        }
        value.note("ends");
        value
    })
}

/// Waits for another task, or for a short time.
async fn wait(world: &World, random: &mut Random) {
    let Some(handle) = world.take_handle(random) else {
        return;
    };
    Deed::Wait.count();
    if random.one_in(2) {
        let limit = Duration::from_micros(random.below(200));
        drop(time::timeout(limit, handle).await);
    } else {
        drop(handle.await);
    }
}

/// Does a deed that involves no wait.
fn at_once(deed: u64, world: &Arc<World>, random: &mut Random, at: usize, depth: u32) {
    let next = at.saturating_add(1);
    let others = world.executors.len().saturating_sub(next);
    match deed {
        7..9 => world.wake_one(random),
        9 => world.abort_one(random),
        10..12 if depth < DEEP => spawn(world, random, at, depth + 1),
        12..=14 if depth < DEEP => guarded(|| spawn_local(world, random, at, depth + 1)),
        16 if random.one_in(6) => panic(),
        // An executor further on: ends that wait for each other in a circle would wait for ever.
        17 if others > 0 && random.one_in(6) => {
            let number = next + random.index(others);
            round::end(world, number, random);
            Deed::NestedEnd.count();
        }
        18 if others > 0 && random.one_in(2) => {
            if let Some(executor) = world.executor(next) {
                spawn_on(world, &executor, next, random);
            }
        }
        18 if random.one_in(3) && world.may_spawn() => {
            Deed::Blocking.count();
            let value = Value::new(world, random, "blocking");
            let (of_job, mut drawn) = (Arc::clone(world), random.fork());
            let job = task::spawn_blocking(move || {
                of_job.wake_one(&mut drawn);
                thread::sleep(Duration::from_micros(drawn.below(300)));
                value
            });
            keep(world, random, job);
        }
        _ => {}
    }
}
