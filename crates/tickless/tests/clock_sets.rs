//! Tests of clock sets, with fake clocks, because a test may not set the clocks of the machine.
//!
//! All tests of this file change the same clocks, so they run one at a time. They have a program of their own, so that
//! no other test uses the clocks meanwhile.

mod support;

use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::task::Poll;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::process::{Pid, Signal, WaitOptions, getpid, kill_process, waitpid};
use support::{Wakes, block_on, ms, on_thread, poll_idly, poll_with, until};
use tickless::hrtimer::{Boottime, Expired, HrTimer, Realtime, Restart, Setup, Span};
use tickless::internals::clocks::{Shifts, pretend_untold, set, set_unseen};
use tickless::realtime::{Ended, OnSet, sleep_until, sleep_until_next};
use tickless::{Worker, boottime, realtime, stats, tai, time};

const HOUR: Duration = Duration::from_secs(3600);
const SEC: i64 = 1_000_000_000;
const YEAR: i64 = 365 * 24 * 3600 * SEC;

/// A guard that gives one test the clocks; they follow the kernel's clocks again when it is dropped.
struct Clocks {
    _patience: support::Patience,
    _alone: MutexGuard<'static, ()>,
}

impl Clocks {
    fn begin() -> Self {
        static ALONE: Mutex<()> = Mutex::new(());
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        Self {
            _patience: support::begin(),
            _alone: alone,
        }
    }
}

impl Drop for Clocks {
    fn drop(&mut self) {
        pretend_untold(false);
        set(Shifts::default());
    }
}

/// Shifts the time of day and atomic time by `nanos`.
const fn wall(nanos: i64) -> Shifts {
    Shifts {
        realtime: nanos,
        boottime: 0,
        tai: nanos,
    }
}

/// Shifts all clocks by `nanos`, as after a suspend.
const fn all(nanos: i64) -> Shifts {
    Shifts {
        realtime: nanos,
        boottime: nanos,
        tai: nanos,
    }
}

/// Waits until the task is woken, and polls its future.
fn woken<F: Future>(
    future: Pin<&mut F>,
    wakes: &Arc<Wakes>,
    waker: &std::task::Waker,
) -> Poll<F::Output> {
    wakes.wait();
    poll_with(future, waker)
}

fn nanos(hours: i64) -> i64 {
    hours * 3600 * SEC
}

/// DEMAND 30, TIM-30: a sleep that follows the clock ends when the clock is set past its deadline.
#[test]
fn a_sleep_that_follows_ends_when_the_clock_is_set_past_it() {
    let _clocks = Clocks::begin();
    for on_a_worker in [false, true] {
        on_thread(move || {
            set(Shifts::default());
            let deadline = SystemTime::now() + HOUR;
            let mut sleep = pin!(sleep_until(deadline, OnSet::Follow));
            let worker = on_a_worker.then(support::worker);
            let (wakes, waker) = Wakes::new();
            assert!(poll_with(sleep.as_mut(), &waker).is_pending());
            assert!(!sleep.clock_was_set());
            thread::spawn(|| set(wall(nanos(2))));
            if let Some(worker) = worker {
                while wakes.count() == 0 {
                    let _turn = worker.park();
                }
            }
            let ended = woken(sleep.as_mut(), &wakes, &waker);
            assert_eq!(ended, Poll::Ready(Ended::DueAfterSet));
            assert!(sleep.clock_was_set());
            assert_eq!(sleep.deadline(), deadline);
        });
    }
}

/// TIM-32: a sleep that follows the clock waits longer when the clock is set back, and is not woken before its time.
#[test]
fn a_sleep_that_follows_waits_longer_when_the_clock_is_set_back() {
    let _clocks = Clocks::begin();
    let start = Instant::now();
    let mut sleep = pin!(sleep_until(
        SystemTime::now() + Duration::from_secs(1),
        OnSet::Follow
    ));
    let (wakes, waker) = Wakes::new();
    assert!(poll_with(sleep.as_mut(), &waker).is_pending());
    set(wall(nanos(-1)));
    until(|| start.elapsed() > ms(1_015));
    assert!(poll_with(sleep.as_mut(), &waker).is_pending());
    set(Shifts::default());
    assert_eq!(
        woken(sleep, &wakes, &waker),
        Poll::Ready(Ended::DueAfterSet)
    );
}

