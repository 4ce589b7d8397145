//! Tests of raw timers: their start and cancel, the arguments and answers of callbacks, clocks, and drops.

use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Wake, Waker};
use std::thread;
use std::time::{Duration, Instant as StdInstant};

use crate::support::{
    self, Wakes, assert_passed, block_on, counted, in_own_process, ms, on_thread, panic_of, until,
    worker,
};
use rustix::process::Signal;
use rustix::time::{ClockId as KernelClock, DynamicClockId, clock_gettime_dynamic};
use tickless::hrtimer::{
    Boottime, ClockId, Expired, HrTimer, Instant, Monotonic, Realtime, RelativeClock, Restart,
    Setup, Span, Stage, Start, StartError, StartOutcome, Tai, TryCancel, now,
};
use tickless::{Worker, time};

const HOUR: Span = Span::from_secs(3600);

fn after_millis(millis: u64) -> Start {
    Start::after(Span::from_millis(millis))
}

/// Parks until `condition` holds.
fn park_until(worker: &Worker, condition: impl Fn() -> bool) {
    while !condition() {
        let _any = worker.park();
    }
}

#[test]
fn a_timer_fires_once_and_not_early() {
    let _patience = support::begin();
    for runs_its_own in [false, true] {
        on_thread(move || {
            let worker = runs_its_own.then(worker);
            let (sender, receiver) = mpsc::channel();
            let timer = pin!(HrTimer::new(move |expired| {
                let told = (expired.deadline(), expired.now(), expired.read_clock());
                sender.send(told).expect("the test listens");
                Restart::No
            }));
            let timer = timer.as_ref();
            for round in 1..20 {
                assert!(!timer.is_active());
                assert_eq!(timer.deadline(), None);
                let (start, before) = (StdInstant::now(), now::<Monotonic>());
                let span = Span::from_micros(100 * round);
                let _ = timer.start(Start::after(span));
                if let Some(deadline) = timer.deadline() {
                    assert!(deadline >= before.saturating_add(span));
                }
                if let Some(worker) = &worker {
                    park_until(worker, || !timer.is_active());
                }
                let (deadline, found, read) = receiver.recv().expect("it fires");
                assert_passed(start, span.into());
                assert!(deadline >= before.saturating_add(span));
                assert!(found >= deadline && read >= found);
                until(|| !timer.is_active());
                assert!(receiver.try_recv().is_err());
            }
        });
    }
}

#[test]
fn times_in_the_past_fire_at_once_and_the_end_of_time_never() {
    let _patience = support::begin();
    let worker = worker();
    let (fired, timer) = counted();
    let timer = pin!(timer);
    let timer = timer.as_ref();
    let passed = time::Instant::now();
    support::spin_past(passed);
    for past in [
        Start::at(Instant::ZERO),
        Start::at(Instant::from_nanos(1)),
        passed.into(),
    ] {
        let _ = timer.start(past);
        assert!(worker.is_due());
        assert_eq!(worker.turn().fired, 1);
    }
    let _ = timer.start(Start::after(Span::ZERO));
    park_until(&worker, || !timer.is_active());
    assert_eq!(fired.load(Ordering::Relaxed), 4);

    let _ = timer.start(Start::at(Instant::FOREVER));
    assert!(timer.is_active());
    // The end of time is 292 years after the start of the system.
    assert_eq!(timer.deadline(), Some(Instant::LATEST));
    let century = Duration::from_secs(100 * 365 * 86_400);
    assert!(
        worker
            .next_deadline()
            .is_some_and(|next| next > time::Instant::now() + century)
    );
    let _ = timer.start(Start::after(Span::MAX));
    assert_eq!(worker.turn().fired, 0);
    assert!(timer.cancel());
}

