//! Cases about the order of equal deadlines: timers fire in the order in which they were armed, however far away the
//! deadline is (decision 11).
//!
//! The oracle is a list of the armed timers, in the order of the arming. A timer that was pushed out while it was
//! queued has no promised order; it is there to disturb the others.

use alloc::rc::{Rc, Weak};
use alloc::sync::Arc;
use alloc::task::Wake;
use core::cell::{Cell, RefCell};
use core::pin::Pin;
use core::task::Waker;

use tickless_core::base::TimerQueue;
use tickless_core::coarse::{Restart, Tick, WheelKind};
use tickless_core::hrtimer::{Restart as ExactRestart, Sleeper};
use tickless_core::platform::CpuId;
use tickless_link::lock::{Lock, SpinLock};

use crate::prelude::*;
use crate::random::Random;
use crate::suite::{at, drawn};
use crate::{CoarseTimer, DeviceClass, Host, Rig, TestTimer};

const MILLI: i64 = 1_000_000;
const SECOND: i64 = 1_000 * MILLI;
const HOUR: i64 = 3_600 * SECOND;

/// The numbers of the sleepers that fired, in the order of firing.
type Woken = Arc<Lock<SpinLock, Vec<usize>>>;

/// A waker that notes the firing of one timer.
struct Note {
    number: usize,
    woken: Woken,
}

impl Wake for Note {
    fn wake(self: Arc<Self>) {
        self.woken.lock(None).push(self.number);
    }
}

/// A rig of one CPU with exact timers, and the oracle. The timers are cancelled when the rig is dropped.
struct Exact<H: Host> {
    rig: Rig<H>,
    sleepers: Vec<Pin<Box<Sleeper>>>,
    woken: Woken,
    /// The deadline of each armed timer, and its place in the order of the arming; `None` for the place if the timer
    /// was pushed out.
    armed: Vec<Option<(i64, Option<usize>)>>,
    turns: usize,
}

impl<H: Host> Exact<H> {
    fn new(count: usize) -> Self {
        Self {
            rig: Rig::with_devices(1, DeviceClass::Software),
            sleepers: (0..count).map(|_| Box::pin(Sleeper::new())).collect(),
            woken: Arc::new(Lock::new(SpinLock::new(), Vec::new())),
            armed: vec![None; count],
            turns: 0,
        }
    }

    fn start(&mut self, number: usize, deadline: i64) {
        let waker = Waker::from(Arc::new(Note {
            number,
            woken: Arc::clone(&self.woken),
        }));
        let sleeper = self.sleepers[number].as_mut();
        let timers = self.rig.timers();
        let start = at(deadline);
        drop(self.rig.on(0, || sleeper.start(timers, start, waker)));
        let turn = match self.armed[number] {
            // The deadline that it has is no change, and a later one is only stored, whatever comes then.
            Some((old, turn)) if old == deadline => turn,
            Some((old, _)) if old < deadline => None,
            Some((_, None)) => None,
            _ => {
                self.turns += 1;
                Some(self.turns)
            }
        };
        self.armed[number] = Some((deadline, turn));
    }

    fn cancel(&mut self, number: usize) {
        let sleeper = self.sleepers[number].as_ref();
        let timers = self.rig.timers();
        drop(self.rig.on(0, || sleeper.cancel(timers)));
        self.armed[number] = None;
    }

    /// Arms the device exactly, as an idle CPU does before it sleeps.
    fn settle(&self) {
        self.rig.on(0, || self.rig.timers().settle_armed(CpuId(0)));
    }

    /// Checks the order of the timers that fired since the last check, and returns the number of pairs with equal
    /// deadlines.
    fn check_fired(&mut self, context: &str) -> usize {
        let woken = core::mem::take(&mut *self.woken.lock(None));
        let mut last = (i64::MIN, 0);
        let mut pairs = 0;
        for number in woken {
            let (deadline, turn) = self.armed[number].take().expect("what fires was armed");
            let Some(turn) = turn else { continue };
            assert!(
                last < (deadline, turn),
                "{context}: timer {number} with {:?} fired after {last:?}",
                (deadline, turn)
            );
            pairs += usize::from(last.0 == deadline);
            last = (deadline, turn);
        }
        pairs
    }
}

impl<H: Host> Drop for Exact<H> {
    fn drop(&mut self) {
        for number in 0..self.sleepers.len() {
            self.cancel(number);
        }
    }
}

/// Draws a random distance within the range of the far wheel, near and far equally often.
fn distance(random: &mut Random) -> i64 {
    let bits = random.between(4, 43);
    random.between(0, 1 << bits)
}

