//! Cases that compare far-exact timers with a host that sorts all timers: the same firing times, no additional
//! interrupt, and a small tree.
//!
//! Twins are two rigs that execute the same script. In one rig the timers stand in the far wheel while they are far; in
//! the other rig they are sorted from the beginning.

use alloc::collections::BTreeSet;
use alloc::sync::Arc;
use alloc::task::Wake;
use core::pin::Pin;
use core::task::Waker;

use tickless_core::base::TimerQueue;
use tickless_core::coarse::Tick;
use tickless_core::hrtimer::{Expired, Restart, Setup, Sleeper, Start};
use tickless_core::platform::CpuId;
use tickless_core::time::{Boottime, Clock, ClockId, Instant, Span};
use tickless_link::lock::{Lock, SpinLock};

use crate::prelude::*;
use crate::random::Random;
use crate::suite::{at, at_on, drawn};
use crate::{DeviceClass, Host, Rig, TestTimer};

const MILLI: i64 = 1_000_000;
const SECOND: i64 = 1_000 * MILLI;
/// The delay, in nanoseconds, after which a timer armed in the past fires.
const FORCED: i64 = 20;
const DAY: i64 = 86_400 * SECOND;

/// The numbers of the sleepers that have fired since they were last read.
struct Woken(Lock<SpinLock, Vec<usize>>);

impl Woken {
    fn take(&self) -> Vec<usize> {
        let mut woken = core::mem::take(&mut *self.0.lock(None));
        woken.sort_unstable();
        woken
    }
}

/// A waker that notes the firing of one timer.
struct Note {
    number: usize,
    woken: Arc<Woken>,
}

impl Wake for Note {
    fn wake(self: Arc<Self>) {
        self.woken.0.lock(None).push(self.number);
    }
}

/// A rig with sleepers, which are cancelled when the rig is dropped.
struct Sleepers<H: Host> {
    rig: Rig<H>,
    sleepers: Vec<Pin<Box<Sleeper>>>,
    woken: Arc<Woken>,
}

impl<H: Host> Sleepers<H> {
    fn new(cpus: u32, count: usize) -> Self {
        Self {
            rig: Rig::with_devices(cpus, DeviceClass::Software),
            sleepers: (0..count).map(|_| Box::pin(Sleeper::new())).collect(),
            woken: Arc::new(Woken(Lock::new(SpinLock::new(), Vec::new()))),
        }
    }

    fn start(&mut self, cpu: u32, number: usize, start: Start) {
        let waker = Waker::from(Arc::new(Note {
            number,
            woken: Arc::clone(&self.woken),
        }));
        let sleeper = self.sleepers[number].as_mut();
        let timers = self.rig.timers();
        drop(self.rig.on(cpu, || sleeper.start(timers, start, waker)));
    }

    fn push_out(&self, cpu: u32, number: usize, start: Start) -> bool {
        let sleeper = self.sleepers[number].as_ref();
        let timers = self.rig.timers();
        self.rig.on(cpu, || sleeper.restart(timers, start))
    }

    fn cancel(&self, cpu: u32, number: usize) -> bool {
        let sleeper = self.sleepers[number].as_ref();
        let timers = self.rig.timers();
        self.rig.on(cpu, || sleeper.cancel(timers)).is_some()
    }

    /// Arms the device of each CPU exactly, as an idle CPU does before it sleeps.
    fn settle(&self) {
        for cpu in 0..self.rig.cpus() {
            self.rig
                .on(cpu, || self.rig.timers().settle_armed(CpuId(cpu)));
        }
    }
}

impl<H: Host> Drop for Sleepers<H> {
    fn drop(&mut self) {
        for number in 0..self.sleepers.len() {
            self.cancel(0, number);
        }
    }
}

/// Draws a random distance, near and far equally often.
fn distance(random: &mut Random) -> i64 {
    let bits = random.between(4, 50);
    random.between(0, 1 << bits)
}