/// TIM-34: a sleep that is to end at a set does so, for sets in both directions; a sleep whose deadline the set passed
/// is due too.
#[test]
fn a_sleep_that_is_to_end_at_a_set_does() {
    let _clocks = Clocks::begin();
    let expected = [
        (wall(1), Ended::ClockSet),
        (wall(nanos(-3)), Ended::ClockSet),
        (wall(nanos(2)), Ended::DueAfterSet),
    ];
    for (shifts, ended) in expected {
        set(Shifts::default());
        let mut sleep = pin!(sleep_until(SystemTime::now() + HOUR, OnSet::FireNow));
        let (wakes, waker) = Wakes::new();
        assert!(poll_with(sleep.as_mut(), &waker).is_pending());
        set(shifts);
        assert_eq!(
            woken(sleep, &wakes, &waker),
            Poll::Ready(ended),
            "{shifts:?}"
        );
    }
    let told = stats().told_of_sets;
    assert!(told >= 3, "{told}");
}

/// TIM-34: a set between the making of a sleep and its first poll counts.
#[test]
fn a_set_before_the_first_poll_counts() {
    let _clocks = Clocks::begin();
    let deadline = SystemTime::now() + HOUR;
    let now = pin!(sleep_until(deadline, OnSet::FireNow));
    let follow = pin!(sleep_until(deadline, OnSet::Follow));
    set(wall(nanos(-1)));
    assert_eq!(poll_idly(now), Poll::Ready(Ended::ClockSet));
    assert!(poll_idly(follow).is_pending());
}

/// DEMAND 30, B47: a sleep that keeps its moment ends at this moment, whatever the clock shows.
#[test]
fn a_sleep_that_keeps_its_moment_ignores_sets() {
    let _clocks = Clocks::begin();
    let start = Instant::now();
    let mut far = pin!(sleep_until(SystemTime::now() + HOUR, OnSet::Keep));
    let near = sleep_until(SystemTime::now() + ms(5), OnSet::Keep);
    assert!(poll_idly(far.as_mut()).is_pending());
    set(wall(nanos(2)));
    assert!(poll_idly(far.as_mut()).is_pending());
    set(wall(nanos(-2)));
    assert!(poll_idly(far.as_mut()).is_pending());
    assert!(far.clock_was_set());
    assert_eq!(block_on(near), Ended::DueAfterSet);
    support::assert_passed(start, ms(5));
}

#[test]
fn a_sleep_without_a_set_says_so() {
    let _clocks = Clocks::begin();
    for on_set in [OnSet::Follow, OnSet::FireNow, OnSet::Keep] {
        let deadline = SystemTime::now() + ms(1);
        assert_eq!(block_on(sleep_until(deadline, on_set)), Ended::Due);
        assert!(SystemTime::now() >= deadline);
        let over = sleep_until(UNIX_EPOCH, on_set);
        assert_eq!(block_on(over), Ended::Due);
    }
}

/// DEMAND 31: the function is called again at each set, with the new time, and the sleep returns the instant that was
/// reached.
#[test]
fn the_next_instant_is_computed_anew_at_each_set() {
    let _clocks = Clocks::begin();
    let asked = Arc::new(Mutex::new(Vec::new()));
    let asks = Arc::clone(&asked);
    let mut sleep = pin!(sleep_until_next(move |now| {
        asks.lock().expect("no panic").push(now);
        now + HOUR
    }));
    let (wakes, waker) = Wakes::new();
    assert!(poll_with(sleep.as_mut(), &waker).is_pending());
    for (round, hours) in [(1, 10), (2, -10)] {
        let before = wakes.count();
        set(wall(nanos(hours)));
        until(|| wakes.count() > before);
        assert!(poll_with(sleep.as_mut(), &waker).is_pending());
        let asked = asked.lock().expect("no panic");
        assert_eq!(asked.len(), round + 1);
        assert_eq!(sleep.deadline(), asked[round] + HOUR);
        let (first, last) = (asked[0], asked[round]);
        assert_eq!(last > first, hours > 0);
    }
    let came = block_on(sleep_until_next(|now| now + ms(1)));
    assert!(came <= SystemTime::now() - HOUR * 10 + ms(1));
}

