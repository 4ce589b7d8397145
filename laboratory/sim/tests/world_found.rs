//! Random scenarios that once broke a promise, by the cause: `found/CLASS-SEED.toml`, in their original or in a reduced
//! form. `tickless sim fuzz --save DIR` writes such files.

mod support;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use support::{kept, read};

fn directory() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/found")
}

fn names() -> BTreeSet<String> {
    let files = fs::read_dir(directory()).expect("the directory is there");
    let name = |path: &Path| path.file_stem()?.to_str().map(str::to_owned);
    files
        .map(|file| name(&file.expect("it can be read").path()).expect("names are text"))
        .collect()
}

/// Runs every scenario of `class` twice, with the seed that generated it. Returns the number of scenarios.
fn holds(class: &str) -> usize {
    let of_class = |name: &&String| name.rsplit_once('-').is_some_and(|(head, _)| head == class);
    let names = names();
    let of_class = names.iter().filter(of_class);
    of_class
        .map(|name| {
            let file = format!("{name}.toml");
            let text = fs::read_to_string(directory().join(&file)).expect("it can be read");
            let (_, seed) = name.rsplit_once('-').expect("the seed is behind the class");
            let seed = seed.parse().expect("a seed is a number");
            let _outcome = kept(&read(&text), seed);
        })
        .count()
}

/// A device was programmed with its shortest delay, 10 us, for a timer whose deadline had passed. In a deep idle state
/// the device stopped and lost the delay. The record of the device did not learn of that: it took the delay for still
/// pending when the CPU came back, and never wrote the device again.
#[test]
fn deep_minimum_a_device_that_stopped_is_programmed_again() {
    assert_eq!(holds("deep-minimum"), 3);
}

/// A coupled device fires at the first of its ticks after its deadline, and the clock shows that time at the first of
/// its steps after the tick. The checker allowed for the tick, and not for the step.
#[test]
fn coupled_step_a_device_is_late_by_a_tick_and_a_step_of_the_clock() {
    assert_eq!(holds("coupled-step"), 16);
}

/// A CPU that expected a short sleep left its device armed for a slice that was over. The device fired later than its
/// programmed time, as all devices that count do, and by more than the checker allowed for such a wake-up.
#[test]
fn lazy_late_a_device_that_was_left_armed_may_be_late() {
    assert_eq!(holds("lazy-late"), 3);
}

/// A CPU was writing the broadcast device, which takes a microsecond or more. Meanwhile another CPU handed over an
/// event whose time was before the end of the write.
#[test]
fn broadcast_write_nothing_fires_before_its_write_is_done() {
    assert_eq!(holds("broadcast-write"), 2);
}

/// The clock was steered after a CPU wrote the broadcast device. The checker allowed only for the steering since the
/// write of the CPU's own device, which was later.
#[test]
fn broadcast_steered_a_device_goes_by_the_clock_at_its_own_write() {
    assert_eq!(holds("broadcast-steered"), 1);
}

/// A CPU that expires the timers of a sleeping CPU counts a tick late. At the next tick the owner takes back its timer,
/// and checks it a tick later. The bound was exactly two ticks.
#[test]
fn two_ticks_a_timer_that_others_look_after_may_change_hands() {
    assert_eq!(holds("two-ticks"), 2);
}

/// A second was deleted while all CPUs slept, and the host learned of it only with the next interrupt. So the alarms of
/// the time of day that became due by the deletion waited for that interrupt.
#[test]
fn leap_deleted_the_host_does_not_wait_for_an_interrupt() {
    assert_eq!(holds("leap-deleted"), 2);
}

/// A second was deleted, and another one was inserted 148 us later. The host recorded the first leap at the next tick,
/// and announced the second leap when all CPUs had reached it. A CPU that was ahead read the time of day with the first
/// leap and without the second, and fired alarms of the second to come.
#[test]
fn leap_behind_leap_a_record_that_takes_one_knows_of_the_next() {
    assert_eq!(holds("leap-behind-leap"), 1);
}

/// All interrupts were 2.7 ms late. A task without a tick entered the kernel every 0.3 to 1.7 ms. Each time it
/// restarted the tick in progress for an overdue coarse timer, and so wrote the device. Each write cancelled the
/// pending interrupt, and the next interrupt was late again: the timer waited for 24 ms, and would have waited for
/// ever.
#[test]
fn late_written_an_interrupt_that_was_due_comes_whatever_is_written() {
    assert_eq!(holds("late-written"), 1);
}

/// A device was programmed with its shortest delay, 10 us, for a timer whose deadline had passed. In the soft stage
/// that timer was cancelled, and the next timer was 2.3 us away: the core left the pending delay, which ended before
/// the next deadline. The checker took the device for written again.
#[test]
fn minimum_under_way_a_device_that_is_left_alone_may_be_early() {
    assert_eq!(holds("minimum-under-way"), 1);
}

/// A task slept in debt on a CPU without a tick, where another task ran alone for 20 ms. When the sleeper woke up, it
/// was owed the CPU time of the other task, because no decision was made that would have forgotten the debt. Of two
/// such tasks, one placed the other.
#[test]
fn paid_sleeper_is_owed_nothing_for_what_another_had_alone() {
    assert_eq!(holds("paid-sleeper"), 2);
}

/// A task started timers for longer than a slice in one step, and no interrupt of a simulated machine ends a step.
#[test]
fn long_step_of_a_task_is_no_slice_that_does_not_end() {
    assert_eq!(holds("long-step"), 1);
}

/// The clock was late by 95 us, and the checker compared the deadline of a slice with the true time.
#[test]
fn slice_by_the_clock_ends_when_the_clock_says_so() {
    assert_eq!(holds("slice-by-the-clock"), 1);
}

/// A task with a reservation slept with most of its runtime left, and a task of the fair class ran alone. A third task
/// was enqueued. It started no tick because a tick was already queued: that of the sleeper, milliseconds ahead.
#[test]
fn left_over_tick_of_a_task_that_sleeps_ends_no_slice_of_another() {
    assert_eq!(holds("left-over-tick"), 2);
}

/// Runtimes ended at ticks, and were overrun by twice their length. A task that slept until part of the overrun was
/// paid began with a whole runtime, so that a third of all its CPU time was beyond its reservation.
#[test]
fn forgiven_debt_is_paid_by_those_that_sleep_too() {
    assert_eq!(holds("forgiven-debt"), 2);
}

/// Runtimes ended at ticks of 4 ms, and another task's runtime kept a task waiting for longer than its period. The
/// checker's bucket leaked meanwhile.
#[test]
fn kept_waiting_a_task_has_what_it_did_not_get() {
    assert_eq!(holds("kept-waiting"), 2);
}

#[test]
fn every_file_belongs_to_a_class_that_is_tried() {
    let classes = [
        "deep-minimum",
        "coupled-step",
        "broadcast-write",
        "broadcast-steered",
        "two-ticks",
        "leap-deleted",
        "leap-behind-leap",
        "late-written",
        "minimum-under-way",
        "paid-sleeper",
        "long-step",
        "slice-by-the-clock",
        "lazy-late",
        "left-over-tick",
        "forgiven-debt",
        "kept-waiting",
    ];
    for name in names() {
        let class = name.rsplit_once('-').map(|(class, _)| class);
        assert!(
            class.is_some_and(|class| classes.contains(&class)),
            "{name}"
        );
    }
}