/// Far-exact timers fire at the same instants as sorted timers, and with as many interrupts.
pub fn they_fire_when_sorted_timers_do_and_cost_no_interrupt_more<H: Host>() {
    const TIMERS: usize = 24;
    let mut fired_in_all = 0;
    for seed in 0..drawn(60) {
        let mut random = Random::new(seed);
        let mut far = Sleepers::<H>::new(1, TIMERS);
        let sorted = Rig::<H>::with_devices(1, DeviceClass::Software);
        let timers = sorted_timers(&sorted, TIMERS, |_| Restart::No);
        let mut seen = [0; TIMERS];
        for _ in 0..200 {
            for _ in 0..random.between(1, 6) {
                let number = random.index(TIMERS);
                let deadline = far.rig.now() + distance(&mut random);
                let (start, twin) = (at(deadline), at_on(deadline));
                match random.index(5) {
                    0 => {
                        let was_queued = sorted.on(0, || timers[number].cancel());
                        assert_eq!(far.cancel(0, number), was_queued);
                    }
                    1 | 2 if timers[number].is_queued() => {
                        assert!(far.push_out(0, number, start));
                        sorted.on(0, || timers[number].start(twin));
                    }
                    _ => {
                        far.start(0, number, start);
                        sorted.on(0, || timers[number].start(twin));
                    }
                }
                far.rig.check();
            }
            far.settle();
            assert_eq!(far.rig.armed(0), sorted.armed(0), "seed {seed}");
            let until = if random.one_in(2) {
                // Exactly until something fires.
                far.rig.fires_at(0).unwrap_or(0).max(far.rig.now())
            } else {
                far.rig.now() + distance(&mut random)
            };
            far.rig.run_until(until);
            sorted.run_until(until);
            let fired = |number: &usize| timers[*number].fired_at().len() > seen[*number];
            let expected: Vec<usize> = (0..TIMERS).filter(fired).collect();
            for &number in &expected {
                seen[number] = timers[number].fired_at().len();
            }
            fired_in_all += expected.len();
            assert_eq!(far.woken.take(), expected, "seed {seed} at {until}");
        }
        let (far, sorted) = (far.rig.stats(0), sorted.stats(0));
        assert_eq!(far.interrupts, sorted.interrupts, "seed {seed}");
        assert_eq!(far.spurious, 0, "seed {seed}");
        assert_eq!(
            (far.expired, far.cancelled),
            (sorted.expired, sorted.cancelled)
        );
    }
    assert!(
        fired_in_all > drawn(2_000),
        "only {fired_in_all} timers fired"
    );
}

/// Makes timers that enter the exact queue at once, and never the far wheel, because their clock can be set. The clock
/// is never set here, so it shows the monotonic time.
fn sorted_timers<H: Host>(
    rig: &Rig<H>,
    count: usize,
    callback: fn(&mut Expired<'_, '_, Boottime>) -> Restart,
) -> Vec<TestTimer<H, Boottime>> {
    assert_eq!(rig.offset(Clock::Boottime), 0);
    let new = |_| TestTimer::with_setup(rig, Setup::new(), callback);
    (0..count).map(new).collect()
}

/// The callback of the twins: it starts some of the timers again, near or far.
fn called<T: ClockId>(expired: &mut Expired<'_, '_, T>) -> Restart {
    let deadline = expired.deadline().as_nanos().unsigned_abs();
    if !deadline.is_multiple_of(3) {
        return Restart::No;
    }
    expired.forward_now(Span::from_nanos(1_000 << (deadline % 20)));
    Restart::Yes
}

