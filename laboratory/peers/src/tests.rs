//! Tests that each measurement measures the operation that its name says.

use crate::{Family, Operation, Plan, Watch, random, run, subjects};

/// A watcher that ends the run after a number of turns.
struct After(std::cell::Cell<u32>);

impl Watch for After {
    fn is_over(&self) -> bool {
        self.0.get() == 0
    }

    fn next(&mut self, _what: &str) {
        self.0.set(self.0.get().saturating_sub(1));
    }
}

fn plan() -> Plan {
    Plan {
        operations: Operation::ALL.to_vec(),
        pending: vec![0, 50],
        rounds: 2,
        repeats: 600,
        seed: 1,
        subjects: None,
    }
}

#[test]
fn every_subject_fires_what_is_due_and_is_measured_in_every_operation_it_has() {
    let results = run(&plan(), &mut After(u32::MAX.into()));
    assert!(results.faults.is_empty(), "{:?}", results.faults);
    assert!(results.is_complete);
    let of = |operation: Operation, subject| {
        let rows = results.rows.iter();
        rows.filter(|row| row.operation == operation && row.subject == subject)
            .count()
    };
    for (subject, family) in subjects() {
        assert_eq!(
            of(Operation::ArmCancel, subject),
            2,
            "{subject}: none, and 50 pending"
        );
        assert_eq!(
            of(Operation::PushSmall, subject),
            1,
            "{subject}: 50 pending"
        );
        let on_threads = Operation::ALL.into_iter();
        for operation in on_threads.filter(|operation| operation.is_on_threads()) {
            let name = operation.name();
            assert_eq!(
                of(operation, subject),
                2,
                "{subject}: {name} on one and two threads"
            );
        }
        let fires = usize::from(family != Family::Limit);
        assert_eq!(of(Operation::Expire, subject), fires, "{subject}");
    }
    for row in &results.rows {
        let figure = row.figure();
        assert!(
            figure.min <= figure.median && figure.median <= figure.max,
            "{row:?}"
        );
        assert!(figure.min >= 0.0 && figure.max.is_finite(), "{row:?}");
    }
}

#[test]
fn a_run_that_ends_early_has_the_rows_that_were_measured() {
    let proofs = u32::try_from(subjects().len()).expect("they are few");
    let results = run(&plan(), &mut After((proofs + 3).into()));
    assert!(!results.is_complete);
    let mut measured: Vec<_> = results.rows.iter().map(|row| row.subject).collect();
    measured.dedup();
    measured.sort_unstable();
    measured.dedup();
    assert_eq!(measured.len(), 3, "{measured:?}");
}

#[test]
fn delays_are_the_same_each_time_and_between_a_millisecond_and_a_minute() {
    let drawn = |seed| {
        let mut delays = random::Delays::new(seed);
        std::iter::repeat_with(move || delays.random())
            .take(1_000)
            .collect::<Vec<_>>()
    };
    assert_eq!(drawn(1), drawn(1));
    assert_ne!(drawn(1), drawn(2));
    let all = drawn(3).into_iter().chain((0..1_000).map(random::delay_of));
    for delay in all {
        assert!((1_000_000..=60_000_000_000).contains(&delay), "{delay}");
    }
    let mut delays = random::Delays::new(4);
    assert!((0..1_000).all(|_| delays.slot(7) < 7));
}
