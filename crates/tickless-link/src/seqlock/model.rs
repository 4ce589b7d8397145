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
