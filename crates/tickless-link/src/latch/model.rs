//! Loom cases for the latch.

use loom::sync::Arc;
use loom::thread;

use super::LatchCell;

/// Two publications while a reader copies: it sees one of the three records, never words of two copies.
#[test]
fn a_reader_of_a_latch_never_sees_a_mixture() {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(2);
    builder.check(|| {
        let (cell, mut writer) = LatchCell::new([0, 0]);
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

/// A thread that was notified of a publication does not read the older record.
#[test]
fn a_reader_that_knows_of_a_publication_sees_it() {
    use crate::sync::{AtomicU64, Ordering};
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(2);
    builder.check(|| {
        let (cell, mut writer) = LatchCell::new([0, 0]);
        let shared = Arc::new((cell, AtomicU64::new(0)));
        let reader = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                // Acquire: pairs with the Release below.
                let told = shared.1.load(Ordering::Acquire);
                assert!(shared.0.read()[0] >= told);
            })
        };
        shared.0.publish(&mut writer, [1, 1]);
        // Release: the publication is done.
        shared.1.store(1, Ordering::Release);
        reader.join().unwrap();
    });
}