/// sleepers with one deadline fire in the order of their starts, in whichever queue they are.
pub fn exact_timers_of_one_deadline_fire_in_turn<H: Host>() {
    const TIMERS: usize = 40;
    let mut pairs = 0;
    for seed in 0..drawn(200) {
        let mut random = Random::new(seed);
        let mut exact = Exact::<H>::new(TIMERS);
        let mut appointments = [0; 4];
        for step in 0..150 {
            for appointment in &mut appointments {
                if *appointment <= exact.rig.now() {
                    *appointment = exact.rig.now() + distance(&mut random);
                }
            }
            for _ in 0..random.between(1, 8) {
                let number = random.index(TIMERS);
                let deadline = appointments[random.index(appointments.len())];
                match random.index(6) {
                    0 => exact.cancel(number),
                    // Armed anew, or it would be pushed out half of the time.
                    1..=4 => {
                        exact.cancel(number);
                        exact.start(number, deadline);
                    }
                    _ => exact.start(number, deadline),
                }
            }
            exact.rig.check();
            if random.one_in(3) {
                exact.settle();
            }
            let nearest = appointments.iter().min().expect("there are some");
            let left = nearest - exact.rig.now();
            let until = match random.index(4) {
                0 => *nearest,
                1 => exact.rig.now() + distance(&mut random) / 16,
                // Shortly before, where timers are armed into the tree at once.
                2 => nearest - random.between(0, left.clamp(1, 3 * MILLI)),
                _ => exact.rig.now() + random.between(0, left.max(1)),
            };
            exact.rig.run_until(until.max(exact.rig.now()));
            pairs += exact.check_fired(&format!("seed {seed}, step {step}"));
        }
    }
    assert!(
        pairs > drawn(5_000),
        "only {pairs} pairs had equal deadlines"
    );
}

/// All timers have one deadline. They are armed one after another while the deadline comes nearer, so each level of the
/// far wheel and the tree hold some of them.
pub fn those_that_were_armed_from_far_away_come_first<H: Host>() {
    for (seed, distance) in [10 * MILLI, 700 * MILLI, 61 * SECOND, 4 * HOUR]
        .into_iter()
        .cycle()
        .take(40)
        .enumerate()
    {
        let mut random = Random::new(seed as u64);
        let mut exact = Exact::<H>::new(60);
        let deadline = distance;
        for number in 0..60 {
            exact.start(number, deadline);
            let left = deadline - exact.rig.now();
            match random.index(6) {
                0 => exact.settle(),
                1 => exact.rig.run_until(deadline - left / 2),
                2 => exact.rig.run_until(deadline - left / 9 * 8),
                _ => {}
            }
        }
        exact.rig.run_until(deadline + MILLI);
        assert_eq!(exact.check_fired(&format!("{distance} ns")), 59);
    }
}

/// Timers keep their order even if a slot holds more of them than can be taken out early, and more than an interrupt
/// cascades at once.
pub fn crowds_keep_their_order<H: Host>() {
    const TIMERS: usize = 3_000;
    for distance in [5 * MILLI, 2 * SECOND, 600 * SECOND] {
        let mut exact = Exact::<H>::new(TIMERS);
        let deadline = distance;
        for number in 0..TIMERS {
            exact.start(number, deadline);
            if number % 500 == 499 {
                exact.settle();
                let left = deadline - exact.rig.now();
                exact.rig.run_until(deadline - left / 2);
            }
        }
        exact.rig.run_until(deadline + SECOND);
        assert_eq!(exact.check_fired(&format!("{distance} ns")), TIMERS - 1);
    }
}

/// Timers with callbacks on one CPU, and the oracle.
struct Crowd<H: Host> {
    timers: Vec<TestTimer<H>>,
    rig: Rig<H>,
    /// The deadline of each armed timer; `None` for a timer that is not armed.
    armed: RefCell<Vec<Option<i64>>>,
    random: RefCell<Random>,
    fired: Cell<usize>,
}

impl<H: Host> Crowd<H> {
    fn new(count: usize, seed: u64) -> Rc<Self> {
        let rig = Rig::with_devices(1, DeviceClass::Software);
        Rc::new_cyclic(|own: &Weak<Self>| Self {
            timers: (0..count)
                .map(|number| {
                    let own = Weak::clone(own);
                    TestTimer::new(&rig, move |_| {
                        own.upgrade().expect("it is alive").note_fired(number);
                        ExactRestart::No
                    })
                })
                .collect(),
            rig,
            armed: RefCell::new(vec![None; count]),
            random: RefCell::new(Random::new(seed)),
            fired: Cell::new(0),
        })
    }

    fn start(&self, number: usize, deadline: i64) {
        self.timers[number].start(at(deadline));
        self.armed.borrow_mut()[number] = Some(deadline);
    }

    fn draw<T>(&self, draw: impl FnOnce(&mut Random) -> T) -> T {
        draw(&mut self.random.borrow_mut())
    }

