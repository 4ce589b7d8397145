//! A comparison of two ways to arm a coarse timer: on the CPU where its user runs, or on a busy CPU that is found by a
//! search at enqueue. This comparison is the native counterpart of the headline `enqueue`.
//!
//! Both sides drive the same core, and the CPU that arms is isolated. *Locally* the CPU enqueues the timer on its own
//! wheel. *With a search* the CPU reads the states of the other CPUs, the nearest first, until it finds a busy CPU. It
//! enqueues the timer on the wheel of the busy CPU, under the lock of that CPU. Deleting the timer takes the same lock
//! again. If all CPUs are idle, the search reads every state in vain, and the timer is enqueued on the first CPU, which
//! is the housekeeper.
//!
//! # States that the search reads
//!
//! Each CPU has a cache line with three words: its current task, the number of waiting tasks, and a flag for a task
//! that is about to be woken. The search stops at the first CPU with a word that is not zero. A second thread gives one
//! CPU after the other a new state, about one each microsecond. The state is busy with the probability that the title
//! says. So cache lines move between the two threads from time to time, as they do when CPUs become idle and busy
//! again.
//!
//! # Limits
//!
//! The figure of the search is a lower bound. There is one other thread, so the lines of all simulated CPUs are in two
//! caches that are near each other. On a real machine with that many CPUs each line, and the locked base, would come
//! from another core or socket. No other CPU uses its own base meanwhile, so the lock of that base is never contended.
//! The kick of a sleeping CPU is not sent. To show the contribution of the biased lock, the local side is also measured
//! with an ordinary lock, which the remote bases have.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;

use fastrand::Rng;
use tickless_core::base::Timers;
use tickless_core::coarse::{Tick, WheelKind};
use tickless_core::platform::CpuId;
use tickless_link::sync::CachePadded;

use super::Sink;
use crate::harness::{Group, Options, Subject, time};
use crate::host::{self, Choice, Host};

/// The part of a CPU's state that other CPUs can see.
#[derive(Debug, Default)]
struct State {
    task: AtomicU32,
    waiting: AtomicU32,
    about_to_wake: AtomicU32,
}

impl State {
    // Relaxed, both: an answer that is out of date sends a timer to a CPU that is idle by now.
    fn is_busy(&self) -> bool {
        [&self.task, &self.waiting, &self.about_to_wake]
            .iter()
            .any(|word| word.load(Ordering::Relaxed) != 0)
    }

    fn set(&self, busy: bool) {
        self.task.store(u32::from(busy), Ordering::Relaxed);
    }
}

/// A search for a busy CPU, made only while it is `on`.
struct Search {
    on: bool,
    states: Arc<[CachePadded<State>]>,
}

impl Choice for Search {
    #[inline]
    fn choose(&self) -> Option<CpuId> {
        if !self.on {
            return None;
        }
        let others = (1_u32..).zip(&self.states[1..]);
        let mut busy = others.filter(|(_, state)| state.is_busy());
        Some(busy.next().map_or(CpuId(1), |(cpu, _)| CpuId(cpu)))
    }
}

/// The share of the other CPUs that are busy.
#[derive(Clone, Copy, Debug)]
enum Busy {
    AQuarter,
    None,
}

impl Busy {
    const fn name(self) -> &'static str {
        match self {
            Self::AQuarter => "a quarter of the others busy",
            Self::None => "all others idle",
        }
    }

    fn draw(self, random: &mut Rng) -> bool {
        matches!(self, Self::AQuarter) && random.u8(..4) == 0
    }
}

const NOW: Tick = Tick(1);

/// Arms a timer and deletes it `operations` times. Returns the nanoseconds for one pair.
fn pairs(timers: &Timers<Host<Search>>, operations: u64) -> f64 {
    let timer = host::coarse(WheelKind::Global);
    let timer = timer.as_ref();
    time(operations, || {
        for operation in 0..operations {
            let armed = timer.arm(timers, NOW, Tick(100 + operation % 1_000));
            debug_assert!(armed.is_ok());
            timer.delete(timers);
        }
    })
}

/// Runs `body` while another thread keeps giving CPUs new states.
fn beside_others(states: &[CachePadded<State>], busy: Busy, body: impl FnOnce()) {
    let mut random = Rng::with_seed(17);
    for state in states {
        state.set(busy.draw(&mut random));
    }
    let (runs, stop) = (AtomicBool::new(false), AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                runs.store(true, Ordering::Relaxed);
                states[random.usize(..states.len())].set(busy.draw(&mut random));
                for _ in 0..SPINS {
                    std::hint::spin_loop();
                }
            }
        });
        while !runs.load(Ordering::Relaxed) {
            thread::yield_now();
        }
        body();
        stop.store(true, Ordering::Relaxed);
    });
}

/// The number of spins that take about a microsecond.
const SPINS: u32 = 30;

pub(super) fn measure(options: &Options, sink: Sink<'_>) {
    for cpus in [8, 32, 128, 512] {
        for busy in [Busy::AQuarter, Busy::None] {
            let states: Arc<[_]> = (0..cpus).map(|_| CachePadded::default()).collect();
            // Each side has bases of its own, so that none warms up what another one uses.
            let machine = |owned, on| {
                let states = Arc::clone(&states);
                host::timers(cpus, owned, Search { on, states })
            };
            let biased = machine(true, false);
            let ordinary = machine(false, false);
            let searching = machine(false, true);
            // A millisecond at most: most of them are over before the scheduler interferes.
            let operations = options.operations(20_000);
            let title = format!(
                "arm a coarse timer and delete it on an isolated CPU of {cpus}, {}",
                busy.name()
            );
            let subjects: Vec<Subject<'_>> = vec![
                ("tickless", Box::new(|| pairs(&biased, operations))),
                (ORDINARY, Box::new(|| pairs(&ordinary, operations))),
                (SEARCH, Box::new(|| pairs(&searching, operations))),
            ];
            beside_others(&states[1..], busy, || {
                sink(Group::measure(title, 0, options, subjects).threads(2));
            });
        }
    }
}

const ORDINARY: &str = "locally, with an ordinary lock";
const SEARCH: &str = "with a search, and the lock of the target";
