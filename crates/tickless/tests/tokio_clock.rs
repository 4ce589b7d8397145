//! Tests that programs which mix this library and tokio have one clock: tokio's clock, while it is paused.

#[macro_use]
mod support;

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Waker};

use futures::Stream as _;
use futures::stream::{FuturesUnordered, StreamExt as _};
use support::{Wakes, poll_with};
use tickless::hrtimer::{Expired, HrTimer, Monotonic, Restart, Span, StartOutcome};
use tickless::realtime::OnSet;
use tickless::time::{self, DelayQueue, Duration, Instant, interval, sleep, timeout};
use tickless::wheel::WheelTimer;

const HOUR: Duration = Duration::from_secs(3_600);

fn tokio_now() -> Instant {
    Instant::from_std(tokio::time::Instant::now().into_std())
}

#[tokio::test(start_paused = true)]
async fn the_time_is_tokios_where_that_stands_still() {
    let start = Instant::now();
    assert_eq!(start, tokio_now());
    sleep(HOUR).await;
    assert_eq!(start.elapsed(), HOUR);
    tokio::time::sleep(HOUR).await;
    assert_eq!(start.elapsed(), 2 * HOUR);
    assert_eq!(Instant::now(), tokio_now());
    let mut interval = interval(HOUR);
    interval.tick().await;
    interval.tick().await;
    assert_eq!(start.elapsed(), 3 * HOUR);
    let late = timeout(HOUR, std::future::pending::<()>()).await;
    assert!(late.is_err());
    tickless::coarse::sleep(HOUR).await;
    assert_eq!(start.elapsed(), 5 * HOUR);
    tickless::boottime::sleep(HOUR).await;
    assert_eq!(start.elapsed(), 6 * HOUR);
    let alarm = tickless::realtime::now() + HOUR;
    tickless::realtime::sleep_until(alarm, OnSet::Follow).await;
    let rounded = tickless::realtime::now().duration_since(alarm);
    assert!(rounded.is_ok_and(|rounded| rounded <= Duration::from_millis(1)));
}

#[tokio::test]
async fn a_pause_in_the_middle_is_followed_at_once() {
    // The clock is read, and a sleep made and polled, a moment before.
    sleep(Duration::from_micros(50)).await;
    let made = Instant::now();
    let waits = sleep(HOUR);
    let _now = Instant::now();
    tokio::time::pause();
    let start = Instant::now();
    assert_eq!(start, tokio_now());
    waits.await;
    // By another clock than that of which it was made, however long the thread lost its CPU in between.
    let exact = Duration::from_millis(1);
    assert!(made.elapsed() + exact >= HOUR);
    tokio::time::advance(HOUR).await;
    assert!(made.elapsed() + exact >= 2 * HOUR);
}

#[tokio::test]
async fn our_functions_move_tokios_clock() {
    time::pause();
    let start = tokio::time::Instant::now();
    let task = tokio::spawn(async move {
        sleep(HOUR).await;
        start.elapsed()
    });
    tokio::task::yield_now().await;
    time::advance(HOUR).await;
    assert_eq!(start.elapsed(), HOUR);
    assert!(task.await.expect("it does not panic") >= HOUR);
    let mut reset = Box::pin(sleep(HOUR));
    assert!(futures::poll!(reset.as_mut()).is_pending());
    let at = Instant::now() + 2 * HOUR;
    reset.as_mut().reset(at);
    reset.await;
    assert!(Instant::now() >= at);
    time::resume();
    let real = std::time::Instant::now();
    sleep(Duration::from_millis(2)).await;
    assert!(real.elapsed() >= Duration::from_millis(1));
}

