//! Loom cases for the flags that a thread and the watcher of blocked callbacks share.

use loom::sync::Arc;
use loom::thread;

use super::Suspicion;

/// The watcher has found no turn and removes the thread from its list, while the next turn begins. Afterwards the
/// thread is on the list once.
#[test]
fn a_turn_begins_while_the_watcher_takes_the_thread_off() {
    loom::model(|| {
        let suspicion = Arc::new(Suspicion::new());
        assert!(suspicion.begin());
        suspicion.end();
        let watcher = {
            let suspicion = Arc::clone(&suspicion);
            thread::spawn(move || suspicion.turn().is_some() || !suspicion.leave())
        };
        let listed_anew = suspicion.begin();
        let is_kept = watcher.join().unwrap();
        assert_ne!(listed_anew, is_kept);
    });
}
