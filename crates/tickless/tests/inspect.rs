//! Tests of the live state: it shows everything that is pending, as text and as data.

use std::future::Future;
use std::io::Write;
use std::pin::{Pin, pin};
use std::sync::mpsc;
use std::task::{Context, Waker};
use std::thread;
use std::time::Duration;

use tickless::Worker;
use tickless::hrtimer::{HrTimer, Monotonic, Restart, Setup, Span, Stage, Start};
use tickless::inspect::{self, Queued, Role, Snapshot, Thread, Timer, WheelKind};
use tickless::wheel::WheelTimer;

const HOUR: Duration = Duration::from_secs(3600);

fn poll_once(future: Pin<&mut impl Future>) {
    let polled = future.poll(&mut Context::from_waker(Waker::noop()));
    assert!(polled.is_pending());
}

/// Returns the thread that the system calls `name`; the tests give this name to one thread only.
fn named<'s>(snapshot: &'s Snapshot, name: &str) -> &'s Thread {
    let mut threads = snapshot.threads.iter();
    let thread = threads.find(|thread| thread.name.as_deref() == Some(name));
    thread.expect("it has timers")
}

/// Runs `body` on a thread with the name `name`.
fn on_thread<R: Send + 'static>(name: &str, body: impl FnOnce() -> R + Send + 'static) -> R {
    let thread = thread::Builder::new().name(name.to_owned()).spawn(body);
    let thread = thread.expect("there are threads to be had");
    thread.join().expect("it does not panic")
}

fn count(timers: &[Timer], is: impl Fn(&Queued) -> bool) -> usize {
    timers.iter().filter(|timer| is(&timer.queued)).count()
}

fn has_proc() -> bool {
    let is_there = std::fs::read("/proc/self/comm").is_ok();
    if !is_there {
        // Past the capturing of the test harness: `cargo xtask check` finds the line, and counts it at its end.
        let skip = b"\nskipped: names of threads, because /proc is not there\n";
        let _best_effort = std::io::stderr().write_all(skip);
    }
    is_there
}

/// Returns the section of a dump about the thread called `name`.
fn section(dump: &str, name: &str) -> String {
    let line = format!("  .thread         : {name}, thread ");
    let section = dump.split("\n\n").find(|part| part.contains(&line));
    let section = section.unwrap_or_else(|| panic!("{name} is not there\n{dump}"));
    section.to_owned()
}

#[test]
#[cfg_attr(portable_host, ignore = "no numbers of threads on the portable host")]
fn of_six_timers_all_are_shown_and_by_name() {
    if !has_proc() {
        return;
    }
    on_thread("all-kinds", || {
        // Of the soft stage, because what is far is sorted only there.
        let setup = Setup::new().stage(Stage::Soft);
        let sorted = pin!(HrTimer::<_, Monotonic>::with_setup(setup, |_| Restart::No));
        let _ = sorted.as_ref().start(Start::after(Span::from_secs(3600)));
        let mut sleep = pin!(tickless::time::sleep(HOUR));
        poll_once(sleep.as_mut());
        let mut coarse_sleep = pin!(tickless::coarse::sleep(HOUR));
        poll_once(coarse_sleep.as_mut());
        let wheels =
            WheelKind::ALL.map(|kind| Box::pin(WheelTimer::with_kind(kind, |_| Restart::No)));
        for timer in &wheels {
            assert!(timer.as_ref().start_if_idle(HOUR).has_armed());
        }

        let snapshot = inspect::snapshot();
        let thread = named(&snapshot, "all-kinds");
        assert_eq!(thread.role, Role::Foreign);
        let timers = &thread.timers;
        assert_eq!(timers.len(), 6, "{timers:?}");
        assert_eq!(count(timers, |at| matches!(at, Queued::Sorted { .. })), 1);
        assert_eq!(count(timers, |at| matches!(at, Queued::Far { .. })), 1);
        for (kind, expected) in WheelKind::ALL.into_iter().zip([1, 2, 1]) {
            let on = |at: &Queued| matches!(at, Queued::Wheel { kind: on, .. } if *on == kind);
            assert_eq!(count(timers, on), expected, "{kind:?}");
        }
        let state = &thread.state;
        assert_eq!((state.sorted, state.far), (1, 1));

        let mut dump = String::new();
        tickless::dump(&mut dump).expect("a string takes all");
        let section = section(&dump, "all-kinds");
        let shown = section.lines().filter(|line| line.starts_with(" #"));
        assert_eq!(
            shown.filter(|line| line.contains(", S:01")).count(),
            6,
            "{section}"
        );
        assert_eq!(section.matches(inspect::WAKES).count(), 2, "{section}");
        assert_eq!(
            section
                .matches("inspect::of_six_timers_all_are_shown")
                .count(),
            4,
            "callbacks are named by where they stand\n{section}"
        );
    });
}

