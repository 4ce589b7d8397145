//! A thousand tasks that wait for an answer with a timeout, and what the Linux kernel counts of their timers.
//!
//! ```sh
//! cargo laboratory -p tickless-peers --example beside_linux 10
//! ```
//!
//! The same tasks run on the same runtime of tokio, one way after the other: with the timeouts of tokio, with those of
//! this library, with a timerfd of each task, and with timeouts of one io_uring. In the first table ten tasks get their
//! answer each millisecond, long before their timeout of a second; ten of the thousand never get one. In the second
//! table none is answered: each task times out after 100 to 200 ms, over and over. `tickless top` counts what the kernel
//! did for the process, so the figures are not the library's own. As root, with tracefs; the argument is the seconds of
//! each way. `late` is the median of the timeouts.

#![expect(clippy::print_stdout, reason = "the table is what it is for")]

use std::io::{Error, ErrorKind, Read, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::process::{Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use io_uring::squeue::Entry;
use io_uring::types::Timespec;
use io_uring::{IoUring, opcode};
use rustix::fd::{AsFd, OwnedFd};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime,
};
use serde_json::{Value, json};
use tickless::time::{Precision, set_thread_slack};
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncReadExt, Interest};
use tokio::net::unix::pipe;
use tokio::sync::Notify;

/// The tasks, and those of them that get an answer.
const TASKS: u16 = 1_000;
const ANSWERED: u16 = 990;
/// The answers of each millisecond.
const BURST: u16 = 10;
const HEAD: &str = "timeouts of        answers  timeouts    starts   cancels     fires       irq  wake-ups  switches       CPU      late";
/// Whether the tasks are answered, by the argument that says so.
const LOADS: [&str; 2] = ["answered", "unanswered"];
/// The ways to wait with a timeout.
const WAYS: [&str; 5] = [
    "tokio",
    "tickless",
    "tickless, slack",
    "timerfd",
    "io_uring",
];

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<ExitCode, Failure> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    if let [load, way] = &arguments[..]
        && LOADS.contains(&load.as_str())
    {
        return measured(load == LOADS[0], way).map(|()| ExitCode::SUCCESS);
    }
    let seconds = match arguments.first().map(|seconds| seconds.parse()) {
        None => 5,
        Some(Ok(seconds @ 1..=3_600)) => seconds,
        Some(_) => {
            println!("the argument is the seconds of each way, from 1 to 3600");
            return Ok(ExitCode::from(2));
        }
    };
    for load in LOADS {
        println!("{TASKS} tasks, {load}; counts are per second:\n");
        println!("{HEAD}");
        for way in WAYS {
            let (kernel, own) = observed(load, way, Duration::from_secs(seconds))?;
            let own = |key: &str| own[key].as_f64().unwrap_or(f64::NAN);
            let rate = |count: f64| format!("{:>10.0}", count / own("seconds"));
            let sum = |key: &str| {
                let rows = kernel["rows"].as_array().into_iter().flatten();
                rate(rows.filter_map(|row| row[key].as_f64()).sum())
            };
            let counts = ["starts", "cancels", "expiries", "interrupts", "wakes"]
                .map(sum)
                .concat();
            let seen = ["answers", "timeouts"].map(|key| rate(own(key))).concat();
            println!(
                "{way:<16}{seen}{counts}{}{:>8.1} %{:>7.0} us",
                rate(own("switches")),
                own("cpu") / own("seconds") * 100.0,
                own("late") * 1e6,
            );
            if kernel["lost"] != json!(0) {
                println!(
                    "    {} events were lost: the counts are too low",
                    kernel["lost"]
                );
            }
        }
        println!();
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs a way as a process of its own, sends it the answers, and returns what the kernel and the process counted.
fn observed(load: &str, way: &str, length: Duration) -> Result<(Value, Value), Failure> {
    let counts = std::env::temp_dir().join(format!("beside-linux-{}.json", std::process::id()));
    let program = std::env::current_exe()?;
    let tickless = program
        .ancestors()
        .nth(2)
        .map(|directory| directory.join("tickless"))
        .filter(|tickless| tickless.exists())
        .ok_or("no tickless beside it: build it with `cargo tickless --help`")?;
    let mut child = Command::new(tickless)
        .args(["top", "--json"])
        .arg(&counts)
        .arg("--")
        .arg(program)
        .args([load, way])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()?;
    let mut answers = child.stdin.take().ok_or("no pipe")?;
    let (begin, mut next) = (Instant::now(), 0);
    while begin.elapsed() < length {
        std::thread::sleep(Duration::from_millis(1));
        if load != LOADS[0] {
            continue;
        }
        let burst: Vec<u8> = (next..next + BURST)
            .flat_map(|task| (task % ANSWERED).to_ne_bytes())
            .collect();
        next = (next + BURST) % ANSWERED;
        // The child said why, if it has gone.
        if answers.write_all(&burst).is_err() {
            break;
        }
    }
    drop(answers);
    let mut said = String::new();
    child
        .stderr
        .take()
        .ok_or("no pipe")?
        .read_to_string(&mut said)?;
    let status = child.wait()?;
    let kernel = std::fs::read_to_string(&counts).map(|text| serde_json::from_str(&text));
    // What was not made need not be removed.
    let _is_removed = std::fs::remove_file(&counts);
    let own = said.lines().find(|line| line.starts_with('{'));
    match (kernel, own) {
        (Ok(kernel), Some(own)) => Ok((kernel?, serde_json::from_str(own)?)),
        _ => Err(format!("{way}: {status}: {said}").into()),
    }
}

/// Runs the tasks until no more answers come, and writes the process's own counts.
fn measured(is_answered: bool, way: &str) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    if way == "tickless, slack" {
        let _no_slack = set_thread_slack(Precision::Relative);
    }
    let way = match way {
        "tokio" => Way::Tokio,
        "timerfd" => Way::Timerfd,
        "io_uring" => {
            let _entered = runtime.enter();
            Way::Ring(Arc::new(Ring::new(is_answered)?))
        }
        _ => Way::Tickless,
    };
    let counts = Arc::new(Counts::default());
    let begin = Instant::now();
    let (of_tasks, way_of_all) = (Arc::clone(&counts), way.clone());
    let run = async move {
        let answers: Vec<_> = (0..TASKS).map(|_| Arc::new(Notify::new())).collect();
        for (task, answer) in (0..).zip(&answers) {
            let (answer, counts, way) = (Arc::clone(answer), Arc::clone(&of_tasks), way.clone());
            let timeout = timeout(task, is_answered);
            tokio::spawn(async move { way.wait(task, timeout, &answer, &counts).await });
        }
        if let Way::Ring(ring) = way_of_all {
            tokio::spawn(Arc::clone(&ring).submit());
            tokio::spawn(ring.complete());
        }
        let stdin = std::io::stdin().as_fd().try_clone_to_owned()?;
        let mut stdin = pipe::Receiver::from_owned_fd(stdin)?;
        let mut bytes = [0; 4_096];
        loop {
            // A burst is written at once, so no task's number is cut.
            let length = stdin.read(&mut bytes).await?;
            for task in bytes[..length].chunks_exact(2) {
                answers[usize::from(u16::from_ne_bytes([task[0], task[1]]))].notify_one();
            }
            if length == 0 {
                return Ok::<_, Error>(());
            }
        }
    };
    runtime.block_on(async { tokio::spawn(run).await })??;
    let status = std::fs::read_to_string("/proc/self/status")?;
    let switches: Option<u64> = status.lines().find_map(|line| {
        line.strip_prefix("voluntary_ctxt_switches:")?
            .trim()
            .parse()
            .ok()
    });
    let cpu = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    let mut late = std::mem::take(&mut *lock(&counts.late));
    late.sort();
    let late = late.get(late.len() / 2).map(Duration::as_secs_f64);
    let own = json!({
        "seconds": begin.elapsed().as_secs_f64(), "cpu": cpu.tv_sec as f64 + cpu.tv_nsec as f64 / 1e9,
        "switches": switches, "answers": counts.answers.load(Ordering::Relaxed), "timeouts": counts.timeouts.load(Ordering::Relaxed), "late": late,
    });
    writeln!(std::io::stderr(), "{own}")?;
    Ok(())
}

