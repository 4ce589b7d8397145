//! Loom case for the sequence lock.

use loom::sync::Arc;
use loom::thread;

use super::SeqCell;

/// Two publications while a reader copies: it sees one of the three records, never a mixture.
#[test]
fn a_reader_never_sees_a_mixture() {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(2);
    builder.check(|| {
        let (cell, mut writer) = SeqCell::new([0, 0]);
        let cell = Arc::new(cell);
        let reader = {
            let cell = Arc::clone(&cell);
            thread::spawn(move || {
                let [left, right] = cell.read();
                assert_eq!(left, right);
            })
        };
        cell.publish(&mut writer, [1, 1]);
        cell.publish(&mut writer, [2, 2]);
        reader.join().unwrap();
    });
}

/// Readers sample inside the read section: a reader that samples after a publication has the published words.
#[test]
fn what_is_sampled_is_not_newer_than_the_record() {
    use crate::sync::{AtomicU64, Ordering};
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(|| {
        let (cell, mut writer) = SeqCell::new([0, 0]);
        let shared = Arc::new((cell, AtomicU64::new(0)));
        let reader = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                // Acquire: pairs with the Release below.
                let sample = |_: &[u64; 2]| shared.1.load(Ordering::Acquire);
                let ([left, right], counter) = shared.0.read_first_and(sample);
                assert_eq!(left, right);
                assert!(left >= counter, "the record before, and what came after it");
            })
        };
        for counter in 1..3 {
            shared.0.publish(&mut writer, [counter, counter]);
            // Release: the publication is done.
            shared.1.store(counter, Ordering::Release);
        }
        reader.join().unwrap();
    });
}