#[test]
fn instants_of_both_modules_convert_exactly() {
    let theirs = time::Instant::now();
    let ours: Instant<Monotonic> = theirs.into();
    assert_eq!(time::Instant::from(ours), theirs);
    let between = now::<Monotonic>();
    assert!(ours <= between);
    assert!(between <= time::Instant::now().into());
    let later = theirs + Duration::from_nanos(1);
    assert_eq!(
        Instant::<Monotonic>::from(later).saturating_since(ours),
        Span::from_nanos(1)
    );
}

#[test]
fn a_checked_start_refuses_what_is_over() {
    let _patience = support::begin();
    let worker = worker();
    let (fired, timer) = counted();
    let timer = pin!(timer);
    let timer = timer.as_ref();
    let now = time::Instant::now();
    support::spin_past(now);
    let over = Start::from(now);
    assert_eq!(timer.start_checked(over), Err(StartError::AlreadyExpired));
    assert!(!timer.is_active());
    assert_eq!(
        StartError::AlreadyExpired.to_string(),
        "the time of the timer is over already"
    );
    assert_eq!(StartError::ShutDown.to_string(), "the timer was shut down");
    // Also when it was queued for a later time: the time asked for counts.
    let _ = timer.start(Start::after(HOUR));
    assert_eq!(timer.start_checked(over), Err(StartError::AlreadyExpired));
    assert!(!timer.is_active());
    assert_eq!(worker.turn().fired, 0);

    // Refused if this thread loses its CPU for as long.
    until(|| timer.start_checked(after_millis(1)) == Ok(StartOutcome::Started));
    park_until(&worker, || !timer.is_active());
    assert_eq!(fired.load(Ordering::Relaxed), 1);
}

/// A timer whose callback signals its beginning and waits until the test lets it continue.
struct HeldCallback {
    entered: mpsc::Receiver<()>,
    leave: mpsc::Sender<()>,
    ended: Arc<AtomicBool>,
}

type Callback = Box<dyn FnMut(&mut Expired<'_, '_, Monotonic>) -> Restart + Send>;

fn held() -> (HeldCallback, Callback) {
    let (enter, entered) = mpsc::channel();
    let (leave, left) = mpsc::channel();
    let ended = Arc::new(AtomicBool::new(false));
    let end = Arc::clone(&ended);
    let callback = move |_: &mut Expired<'_, '_, Monotonic>| {
        let _first = enter.send(());
        let _let_go = left.recv();
        end.store(true, Ordering::Release);
        Restart::No
    };
    let held = HeldCallback {
        entered,
        leave,
        ended,
    };
    (held, Box::new(callback))
}

#[test]
fn a_running_callback_is_told_apart_and_waited_for() {
    let _patience = support::begin();
    let (held, callback) = held();
    let timer = pin!(HrTimer::new(callback));
    let timer = timer.as_ref();
    let _ = timer.start(Start::after(Span::ZERO));
    held.entered.recv().expect("it runs");
    assert_eq!(timer.try_cancel(), TryCancel::Running);
    assert!(timer.is_active());
    // Queued again meanwhile: left as it is.
    let _ = timer.start(Start::after(HOUR));
    assert_eq!(timer.try_cancel(), TryCancel::Running);
    assert!(timer.deadline().is_some());

    let ended = Arc::clone(&held.ended);
    let leaver = thread::spawn(move || {
        thread::sleep(ms(3));
        assert!(!held.ended.load(Ordering::Acquire));
        held.leave.send(()).expect("the callback waits");
    });
    assert!(timer.cancel(), "it was queued too");
    assert!(ended.load(Ordering::Acquire), "the callback has ended");
    assert!(!timer.is_active());
    leaver.join().expect("it does not panic");
}

