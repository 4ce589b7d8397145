//! The very first use of the library in a process, so that there is one test in this file.

use tickless::Worker;
use tickless::inspect::{Role, snapshot};

/// Making the timers of the process asks who the calling thread is, while that is about to be decided.
#[test]
fn the_thread_that_comes_first_has_one_place() {
    let worker = Worker::new().expect("there is a place");
    assert_eq!(tickless::stats().threads, 1);
    let threads = snapshot().threads;
    let roles: Vec<_> = threads.iter().map(|thread| thread.role).collect();
    assert_eq!(roles, [Role::ExpiryThread, Role::Worker]);
    drop(worker);
}
