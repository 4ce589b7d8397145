//! Cases about timers that are enqueued for an earlier time than their deadline, because a push-out only writes the
//! deadline.

use crate::prelude::*;
use crate::random::Random;
use crate::suite::at;
use crate::{Host, Rig, TestTimer};

fn timers<H: Host>(rig: &Rig<H>, count: usize) -> Vec<TestTimer<H>> {
    (0..count).map(|_| TestTimer::once(rig)).collect()
}

/// Timers that are pushed out and pulled in fire at their last deadlines, to the nanosecond.
pub fn pushing_out_keeps_every_deadline_exact<H: Host>() {
    let rig = Rig::<H>::new(1);
    let timers = timers(&rig, 200);
    let mut random = Random::new(5);
    let mut deadlines: Vec<i64> = (0..200).map(|index| 100_000 + index * 1_000).collect();
    rig.on(0, || {
        timers
            .iter()
            .zip(&deadlines)
            .for_each(|(timer, deadline)| timer.start(at(*deadline)))
    });
    for _ in 0..5_000 {
        let index = random.index(200);
        // Mostly later, now and then earlier, each in its own microsecond.
        let step = if random.one_in(5) {
            random.between(-80, 0)
        } else {
            random.between(0, 200)
        };
        deadlines[index] = (deadlines[index] + step * 1_000_000)
            .max(i64::try_from(index).unwrap() * 1_000 + 50_000);
        rig.on(0, || timers[index].start(at(deadlines[index])));
        rig.check();
    }
    rig.run_until(*deadlines.iter().max().unwrap() + 1_000_000);
    for (timer, deadline) in timers.iter().zip(&deadlines) {
        assert_eq!(timer.fired_at(), [*deadline]);
    }
}

/// One restarted timer is queued after the first. When it comes to the front, it is requeued, and the device is armed
/// exactly.
pub fn a_timer_filed_early_costs_no_interrupt<H: Host>() {
    let rig = Rig::<H>::new(1);
    let timers = timers(&rig, 3);
    rig.on(0, || {
        for (timer, deadline) in timers.iter().zip([1_000, 2_000, 5_000]) {
            timer.start(at(deadline));
        }
        timers[1].start(at(9_000));
    });
    rig.run_until(20_000);
    assert_eq!(timers[1].fired_at(), [9_000]);
    let stats = rig.stats(0);
    assert_eq!((stats.interrupts, stats.spurious), (3, 0));
}

/// A thousand pushed-out timers are at the front: no operation requeues more than a few of them, no timer is late, and
/// early interrupts are few.
pub fn many_filed_early_are_filed_again_a_few_at_a_time<H: Host>() {
    let rig = Rig::<H>::new(1);
    let timers = timers(&rig, 1_001);
    rig.on(0, || {
        timers[0].start(at(1_000));
        timers[1..].iter().for_each(|timer| timer.start(at(2_000)));
        for (timer, step) in timers[1..].iter().zip(0..) {
            timer.start(at(1_000_000 + step * 100));
        }
    });
    assert_eq!(rig.stats(0).filed_early, 1_000);
    rig.run_until(2_000_000);
    for (timer, step) in timers[1..].iter().zip(0..) {
        assert_eq!(timer.fired_at(), [1_000_000 + step * 100]);
    }
    assert!(rig.stats(0).spurious <= 3, "{:?}", rig.stats(0));
}

/// A timer moves if it is started for a time before its key in the queue; if it is then started for a later time, it
/// stays in its place.
pub fn a_timer_filed_early_comes_forward_again<H: Host>() {
    let rig = Rig::<H>::new(1);
    let timers = timers(&rig, 3);
    rig.on(0, || {
        for (timer, deadline) in timers.iter().zip([1_000, 5_000, 9_000]) {
            timer.start(at(deadline));
        }
        timers[1].start(at(20_000));
        timers[1].start(at(6_000));
    });
    assert_eq!(rig.stats(0).filed_early, 2);
    rig.on(0, || timers[1].start(at(500)));
    assert_eq!(rig.stats(0).kept(), 2);
    assert_eq!(rig.fires_at(0), Some(500));
    rig.run_until(20_000);
    assert_eq!(timers[1].fired_at(), [500]);
}

/// The device is programmed for the true deadline of the timer that becomes first, not for its key in the queue.
pub fn cancelling_the_first_files_the_next<H: Host>() {
    let rig = Rig::<H>::new(1);
    let timers = timers(&rig, 3);
    rig.on(0, || {
        for (timer, deadline) in timers.iter().zip([1_000, 2_000, 5_000]) {
            timer.start(at(deadline));
        }
        timers[1].start(at(9_000));
        assert!(timers[0].cancel());
    });
    assert_eq!(rig.fires_at(0), Some(5_000));
}

/// the next event without the first timer is the earliest deadline, although another timer has an earlier key in
/// the queue.
pub fn the_next_event_without_the_first_looks_past_what_is_filed_early<H: Host>() {
    let rig = Rig::<H>::new(1);
    let timers = timers(&rig, 4);
    rig.on(0, || {
        for (timer, deadline) in timers.iter().zip([1_000, 2_000, 3_000, 7_000]) {
            timer.start(at(deadline));
        }
        timers[1].start(at(9_000));
        timers[2].start(at(8_000));
        assert_eq!(timers[0].next_event_without(0), 7_000);
    });
}

/// HP-4: a CPU that goes offline hands over the deadline of a timer, not its key in the queue.
pub fn a_timer_filed_early_moves_with_its_cpu<H: Host>() {
    let rig = Rig::<H>::new(2);
    let timers = timers(&rig, 2);
    rig.on(1, || {
        timers[0].start(at(1_000));
        timers[1].start(at(2_000));
        timers[1].start(at(50_000));
    });
    rig.offline(1);
    rig.run_until(100_000);
    assert_eq!(timers[0].fired_at(), [1_000]);
    assert_eq!(timers[1].fired_at(), [50_000]);
}

crate::kit::cases!(filed:
    pushing_out_keeps_every_deadline_exact,
    a_timer_filed_early_costs_no_interrupt,
    many_filed_early_are_filed_again_a_few_at_a_time,
    a_timer_filed_early_comes_forward_again,
    cancelling_the_first_files_the_next,
    the_next_event_without_the_first_looks_past_what_is_filed_early,
    a_timer_filed_early_moves_with_its_cpu [CPUS],
);