fn timeout(task: u16, is_answered: bool) -> Duration {
    if is_answered {
        Duration::from_secs(1)
    } else {
        Duration::from_millis(100) + u32::from(task) * Duration::from_micros(100)
    }
}

/// Locks what the tasks share. They run on one thread, so all atomic operations are Relaxed, and no lock waits.
fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What the tasks saw.
#[derive(Debug, Default)]
struct Counts {
    answers: AtomicU64,
    timeouts: AtomicU64,
    /// What each timeout was late.
    late: Mutex<Vec<Duration>>,
}

impl Counts {
    fn answer(&self) {
        self.answers.fetch_add(1, Ordering::Relaxed);
    }

    fn time_out(&self, begin: Instant, timeout: Duration) {
        self.timeouts.fetch_add(1, Ordering::Relaxed);
        let late = begin.elapsed().saturating_sub(timeout);
        lock(&self.late).push(late);
    }
}

/// Who makes the timeouts.
#[derive(Clone)]
enum Way {
    Tokio,
    Tickless,
    Timerfd,
    Ring(Arc<Ring>),
}

impl Way {
    /// Waits for answers for ever, each with a timeout.
    async fn wait(
        self,
        task: u16,
        timeout: Duration,
        answer: &Notify,
        counts: &Counts,
    ) -> Result<(), Error> {
        let timerfd = match self {
            Way::Timerfd => Some(watched(timer()?)?),
            _ => None,
        };
        loop {
            let begin = Instant::now();
            let answered = answer.notified();
            let is_answered = match &self {
                Way::Tokio => tokio::time::timeout(timeout, answered).await.is_ok(),
                Way::Tickless => tickless::time::timeout(timeout, answered).await.is_ok(),
                Way::Timerfd => {
                    let timer = timerfd.as_ref().ok_or(ErrorKind::NotFound)?;
                    arm(timer.get_ref(), timeout)?;
                    tokio::select! {
                        () = answered => true,
                        ready = timer.readable() => {
                            // Nothing to read if it was armed anew meanwhile.
                            let _count = rustix::io::read(timer.get_ref(), &mut [0; 8]);
                            ready?.clear_ready();
                            false
                        }
                    }
                }
                Way::Ring(ring) => {
                    ring.arm(task);
                    tokio::select! {
                        () = answered => {
                            ring.cancel(task);
                            true
                        }
                        () = ring.tasks[usize::from(task)].is_over.notified() => false,
                    }
                }
            };
            if is_answered {
                counts.answer();
            } else {
                counts.time_out(begin, timeout);
            }
        }
    }
}