/// Far-exact timers with callbacks fire when sorted timers fire, and the device is armed and written as for sorted
/// timers at every moment. No CPU settles its device here.
pub fn with_callbacks_they_fire_and_write_the_device_as_sorted_timers_do<H: Host>() {
    const TIMERS: usize = 24;
    let mut fired_in_all = 0;
    for seed in 0..drawn(60) {
        let mut random = Random::new(seed);
        let rigs = [0; 2].map(|_| Rig::<H>::with_devices(1, DeviceClass::Software));
        let [far, sorted] = &rigs;
        let twins = sorted_timers(sorted, TIMERS, called);
        let timers: Vec<_> = (0..TIMERS)
            .map(|_| TestTimer::<H>::with_setup(far, Setup::new(), called))
            .collect();
        for _ in 0..200 {
            for _ in 0..random.between(1, 6) {
                let number = random.index(TIMERS);
                let (timer, twin) = (&timers[number], &twins[number]);
                let deadline = far.now() + distance(&mut random);
                match random.index(6) {
                    0 | 1 => {
                        let was_queued = far.on(0, || timer.cancel());
                        assert_eq!(was_queued, sorted.on(0, || twin.cancel()));
                    }
                    2 => {
                        let started = far.on(0, || timer.start_checked(at(deadline)));
                        let expected = sorted.on(0, || twin.start_checked(at_on(deadline)));
                        assert_eq!(started, expected);
                    }
                    _ => {
                        far.on(0, || timer.start(at(deadline)));
                        sorted.on(0, || twin.start(at_on(deadline)));
                    }
                }
                assert_eq!(far.armed(0), sorted.armed(0), "seed {seed}");
                assert_eq!(timer.deadline(), twin.deadline());
                if random.one_in(8) {
                    let expected = twin.next_event_without(0);
                    assert_eq!(timer.next_event_without(0), expected, "seed {seed}");
                }
                far.check();
            }
            let until = if random.one_in(2) {
                far.fires_at(0).unwrap_or(0).max(far.now())
            } else {
                far.now() + distance(&mut random).min(SECOND)
            };
            far.run_until(until);
            sorted.run_until(until);
            assert_eq!(far.armed(0), sorted.armed(0), "seed {seed} at {until}");
            for (timer, twin) in timers.iter().zip(&twins) {
                assert_eq!(timer.fired_at(), twin.fired_at(), "seed {seed} at {until}");
            }
        }
        fired_in_all += far.stats(0).expired;
        let did = |rig: &Rig<H>| {
            let stats = rig.stats(0);
            [
                stats.interrupts,
                stats.spurious,
                stats.device_writes,
                stats.starts,
                stats.expired,
                stats.cancelled,
            ]
        };
        assert_eq!(did(far), did(sorted), "seed {seed}");
    }
    assert!(
        fired_in_all > drawn(5_000),
        "only {fired_in_all} timers fired"
    );
}

/// OBJ-15: a timer that is started for a far deadline while its callback executes stays in its tree until the callback
/// ends. A timer that its callback starts again for a far deadline goes to the far wheel at once.
pub fn a_timer_goes_far_when_its_callback_has_ended<H: Host>() {
    let rig = Rig::<H>::new(1);
    let (by_another, by_itself) = (20 * SECOND, 30 * SECOND);
    let timer = {
        let rig = rig.clone();
        TestTimer::cyclic(&rig.clone(), Setup::new(), move |own, expired| {
            if expired.deadline().as_nanos() == 1_000 {
                own.start(at(by_another));
                assert_eq!(rig.timers().sorted(CpuId(0)), 1);
                return Restart::No;
            }
            expired.set_deadline(Instant::from_nanos(by_itself));
            if expired.now().as_nanos() < by_itself {
                Restart::Yes
            } else {
                Restart::No
            }
        })
    };
    // In its tree there is another one, so that no search for the next event takes it out of its slot.
    let other = TestTimer::once(&rig);
    rig.on(0, || timer.start(at(1_000)));
    rig.run_until(2_000);
    rig.check();
    assert_eq!(timer.deadline(), Some(by_another));
    rig.run_until(by_another - MILLI);
    rig.on(0, || other.start(at(by_another + MILLI)));
    rig.run_until(by_another);
    rig.check();
    assert_eq!(rig.timers().sorted(CpuId(0)), 1, "the other one");
    assert_eq!(timer.deadline(), Some(by_itself));
    rig.run_until(by_itself);
    assert_eq!(timer.fired_at(), [1_000, by_another, by_itself]);
    assert_eq!(rig.stats(0).interrupts, 4);
}

