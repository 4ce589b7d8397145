//! Loom cases for the clock that follows a reference clock.

use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use loom::thread;

use super::{Follower, Kept, Line, Reference, Sandwich};
use crate::time::Instant;

/// A counter that another thread moves, and a reference that shows the counter times a number of halves.
struct Clocks(AtomicU64, u64);

impl Reference for Clocks {
    fn cycles(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }
    fn nanos(&self) -> i64 {
        (self.0.load(Ordering::SeqCst) * self.1 / 2).cast_signed()
    }
    fn relax(&self, _attempt: u32) {
        thread::yield_now();
    }
}

/// The rate of a nanosecond for a cycle.
const RATE: u64 = 1 << 32;
/// A time that is longer than a window, in nanoseconds.
const LONG: u64 = 60_000;

struct World {
    clocks: Clocks,
    follower: Follower,
    was_read: AtomicBool,
    first: AtomicU64,
}

impl World {
    fn now(&self) -> Instant {
        self.follower
            .now(|| self.clocks.cycles(), || self.follower.ask(&self.clocks))
    }
}

fn world(now: u64, halves: u64, follows: bool) -> Arc<World> {
    let world = World {
        clocks: Clocks(AtomicU64::new(now), halves),
        follower: Follower::new(),
        was_read: AtomicBool::new(false),
        first: AtomicU64::new(0),
    };
    if follows {
        world.follower.follow(RATE, &world.clocks);
    }
    Arc::new(world)
}

fn reads_first(world: &World) {
    let first = world.now().as_nanos();
    // Relaxed: published by the flag.
    world.first.store(first.cast_unsigned(), Ordering::Relaxed);
    world.was_read.store(true, Ordering::Release);
}

/// Reads the clock if the first reading has finished, and checks that the second time is not earlier.
fn reads_second(world: &World) {
    reads_second_by(world, || world.now());
}

/// Does the same as [`reads_second`], but reads the clock by `now`.
fn reads_second_by(world: &World, now: impl Fn() -> Instant) {
    if world.was_read.load(Ordering::Acquire) {
        let first = world.first.load(Ordering::Relaxed).cast_signed();
        let second = now().as_nanos();
        assert!(second >= first, "{second} after {first}");
    }
}

fn check(bound: usize, body: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(bound);
    builder.max_branches = 10_000;
    builder.check(body);
}

/// FOLLOW-2, FOLLOW-6: two threads make the next line at the same time. One of the two lines is published, and both
/// threads use it.
#[test]
fn readings_that_are_ordered_are_answered_in_order() {
    check(2, || {
        let world = world(LONG, 2, true);
        let other = {
            let world = Arc::clone(&world);
            thread::spawn(move || reads_first(&world))
        };
        world.clocks.0.store(LONG + 70, Ordering::SeqCst);
        reads_second(&world);
        other.join().unwrap();
    });
}

/// Two readers race as in the previous case. The reader of the later time has kept an earlier line, and sees that
/// another line is followed.
#[test]
fn a_line_that_is_kept_is_not_read_behind_a_later_one() {
    check(2, || {
        let world = world(LONG, 2, true);
        let other = {
            let world = Arc::clone(&world);
            thread::spawn(move || reads_first(&world))
        };
        let kept = Kept::new();
        world.follower.keep(&kept, 0);
        world.clocks.0.store(LONG + 70, Ordering::SeqCst);
        reads_second_by(&world, || {
            let kept = world.follower.kept_now(&kept, world.clocks.cycles());
            kept.unwrap_or_else(|| world.now())
        });
        other.join().unwrap();
    });
}

/// A reader copies a line while the slot of this line is reused for the line after the next.
#[test]
fn a_line_that_was_written_over_is_not_taken_for_one() {
    check(2, || {
        let world = world(0, 2, false);
        let other = {
            let world = Arc::clone(&world);
            thread::spawn(move || {
                for nanos in 1..=2 {
                    let (seen, _) = world.follower.line();
                    let line = Line::unknown(nanos, nanos.cast_signed());
                    assert!(world.follower.lay(seen, &line).is_ok());
                }
            })
        };
        let (_, line) = world.follower.line();
        let is_first = line == Line::ask(i64::MIN);
        let is_laid = line == Line::unknown(line.rate, line.rate.cast_signed());
        assert!(is_first || is_laid, "{line:?}");
        other.join().unwrap();
    });
}

/// FOLLOW-7: a time read from the reference itself is not later than a time computed afterwards.
///
/// The thread that reads the reference runs first. So two preemptions suffice for the case in which this thread, with
/// an old line, gets its time after the new line was published.
#[test]
fn beginning_to_follow_turns_nothing_back() {
    check(2, || {
        let world = world(LONG, 4, false);
        let other = {
            let world = Arc::clone(&world);
            thread::spawn(move || {
                world.follower.follow(RATE, &world.clocks);
                let (seen, line) = world.follower.line();
                let (first, _) = line.next(&Sandwich::take(&world.clocks));
                let _or_another = world.follower.lay(seen, &first);
                // The reference goes faster than what follows it.
                world.clocks.0.fetch_add(30, Ordering::SeqCst);
                reads_second(&world);
            })
        };
        reads_first(&world);
        other.join().unwrap();
    });
}

/// A computed time is not later than a time read from the reference afterwards.
#[test]
fn giving_up_turns_nothing_back() {
    check(2, || {
        let world = world(LONG, 1, true);
        world.now();
        let other = {
            let world = Arc::clone(&world);
            thread::spawn(move || reads_first(&world))
        };
        // The reference goes slower than what follows it.
        world.clocks.0.fetch_add(30, Ordering::SeqCst);
        world.follower.give_up(&world.clocks);
        reads_second(&world);
        other.join().unwrap();
    });
}
