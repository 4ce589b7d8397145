//! The lateness of a sleep of 200 µs, compared with the operating system's own sleeps.

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::epoll;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use tickless::{Parking, Worker};

use crate::rounds::{Group, Subject};
use crate::subjects::TOKIO;
use crate::threads::{runtime, warm_up};

const PERIOD: Duration = Duration::from_micros(200);

pub(crate) const BARE: &str = "limit: timerfd and epoll_wait, bare";
pub(crate) const SPINS: &str = "tickless, a worker that spins";
pub(crate) const FROM_INSIDE_TOKIO: &str = "tickless, from inside tokio";
pub(crate) const ATTACHED: &str = "tickless, from inside tokio, attached";

/// Returns the lateness of a sleep that began at `start`, in nanoseconds.
fn late(start: Instant) -> f64 {
    let late = start.elapsed().checked_sub(PERIOD);
    #[expect(clippy::cast_precision_loss, reason = "for printing")]
    {
        late.expect("a sleep never ends early").as_nanos() as f64
    }
}

/// Returns the lateness of each of `count` sleeps.
fn each(count: u64, mut sleep: impl FnMut(Duration)) -> Vec<f64> {
    (0..count)
        .map(|_| {
            let start = Instant::now();
            sleep(PERIOD);
            late(start)
        })
        .collect()
}

/// Does the same as [`each`], in one task of a tokio runtime.
fn each_in_tokio<S, F>(runtime: &tokio::runtime::Runtime, count: u64, sleep: S) -> Vec<f64>
where
    S: Fn(Duration) -> F + Send + 'static,
    F: Future<Output = ()> + Send,
{
    let task = async move {
        let mut lates = Vec::new();
        for _ in 0..count {
            let start = Instant::now();
            sleep(PERIOD).await;
            lates.push(late(start));
        }
        lates
    };
    runtime.block_on(async { tokio::spawn(task).await.expect("no panic") })
}

/// Returns the value that `percent` percent of the sorted values do not exceed.
fn percentile(sorted: &[f64], percent: usize) -> f64 {
    sorted
        .get((sorted.len() * percent / 100).min(sorted.len() - 1))
        .copied()
        .unwrap_or(f64::NAN)
}

/// A bare `timerfd` in an epoll instance: the least that a thread can do to sleep exactly.
struct Bare {
    timer: OwnedFd,
    epoll: OwnedFd,
}

impl Bare {
    fn new() -> std::io::Result<Self> {
        let timer = timerfd_create(
            TimerfdClockId::Monotonic,
            TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK,
        )?;
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        epoll::add(
            &epoll,
            &timer,
            epoll::EventData::new_u64(0),
            epoll::EventFlags::IN,
        )?;
        Ok(Self { timer, epoll })
    }

    fn sleep(&self, duration: Duration) -> std::io::Result<()> {
        let zero = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        let value = Timespec {
            tv_sec: i64::try_from(duration.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(duration.subsec_nanos()),
        };
        let new = Itimerspec {
            it_interval: zero,
            it_value: value,
        };
        timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &new)?;
        let mut events = [epoll::Event {
            flags: epoll::EventFlags::empty(),
            data: epoll::EventData::new_u64(0),
        }];
        epoll::wait(&self.epoll, &mut events[..], None)?;
        rustix::io::read(&self.timer, &mut [0; 8])?;
        Ok(())
    }
}

/// A function that sleeps a given number of times and returns the lateness of each sleep.
type Sleeper = Box<dyn FnMut(u64) -> Vec<f64>>;

/// A function that makes a sleeper on the thread that will use it.
type Make = fn() -> Sleeper;

/// Runs `make`, and the sleeper that it makes, on a thread of their own. Each call of the returned function requests
/// `count` sleeps.
fn on_a_thread(count: u64, make: Make) -> impl FnMut() -> Vec<f64> {
    let (ask, asked) = std::sync::mpsc::channel::<()>();
    let (answer, answers) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let mut sleep = make();
        while asked.recv().is_ok() {
            let mut lates = sleep(count);
            lates.sort_by(f64::total_cmp);
            let _gone = answer.send(lates);
        }
    });
    move || {
        let _gone = ask.send(());
        answers.recv().unwrap_or_default()
    }
}

fn worker_that(parking: Parking) -> Sleeper {
    let worker = Worker::with_parking(parking).expect("this thread is no worker yet");
    warm_up(&worker);
    Box::new(move |count| {
        each(count, |duration| {
            worker.block_on(tickless::time::sleep(duration))
        })
    })
}

fn bare() -> Sleeper {
    // As a worker has it: without, the kernel is allowed 50 µs.
    let _best_effort = rustix::thread::set_current_timer_slack(Some(std::num::NonZeroU64::MIN));
    let bare = Bare::new().expect("descriptors are to be had");
    Box::new(move |count| {
        each(count, |duration| {
            bare.sleep(duration).expect("a timer can be waited for")
        })
    })
}

fn inside_tokio() -> Sleeper {
    let runtime = runtime();
    Box::new(move |count| each_in_tokio(&runtime, count, tickless::time::sleep))
}

/// Makes a sleeper in a tokio runtime whose own reactor fires the timers of its workers.
fn inside_attached_tokio() -> Sleeper {
    let mut builder = tickless::tokio::Builder::new_multi_thread();
    builder.tokio().worker_threads(2).enable_all();
    let runtime = builder.build().expect("a runtime can be built");
    Box::new(move |count| each_in_tokio(&runtime, count, tickless::time::sleep))
}

fn tokio_itself() -> Sleeper {
    let runtime = runtime();
    Box::new(move |count| each_in_tokio(&runtime, count, tokio::time::sleep))
}

pub(super) fn measure(group: &mut Group<'_>) {
    let count = group.operations(1_000);
    let sleepers: [(&'static str, Make); 6] = [
        ("tickless", || worker_that(Parking::Sleep)),
        (BARE, bare),
        (SPINS, || worker_that(Parking::Spin)),
        (FROM_INSIDE_TOKIO, inside_tokio),
        (ATTACHED, inside_attached_tokio),
        (TOKIO, tokio_itself),
    ];
    let subjects = sleepers.into_iter().map(|(name, make)| {
        let mut run = on_a_thread(count, make);
        let measure = move || {
            let late = run();
            [50, 99].map(|percent| percentile(&late, percent))
        };
        (name, Box::new(measure) as Box<dyn FnMut() -> [f64; 2]>)
    });
    let subjects: Vec<Subject<'_, 2>> = subjects.collect();
    group.measure([("p50", 0, 1), ("p99", 0, 1)], subjects);
}