/// The runtime's clock was stopped at any time between two of its ticks.
#[tokio::test(start_paused = true)]
async fn whole_milliseconds_are_exact_between_two_ticks_too() {
    for fraction in [0, 1, 400_000, 500_000, 999_999] {
        tokio::time::advance(Duration::from_nanos(fraction)).await;
        let start = Instant::now();
        sleep(Duration::from_millis(1)).await;
        assert_eq!(start.elapsed(), Duration::from_millis(1), "{fraction}");
        let (woken, waker) = Wakes::new();
        let mut waits = Box::pin(sleep(Duration::from_millis(7)));
        assert!(poll_with(waits.as_mut(), &waker).is_pending());
        sleep(Duration::from_millis(6)).await;
        assert_eq!(woken.count(), 0, "{fraction}");
        sleep(Duration::from_millis(1)).await;
        assert_eq!(woken.count(), 1, "{fraction}");
        assert!(poll_with(waits.as_mut(), &waker).is_ready(), "{fraction}");
        assert_eq!(start.elapsed(), Duration::from_millis(8), "{fraction}");
        // Less than a tick takes as long as one.
        sleep(Duration::from_micros(300)).await;
        assert_eq!(start.elapsed(), Duration::from_millis(9), "{fraction}");
    }
    // The clock comes into another fraction while a sleep waits: it is never early, and ends.
    let start = Instant::now();
    let waits = tokio::spawn(sleep(Duration::from_millis(3)));
    tokio::task::yield_now().await;
    tokio::time::advance(Duration::from_micros(700)).await;
    waits.await.expect("it does not panic");
    let took = start.elapsed();
    assert!(took >= Duration::from_millis(3), "{took:?}");
    assert!(took < Duration::from_millis(4), "{took:?}");
}

/// The clocks of two runtimes are stopped, each between two of its own ticks.
#[test]
fn a_reset_within_another_runtime_keeps_the_ticks_of_its_own() {
    let paused = || {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        let paused = builder.enable_time().start_paused(true).build();
        paused.expect("there is room")
    };
    for ahead in [1, 300_000, 7_700_000, 20_999_999] {
        let (own, other) = (paused(), paused());
        let _guard = own.enter();
        let mut waits = Box::pin(sleep(Duration::from_millis(1)));
        let polled = waits.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert!(polled.is_pending());
        let deadline = waits.deadline() + Duration::from_millis(1);
        other.block_on(async {
            tokio::time::advance(Duration::from_nanos(ahead)).await;
            waits.as_mut().reset(deadline);
        });
        let start = Instant::now();
        own.block_on(waits);
        assert_eq!(start.elapsed(), Duration::from_millis(2), "{ahead}");
    }
}

/// A sleep that waits by the clock of a runtime outlives this runtime.
#[test]
fn a_sleep_behind_its_paused_runtime_goes_by_the_clock_of_its_thread() {
    let start = std::time::Instant::now();
    let (mut polled, mut moved) = (Box::pin(sleep(HOUR)), Box::pin(sleep(HOUR)));
    let mut alarm = Box::pin(tickless::boottime::sleep(Duration::from_millis(2)));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        polled.set(sleep(Duration::from_millis(2)));
        assert!(futures::poll!(polled.as_mut()).is_pending());
        assert!(futures::poll!(moved.as_mut()).is_pending());
        assert!(futures::poll!(alarm.as_mut()).is_pending());
    });
    drop(runtime);
    moved
        .as_mut()
        .reset(Instant::now() + Duration::from_millis(2));
    futures::executor::block_on(async { futures::join!(polled, moved, alarm) });
    assert!(start.elapsed() >= Duration::from_millis(2));
}

#[tokio::test(start_paused = true)]
async fn each_expiry_is_told_at_once() {
    for _ in 0..1_290 {
        let ten = Duration::from_millis(10);
        assert_eq!(timeout(ten, sleep(ten)).await, Ok(()));
        let mut over = pin!(sleep(Duration::ZERO));
        let told = poll_fn(|context| std::task::Poll::Ready(over.as_mut().poll(context))).await;
        assert!(told.is_ready());
        tokio::task::yield_now().await;
    }
}

/// The clock moves at once, and what became due is polled afterwards.
#[tokio::test(start_paused = true)]
async fn an_advance_is_tokios() {
    async fn ends(advance: impl Future<Output = ()>) -> [Vec<Duration>; 2] {
        let ends = Arc::new(Mutex::new(Vec::new()));
        let (start, of_task) = (tokio::time::Instant::now(), Arc::clone(&ends));
        tokio::spawn(async move {
            for _ in 0..3 {
                sleep(Duration::from_millis(10)).await;
                of_task.lock().expect("no panic").push(start.elapsed());
            }
        });
        tokio::task::yield_now().await;
        advance.await;
        let so_far = ends.lock().expect("no panic").clone();
        sleep(HOUR).await;
        [so_far, std::mem::take(&mut *ends.lock().expect("no panic"))]
    }
    let moved = Duration::from_millis(25);
    let theirs = ends(tokio::time::advance(moved)).await;
    assert_eq!(ends(time::advance(moved)).await, theirs);
    // A sleep in its place lets each timer fire at its own time.
    let one_by_one = [10, 20, 30].map(Duration::from_millis);
    let [so_far, all] = ends(sleep(moved)).await;
    assert_eq!((&so_far[..], &all[..]), (&one_by_one[..2], &one_by_one[..]));
}

