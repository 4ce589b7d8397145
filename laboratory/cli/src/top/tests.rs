//! Tests of the counts on lines that Linux 6.18 printed, with other numbers.

use super::tally::{Row, Tally};

/// Two sleeps of which one ends, a `timerfd` that is moved and started again by its callback, a timer of the wheel that
/// CPU 1 runs for CPU 0, one that is moved and then cancelled, and a timer interrupt without an exact timer.
const LINES: &str = "\
 nap-9   [000] d..1.   1.000000: hrtimer_start: hrtimer=0a function=hrtimer_wakeup expires=1000250000 softexpires=1000200000 mode=REL|HARD was_armed=0
 nap-9   [000] d..1.   1.000001: hrtimer_start: hrtimer=0b function=hrtimer_wakeup expires=1900050000 softexpires=1900000000 mode=REL|HARD was_armed=0
 fd-8    [000] d..1.   1.000002: hrtimer_start: hrtimer=0c function=timerfd_tmrproc expires=1000210000 softexpires=1000210000 mode=ABS was_armed=0
 fd-8    [000] d..1.   1.000003: hrtimer_start: hrtimer=0c function=timerfd_tmrproc expires=1000220000 softexpires=1000220000 mode=ABS was_armed=1
 nap-9   [000] d..1.   1.000004: timer_start: timer=0d function=process_timeout expires=251 [timeout=1] bucket_expiry=252 cpu=0 idx=60 flags=
 fd-8    [000] d..1.   1.000005: timer_start: timer=0e function=process_timeout expires=300 [timeout=50] bucket_expiry=301 cpu=0 idx=45 flags=
 fd-8    [000] d..1.   1.000006: timer_cancel: timer=0e
 fd-8    [000] d..1.   1.000007: timer_start: timer=0e function=process_timeout expires=310 [timeout=60] bucket_expiry=311 cpu=0 idx=55 flags=
 <idle>-0 [000] d.h1.   1.000259: local_timer_entry: vector=236
 <idle>-0 [000] d.h1.   1.000260: hrtimer_expire_entry: hrtimer=0a function=hrtimer_wakeup now=1000258000
 <idle>-0 [000] d.h1.   1.000261: sched_waking: comm=nap pid=9 prio=120 target_cpu=000
 <idle>-0 [000] d.h1.   1.000262: hrtimer_expire_exit: hrtimer=0a
 <idle>-0 [000] d.h1.   1.000262: hrtimer_expire_entry: hrtimer=0c function=timerfd_tmrproc now=1000258000
 <idle>-0 [000] d.h1.   1.000263: hrtimer_expire_exit: hrtimer=0c
 <idle>-0 [000] d.h1.   1.000264: hrtimer_start: hrtimer=0c function=timerfd_tmrproc expires=1100000000 softexpires=1100000000 mode=ABS was_armed=0
 nap-9   [000] d..1.   1.000300: hrtimer_cancel: hrtimer=0b
 fd-8    [000] d..1.   1.000400: timer_cancel: timer=0e
 fd-8    [000] d.h1.   1.000500: local_timer_entry: vector=236
 <idle>-0 [001] ..s1.   1.008020: timer_cancel: timer=0d
 <idle>-0 [001] ..s1.   1.008021: timer_expire_entry: timer=0d function=process_timeout now=254 baseclk=254
 <idle>-0 [001] ..s1.   1.008022: timer_expire_exit: timer=0d
 fd-8    [000] d.h1.   2.000000: local_timer_entry: vector=236
 fd-8    [000] d.h1.   2.000000: hrtimer_expire_entry: hrtimer=0f function=posix_timer_fn now=1999999000
";

fn tally(lines: &str, slack: Option<i64>, of: Option<u32>) -> Tally {
    let mut tally = Tally::new(slack);
    if let Some(of) = of {
        tally.only(of);
    }
    lines.lines().for_each(|line| tally.take(line));
    tally
}

/// Returns the starts, re-arms, cancels, expiries, interrupts, those from idle, wake-ups and remote expiries.
fn counts(row: &Row) -> [u64; 8] {
    [
        row.starts,
        row.rearms,
        row.cancels,
        row.expiries,
        row.interrupts,
        row.from_idle,
        row.wakes,
        row.remote,
    ]
}

