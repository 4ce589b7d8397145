//! A loom case: a task is aborted while it begins to wait.

use loom::model::Builder;
use loom::sync::Arc;
use loom::thread;

use super::Listing;

#[test]
fn an_abort_finds_the_place_of_a_task_or_is_found_by_it() {
    Builder::new().check(|| {
        let listing = Arc::new(Listing::new());
        let other = Arc::clone(&listing);
        let aborts = thread::spawn(move || other.abort());
        let is_found = listing.set_place(1, 7);
        let place = aborts.join().expect("the model does not panic");
        assert!(is_found || place.is_some(), "no thread wakes the task");
        assert!(place.is_none_or(|place| place == (1, 7)), "{place:?}");
        assert!(listing.is_aborted(), "its next poll finds it");
    });
}
