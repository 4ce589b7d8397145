//! Loom cases: a descriptor that is registered while the worker parks, and two workers that park while both could wait
//! for descriptors.

use loom::model::Builder;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use loom::thread;

use super::super::super::idle::Idle;
use super::Attendance;

fn check(body: impl Fn() + Sync + Send + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(body);
}

/// A worker, which waited for other descriptors before, runs a task and parks. Meanwhile a thread registers another
/// descriptor.
#[test]
fn a_descriptor_that_is_registered_while_a_worker_parks_is_attended() {
    check(|| {
        let shared = Arc::new((Attendance::new(), Idle::new(1), AtomicBool::new(false)));
        let other = Arc::clone(&shared);
        let role = shared.0.take();
        assert!(role.is_some(), "no other worker is there");
        let registers = thread::spawn(move || {
            let (attendance, idle, notified) = &*other;
            attendance.add();
            if attendance.is_missing() && idle.any() && idle.claim_near(0).is_some() {
                notified.store(true, Ordering::Relaxed);
            }
        });
        drop(role);
        let (attendance, idle, notified) = &*shared;
        idle.enter(0);
        let attends = attendance.is_needed();
        registers.join().expect("the model does not panic");
        // The notification that is there when all have ended is the one that the park finds.
        assert!(attends || notified.load(Ordering::Relaxed));
    });
}

/// Two workers park at once.
#[test]
fn one_worker_at_a_time_waits_for_descriptors() {
    check(|| {
        let shared = Arc::new((Attendance::new(), AtomicUsize::new(0)));
        let other = Arc::clone(&shared);
        let wait = |(attendance, waiting): &(Attendance, AtomicUsize)| {
            if let Some(role) = attendance.take() {
                assert_eq!(waiting.fetch_add(1, Ordering::Relaxed), 0);
                waiting.fetch_sub(1, Ordering::Relaxed);
                drop(role);
            }
        };
        let waits = thread::spawn(move || wait(&other));
        wait(&shared);
        waits.join().expect("the model does not panic");
    });
}
