//! Tests of the promises of every host, with the standard library alone: no timer is early and no timer is lost, on any
//! system.
//!
//! `cargo xtask check --only wine` runs this for Windows. An operation that a host cannot do is an error of the kind `Unsupported`.
#![cfg_attr(windows, expect(unsafe_code, reason = "the test calls the system"))]

use std::future::Future;
use std::io::Write as _;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant, SystemTime};

use tickless::hrtimer::{HrTimer, Restart};
use tickless::realtime::{self, OnSet};
use tickless::{Executor, Worker, coarse, task, time};

/// The time that a test may take before it counts as hanging.
const PATIENCE: Duration = Duration::from_secs(240);

/// The lengths of sleeps, from zero to more than a tick of any system.
const LENGTHS: [Duration; 9] = [
    Duration::ZERO,
    Duration::from_nanos(1),
    Duration::from_micros(20),
    Duration::from_micros(300),
    Duration::from_micros(999),
    Duration::from_micros(1_001),
    Duration::from_micros(5_300),
    Duration::from_millis(17),
    Duration::from_millis(40),
];

/// A guard that ends the process if it is not dropped in time.
struct Patience {
    _over: mpsc::Sender<()>,
}

impl Patience {
    fn begin() -> Self {
        let (over, waits) = mpsc::channel::<()>();
        let test = thread::current().name().unwrap_or("a test").to_owned();
        thread::spawn(move || {
            if waits.recv_timeout(PATIENCE) == Err(mpsc::RecvTimeoutError::Timeout) {
                hang(&test);
            }
        });
        Self { _over: over }
    }
}