/// TIM-38, DEMAND 29: a timer whose clock counts suspended time ends after a resume; other timers continue.
#[test]
fn a_resume_ends_what_counts_suspended_time() {
    let _clocks = Clocks::begin();
    let mut boot = pin!(boottime::sleep(HOUR));
    let mut later = pin!(boottime::sleep(HOUR * 3));
    let mut mono = pin!(time::sleep(HOUR));
    let mut alarm = pin!(sleep_until(SystemTime::now() + HOUR, OnSet::Follow));
    let (wakes, waker) = Wakes::new();
    let (rings, bell) = Wakes::new();
    assert!(poll_with(boot.as_mut(), &waker).is_pending());
    assert!(poll_with(alarm.as_mut(), &bell).is_pending());
    assert!(poll_idly(mono.as_mut()).is_pending());
    assert!(poll_idly(later.as_mut()).is_pending());
    let slept = nanos(2);
    let before = boottime::Instant::now();
    set(all(slept));
    assert!(before.elapsed() >= HOUR * 2);
    assert_eq!(woken(boot, &wakes, &waker), Poll::Ready(()));
    assert_eq!(woken(alarm, &rings, &bell), Poll::Ready(Ended::DueAfterSet));
    assert!(poll_idly(mono).is_pending());
    assert!(poll_idly(later.as_mut()).is_pending());
    let soon = boottime::Instant::now() + ms(1);
    later.as_mut().reset(soon);
    assert_eq!(later.deadline(), soon);
    block_on(later);
    assert!(boottime::Instant::now() >= soon);
    let lease = boottime::timeout(ms(1), std::future::pending::<()>());
    assert!(block_on(lease).is_err());
}

/// DEMAND 33: atomic time is readable, and a leap second moves the time of day alone.
#[test]
fn a_leap_second_leaves_atomic_time_alone() {
    let _clocks = Clocks::begin();
    set(Shifts {
        tai: 37 * SEC,
        ..Shifts::default()
    });
    let told = tai::offset_from_utc();
    let mut real = pin!(sleep_until(SystemTime::now() + HOUR, OnSet::Follow));
    assert!(poll_idly(real.as_mut()).is_pending());
    let before = tai::Instant::now();
    set(Shifts {
        realtime: -SEC,
        tai: 37 * SEC,
        ..Shifts::default()
    });
    assert_eq!(tai::offset_from_utc(), told + 1);
    assert!(before.elapsed() < Duration::from_secs(1) * 30);
    assert!(poll_idly(real.as_mut()).is_pending());
    let deadline = tai::Instant::now() + ms(1);
    block_on(tai::sleep_until(deadline));
    assert!(tai::Instant::now() >= deadline);
}

/// A future that fired by an old offset reads the clock and is not ready early. It notifies all timers of the set that
/// it finds.
#[test]
fn a_set_that_was_not_told_yet_makes_no_sleep_early() {
    let _clocks = Clocks::begin();
    set(Shifts::default());
    let (wakes, waker) = Wakes::new();
    let mut sleep = support::waiting(
        || sleep_until(SystemTime::now() + ms(3), OnSet::Follow),
        &waker,
    );
    let before = stats();
    set_unseen(wall(nanos(-1)));
    wakes.wait();
    for _ in 0..100 {
        assert!(poll_with(sleep.as_mut(), &waker).is_pending());
    }
    let after = stats();
    assert_eq!(after.clock_sets, before.clock_sets + 1);
    assert!(
        after.expired - before.expired < 50,
        "it goes round in circles"
    );
}

/// A sleep that is polled or started finds a set of the clock for all other timers, if the kernel does not notify the
/// library of it.
#[test]
fn where_the_kernel_does_not_tell_a_poll_finds_out() {
    let _clocks = Clocks::begin();
    set(Shifts::default());
    let deadline = SystemTime::now() + HOUR;
    let mut sleep = pin!(sleep_until(deadline, OnSet::Follow));
    let (wakes, waker) = Wakes::new();
    assert!(poll_with(sleep.as_mut(), &waker).is_pending());
    let mut other = pin!(boottime::sleep(HOUR * 30));
    assert!(tickless::clock::is_told_of_sets());
    pretend_untold(true);
    assert!(!tickless::clock::is_told_of_sets());
    set_unseen(all(nanos(2)));
    assert!(poll_idly(other.as_mut()).is_pending());
    assert_eq!(
        woken(sleep, &wakes, &waker),
        Poll::Ready(Ended::DueAfterSet)
    );
    let sets = stats().clock_sets;
    assert!(poll_idly(other).is_pending());
    assert_eq!(stats().clock_sets, sets, "once");
}

