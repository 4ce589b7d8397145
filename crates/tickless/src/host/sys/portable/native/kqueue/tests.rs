//! Tests of the logic on a fake of the system's calls.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::{Calls, Queue, drain_timer, make_timer, set_timer};
use crate::host::sys::portable::sleeper::Sleeper as _;

const HOUR: u64 = 3_600_000_000_000;

#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    Timer(u64),
    NoTimer,
    Bell,
    Ring,
}

/// The state of a queue.
#[derive(Debug, Default)]
struct State {
    timer: Option<Instant>,
    has_bell: bool,
    is_rung: bool,
}

impl State {
    fn change(&mut self, event: Event) -> io::Result<()> {
        match event {
            Event::Timer(left) => self.timer = Some(Instant::now() + Duration::from_nanos(left)),
            Event::NoTimer => drop(self.timer.take().ok_or(io::ErrorKind::NotFound)?),
            Event::Bell => self.has_bell = true,
            Event::Ring if self.has_bell => self.is_rung = true,
            Event::Ring => return Err(io::ErrorKind::NotFound.into()),
        }
        Ok(())
    }

    /// Removes events, up to `room`, and returns their number.
    fn take(&mut self, room: usize) -> usize {
        let mut taken = 0;
        if taken < room && std::mem::take(&mut self.is_rung) {
            taken += 1;
        }
        if taken < room && self.timer.is_some_and(|at| at <= Instant::now()) {
            self.timer = None;
            taken += 1;
        }
        taken
    }
}

static QUEUES: Mutex<Option<HashMap<RawFd, State>>> = Mutex::new(None);
static CHANGED: Condvar = Condvar::new();

fn queues() -> MutexGuard<'static, Option<HashMap<RawFd, State>>> {
    QUEUES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An implementation of queues in memory, each under the number of a descriptor. A signal interrupts every third wait.
#[derive(Debug)]
pub(crate) struct Fake;

impl Calls for Fake {
    type Event = Event;

    fn queue() -> io::Result<OwnedFd> {
        let queue = OwnedFd::from(File::open("/dev/null")?);
        let mut all = queues();
        let all = all.get_or_insert_default();
        all.insert(queue.as_raw_fd(), State::default());
        Ok(queue)
    }

    fn timer(left: u64) -> Event {
        Event::Timer(left)
    }

    fn no_timer() -> Event {
        Event::NoTimer
    }

    fn bell() -> Event {
        Event::Bell
    }

    fn ring() -> Event {
        Event::Ring
    }

    fn call(
        queue: BorrowedFd<'_>,
        changes: &[Event],
        room: &mut [Event],
        waits: bool,
    ) -> io::Result<usize> {
        let mut all = queues();
        let number = queue.as_raw_fd();
        for &change in changes {
            state(&mut all, number).change(change)?;
        }
        CHANGED.notify_all();
        loop {
            let state = state(&mut all, number);
            let taken = state.take(room.len());
            if taken > 0 || !waits || room.is_empty() {
                return Ok(taken);
            }
            if fastrand::u8(..3) == 0 {
                return Err(io::ErrorKind::Interrupted.into());
            }
            let left = state.timer.map_or(Duration::from_secs(3600), |at| {
                at.saturating_duration_since(Instant::now())
            });
            all = CHANGED
                .wait_timeout(all, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
    }
}

fn state<'a>(
    all: &'a mut MutexGuard<'static, Option<HashMap<RawFd, State>>>,
    number: RawFd,
) -> &'a mut State {
    let all = all.as_mut().expect("a queue was made");
    all.get_mut(&number).expect("it was made")
}

#[test]
fn a_sleep_ends_when_its_time_is_over() {
    let sleeper = Queue::<Fake>::make().expect("the fake has queues");
    let start = Instant::now();
    while start.elapsed() < Duration::from_micros(500) {
        let left = Duration::from_micros(500).saturating_sub(start.elapsed());
        assert!(sleeper.sleep(u64::try_from(left.as_nanos()).expect("it is short")));
    }
}

#[test]
fn a_ring_ends_the_sleep_that_goes_on_or_the_next_one() {
    let sleeper = Arc::new(Queue::<Fake>::make().expect("the fake has queues"));
    sleeper.ring();
    assert!(sleeper.sleep(HOUR));
    let other = Arc::clone(&sleeper);
    let ring = thread::spawn(move || other.ring());
    assert!(sleeper.sleep(HOUR));
    ring.join().expect("it does not panic");
}

#[test]
fn a_timer_rings_once_and_is_silent_when_it_was_taken_or_taken_back() {
    let queue = make_timer::<Fake>().expect("the fake has queues");
    let queue = queue.as_fd();
    assert!(!drain_timer::<Fake>(queue));
    set_timer::<Fake>(queue, Some(1));
    while !drain_timer::<Fake>(queue) {
        thread::yield_now();
    }
    assert!(!drain_timer::<Fake>(queue));
    // One that fired, one that did not, and none.
    for left in [Some(1), Some(HOUR), None] {
        set_timer::<Fake>(queue, left);
        thread::sleep(Duration::from_micros(10));
        set_timer::<Fake>(queue, None);
        assert!(!drain_timer::<Fake>(queue));
    }
}

/// The queue of the fake. The tests of [`waiting`](crate::host::sys::waiting) test the protocol of words with this
/// sleeper.
pub(crate) type FakeQueue = Queue<Fake>;