/// Registers what owns a descriptor in the runtime's reactor.
#[expect(
    unsafe_code,
    reason = "tokio does not see that a descriptor stays open"
)]
fn watched<T: AsRawFd>(owner: T) -> Result<AsyncFd<T>, Error> {
    // SAFETY: Each owner here closes its descriptor when it is dropped, and always returns the same one.
    unsafe { AsyncFd::register_with_interest(owner, Interest::READABLE) }.map_err(Into::into)
}

fn timer() -> rustix::io::Result<OwnedFd> {
    timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK)
}

fn arm(timer: &OwnedFd, timeout: Duration) -> Result<Itimerspec, Error> {
    let zero = rustix::time::Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    let it_value = rustix::time::Timespec::try_from(timeout).map_err(Error::other)?;
    timerfd_settime(
        timer,
        TimerfdTimerFlags::empty(),
        &Itimerspec {
            it_interval: zero,
            it_value,
        },
    )
    .map_err(Into::into)
}

/// The timeouts of one io_uring. What the tasks ask for in a turn of the runtime is one system call.
struct Ring {
    ring: AsyncFd<Shared>,
    is_asked: Notify,
    tasks: Vec<Waiting>,
}

/// The ring, for its descriptor and for its queues.
struct Shared(Mutex<IoUring>);

impl AsRawFd for Shared {
    fn as_raw_fd(&self) -> RawFd {
        lock(&self.0).as_raw_fd()
    }
}

/// A task's timeout in the ring.
#[derive(Default)]
struct Waiting {
    /// The number of the timeout, in the upper bits: an earlier one may be over when it is removed.
    number: AtomicU64,
    timeout: Timespec,
    is_over: Notify,
}

impl Ring {
    fn new(is_answered: bool) -> Result<Self, Error> {
        let waiting = |task| Waiting {
            timeout: timeout(task, is_answered).into(),
            ..Waiting::default()
        };
        Ok(Self {
            ring: watched(Shared(Mutex::new(IoUring::new(4_096)?)))?,
            is_asked: Notify::new(),
            tasks: (0..TASKS).map(waiting).collect(),
        })
    }

    /// Asks for a task's next timeout.
    fn arm(&self, task: u16) {
        let Waiting {
            number, timeout, ..
        } = &self.tasks[usize::from(task)];
        let next = (number.load(Ordering::Relaxed) & !0xffff) + 0x1_0000 + u64::from(task);
        number.store(next, Ordering::Relaxed);
        self.push(&opcode::Timeout::new(timeout).build().user_data(next));
    }

    /// Asks to remove a task's timeout.
    fn cancel(&self, task: u16) {
        let number = self.tasks[usize::from(task)].number.load(Ordering::Relaxed);
        self.push(
            &opcode::TimeoutRemove::new(number)
                .build()
                .user_data(u64::MAX),
        );
    }

    #[expect(unsafe_code, reason = "an entry has an address")]
    fn push(&self, entry: &Entry) {
        let mut ring = lock(&self.ring.get_ref().0);
        // SAFETY: The only address in an entry is that of a time in `tasks`, which lives as long as the ring.
        let is_full = unsafe { ring.submission().push(entry) }.is_err();
        assert!(!is_full, "a task has at most two entries in a turn");
        self.is_asked.notify_one();
    }

    /// Submits what the tasks asked for: it is polled after those that were woken with it.
    async fn submit(self: Arc<Self>) -> Result<(), Error> {
        loop {
            self.is_asked.notified().await;
            lock(&self.ring.get_ref().0).submit()?;
        }
    }

    /// Tells the tasks whose timeout is over.
    async fn complete(self: Arc<Self>) -> Result<(), Error> {
        loop {
            self.ring.readable().await?.clear_ready();
            for entry in lock(&self.ring.get_ref().0).completion() {
                let number = entry.user_data();
                let task = usize::try_from(number & 0xffff).unwrap_or(usize::MAX);
                let waiting = self.tasks.get(task);
                if let Some(waiting) =
                    waiting.filter(|waiting| waiting.number.load(Ordering::Relaxed) == number)
                    && entry.result() == -rustix::io::Errno::TIME.raw_os_error()
                {
                    waiting.is_over.notify_waiters();
                }
            }
        }
    }
}