#[test]
fn dropping_waits_for_a_callback_on_another_thread() {
    let _patience = support::begin();
    for runs_its_own in [false, true] {
        let (held, callback) = held();
        let timer = Arc::pin(HrTimer::new(callback));
        let theirs = timer.clone();
        let (done, is_done) = mpsc::channel::<()>();
        let (dropped, is_dropped) = mpsc::channel();
        let ended = Arc::clone(&held.ended);
        let starter = thread::spawn(move || {
            let worker = runs_its_own.then(worker);
            let _ = theirs.as_ref().start(Start::after(Span::ZERO));
            drop(theirs);
            dropped.send(()).expect("the test waits");
            if let Some(worker) = worker {
                // Not until a turn of its own fires it: the expiry thread may still be in a turn for the thread that
                // had this thread's queue before, and find the timer there.
                while !ended.load(Ordering::Acquire) {
                    let _any = worker.park();
                }
            }
            let _ended = is_done.recv();
        });
        is_dropped.recv().expect("the last one is here");
        held.entered.recv().expect("it runs");
        let leaver = thread::spawn(move || {
            thread::sleep(ms(3));
            held.leave.send(()).expect("the callback waits");
        });
        drop(timer);
        assert!(held.ended.load(Ordering::Acquire));
        leaver.join().expect("it does not panic");
        drop(done);
        starter.join().expect("it does not panic");
    }
}

static CANCELS_ITSELF: HrTimer<fn(&mut Expired<'_, '_, Monotonic>) -> Restart> =
    HrTimer::new(cancel_yourself);
static SAID: Mutex<Vec<String>> = Mutex::new(Vec::new());

fn cancel_yourself(_: &mut Expired<'_, '_, Monotonic>) -> Restart {
    let itself = Pin::static_ref(&CANCELS_ITSELF);
    assert_eq!(itself.try_cancel(), TryCancel::Running);
    let panicked = panic_of(|| {
        itself.cancel();
    });
    SAID.lock()
        .expect("no thread panics with it")
        .push(panicked.message);
    Restart::No
}

#[test]
fn a_callback_that_cancels_its_own_timer_panics_and_nothing_else_happens() {
    let _patience = support::begin();
    let timer = Pin::static_ref(&CANCELS_ITSELF);
    let _ = timer.start(Start::after(Span::ZERO));
    until(|| !timer.is_active());
    on_thread(move || {
        let worker = worker();
        let _ = timer.start(Start::after(Span::ZERO));
        park_until(&worker, || !timer.is_active());
        worker.block_on(time::sleep(ms(1)));
    });
    block_on(time::sleep(ms(1)));
    let said = SAID.lock().expect("no thread panics with it");
    assert_eq!(said.len(), 2);
    for text in said.iter() {
        assert_eq!(
            text,
            "a timer's callback cancels its own timer and would wait for itself; use try_cancel"
        );
    }
}

#[test]
fn a_callback_sets_the_next_deadline_itself() {
    let _patience = support::begin();
    let worker = worker();
    let base = now::<Monotonic>();
    let at = move |millis| base.saturating_add(Span::from_millis(millis));
    let (sender, receiver) = mpsc::channel();
    let timer = pin!(HrTimer::new(move |expired| {
        let deadline = expired.deadline();
        sender.send(deadline).expect("the test listens");
        if deadline == at(1) {
            expired.set_deadline(at(3));
            return Restart::Yes;
        }
        Restart::No
    }));
    let _ = timer.as_ref().start(Start::at(at(1)));
    park_until(&worker, || !timer.as_ref().is_active());
    let seen: Vec<_> = receiver.try_iter().collect();
    assert_eq!(seen, [at(1), at(3)]);
    assert!(now::<Monotonic>() >= at(3));
}

/// A waker that a callback returns may free the callback's own timer when it is woken.
#[test]
fn a_waker_given_back_may_free_the_timer() {
    struct Free(Mutex<Option<Pin<Box<dyn Send>>>>, Wakes);
    impl Wake for Free {
        fn wake(self: Arc<Self>) {
            drop(self.0.lock().expect("no thread panics with it").take());
            self.1.note();
        }
    }
    let _patience = support::begin();
    for runs_its_own in [false, true] {
        on_thread(move || {
            let worker = runs_its_own.then(worker);
            let free = Arc::new(Free(Mutex::new(None), Wakes::default()));
            let waker = Waker::from(Arc::clone(&free));
            let timer = Box::pin(HrTimer::new(move |_| Restart::NoThenWake(waker.clone())));
            {
                let mut slot = free.0.lock().expect("no thread panics with it");
                let _ = timer.as_ref().start(Start::after(Span::from_micros(200)));
                *slot = Some(timer);
            }
            if let Some(worker) = worker {
                park_until(&worker, || free.1.count() > 0);
            }
            free.1.wait();
            assert!(free.0.lock().expect("no thread panics with it").is_none());
        });
    }
}