/// TIM-34: a callback that requests it is notified of a set, and restarts for its old deadline or for another deadline.
#[test]
fn a_callback_that_asks_is_told_of_a_set() {
    let _clocks = Clocks::begin();
    let (sender, receiver) = mpsc::channel();
    let setup = Setup::new().fire_on_clock_set();
    let timer = pin!(HrTimer::with_setup(
        setup,
        move |expired: &mut Expired<'_, '_, Realtime>| {
            let is_ahead = expired.read_clock() < expired.deadline();
            let told = (expired.clock_was_set(), is_ahead);
            sender.send(told).expect("the test listens");
            if told == (true, true) {
                Restart::Yes
            } else {
                Restart::No
            }
        },
    ));
    let plain = pin!(HrTimer::with_setup(
        Setup::new(),
        |_: &mut Expired<'_, '_, Realtime>| panic!("its time has not come"),
    ));
    let timer = timer.as_ref();
    let _ = timer.start(realtime::at(SystemTime::now() + HOUR));
    let _ = plain
        .as_ref()
        .start(realtime::at(SystemTime::now() + HOUR * 5));
    set(wall(nanos(-1)));
    assert_eq!(receiver.recv(), Ok((true, true)));
    set(wall(SEC));
    assert_eq!(receiver.recv(), Ok((true, true)));
    set(wall(nanos(2)));
    // One set may be told of twice.
    let mut told = receiver.iter().skip_while(|told| *told == (true, true));
    assert_eq!(told.next(), Some((true, false)));
    until(|| !timer.is_active());
    assert!(plain.as_ref().cancel());
}

/// B52: a deadline that has passed is over, however long ago; a deadline far in the future is not.
#[test]
fn deadlines_of_all_ages_are_told_apart() {
    let _clocks = Clocks::begin();
    set(Shifts::default());
    for deadline in [UNIX_EPOCH, UNIX_EPOCH - AGE / 10, UNIX_EPOCH - AGE] {
        for on_set in [OnSet::Follow, OnSet::FireNow, OnSet::Keep] {
            assert!(poll_idly(pin!(sleep_until(deadline, on_set))).is_ready());
        }
    }
    for deadline in ahead() {
        for on_set in [OnSet::Follow, OnSet::FireNow, OnSet::Keep] {
            let sleep = pin!(sleep_until(deadline, on_set));
            assert!(poll_idly(sleep).is_pending(), "{deadline:?}");
        }
    }
}

/// A sleep that is over is ready at its first poll, however close two readings of the clocks are: the library's clock
/// may be behind the kernel's clock by some nanoseconds.
#[test]
fn what_is_kept_and_over_is_over_at_once() {
    let _clocks = Clocks::begin();
    set(Shifts::default());
    for _ in 0..10_000 {
        let kept = realtime::kept(SystemTime::now());
        assert!(poll_idly(pin!(time::sleep_until(kept))).is_ready());
        assert!(kept <= time::Instant::now());
    }
}

/// The distance from 1970 to a time before 1677.
const AGE: Duration = Duration::from_secs(1000 * 365 * 24 * 3600);

/// Returns times of day in 60 years, shortly before the end of the range, and beyond the end.
fn ahead() -> [SystemTime; 4] {
    let year = AGE / 1000;
    [
        SystemTime::now() + year * 60,
        UNIX_EPOCH + year * 292,
        UNIX_EPOCH + year * 293,
        UNIX_EPOCH + year * 100_000,
    ]
}

/// Shifts of the clocks back and forth by years, and to both ends of the range.
const YEARS: [Shifts; 7] = [
    wall(30 * YEAR),
    wall(-30 * YEAR),
    wall(-100 * YEAR),
    wall(i64::MIN),
    wall(59 * YEAR),
    all(i64::MIN),
    Shifts {
        realtime: 1,
        boottime: 200 * YEAR,
        tai: 1,
    },
];