/// 3.7: the timer that is left out does not count, even if it stands in a slot with too many timers to be sorted.
pub fn the_next_event_without_a_timer_of_a_crowded_slot_is_that_of_another<H: Host>() {
    let rig = Rig::<H>::new(1);
    let timers: Vec<_> = (0..600).map(|_| TestTimer::once(&rig)).collect();
    rig.on(0, || {
        for (timer, deadline) in timers.iter().zip(30 * SECOND..) {
            timer.start(at(deadline));
        }
    });
    for _ in 0..2 {
        assert_eq!(timers[0].next_event_without(0), 30 * SECOND + 1);
        assert_eq!(timers[9].next_event_without(0), 30 * SECOND);
    }
    rig.check();
}

/// No timer is lost or early when timers are started, cancelled and moved from everywhere, and CPUs come online and go
/// offline.
pub fn they_survive_moves_and_hotplug<H: Host>() {
    const TIMERS: usize = 16;
    for seed in 0..drawn(80) {
        let mut random = Random::new(seed);
        let mut far = Sleepers::<H>::new(3, TIMERS);
        let mut deadlines = [None; TIMERS];
        let mut online = [true; 3];
        for _ in 0..150 {
            let cpu = u32::try_from(random.index(3)).expect("small");
            if !online[cpu as usize] {
                far.rig.online(cpu);
                online[cpu as usize] = true;
            } else if cpu != 0 && random.one_in(8) {
                far.rig.offline(cpu);
                online[cpu as usize] = false;
                continue;
            }
            let number = random.index(TIMERS);
            let deadline = far.rig.now() + distance(&mut random);
            match random.index(4) {
                0 => assert_eq!(far.cancel(cpu, number), deadlines[number].take().is_some()),
                1 => {
                    if far.push_out(cpu, number, at(deadline)) {
                        deadlines[number] = Some(deadline);
                    } else {
                        assert_eq!(deadlines[number], None);
                    }
                }
                _ => {
                    far.start(cpu, number, at(deadline));
                    deadlines[number] = Some(deadline);
                }
            }
            far.rig.deliver_all();
            let until = far.rig.now() + FORCED + distance(&mut random) / 8;
            far.rig.run_until(until);
            for (number, deadline) in deadlines.iter_mut().enumerate() {
                if deadline.is_some_and(|deadline| (until - FORCED..=until).contains(&deadline)) {
                    far.rig.run_until(until + FORCED);
                }
                let is_over = deadline.is_some_and(|deadline| deadline <= until);
                assert_eq!(
                    far.sleepers[number].is_queued(),
                    deadline.is_some() && !is_over,
                    "seed {seed}: timer {number} for {deadline:?} at {until}"
                );
                deadline.take_if(|_| is_over);
            }
            far.woken.take();
        }
    }
}

/// Timeouts of one length, of which few fire: the tree holds little more than the timers that are about to fire.
pub fn the_tree_stays_small<H: Host>() {
    const TIMERS: usize = 4_000;
    let mut far = Sleepers::<H>::new(1, TIMERS);
    // One each 0.5 ms for 2 s, for 60 s each; then each is started again in its turn, but every hundredth.
    let step = MILLI / 2;
    for number in 0..TIMERS {
        far.start(0, number, at(far.rig.now() + 60 * SECOND));
        far.rig.spend(step);
    }
    let mut largest = 0;
    for round in 0..40 {
        for number in (0..TIMERS).filter(|number| number % 100 != 0) {
            far.push_out(0, number, at(far.rig.now() + 60 * SECOND));
        }
        far.rig.run_until(far.rig.now() + 2 * SECOND);
        let sorted = far.rig.timers().sorted(CpuId(0));
        largest = largest.max(sorted);
        assert_eq!(
            far.rig.timers().pending(CpuId(0)),
            TIMERS - far.woken.0.lock(None).len(),
            "round {round}"
        );
    }
    assert_eq!(far.woken.take().len(), TIMERS / 100);
    assert!(largest <= 300, "{largest} of {TIMERS} were sorted");
}