#[tokio::test]
#[should_panic(expected = "a clock of tokio can do this neither by tokio nor by this library")]
async fn a_clock_of_tokio_is_not_paused_manually() {
    time::pause_manually();
}

#[tokio::test(start_paused = true)]
#[should_panic(expected = "a clock of tokio can do this neither by tokio nor by this library")]
async fn a_clock_of_tokio_has_no_time_of_day_to_set() {
    tickless::realtime::set(std::time::UNIX_EPOCH);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[should_panic(expected = "requires the `current_thread` Tokio runtime")]
async fn several_workers_have_no_clock_that_stops() {
    time::pause();
}

/// Spawns tasks that wait for an hour in each possible way, and are polled once while the clock runs.
async fn waiting() -> Vec<tokio::task::JoinHandle<()>> {
    let tasks = vec![
        tokio::spawn(sleep(HOUR)),
        tokio::spawn(sleep(HOUR).slack(Duration::from_secs(1))),
        tokio::spawn(tickless::coarse::sleep(HOUR)),
        tokio::spawn(async {
            let mut ticks = interval(HOUR);
            ticks.tick().await;
            ticks.tick().await;
        }),
        tokio::spawn(async {
            let limit = timeout(HOUR, std::future::pending::<()>());
            assert!(limit.await.is_err());
        }),
        tokio::spawn(async {
            let mut queue = DelayQueue::new();
            queue.insert(7, HOUR);
            let expired = poll_fn(|context| queue.poll_expired(context)).await;
            assert_eq!(expired.map(time::Expired::into_inner), Some(7));
        }),
        tokio::spawn(async {
            let mut moved = Box::pin(sleep(Duration::from_secs(60)));
            assert!(futures::poll!(moved.as_mut()).is_pending());
            let end = Instant::now() + HOUR;
            moved.as_mut().reset(end);
            moved.await;
        }),
        tokio::spawn(async {
            // Polled one by one, as they are woken.
            let parts = FuturesUnordered::from_iter([sleep(HOUR), sleep(HOUR)]);
            assert_eq!(parts.count().await, 2);
        }),
    ];
    tokio::task::yield_now().await;
    tasks
}

#[tokio::test]
async fn what_waits_when_tokios_clock_is_paused_follows_it() {
    let _patience = support::begin();
    let tasks = waiting().await;
    tokio::time::pause();
    for task in tasks {
        task.await.expect("it does not panic");
    }
}

#[tokio::test]
async fn what_waits_when_tokios_clock_is_advanced_is_woken() {
    let _patience = support::begin();
    let tasks = waiting().await;
    tokio::time::pause();
    tokio::time::advance(HOUR + Duration::from_secs(1)).await;
    for task in tasks {
        task.await.expect("it does not panic");
    }
}

/// The names of timers with callbacks in the order in which they fired, and the times of the clock that users see.
type Fired = Arc<Mutex<Vec<(&'static str, Duration)>>>;

fn notes(
    fired: &Fired,
    name: &'static str,
    since: Instant,
) -> impl FnMut(&mut Expired<'_, '_, Monotonic>) -> Restart + Send + 'static {
    let fired = Arc::clone(fired);
    move |expired| {
        assert!(expired.now() >= expired.deadline());
        fired
            .lock()
            .expect("no panic")
            .push((name, since.elapsed()));
        Restart::No
    }
}

fn taken(fired: &Fired) -> Vec<(&'static str, Duration)> {
    std::mem::take(&mut *fired.lock().expect("no panic"))
}

/// Each callback is called at its own time while the clock passes by itself; a mixed program has one order.
#[tokio::test(start_paused = true)]
async fn callbacks_follow_tokios_clock_that_passes_by_itself() {
    // No reading of the clock precedes the first start.
    let (sender, first) = mpsc::channel();
    let at_once = pin!(HrTimer::new(move |_| {
        let _ = sender.send(());
        Restart::No
    }));
    assert_eq!(at_once.as_ref().start(HOUR), StartOutcome::Started);
    let start = Instant::now();
    tokio::time::sleep(HOUR + Duration::from_millis(2)).await;
    assert!(first.try_recv().is_ok());

    let (fired, start) = (Fired::default(), start + HOUR + Duration::from_millis(2));
    assert_eq!(start, Instant::now());
    let timers = [("third", 3), ("first", 1), ("second", 2), ("equal", 2)]
        .map(|(name, hours)| (Box::pin(HrTimer::new(notes(&fired, name, start))), hours));
    for (timer, hours) in &timers {
        let outcome = timer.as_ref().start(start + HOUR * *hours);
        assert_eq!(outcome, StartOutcome::Started);
    }
    let cancelled = pin!(HrTimer::new(notes(&fired, "cancelled", start)));
    let _ = cancelled.as_ref().start(start + HOUR / 2);
    assert!(cancelled.as_ref().cancel());
    sleep(HOUR * 2 - Duration::from_millis(1)).await;
    assert_eq!(taken(&fired), [("first", HOUR)]);
    sleep(Duration::from_millis(2)).await;
    assert_eq!(taken(&fired), [("second", HOUR * 2), ("equal", HOUR * 2)]);
    let (sender, receiver) = futures::channel::oneshot::channel();
    let mut sender = Some(sender);
    let wakes = pin!(HrTimer::new(move |_| {
        let sent = sender.take().map(|sender| sender.send(Instant::now()));
        assert!(sent.is_some_and(|sent| sent.is_ok()));
        Restart::No
    }));
    let _ = wakes.as_ref().start(start + HOUR * 4);
    // Nothing sleeps but the timers.
    assert_eq!(receiver.await, Ok(start + HOUR * 4));
    assert_eq!(taken(&fired), [("third", HOUR * 3)]);
}

#[tokio::test(start_paused = true)]
async fn callbacks_have_come_when_an_advance_is_over() {
    let (fired, start) = (Fired::default(), Instant::now());
    let timer = pin!(HrTimer::new(notes(&fired, "exact", start)));
    let timer = timer.as_ref();
    let _ = timer.start(start + HOUR);
    time::advance(HOUR - Duration::from_millis(1)).await;
    assert_eq!(taken(&fired), []);
    // Moved while it waits, to an earlier and a later time.
    assert_eq!(timer.start(start + HOUR * 3), StartOutcome::Restarted);
    time::advance(HOUR).await;
    assert_eq!(taken(&fired), []);
    assert_eq!(timer.start(start + HOUR * 2), StartOutcome::Restarted);
    time::advance(Duration::from_millis(1)).await;
    assert_eq!(taken(&fired), [("exact", HOUR * 2)]);
    assert!(!timer.is_active());
    let coarse = Arc::new(AtomicBool::new(false));
    let of_timer = Arc::clone(&coarse);
    let wheel = pin!(WheelTimer::new(move |_| {
        of_timer.store(true, SeqCst);
        Restart::No
    }));
    let _ = wheel.as_ref().start(HOUR);
    time::advance(HOUR - Duration::from_millis(1)).await;
    assert!(!coarse.load(SeqCst));
    time::advance(HOUR).await;
    assert!(coarse.load(SeqCst));
    // By tokio's own function they come as a task does.
    let _ = timer.start(Instant::now() + HOUR);
    tokio::time::advance(HOUR).await;
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert_eq!(taken(&fired).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_callback_starts_itself_again_by_tokios_clock() {
    let count = Arc::new(AtomicU32::new(0));
    let of_timer = Arc::clone(&count);
    let timer = pin!(HrTimer::new(move |expired| {
        of_timer.fetch_add(1, SeqCst);
        assert_eq!(expired.forward_now(Span::from_millis(1)), 1);
        Restart::Yes
    }));
    let _ = timer.as_ref().start(Duration::from_millis(1));
    sleep(Duration::from_millis(1_000)).await;
    let so_far = count.load(SeqCst);
    assert!((999..=1_000).contains(&so_far), "{so_far}");
    assert!(timer.as_ref().cancel());
    sleep(HOUR).await;
    assert_eq!(count.load(SeqCst), so_far);
}

/// A timer outlives the runtime of its clock: it can be started again on the process's clock.
#[test]
fn a_callback_outlives_a_runtime_of_tokio() {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let (sender, fired) = mpsc::channel();
    let timer = Box::pin(HrTimer::new(move |_| {
        let _ = sender.send(());
        Restart::No
    }));
    for _ in 0..3 {
        let runtime = runtime.enable_time().start_paused(true).build();
        let runtime = runtime.expect("a runtime");
        runtime.block_on(async {
            let _ = timer.as_ref().start(HOUR);
            sleep(HOUR * 2).await;
        });
        assert!(fired.try_recv().is_ok());
        runtime.block_on(async {
            let _ = timer.as_ref().start(HOUR);
            // Polled, so that it waits when its runtime ends.
            tokio::task::yield_now().await;
        });
        drop(runtime);
        assert!(timer.as_ref().is_active());
    }
    let _ = timer.as_ref().start(Duration::from_millis(1));
    fired
        .recv_timeout(Duration::from_secs(60))
        .expect("by the process's clock");
}

/// The answers of a stream, each with its time in milliseconds.
#[cfg(feature = "stream")]
type Answers = Vec<(u128, String)>;

/// Runs each adapter of streams over a source with items that come after these milliseconds; the same text serves both
/// libraries.
#[cfg(feature = "stream")]
macro_rules! adapters {
    ($name:ident, $time:path, $extension:path, $interval_stream:path) => {
        async fn $name(adapter: &str, gaps: &'static [u64]) -> Answers {
            use $extension as _;
            use $interval_stream as IntervalStream;
            use $time as time;

            let source = futures::stream::unfold(gaps.iter(), |mut gaps| async move {
                let gap = *gaps.next()?;
                tokio::time::sleep(Duration::from_millis(gap)).await;
                Some((gap, gaps))
            });
            let ms = Duration::from_millis;
            let start = tokio::time::Instant::now();
            let mut answers = Answers::new();
            macro_rules! take {
                ($stream:expr) => {{
                    let mut stream = pin!($stream);
                    for _ in 0..30 {
                        let next = poll_fn(|context| stream.as_mut().poll_next(context)).await;
                        let Some(next) = next else { break };
                        answers.push((start.elapsed().as_millis(), format!("{next:?}")));
                    }
                }};
            }
            match adapter {
                "throttle" => take!(source.throttle(ms(10))),
                "timeout" => take!(source.timeout(ms(10))),
                "timeout_repeating" => take!(source.timeout_repeating(time::interval(ms(10)))),
                "chunks_timeout" => take!(source.chunks_timeout(3, ms(10))),
                "interval" => {
                    let mut ticks = pin!(IntervalStream::new(time::interval(ms(7))));
                    for _ in 0..10 {
                        let next = poll_fn(|context| ticks.as_mut().poll_next(context)).await;
                        let tick = next.expect("it has no end");
                        let since = tick.duration_since(start.into());
                        answers.push((start.elapsed().as_millis(), format!("{since:?}")));
                    }
                }
                _ => unreachable!("no adapter of that name"),
            }
            answers
        }
    };
}

#[cfg(feature = "stream")]
adapters!(
    of_tokio_stream,
    tokio::time,
    tokio_stream::StreamExt,
    tokio_stream::wrappers::IntervalStream
);
#[cfg(feature = "stream")]
adapters!(
    of_this_library,
    tickless::time,
    tickless::time::StreamExt,
    tickless::time::IntervalStream
);

/// Both libraries give the same answers at the same virtual times: items, ends and elapsed times.
#[cfg(feature = "stream")]
#[tokio::test(start_paused = true)]
async fn streams_answer_at_the_same_virtual_times_as_tokio_streams() {
    let sources: [&[u64]; 7] = [
        &[],
        &[0, 0, 0, 0, 0],
        &[1, 1, 1, 30, 1],
        &[10, 10, 10],
        &[11, 9, 11, 9],
        &[25, 0, 35, 0, 0, 0, 5],
        &[3_600_000, 1],
    ];
    for adapter in [
        "throttle",
        "timeout",
        "timeout_repeating",
        "chunks_timeout",
        "interval",
    ] {
        for gaps in sources {
            let theirs = of_tokio_stream(adapter, gaps).await;
            let ours = of_this_library(adapter, gaps).await;
            assert_eq!(ours, theirs, "{adapter} of items after {gaps:?}");
        }
    }
}
