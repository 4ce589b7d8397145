//! A sleep of 200 µs inside of tokio, with nothing set up and in a runtime that was detached, compared with a bare
//! `timerfd` with `epoll_wait`: how late it ends, and the processor time of the process.
//!
//! The candidates are measured in turn in each round, so that other work on the machine affects all of them. A spawned
//! task measures: the future of `block_on` on a multi-thread runtime is woken by a worker and always needs a second
//! wake-up.
//!
//! `cargo run --release -p tickless --features tokio --example tokio_reactor`
#![expect(clippy::print_stdout, reason = "it shows what it measures")]

use std::error::Error;
use std::io;
use std::time::{Duration, Instant};

use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::time::{
    ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, clock_gettime,
    timerfd_create, timerfd_settime,
};
use tickless::time::sleep;
use tokio::runtime::{Builder, Runtime};

const ASKED: Duration = Duration::from_micros(200);
const ROUNDS: usize = 9;
const SLEEPS: u32 = 1_000;

/// What was measured of one candidate.
struct Figures {
    name: &'static str,
    late: Vec<Duration>,
    /// The processor time of a sleep, of each round.
    used: Vec<Duration>,
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut two = Builder::new_multi_thread();
    let two = two.worker_threads(2);
    let mut one = Builder::new_current_thread();
    let subjects = [
        ("timerfd and epoll_wait", None),
        ("current-thread", Some(one.enable_all().build()?)),
        ("current-thread, detached", Some(one.build()?)),
        ("multi-thread", Some(two.enable_all().build()?)),
        ("multi-thread, detached", Some(two.build()?)),
    ];
    let mut figures = subjects.each_ref().map(|(name, _)| Figures {
        name,
        late: Vec::new(),
        used: Vec::new(),
    });
    for _ in 0..ROUNDS {
        for ((name, runtime), figures) in subjects.iter().zip(&mut figures) {
            let before = used();
            match runtime {
                None => bare_loop(&mut figures.late)?,
                Some(runtime) => {
                    let is_detached = name.ends_with("detached");
                    figures.late.extend(in_a_task(runtime, is_detached)?);
                }
            }
            figures.used.push((used() - before) / SLEEPS);
        }
    }
    println!("{ROUNDS} rounds of {SLEEPS} sleeps of {ASKED:?}:");
    let mut bare = None;
    for Figures { name, late, used } in &mut figures {
        late.sort_unstable();
        used.sort_unstable();
        let median = used[ROUNDS / 2];
        let bare = *bare.get_or_insert(median);
        println!(
            "  {name:25} late p50 {:>8.1?}  p99 {:>8.1?}   processor time {median:>7.1?} ({:.1?} to {:.1?}), {:.2} of the first",
            late[late.len() / 2],
            late[late.len() * 99 / 100],
            used[0],
            used[ROUNDS - 1],
            median.as_secs_f64() / bare.as_secs_f64()
        );
    }
    let stats = tickless::stats();
    println!(
        "{} timers fired by reactors, {} by the expiry thread in their place",
        stats.reactor_expired, stats.fallback_expired
    );
    Ok(())
}

/// Returns the processor time that the process has used.
fn used() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::try_from(time).unwrap_or_default()
}

fn in_a_task(
    runtime: &Runtime,
    is_detached: bool,
) -> Result<Vec<Duration>, tokio::task::JoinError> {
    runtime.block_on(async {
        let measured = tokio::spawn(async move {
            if is_detached {
                tickless::tokio::detach().expect("it runs in a runtime");
            }
            let mut late = Vec::new();
            for _ in 0..SLEEPS {
                let start = Instant::now();
                sleep(ASKED).await;
                late.push(start.elapsed() - ASKED);
            }
            late
        });
        measured.await
    })
}

/// Measures the lower limit for all libraries: the kernel's timer in a loop of one thread.
fn bare_loop(late: &mut Vec<Duration>) -> io::Result<()> {
    let timer = timerfd_create(
        TimerfdClockId::Monotonic,
        TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK,
    )?;
    let epoll = epoll::create(CreateFlags::CLOEXEC)?;
    let edge = EventFlags::IN | EventFlags::ET;
    epoll::add(&epoll, &timer, EventData::new_u64(0), edge)?;
    let zero = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    let once = Itimerspec {
        it_interval: zero,
        it_value: Timespec {
            tv_sec: 0,
            tv_nsec: i64::from(ASKED.subsec_nanos()),
        },
    };
    for _ in 0..SLEEPS {
        let start = Instant::now();
        timerfd_settime(&timer, TimerfdTimerFlags::empty(), &once)?;
        let mut events = [Event {
            flags: EventFlags::empty(),
            data: EventData::new_u64(0),
        }];
        while epoll::wait(&epoll, &mut events, None)? == 0 {}
        late.push(start.elapsed() - ASKED);
    }
    Ok(())
}