/// A timer beyond the range of the far wheel, up to the end of time, is exact.
pub fn what_is_very_far_is_exact_too<H: Host>() {
    let mut far = Sleepers::<H>::new(1, 4);
    let deadlines = [40 * DAY / 24, 10 * DAY + 1, 3_650 * DAY + 7, i64::MAX - 1];
    for (number, deadline) in deadlines.into_iter().enumerate() {
        far.start(0, number, at(deadline));
    }
    far.settle();
    for (number, deadline) in deadlines.into_iter().take(3).enumerate() {
        far.rig.run_until(deadline - 1);
        assert!(far.woken.take().is_empty());
        far.rig.run_until(deadline);
        assert_eq!(far.woken.take(), [number]);
    }
    assert_eq!(
        far.rig.stats(0).interrupts,
        3,
        "none for the sake of filing"
    );
    assert!(far.sleepers[3].is_queued());
}

/// A slot with too many timers to be emptied early costs one interrupt, and nothing else.
pub fn crowded_slots_are_exact_too<H: Host>() {
    const TIMERS: usize = 3_000;
    let mut far = Sleepers::<H>::new(1, TIMERS);
    let deadline = |number: usize| 30 * SECOND + i64::try_from(number).expect("small") * 7_000;
    for number in 0..TIMERS {
        far.start(0, number, at(deadline(number)));
    }
    far.settle();
    let before = far.rig.stats(0).interrupts;
    for number in (0..TIMERS).step_by(97) {
        far.rig.run_until(deadline(number) - 1);
        assert!(far.sleepers[number].is_queued());
        // Each interrupt files 1,024 of them finer, and the next one is armed in the past.
        far.rig.run_until(deadline(number) + 10 * FORCED);
        assert!(!far.sleepers[number].is_queued());
    }
    far.rig.run_until(60 * SECOND);
    assert_eq!(far.woken.take().len(), TIMERS);
    let interrupts = far.rig.stats(0).interrupts - before;
    assert!(
        interrupts <= TIMERS as u64 + 40,
        "{interrupts} interrupts for {TIMERS} timers"
    );
}

/// OBJ-21: a timer with slack is not sorted while it is far. To push it out takes one store, however its slack changes.
pub fn a_timer_with_slack_is_far_too<H: Host>() {
    let mut far = Sleepers::<H>::new(1, 1);
    let sorted = |far: &Sleepers<H>| far.rig.timers().sorted(CpuId(0));
    let slack = Span::from_millis(5);
    far.start(0, 0, at(20 * SECOND).slack(slack));
    assert_eq!(sorted(&far), 0);
    assert_eq!(
        far.rig.armed(0),
        Instant::from_nanos(20 * SECOND + 5 * MILLI)
    );
    let before = far.rig.stats(0).far_in_slot;
    let longer = Span::from_millis(9);
    assert!(far.push_out(0, 0, at(20 * SECOND + MILLI).slack(longer)));
    assert!(far.push_out(0, 0, at(20 * SECOND + 10 * MILLI)));
    assert_eq!(far.rig.stats(0).far_in_slot - before, 2);
    // The hard expiry as before, the soft one earlier: it has to be enqueued for that, and is due before it.
    assert!(far.push_out(0, 0, at(20 * SECOND).slack(Span::from_millis(10))));
    assert_eq!(far.rig.stats(0).far_in_slot - before, 2);
    assert_eq!(sorted(&far), 0);
    far.settle();
    assert_eq!(
        far.rig.armed(0),
        Instant::from_nanos(20 * SECOND + 10 * MILLI)
    );
    assert_eq!(far.rig.timers().pending(CpuId(0)), 1);
}

/// OBJ-21, INV-1: a far timer moves if its soft expiry becomes later and its hard expiry earlier, and the device is
/// programmed for the new hard expiry.
pub fn a_far_timer_that_loses_slack_is_armed_for_what_is_left<H: Host>() {
    let mut far = Sleepers::<H>::new(1, 1);
    far.start(0, 0, at(20 * SECOND).slack(Span::from_millis(10)));
    assert!(far.push_out(0, 0, at(20 * SECOND + 2 * MILLI)));
    far.rig.check();
    let left = Instant::from_nanos(20 * SECOND + 2 * MILLI);
    assert_eq!(far.rig.armed(0), left);
}