#[test]
fn a_callback_never_runs_twice_at_the_same_time() {
    // Other tests panic in callbacks, which is counted for the whole process.
    in_own_process(
        "hrtimer::a_callback_never_runs_twice_at_the_same_time",
        || {
            let (inside, runs) = (AtomicBool::new(false), Arc::new(AtomicU64::new(0)));
            let count = Arc::clone(&runs);
            let timer = Arc::pin(HrTimer::new(move |expired| {
                assert!(!inside.swap(true, Ordering::AcqRel), "it runs already");
                count.fetch_add(1, Ordering::Relaxed);
                expired.forward_now(Span::from_micros(30));
                inside.store(false, Ordering::Release);
                Restart::Yes
            }));
            let starters: Vec<_> = (0..3)
                .map(|number| {
                    let timer = timer.clone();
                    thread::spawn(move || {
                        let worker = (number == 0).then(worker);
                        for _ in 0..2_000 {
                            let _ = timer.as_ref().start(Start::after(Span::from_micros(10)));
                            if let Some(worker) = &worker {
                                let _any = worker.turn();
                            }
                        }
                    })
                })
                .collect();
            for starter in starters {
                starter.join().expect("it does not panic");
            }
            let before = runs.load(Ordering::Relaxed);
            until(|| runs.load(Ordering::Relaxed) > before + 10);
            timer.as_ref().cancel();
            assert!(!timer.as_ref().is_active());
            assert_eq!(tickless::stats().panics, 0, "what it asserted held");
        },
    );
}

/// Checks that timers on the clock `C` fire at their deadline and not before, in either stage.
fn fires_on_clock<C: RelativeClock>() {
    for stage in [Stage::Default, Stage::Hard, Stage::Soft] {
        let (sender, receiver) = mpsc::channel();
        let timer = pin!(HrTimer::with_setup(
            Setup::new().stage(stage),
            move |expired: &mut Expired<'_, '_, C>| {
                let told = (expired.deadline(), expired.now(), expired.read_clock());
                sender.send(told).expect("the test listens");
                Restart::No
            },
        ));
        let timer = timer.as_ref();
        let start = StdInstant::now();
        let at = now::<C>().saturating_add(Span::from_millis(2));
        let _ = timer.start(Start::at(at));
        let (deadline, found, read) = receiver.recv().expect("it fires");
        assert_eq!(deadline, at);
        assert!(found >= at && read >= found && now::<C>() >= read);
        assert_passed(start, Duration::from_micros(1_990));

        let (start, before) = (StdInstant::now(), now::<C>());
        let _ = timer.start(Start::after(Span::from_millis(1)));
        let (deadline, found, _) = receiver.recv().expect("it fires");
        assert_passed(start, ms(1));
        assert!(deadline >= before.saturating_add(Span::from_millis(1)) && found >= deadline);

        // Accepted while the expiry thread is busy with this thread's timers; then it fires at once.
        while timer.start_checked(Start::at(before)).is_ok() {
            receiver.recv().expect("it fires");
        }
        // Its callback may be about to end.
        until(|| !timer.is_active());
        let _ = timer.start(Start::after(HOUR));
        assert!(timer.cancel());
    }
}

#[test]
fn timers_fire_on_every_clock_that_only_goes_on() {
    let _patience = support::begin();
    fires_on_clock::<Monotonic>();
    fires_on_clock::<Boottime>();
    fires_on_clock::<Tai>();
}