    /// The callback of the timers. It checks that no other timer had an earlier deadline, and changes timers that are
    /// queued after its own.
    fn note_fired(&self, number: usize) {
        let deadline = self.armed.borrow_mut()[number].take();
        let others = self.armed.borrow().iter().flatten().min().copied();
        let deadline = deadline.expect("what fires was armed");
        assert!(others.is_none_or(|other| deadline <= other), "{others:?}");
        self.fired.set(self.fired.get() + 1);
        let other = self.draw(|random| random.index(self.timers.len()));
        let now = self.rig.now();
        match self.draw(|random| random.index(8)) {
            0 | 1 if other != number => {
                let was_armed = self.armed.borrow_mut()[other].take().is_some();
                assert_eq!(self.timers[other].cancel(), was_armed);
            }
            2 if other != number => {
                let ago = self.draw(|random| random.between(0, 50 * MILLI));
                self.start(other, now - ago);
            }
            3 if other != number => {
                let ahead = self.draw(distance);
                self.start(other, now + ahead);
            }
            _ => {}
        }
    }
}

/// A late interrupt finds many due timers from many slots. They fire in the order of their deadlines, and the timers
/// that a callback cancels, pushes out or starts meanwhile are in the right place.
pub fn what_is_late_fires_in_turn_whatever_callbacks_do<H: Host>() {
    const TIMERS: usize = 60;
    let mut fired = 0;
    for seed in 0..60 {
        let crowd = Crowd::<H>::new(TIMERS, seed);
        let rig = &crowd.rig;
        for _ in 0..20 {
            for _ in 0..TIMERS {
                let number = crowd.draw(|random| random.index(TIMERS));
                let ahead = crowd.draw(distance).min(HOUR);
                rig.on(0, || crowd.start(number, rig.now() + ahead));
            }
            rig.check();
            let late = crowd.draw(distance).min(HOUR);
            rig.spend(late);
            rig.run_until(rig.now() + MILLI);
            rig.check();
            let now = rig.now();
            let left = crowd.armed.borrow().iter().flatten().min().copied();
            assert!(left.is_none_or(|left| left > now - MILLI), "seed {seed}");
        }
        for timer in &crowd.timers {
            rig.on(0, || timer.cancel());
        }
        fired += crowd.fired.get();
    }
    assert!(fired > 10_000, "only {fired} timers fired");
}

/// Timers that are armed together for a very far deadline stay together in the queues until they fire.
pub fn what_is_very_far_keeps_its_order<H: Host>() {
    let mut exact = Exact::<H>::new(20);
    let deadline = 1_000 * HOUR + 1;
    for number in 0..20 {
        exact.start(number, deadline);
    }
    exact.rig.run_until(deadline + MILLI);
    assert_eq!(exact.check_fired("1000 hours"), 19);
}

/// Coarse timers with one expiry that are due at one tick fire slot by slot, the coarser slots first, and within a slot
/// in the order of the arming.
pub fn coarse_timers_that_are_due_together_fire_in_turn<H: Host>() {
    const TIMERS: usize = 24;
    let mut pairs = 0;
    for seed in 0..60 {
        let mut random = Random::new(seed);
        let rig = Rig::<H>::new(1);
        let log = Rc::new(RefCell::new(Vec::new()));
        let timers: Vec<_> = (0..TIMERS)
            .map(|number| {
                let log = Rc::clone(&log);
                CoarseTimer::new(&rig, WheelKind::Local, move |timeout| {
                    log.borrow_mut().push((number, timeout.due, timeout.expiry));
                    Restart::No
                })
            })
            .collect();
        let mut turns = [0; TIMERS];
        for turn in 1..400 {
            let number = random.index(TIMERS);
            timers[number].delete();
            let bits = random.between(0, 9);
            let ahead = random.between(0, 1 << bits);
            // Few different ticks, so that many have the same.
            let expiry = (rig.tick().0 + ahead.unsigned_abs()).next_multiple_of(16);
            rig.on(0, || timers[number].arm(expiry))
                .expect("it is idle");
            turns[number] = turn;
            if random.one_in(3) {
                rig.run_to_tick(Tick(rig.tick().0 + random.below(20)));
            }
            let mut last = (Tick(0), Tick(0), 0);
            for (number, due, expiry) in log.take() {
                if (last.0, last.1) == (due, expiry) {
                    assert!(last.2 < turns[number], "seed {seed}: expiry {expiry:?}");
                    pairs += 1;
                }
                last = (due, expiry, turns[number]);
            }
        }
    }
    assert!(pairs > 1_000, "only {pairs} pairs were due together");
}

crate::kit::cases!(order:
    exact_timers_of_one_deadline_fire_in_turn,
    those_that_were_armed_from_far_away_come_first,
    crowds_keep_their_order,
    what_is_late_fires_in_turn_whatever_callbacks_do,
    what_is_very_far_keeps_its_order,
    coarse_timers_that_are_due_together_fire_in_turn,
);