/// OBJ-9, OBJ-21: an interrupt also fires a far timer whose soft expiry has passed, and no other far timer, however
/// late the hard expiry is.
pub fn an_interrupt_takes_along_what_was_far<H: Host>() {
    for (when, fires) in [(-1, false), (0, true), (MILLI, true)] {
        let mut far = Sleepers::<H>::new(1, 2);
        // The slack reaches over many slots of the far wheel.
        let patient = at(20 * SECOND).slack(Span::from_secs(4));
        far.start(0, 0, patient);
        far.start(0, 1, at(20 * SECOND + when));
        far.rig.run_until(20 * SECOND + 2 * MILLI);
        let expected: &[usize] = if fires { &[0, 1] } else { &[1] };
        assert_eq!(far.woken.take(), expected, "{when} ns from the soft expiry");
        assert_eq!(far.rig.stats(0).interrupts, 1);
    }
}

/// A4, OBJ-10, OBJ-21: with any slack, near or far, moved or not, timers fire within their slack, and every interrupt
/// finds a due timer.
pub fn within_their_slack_they_fire_and_nowhere_else<H: Host>() {
    const TIMERS: usize = 24;
    let mut together = 0;
    for seed in 0..drawn(60) {
        let mut random = Random::new(seed);
        let mut far = Sleepers::<H>::new(1, TIMERS);
        let mut windows = [None; TIMERS];
        for _ in 0..150 {
            for _ in 0..random.between(1, 6) {
                let number = random.index(TIMERS);
                let soft = far.rig.now() + distance(&mut random);
                let bits = random.between(0, 32);
                let slack = random.below(1 << bits);
                let start = at(soft).slack(Span::from_nanos(slack));
                let hard = soft + i64::try_from(slack).expect("small");
                if !(random.one_in(2) && far.push_out(0, number, start)) {
                    far.start(0, number, start);
                }
                windows[number] = Some((soft, hard));
                far.rig.check();
            }
            far.settle();
            // Exactly until something fires, or to some time before.
            let fires = far.rig.fires_at(0).unwrap_or(0).max(far.rig.now());
            let until = fires.min(far.rig.now() + FORCED + distance(&mut random));
            far.rig.run_until(until);
            let woken = far.woken.take();
            together += usize::from(woken.len() > 1);
            for number in woken {
                let (soft, hard) = windows[number].take().expect("what fires was armed");
                assert!(
                    soft <= until && until <= hard.max(soft + 2 * FORCED),
                    "seed {seed}: timer {number} of {soft} to {hard} fired at {until}"
                );
            }
            for (soft, hard) in windows.into_iter().flatten() {
                assert!(
                    until < hard + 2 * FORCED,
                    "seed {seed}: {soft} to {hard} missed at {until}"
                );
            }
        }
        assert_eq!(far.rig.stats(0).spurious, 0, "seed {seed}");
    }
    assert!(
        together > drawn(200),
        "only {together} interrupts were shared"
    );
}

/// OBJ-22: timers at random times that may be a millisecond late cost at most one interrupt for each millisecond.
pub fn a_millisecond_of_slack_bounds_the_interrupts<H: Host>() {
    const SLACK: Span = Span::from_millis(1);
    for timers in [100, 1_000, 10_000] {
        let mut far = Sleepers::<H>::new(1, timers);
        let mut random = Random::new(12);
        let start = far.rig.now();
        let mut latest = Vec::new();
        for number in 0..timers {
            let soft = Instant::from_nanos(start + 3 * SECOND + random.between(0, SECOND - 1));
            let hard = soft.roundest_within(SLACK);
            latest.push(hard);
            far.start(
                0,
                number,
                Start::at(soft).slack(hard.saturating_since(soft)),
            );
        }
        far.settle();
        let meetings: BTreeSet<_> = latest.into_iter().collect();
        assert!(meetings.len() <= 1_001);
        far.rig.run_until(start + 5 * SECOND);
        assert_eq!(far.woken.take().len(), timers);
        let stats = far.rig.stats(0);
        // A slot of the far wheel that holds more than 256 costs one when it is due: 64 ms of ten for a millisecond.
        let crowded = if timers > 4_000 { 32 } else { 0 };
        assert!(
            stats.interrupts <= meetings.len() as u64 + crowded,
            "{} interrupts for {timers} timers that meet at {} times",
            stats.interrupts,
            meetings.len()
        );
    }
}

