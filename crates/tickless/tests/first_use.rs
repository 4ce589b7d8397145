//! A test of the very first use of the library in a process. The file has one test, because only one use is the first.

use tickless::Worker;
use tickless::inspect::{Role, snapshot};

/// Making the timers of the process looks up the base of the calling thread while this base is being chosen.
#[test]
fn the_thread_that_comes_first_has_one_place() {
    let worker = Worker::new().expect("there is a place");
    assert_eq!(tickless::stats().threads, 1);
    let threads = snapshot().threads;
    let roles: Vec<_> = threads.iter().map(|thread| thread.role).collect();
    assert_eq!(roles, [Role::ExpiryThread, Role::Worker]);
    drop(worker);
}