/// A terminal would obey the name, and Prometheus would show it.
#[test]
#[cfg_attr(portable_host, ignore = "no numbers of threads on the portable host")]
fn control_characters_in_names_of_threads_are_escaped() {
    if !has_proc() {
        return;
    }
    on_thread("\u{1b}[31mred\n", || {
        let mut sleep = pin!(tickless::time::sleep(HOUR));
        poll_once(sleep.as_mut());
        let shown = "\\u{1b}[31mred\\n";
        assert_eq!(named(&inspect::snapshot(), shown).timers.len(), 1);
        let mut dump = String::new();
        tickless::dump(&mut dump).expect("a string takes all");
        let _there = section(&dump, shown);
        let mut metrics = String::new();
        tickless::metrics::write_prometheus(&mut metrics).expect("a string takes all");
        assert!(metrics.contains(r#"name="\\u{1b}[31mred\\n""#), "{metrics}");
        for text in [dump, metrics] {
            let is_obeyed = |letter: char| letter.is_control() && letter != '\n' && letter != '\t';
            assert!(!text.contains(is_obeyed), "{text:?}");
        }
    });
}

#[test]
fn addresses_are_shown_on_request() {
    on_thread("addresses", || {
        let timer = pin!(HrTimer::new(|_| Restart::No));
        let _ = timer.as_ref().start(Start::after(Span::from_secs(3600)));
        let mut dump = String::new();
        tickless::dump(&mut dump).expect("a string takes all");
        assert!(dump.contains(" #0: <0000000000000000>, "), "{dump}");
        assert!(!dump.contains(" # code at "), "{dump}");
        let mut dump = String::new();
        inspect::dump_with_addresses(&mut dump).expect("a string takes all");
        assert!(!dump.contains("<0000000000000000>"), "{dump}");
        assert!(dump.contains("\n # code at 0"), "{dump}");
    });
}

#[test]
#[cfg_attr(portable_host, ignore = "no numbers of threads on the portable host")]
fn what_a_worker_is_and_its_place_in_the_tree_are_shown() {
    if !has_proc() {
        return;
    }
    let (ready, readiness) = mpsc::channel();
    let (leave, stay) = mpsc::channel::<()>();
    let worker = thread::Builder::new().name("shown-worker".to_owned());
    let worker = worker.spawn(move || {
        let _worker = Worker::new().expect("there is a place");
        ready.send(()).expect("the test waits");
        // Ends when the test has looked.
        let _looked = stay.recv();
    });
    let worker = worker.expect("there are threads to be had");
    readiness.recv().expect("it says so");
    let snapshot = inspect::snapshot();
    let thread = named(&snapshot, "shown-worker");
    assert_eq!(thread.role, Role::Worker);
    assert!(!thread.is_isolated && thread.id.is_some());
    let workers = &snapshot.hierarchies[1];
    assert_eq!(workers.name, "workers");
    let mut members = workers.groups.iter().flat_map(|group| &group.members);
    let member = members.find(|member| member.thread == thread.number);
    assert!(member.is_some_and(|member| member.is_available && !member.is_idle));

    let mut dump = String::new();
    tickless::dump(&mut dump).expect("a string takes all");
    for part in [
        "\nBroadcast device\n",
        "\nHierarchy: workers\n",
        "\nHierarchy: foreign threads\n",
    ] {
        assert!(dump.contains(part), "{part} is missing in\n{dump}");
    }
    drop(leave);
    worker.join().expect("it does not panic");
}
