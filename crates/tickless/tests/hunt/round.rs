//! The rounds of the test: executors, threads of no executor, and their ends.

use std::future::Future as _;
use std::mem;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicIsize, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, RwLock};
use std::task::{Context, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use tickless::executor::PanicPolicy;
use tickless::{Executor, time};

use crate::script;
use crate::world::{Deed, Evil, Random, World, guarded, lock};

fn executor(random: &mut Random) -> Executor {
    let mut builder = Executor::builder()
        .workers(1 + random.index(3))
        .blocking_threads(2);
    if random.one_in(12) {
        builder = builder.on_panic(PanicPolicy::ShutDown);
    }
    builder.build().expect("there are threads")
}

/// Ends an executor by a shutdown, by the drop of the last handle that no thread uses, by both, or by neither.
pub(crate) fn end(world: &World, number: usize, random: &mut Random) {
    let executor = random.one_in(2).then(|| world.executor(number));
    if let Some(executor) = executor.flatten() {
        Deed::Shutdown.count();
        executor.shutdown(Duration::from_micros(random.below(3_000)));
    }
    if random.one_in(2) {
        drop_executor(world, number);
    }
}

fn drop_executor(world: &World, number: usize) {
    if let Some(executor) = world.take_executor(number) {
        Deed::Drop.count();
        drop(executor);
    }
}

pub(crate) fn run(seed: u64) {
    let mut random = Random::new(seed);
    let executors: Vec<_> = (0..1 + random.below(3))
        .map(|_| RwLock::new(Some(Arc::new(executor(&mut random)))))
        .collect();
    let count = executors.len();
    let world = Arc::new(World {
        wakers: Mutex::default(),
        handles: Mutex::default(),
        live: AtomicIsize::new(0),
        spawned: AtomicUsize::new(0),
        most: 20 + random.index(200),
        seeds: AtomicU64::new(random.next()),
        executors,
        is_over: AtomicBool::new(false),
    });
    for number in 0..count {
        if let Some(executor) = world.executor(number) {
            for _ in 0..random.below(12) {
                script::spawn_on(&world, &executor, number, &mut random);
            }
        }
    }
    let threads: Vec<_> = (0..random.below(4))
        .map(|_| {
            let (world, random) = (Arc::clone(&world), random.fork());
            thread::spawn(move || beside(&world, random))
        })
        .collect();
    thread::sleep(Duration::from_micros(random.below(2_500)));
    for _ in 0..2 {
        for number in 0..count {
            end(&world, number, &mut random);
        }
        thread::sleep(Duration::from_micros(random.below(800)));
    }
    let mut order: Vec<_> = (0..count).collect();
    if random.one_in(2) {
        order.reverse();
    }
    for number in order {
        drop_executor(&world, number);
    }
    world.is_over.store(true, Ordering::SeqCst);
    for thread in threads {
        thread.join().expect("it catches what is drawn");
    }
    empty(&world);
}

/// Waits until all values of the round are dropped. The watchdog ends the process if this takes too long.
fn empty(world: &Arc<World>) {
    loop {
        let wakers = mem::take(&mut *lock(&world.wakers));
        guarded(|| drop(wakers));
        // By itself: in the head of the loop the guard would live as long as that.
        let handles = mem::take(&mut *lock(&world.handles));
        for handle in handles {
            if handle.is_finished() {
                guarded(|| drop(handle));
            } else {
                world.put(handle);
            }
        }
        if lock(&world.handles).is_empty() && world.live.load(Ordering::SeqCst) == 0 {
            return;
        }
        thread::sleep(Duration::from_micros(100));
    }
}

/// Runs a thread of no executor, which takes random actions until the round is over.
fn beside(world: &Arc<World>, mut random: Random) {
    let wakes_alone = random.one_in(3);
    while !world.is_over.load(Ordering::SeqCst) {
        let deed = if wakes_alone { 0 } else { random.below(12) };
        guarded(|| act(deed, world, &mut random));
    }
}

fn act(deed: u64, world: &Arc<World>, random: &mut Random) {
    let number = random.index(world.executors.len());
    match deed {
        0..5 => world.wake_one(random),
        5 => world.abort_one(random),
        6..8 => {
            if let Some(executor) = world.executor(number) {
                script::spawn_on(world, &executor, number, random);
            }
        }
        8 => poll_with_evil(world, random),
        9 => poll_for_a_moment(world, random),
        10 => {
            if let (Some(executor), Some(handle)) =
                (world.executor(number), world.take_handle(random))
            {
                Deed::Wait.count();
                let limit = Duration::from_micros(random.below(200));
                executor.block_on(async { drop(time::timeout(limit, handle).await) });
            }
        }
        _ => thread::sleep(Duration::from_micros(random.below(100))),
    }
}

/// Polls a handle once, with a waker that takes a random action.
fn poll_with_evil(world: &Arc<World>, random: &mut Random) {
    let Some(mut handle) = world.take_handle(random) else {
        return;
    };
    let waker = Waker::from(Arc::new(Evil(Arc::clone(world), random.below(6))));
    let mut is_pending = false;
    guarded(|| {
        let polled = Pin::new(&mut handle).poll(&mut Context::from_waker(&waker));
        is_pending = polled.is_pending();
    });
    guarded(|| drop(waker));
    if is_pending {
        world.put(handle);
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Polls a handle as a waiting thread does, and returns the handle to the round if the wait takes long.
fn poll_for_a_moment(world: &World, random: &mut Random) {
    let Some(mut handle) = world.take_handle(random) else {
        return;
    };
    Deed::Wait.count();
    let end = Instant::now() + Duration::from_micros(random.below(500));
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    while Instant::now() < end {
        if Pin::new(&mut handle).poll(&mut context).is_ready() {
            return;
        }
        thread::park_timeout(Duration::from_micros(50));
    }
    world.put(handle);
}