/// A push-out that leaves a far timer in its slot is counted separately from a push-out that keeps a sorted timer in
/// its place.
pub fn starts_that_leave_a_far_timer_in_its_slot_are_counted_by_themselves<H: Host>() {
    let mut far = Sleepers::<H>::new(1, 1);
    far.start(0, 0, at(20 * SECOND));
    let before = far.rig.stats(0);
    assert!(far.push_out(0, 0, at(21 * SECOND)));
    let after = far.rig.stats(0);
    assert_eq!(after.far_in_slot - before.far_in_slot, 1);
    assert_eq!((after.in_place, after.filed_early, after.kept()), (0, 0, 1));
    assert!(far.push_out(0, 0, at(5 * SECOND)));
    assert_eq!(far.rig.stats(0).kept(), 1, "it went to another slot");
}

/// A push-out without a start takes effect only on a far timer of this CPU, and only if the new deadline is later.
pub fn a_far_sleeper_is_pushed_out_where_it_is_or_not_at_all<H: Host>() {
    let far = &mut Sleepers::<H>::new(2, 2);
    let push_out = |far: &Sleepers<H>, cpu, number: usize, deadline| {
        let (sleeper, timers) = (far.sleepers[number].as_ref(), far.rig.timers());
        far.rig.on(cpu, || {
            let deadline = Instant::from_nanos(deadline);
            sleeper.restart_in_place(timers, (deadline, deadline), Tick(0))
        })
    };
    assert!(!push_out(far, 0, 0, 20 * SECOND), "it was never started");
    far.start(0, 0, at(20 * SECOND).slack(Span::from_millis(5)));
    assert!(!push_out(far, 1, 0, 30 * SECOND), "of another CPU");
    assert!(!push_out(far, 0, 0, 20 * SECOND), "before its hard expiry");
    let before = far.rig.stats(0);
    // The device is armed for it, and stays so until the CPU is about to sleep.
    let armed = far.rig.armed(0);
    assert!(push_out(far, 0, 0, 30 * SECOND));
    assert_eq!(far.rig.armed(0), armed);
    let after = far.rig.stats(0);
    assert_eq!(after.far_in_slot - before.far_in_slot, 1);
    assert_eq!(after.device_writes, before.device_writes);
    far.settle();
    assert_eq!(far.rig.armed(0).as_nanos(), 30 * SECOND);
    // Settled, it is the first of the tree.
    assert!(!push_out(far, 0, 0, 40 * SECOND), "it is sorted");
    far.start(0, 1, at(50 * SECOND));
    assert!(push_out(far, 0, 1, 60 * SECOND), "behind another one");
    far.rig.check();
    far.rig.run_until(30 * SECOND - 1);
    assert_eq!(far.woken.take(), []);
    far.rig.run_until(30 * SECOND);
    assert_eq!(far.woken.take(), [0]);
    far.rig.run_until(60 * SECOND - 1);
    assert_eq!(far.woken.take(), []);
    far.rig.run_until(60 * SECOND);
    assert_eq!(far.woken.take(), [1]);
    assert!(!push_out(far, 0, 1, 70 * SECOND), "it fired");
}

crate::kit::cases!(far:
    a_far_sleeper_is_pushed_out_where_it_is_or_not_at_all [CPUS],
    starts_that_leave_a_far_timer_in_its_slot_are_counted_by_themselves,
    they_fire_when_sorted_timers_do_and_cost_no_interrupt_more [DEVICES],
    with_callbacks_they_fire_and_write_the_device_as_sorted_timers_do [DEVICES],
    a_timer_goes_far_when_its_callback_has_ended,
    the_next_event_without_a_timer_of_a_crowded_slot_is_that_of_another,
    they_survive_moves_and_hotplug [CPUS],
    the_tree_stays_small,
    what_is_very_far_is_exact_too,
    crowded_slots_are_exact_too,
    a_timer_with_slack_is_far_too,
    a_far_timer_that_loses_slack_is_armed_for_what_is_left,
    an_interrupt_takes_along_what_was_far,
    within_their_slack_they_fire_and_nowhere_else,
    a_millisecond_of_slack_bounds_the_interrupts,
);