#[test]
#[cfg_attr(portable_host, ignore = "other clocks on the portable host")]
fn the_clocks_show_what_the_kernel_shows() {
    fn check<C: ClockId>(clock: DynamicClockId<'static>) {
        let kernel = || {
            let time = clock_gettime_dynamic(clock).expect("the kernel has the clock");
            time.tv_sec * 1_000_000_000 + time.tv_nsec
        };
        let before = kernel();
        let ours = now::<C>().as_nanos();
        let after = kernel();
        // An offset is known to the time that it takes to read two clocks.
        let tolerance = 1_000_000;
        assert!(before - tolerance <= ours && ours <= after + tolerance);
    }
    check::<Monotonic>(DynamicClockId::Known(KernelClock::Monotonic));
    check::<Boottime>(DynamicClockId::Known(KernelClock::Boottime));
    check::<Realtime>(DynamicClockId::Known(KernelClock::Realtime));
    check::<Tai>(DynamicClockId::Tai);
}

/// The test ends its process, so it has a process of its own.
#[test]
fn dropping_a_timer_in_its_own_callback_ends_the_process() {
    type OwnTimer = Mutex<Option<Pin<Box<dyn Send>>>>;
    let Some(mut process) = support::process_of_its_own(
        "hrtimer::dropping_a_timer_in_its_own_callback_ends_the_process",
    ) else {
        let slot: Arc<OwnTimer> = Arc::default();
        let inside = Arc::clone(&slot);
        let timer = Box::pin(HrTimer::new(move |_| {
            drop(inside.lock().expect("no thread panics with it").take());
            Restart::No
        }));
        {
            let mut slot = slot.lock().expect("no thread panics with it");
            let _ = timer.as_ref().start(Start::after(Span::from_millis(1)));
            *slot = Some(timer);
        }
        thread::sleep(Duration::from_secs(20));
        return;
    };
    let output = process.output().expect("it starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    assert_eq!(
        std::os::unix::process::ExitStatusExt::signal(&output.status),
        Some(Signal::ABORT.as_raw())
    );
    assert!(
        said.contains("a timer was dropped by its own callback, which still executes"),
        "{said}"
    );
}

#[test]
fn the_debug_form_shows_the_state() {
    let timer = pin!(HrTimer::new(|_| Restart::No));
    assert!(format!("{timer:?}").contains("state: Idle"), "{timer:?}");
    let _ = timer.as_ref().start(Start::after(HOUR));
    assert!(format!("{timer:?}").contains("state: Queued"), "{timer:?}");
}

#[test]
fn timers_are_shared_and_started_on_any_thread() {
    fn is_send_and_sync<T: Send + Sync>() {}
    type Timer = HrTimer<fn(&mut Expired<'_, '_, Monotonic>) -> Restart>;
    is_send_and_sync::<Timer>();
    assert_not_unpin!(Timer);
}

/// A task that drops a timer when it is woken.
struct Dropper(Mutex<Option<Box<dyn Send>>>);

impl Wake for Dropper {
    fn wake(self: Arc<Self>) {
        let timer = self.0.lock().unwrap().take();
        drop(timer);
    }
}

/// Both are due at one time. The later callback has not begun, so the drop of its timer does not wait.
#[test]
fn a_task_that_is_woken_may_drop_the_timer_with_a_callback_behind_it() {
    let _patience = support::begin();
    // Near, and so far that they come to the queue as a run.
    for far in [ms(1), ms(20), ms(300)] {
        let worker = worker();
        let dropper = Arc::new(Dropper(Mutex::new(None)));
        let waker = Waker::from(Arc::clone(&dropper));
        let first = support::waiting(|| time::sleep(far), &waker);
        let deadline = first.deadline();
        let timer = Box::pin(HrTimer::new(|_: &mut Expired<'_, '_, _>| Restart::No));
        assert_eq!(timer.as_ref().start(deadline), StartOutcome::Started);
        *dropper.0.lock().unwrap() = Some(Box::new(timer));
        while dropper.0.lock().unwrap().is_some() {
            worker.block_on(time::sleep(ms(1)));
        }
    }
}