/// Ends the process, because `test` hangs.
fn hang(test: &str) -> ! {
    // Past the capturing of the harness, which would keep it for the end that does not come.
    let mut text = format!("{test} hangs\n");
    let _written = tickless::dump(&mut text);
    let _told = std::io::stderr().write_all(text.as_bytes());
    std::process::abort();
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Runs a future on this thread, which is not a worker.
fn block_on<F: Future>(future: F) -> F::Output {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}

/// A waker that counts wake-ups.
#[derive(Default)]
struct Wakes(AtomicU32);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

fn until(mut is_so: impl FnMut() -> bool) {
    while !is_so() {
        thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn no_sleep_of_a_thread_is_early() {
    let _patience = Patience::begin();
    for length in LENGTHS {
        let start = Instant::now();
        block_on(time::sleep(length));
        assert!(start.elapsed() >= length, "{length:?}");
        let deadline = time::Instant::now() + length;
        block_on(time::sleep_until(deadline));
        assert!(time::Instant::now() >= deadline, "{length:?}");
    }
}

#[test]
fn no_sleep_of_a_worker_is_early() {
    let _patience = Patience::begin();
    let worker = Worker::new().expect("the thread is free");
    for length in LENGTHS {
        let start = Instant::now();
        worker.block_on(time::sleep(length));
        assert!(start.elapsed() >= length, "{length:?}");
    }
}

#[test]
fn no_coarse_sleep_is_early() {
    let _patience = Patience::begin();
    for length in LENGTHS {
        let start = Instant::now();
        block_on(coarse::sleep(length));
        assert!(start.elapsed() >= length, "{length:?}");
    }
}

#[test]
fn no_sleep_by_the_time_of_day_is_early() {
    let _patience = Patience::begin();
    for length in LENGTHS {
        let deadline = SystemTime::now() + length;
        block_on(realtime::sleep_until(deadline, OnSet::Follow));
        assert!(SystemTime::now() >= deadline, "{length:?}");
    }
}

#[test]
fn no_sleep_is_lost_or_early_among_many_threads() {
    let _patience = Patience::begin();
    let threads: Vec<_> = (0..8_u64)
        .map(|number| {
            thread::spawn(move || {
                // Lengths that meet and pass each other.
                for round in 0..40 {
                    let length = Duration::from_micros((number * 7_919 + round * 104_729) % 9_000);
                    let start = Instant::now();
                    block_on(time::sleep(length));
                    assert!(start.elapsed() >= length);
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().expect("no sleep is early");
    }
}

/// The expiry thread sleeps until the later timer when the earlier timer is started.
#[test]
fn an_earlier_timer_is_not_kept_by_a_later_one() {
    let _patience = Patience::begin();
    let waker = Waker::from(Arc::new(Wakes::default()));
    let mut later = pin!(time::sleep(Duration::from_secs(3_600)));
    assert!(
        later
            .as_mut()
            .poll(&mut Context::from_waker(&waker))
            .is_pending()
    );
    for round in 0..50 {
        let length = Duration::from_micros(round * 100);
        let start = Instant::now();
        block_on(time::sleep(length));
        assert!(start.elapsed() >= length);
    }
}

#[test]
fn a_timer_that_is_reset_waits_for_its_new_deadline() {
    let _patience = Patience::begin();
    let start = Instant::now();
    block_on(async {
        let mut sleep = pin!(time::sleep(Duration::from_secs(3_600)));
        for length in [3_000, 20, 5] {
            let deadline = time::Instant::now() + Duration::from_millis(length);
            sleep.as_mut().reset(deadline);
        }
        sleep.await;
    });
    assert!(start.elapsed() >= Duration::from_millis(5));
}

#[test]
fn timers_of_threads_that_ended_fire() {
    let _patience = Patience::begin();
    let wakes = Arc::new(Wakes::default());
    let mut sleeps: Vec<Pin<Box<time::Sleep>>> = Vec::new();
    for as_worker in [false, true] {
        let waker = Waker::from(Arc::clone(&wakes));
        let queued = thread::spawn(move || {
            let _worker = as_worker.then(|| Worker::new().expect("the thread is free"));
            let mut sleep = Box::pin(time::sleep(Duration::from_millis(30)));
            let polled = sleep.as_mut().poll(&mut Context::from_waker(&waker));
            assert!(polled.is_pending());
            sleep
        });
        sleeps.push(queued.join().expect("it does not panic"));
    }
    until(|| wakes.0.load(Ordering::SeqCst) >= 2);
    for mut sleep in sleeps {
        let polled = sleep.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert!(polled.is_ready() && time::Instant::now() >= sleep.deadline());
    }
}

#[test]
fn an_unpark_ends_each_park() {
    let _patience = Patience::begin();
    let worker = Worker::new().expect("the thread is free");
    let unparker = worker.unparker();
    let (say, said) = mpsc::channel();
    let other = thread::spawn(move || {
        while said.recv().is_ok() {
            unparker.unpark();
        }
    });
    for _ in 0..500 {
        say.send(()).expect("it listens");
        // May end for no reason; then the notification ends the next one.
        let _turn = worker.park();
    }
    drop(say);
    other.join().expect("it does not panic");
}

#[test]
fn a_periodic_callback_fires_at_each_period_and_not_before() {
    let _patience = Patience::begin();
    let period = Duration::from_millis(3);
    let fired = Arc::new(Mutex::new(Vec::new()));
    let notes = Arc::clone(&fired);
    let timer = pin!(HrTimer::new(move |timer| {
        let mut notes = notes.lock().expect("no callback panics");
        notes.push(Instant::now());
        if notes.len() == 5 {
            return Restart::No;
        }
        timer.forward_now(tickless::hrtimer::Span::from(period));
        Restart::Yes
    }));
    let start = Instant::now();
    let _first = timer.as_ref().start(period);
    until(|| fired.lock().expect("no callback panics").len() == 5);
    for (number, at) in (1..).zip(fired.lock().expect("no callback panics").iter()) {
        assert!(*at >= start + period * number);
    }
}

#[test]
fn tasks_of_an_executor_sleep_and_end() {
    let _patience = Patience::begin();
    let executor = Executor::builder()
        .workers(2)
        .build()
        .expect("threads can be started");
    let sum: u64 = executor.block_on(async {
        let tasks: Vec<_> = (0..100_u64)
            .map(|number| {
                task::spawn(async move {
                    let length = Duration::from_micros(number * 97);
                    let start = Instant::now();
                    time::sleep(length).await;
                    assert!(start.elapsed() >= length);
                    number
                })
            })
            .collect();
        let mut sum = 0;
        for task in tasks {
            sum += task.await.expect("no sleep is early");
        }
        sum
    });
    assert_eq!(sum, 4_950);
}

#[cfg(portable_host)]
mod unsupported {
    use std::io::ErrorKind::Unsupported;

    use tickless::clock::{Refusal, time_stamp_counter};
    use tickless::topology::CpuSet;
    use tickless::{BuildError, Executor, Workers};

    #[cfg(target_os = "linux")]
    #[test]
    fn a_thread_has_no_priority() {
        use tickless::Worker;
        use tickless::worker::ScheduleError;

        let worker = Worker::new().expect("the thread is free");
        match worker.set_realtime_priority(Some(1)) {
            Err(ScheduleError::Priority { error, .. }) => assert_eq!(error.kind(), Unsupported),
            other => panic!("{other:?}"),
        }
    }

    #[cfg(not(windows))]
    #[test]
    fn an_event_loop_has_no_descriptor() {
        use tickless::{Driver, StartError, Worker};

        assert!(matches!(Driver::new(), Err(StartError::Os(error)) if error.kind() == Unsupported));
        // The thread is as it was.
        drop(Worker::new().expect("the thread is free"));
    }

    #[test]
    fn workers_are_not_pinned() {
        let first: CpuSet = [0].into_iter().collect();
        match Workers::builder().pin(first).spawn(|_, _| ()).map(drop) {
            Err(BuildError::Pin { error, .. }) => assert_eq!(error.kind(), Unsupported),
            // Where it is not known what the machine looks like.
            Err(BuildError::Topology(_)) => {}
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_counter_of_the_processor_is_not_read() {
        let _now = tickless::time::Instant::now();
        assert_eq!(time_stamp_counter(), Err(Refusal::PortableHost));
    }

    #[cfg(unix)]
    #[test]
    fn no_worker_waits_for_descriptors() {
        use std::os::unix::net::UnixStream;

        use tickless::Worker;
        use tickless::executor::io::Async;
        use tickless::worker::EpollEvents;

        let (one, _two) = UnixStream::pair().expect("sockets can be made");
        let worker = Worker::new().expect("the thread is free");
        let waited = worker.park_on_epoll(&one, &mut EpollEvents::with_capacity(1));
        assert!(matches!(waited, Err(error) if error.kind() == Unsupported));
        let executor = Executor::builder()
            .workers(1)
            .build()
            .expect("threads can be started");
        let watched = executor.block_on(async { Async::new(one).map(drop) });
        assert!(matches!(watched, Err(error) if error.kind() == Unsupported));
    }
}

/// Tests of event loops with a waitable timer as their device.
#[cfg(windows)]
mod waitable {
    use std::future::Future;
    use std::os::windows::io::{AsHandle, AsRawHandle};
    use std::pin::pin;
    use std::task::{Context, Waker};
    use std::time::{Duration, Instant};

    use tickless::Driver;
    use tickless::hrtimer::{HrTimer, Restart, Span, Start};
    use windows_sys::Win32::Foundation::{WAIT_OBJECT_0, WAIT_TIMEOUT};
    use windows_sys::Win32::System::Threading::{INFINITE, WaitForSingleObject};

    use super::{LENGTHS, Patience};

    /// Waits for the handle of `driver` for `millis` milliseconds; returns true if the handle is signalled.
    fn is_signalled(driver: &Driver, millis: u32) -> bool {
        // SAFETY: the driver has the handle open.
        match unsafe { WaitForSingleObject(driver.as_raw_handle(), millis) } {
            WAIT_OBJECT_0 => true,
            WAIT_TIMEOUT => false,
            other => panic!("the wait ends with {other}"),
        }
    }

    #[test]
    fn a_handle_is_signalled_in_time_and_never_early() {
        let _patience = Patience::begin();
        let driver = Driver::new().expect("Windows has timers");
        assert_eq!(driver.as_handle().as_raw_handle(), driver.as_raw_handle());
        for length in LENGTHS {
            let start = Instant::now();
            let mut sleep = pin!(tickless::time::sleep(length));
            let mut context = Context::from_waker(Waker::noop());
            while sleep.as_mut().poll(&mut context).is_pending() {
                assert!(is_signalled(&driver, INFINITE));
                let _more = driver.turn();
            }
            assert!(start.elapsed() >= length, "{length:?}");
        }
    }

    #[test]
    fn a_handle_stays_signalled_until_the_turn_and_is_silent_behind_it() {
        let _patience = Patience::begin();
        let driver = Driver::new().expect("Windows has timers");
        let timer = pin!(HrTimer::new(|_| Restart::No));
        let _ = timer.as_ref().start(Start::after(Span::from_millis(5)));
        for _ in 0..3 {
            assert!(is_signalled(&driver, INFINITE));
        }
        let mut fired = driver.turn().fired;
        // A handle may be signalled a little early.
        while fired == 0 {
            assert!(is_signalled(&driver, INFINITE));
            fired += driver.turn().fired;
        }
        assert_eq!(fired, 1);
        assert!(!is_signalled(&driver, 0));
    }

    #[test]
    fn an_earlier_timer_replaces_a_later_one_and_none_is_lost() {
        let _patience = Patience::begin();
        let driver = Driver::new().expect("Windows has timers");
        let hour = Span::from_secs(3600);
        let late = pin!(HrTimer::new(|_| Restart::No));
        let _ = late.as_ref().start(Start::after(hour));
        let early = pin!(HrTimer::new(|_| Restart::No));
        let _ = early.as_ref().start(Start::after(Span::from_millis(2)));
        let start = Instant::now();
        let mut fired = 0;
        while fired == 0 {
            assert!(is_signalled(&driver, INFINITE));
            fired = driver.turn().fired;
        }
        assert!(start.elapsed() >= Duration::from_millis(1));
        assert!(!is_signalled(&driver, 0), "the other one is an hour ahead");
        let _ = late.as_ref().start(Start::after(Span::from_millis(1)));
        let mut fired = 0;
        while fired == 0 {
            assert!(is_signalled(&driver, INFINITE));
            fired = driver.turn().fired;
        }
    }

    #[test]
    fn a_worker_has_a_priority_above_the_others() {
        let worker = tickless::Worker::new().expect("the thread is free");
        for priority in [Some(1), Some(50), Some(99), None] {
            worker
                .set_realtime_priority(priority)
                .expect("Windows grants these to all");
        }
    }
}