/// B50, B52: clocks set by years, and offsets near the limit of the range: no timer is early, no time wraps around, no
/// storm of wake-ups occurs, and one line describes the set.
#[test]
fn clocks_set_by_years_make_no_storm() {
    let _clocks = Clocks::begin();
    set(Shifts::default());
    let worker = Worker::new().expect("the thread is free");
    let sleeps = |on_set| ahead().map(|deadline| Box::pin(sleep_until(deadline, on_set)));
    let (mut follow, mut keep) = (sleeps(OnSet::Follow), sleeps(OnSet::Keep));
    let mut boot = pin!(boottime::sleep(Duration::MAX));
    let mut atomic = pin!(tai::sleep(Duration::MAX));
    let before = stats();
    for shift in YEARS {
        set(shift);
        for sleep in follow.iter_mut().chain(&mut keep) {
            assert!(
                poll_idly(sleep.as_mut()).is_pending(),
                "{shift:?}: {sleep:?}"
            );
        }
        assert!(poll_idly(boot.as_mut()).is_pending(), "{shift:?}");
        assert!(poll_idly(atomic.as_mut()).is_pending(), "{shift:?}");
        for _ in 0..100 {
            let _turn = worker.turn();
        }
    }
    let after = stats();
    assert_eq!(after.clock_sets - before.clock_sets, YEARS.len() as u64);
    let looks = after.interrupts - before.interrupts;
    assert!(looks < 100, "{looks} looks at the queues");
    assert_last_set_is_one_line();
    set(wall(61 * YEAR));
    assert!(poll_idly(follow[0].as_mut()).is_ready());
    set(all(i64::MAX));
    for sleep in &mut follow {
        assert!(poll_idly(sleep.as_mut()).is_ready(), "the end of the range");
    }
    for sleep in &mut keep {
        assert!(poll_idly(sleep.as_mut()).is_pending());
    }
    drop(worker);
}

/// Checks the line of the last set of [`YEARS`], which began at the beginning of the range.
fn assert_last_set_is_one_line() {
    let last = tickless::clock::last_set().expect("there was one");
    assert!(
        last.boottime > 200 * YEAR && last.realtime > 200 * YEAR,
        "{last}"
    );
    let mut text = String::new();
    tickless::dump(&mut text).expect("a string takes it");
    let of_sets = |line: &&str| line.starts_with("clock sets: ");
    let lines: Vec<_> = text.lines().filter(of_sets).collect();
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(lines[0].ends_with(&last.to_string()), "{lines:?}");
}

/// B41: after a faked stop of ten minutes a process continues with one expiry of a periodic timer, and the timers that
/// were due meanwhile fire.
#[test]
fn a_process_that_was_stopped_goes_on_without_a_storm() {
    const NAME: &str = "a_process_that_was_stopped_goes_on_without_a_storm";
    let _clocks = Clocks::begin();
    if let Some(mut process) = support::process_of_its_own(NAME) {
        let mut child = process.spawn().expect("it starts");
        let id = Pid::from_child(&child);
        let (_, status) = waitpid(Some(id), WaitOptions::UNTRACED)
            .expect("it is a child")
            .expect("it stopped or ended");
        if status.stopped() {
            kill_process(id, Signal::CONT).expect("it is there");
        }
        assert!(child.wait().expect("it is a child").success());
        return;
    }
    set(Shifts::default());
    let (calls, most) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let (counts, mosts) = (Arc::clone(&calls), Arc::clone(&most));
    let beat = pin!(HrTimer::with_setup(
        Setup::new(),
        move |expired: &mut Expired<'_, '_, Boottime>| {
            let missed = expired.forward_now(Span::from_millis(50));
            counts.fetch_add(1, Ordering::Relaxed);
            mosts.fetch_max(missed, Ordering::Relaxed);
            Restart::Yes
        },
    ));
    let start = boottime::Instant::now();
    let _ = beat.as_ref().start(start);
    let mut alarm = pin!(sleep_until(
        SystemTime::now() + Duration::from_secs(599),
        OnSet::Follow
    ));
    let (wakes, waker) = Wakes::new();
    assert!(poll_with(alarm.as_mut(), &waker).is_pending());
    kill_process(getpid(), Signal::STOP).expect("it may stop itself");
    let ten_minutes = 600 * SEC;
    set(all(ten_minutes));
    assert_eq!(
        woken(alarm, &wakes, &waker),
        Poll::Ready(Ended::DueAfterSet)
    );
    until(|| most.load(Ordering::Relaxed) >= 11_999);
    let periods = start.elapsed().as_millis() / 50 + 1;
    let calls = u128::from(calls.load(Ordering::Relaxed));
    assert!(
        calls <= periods - 11_990,
        "{calls} calls in {periods} periods"
    );
    beat.as_ref().cancel();
}

