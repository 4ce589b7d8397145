//! A sleep of 200 µs inside of tokio, with the runtime attached and without, compared with a bare `timerfd` with
//! `epoll_wait`.
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
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use tickless::time::sleep;
use tokio::runtime::{Builder, Runtime};

const ASKED: Duration = Duration::from_micros(200);
const ROUNDS: usize = 10;
const SLEEPS: usize = 200;

fn main() -> Result<(), Box<dyn Error>> {
    let plain = |mut builder: Builder| builder.enable_all().build();
    let attached = |mut builder: tickless::tokio::Builder| {
        builder.tokio().worker_threads(2).enable_all();
        builder.build()
    };
    let mut two = Builder::new_multi_thread();
    two.worker_threads(2);
    let subjects = [
        ("multi-thread", plain(two)?),
        (
            "multi-thread, attached",
            attached(tickless::tokio::Builder::new_multi_thread())?,
        ),
        ("current-thread", plain(Builder::new_current_thread())?),
        (
            "current-thread, attached",
            attached(tickless::tokio::Builder::new_current_thread())?,
        ),
    ];
    let mut bare = Vec::new();
    let mut late: Vec<(&str, Vec<Duration>)> = subjects
        .iter()
        .map(|(name, _)| (*name, Vec::new()))
        .collect();
    for _ in 0..ROUNDS {
        bare_loop(&mut bare)?;
        for ((_, runtime), (_, late)) in subjects.iter().zip(&mut late) {
            // Of its own: one that was a runtime's worker is that runtime's until it is another's.
            let measured = std::thread::scope(|scope| scope.spawn(|| in_a_task(runtime)).join());
            late.extend(measured.map_err(|_| "a task panicked")??);
        }
    }
    println!(
        "{} sleeps of {ASKED:?}, how late they end:",
        ROUNDS * SLEEPS
    );
    show("timerfd and epoll_wait", &mut bare);
    for (name, late) in &mut late {
        show(name, late);
    }
    let stats = tickless::stats();
    println!(
        "{} timers fired by reactors, {} by the expiry thread in their place",
        stats.reactor_expired, stats.fallback_expired
    );
    Ok(())
}

fn show(name: &str, late: &mut [Duration]) {
    late.sort_unstable();
    println!(
        "  {name:25} p50 {:>9.1?}   p99 {:>9.1?}",
        late[late.len() / 2],
        late[late.len() * 99 / 100]
    );
}

fn in_a_task(runtime: &Runtime) -> Result<Vec<Duration>, tokio::task::JoinError> {
    runtime.block_on(async {
        let measured = tokio::spawn(async {
            let mut late = Vec::with_capacity(SLEEPS);
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