fn of(tally: &Tally, task: &str, function: &str) -> [u64; 8] {
    let rows = tally.rows();
    let is_it = |row: &&&Row| row.task == task && row.function == function;
    rows.iter().find(is_it).map_or([0; 8], |row| counts(row))
}

#[test]
fn each_task_and_function_has_its_counts() {
    let tally = tally(LINES, None, None);
    assert_eq!(
        of(&tally, "nap", "hrtimer_wakeup"),
        [2, 0, 1, 1, 1, 1, 1, 0]
    );
    // The second interrupt is the sleep's. The callback's own start is the program's.
    assert_eq!(
        of(&tally, "fd", "timerfd_tmrproc"),
        [3, 1, 0, 1, 0, 0, 0, 0]
    );
    // The wheel dequeues what it moves and what expires; neither is a cancel.
    assert_eq!(
        of(&tally, "nap", "process_timeout"),
        [1, 0, 0, 1, 0, 0, 0, 1]
    );
    assert_eq!(
        of(&tally, "fd", "process_timeout"),
        [2, 1, 1, 0, 0, 0, 0, 0]
    );
    assert_eq!(of(&tally, "?", "posix_timer_fn"), [0, 0, 0, 1, 1, 0, 0, 0]);
    assert_eq!((tally.unstarted, tally.lost, tally.events), (1, 0, 23));
    assert_eq!(tally.served.into_iter().collect::<Vec<_>>(), [((1, 0), 1)]);
}

#[test]
fn lateness_is_that_of_the_deadline_without_its_slack() {
    let tally = tally(LINES, None, None);
    for row in tally.rows() {
        let late = match (&*row.task, &*row.function) {
            ("nap", "hrtimer_wakeup") => 58_000,
            ("fd", "timerfd_tmrproc") => 38_000,
            ("nap", "process_timeout") => 3,
            _ => continue,
        };
        assert!(
            row.late.equivalent(row.late.max(), late),
            "{}",
            row.late.max()
        );
        assert_eq!(row.is_coarse, late == 3);
    }
    // What was over when it was started is late from then on.
    let over = LINES.replace(
        "1000250000 softexpires=1000200000",
        "250000 softexpires=200000",
    );
    let tally = self::tally(&over, None, None);
    let sleep = tally
        .rows()
        .into_iter()
        .find(|row| row.function == "hrtimer_wakeup")
        .expect("it is there");
    assert!(sleep.late.max() < 300_000, "{}", sleep.late.max());
}

#[test]
fn slack_lets_timers_share_an_interrupt() {
    // The sleep may end from 200 to 250 µs and the other at 220 µs: one moment serves both.
    let points = |text: &str, slack| tally(text, Some(slack), None).points();
    assert_eq!(points(LINES, 1), Some((1, 1)));
    let apart = LINES.replace("expires=1000250000", "expires=1000210000");
    assert_eq!(points(&apart, 1), Some((2, 2)));
    assert_eq!(points(&apart, 100_000), Some((2, 1)));
    // The kernel's own timers get none.
    let own = apart.replace("hrtimer_wakeup", "watchdog_timer_fn");
    assert_eq!(points(&own, 100_000), Some((2, 2)));
}

#[test]
fn of_a_command_only_its_tasks_count() {
    let fork = " sh-7    [000] .....   0.900000: sched_process_fork: comm=sh pid=7 child_comm=sh child_pid=9\n";
    let tally = tally(&format!("{fork}{LINES}"), None, Some(7));
    let tasks: Vec<_> = tally.rows().iter().map(|row| row.task.clone()).collect();
    assert_eq!(tasks, ["nap", "nap"]);
    assert_eq!(tally.unstarted, 0);
}

#[test]
fn a_fresh_count_keeps_what_is_queued() {
    let (before, after) = LINES.split_at(LINES.find(" <idle>-0 [000]").expect("it is there"));
    let mut tally = tally(before, None, None);
    tally.restart();
    after.lines().for_each(|line| tally.take(line));
    assert_eq!(
        of(&tally, "nap", "hrtimer_wakeup"),
        [0, 0, 1, 1, 1, 1, 1, 0]
    );
    assert_eq!(tally.unstarted, 1);
    tally.take("CPU:1 [LOST 14180 EVENTS]");
    assert_eq!(tally.lost, 14_180);
}