#[test]
fn a_sleep_is_reset_to_another_time_of_day_with_its_policy() {
    let _clocks = Clocks::begin();
    for on_set in [OnSet::FireNow, OnSet::Follow, OnSet::Keep] {
        let mut sleep = pin!(sleep_until(SystemTime::now() + HOUR, on_set));
        assert!(poll_idly(sleep.as_mut()).is_pending());
        let soon = SystemTime::now() + ms(2);
        sleep.as_mut().reset(soon);
        assert_eq!(sleep.deadline(), soon);
        assert_eq!(block_on(sleep.as_mut()), Ended::Due);
        // Sets count from the reset on.
        set(wall(SEC));
        assert!(sleep.clock_was_set());
        let later = SystemTime::now() + HOUR * 2;
        sleep.as_mut().reset(later);
        assert!(!sleep.clock_was_set());
        assert!(poll_idly(sleep.as_mut()).is_pending());
        set(wall(nanos(3)));
        match on_set {
            OnSet::FireNow | OnSet::Follow => {
                assert_eq!(block_on(sleep.as_mut()), Ended::DueAfterSet);
            }
            _ => assert!(poll_idly(sleep.as_mut()).is_pending()),
        }
        set(Shifts::default());
    }
}

#[test]
fn a_limit_by_the_time_of_day_says_why_it_ended() {
    let _clocks = Clocks::begin();
    let never = || std::future::pending::<()>();
    assert_eq!(
        block_on(realtime::timeout(HOUR, OnSet::Follow, async { 7 })),
        Ok(7)
    );
    let elapsed = block_on(realtime::timeout(ms(1), OnSet::Follow, never())).unwrap_err();
    assert_eq!(elapsed.ended(), Ended::Due);
    assert_eq!(elapsed.to_string(), "deadline has elapsed");

    let deadline = SystemTime::now() + HOUR * 2;
    let mut follows = pin!(realtime::timeout_at(deadline, OnSet::Follow, never()));
    let mut fires = pin!(realtime::timeout_at(deadline, OnSet::FireNow, never()));
    assert!(poll_idly(follows.as_mut()).is_pending() && poll_idly(fires.as_mut()).is_pending());
    set(wall(nanos(1)));
    assert!(poll_idly(follows.as_mut()).is_pending());
    let set_first = block_on(fires).unwrap_err();
    assert_eq!(set_first.ended(), Ended::ClockSet);
    assert_eq!(set_first.to_string(), "the time of day was set");
    set(wall(nanos(3)));
    assert_eq!(block_on(follows).unwrap_err().ended(), Ended::DueAfterSet);
}

#[test]
fn an_interval_of_the_time_of_day_follows_sets() {
    let _clocks = Clocks::begin();
    let start = SystemTime::now();
    let mut interval = realtime::interval_at(start, HOUR);
    interval.set_missed_tick_behavior(time::MissedTickBehavior::Skip);
    assert_eq!(block_on(interval.tick()), start);
    assert!(poll_idly(pin!(interval.tick())).is_pending());
    // Past three ticks and a half: the first of them comes, and the others were missed.
    set(wall(nanos(7) / 2));
    assert_eq!(block_on(interval.tick()), start + HOUR);
    assert_eq!(interval.missed_ticks(), 2);
    assert!(poll_idly(pin!(interval.tick())).is_pending());
    set(wall(nanos(4) + SEC));
    assert_eq!(block_on(interval.tick()), start + HOUR * 4);
    // Back again: the next one is at its own time all the same.
    set(Shifts::default());
    assert!(poll_idly(pin!(interval.tick())).is_pending());
    set(wall(nanos(5) + SEC));
    assert_eq!(block_on(interval.tick()), start + HOUR * 5);
    assert_eq!(interval.missed_ticks(), 2);
}

#[test]
fn an_interval_with_suspended_time_goes_on_while_the_machine_sleeps() {
    let _clocks = Clocks::begin();
    let start = boottime::Instant::now();
    let mut interval = boottime::interval_at(start, HOUR);
    interval.set_missed_tick_behavior(time::MissedTickBehavior::Delay);
    assert_eq!(block_on(interval.tick()), start);
    assert!(poll_idly(pin!(interval.tick())).is_pending());
    set(all(nanos(5) / 2));
    assert_eq!(block_on(interval.tick()), start + HOUR);
    assert_eq!(interval.missed_ticks(), 1);
    // Delayed: an hour after the one that was taken late.
    assert!(poll_idly(pin!(interval.tick())).is_pending());
    set(all(nanos(3) + SEC));
    assert!(poll_idly(pin!(interval.tick())).is_pending());
    set(all(nanos(4)));
    assert!(block_on(interval.tick()) >= start + HOUR * 7 / 2);
}
