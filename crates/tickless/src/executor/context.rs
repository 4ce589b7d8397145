//! Thread-local access to the executor whose code runs on the thread, for functions like [`spawn`](super::task::spawn).

use std::cell::RefCell;
use std::mem::ManuallyDrop;
use std::sync::Arc;

use super::shared::Handle;
use crate::time::virtual_time::runtime;

thread_local! {
    // Without a destructor, so that exit handlers and the destructors of other thread-locals can use it. What is put in
    // is taken out again by `Entered`.
    static EXECUTOR: RefCell<ManuallyDrop<Option<Handle>>> =
        const { RefCell::new(ManuallyDrop::new(None)) };
}

/// The guard that restores the previous executor of the thread, also when it is dropped by a panic.
#[derive(Debug)]
pub(crate) struct Entered {
    before: Option<Handle>,
    _clock: runtime::Entered,
}

/// Makes the code of this thread belong to `executor` until the returned guard is dropped.
pub(crate) fn enter(executor: &Handle) -> Entered {
    Entered {
        before: put(Some(Arc::clone(executor))),
        _clock: runtime::enter(&executor.runtime),
    }
}

/// Makes `executor` the executor of this thread's code. Returns the previous executor.
fn put(executor: Option<Handle>) -> Option<Handle> {
    EXECUTOR.with_borrow_mut(|slot| std::mem::replace(&mut **slot, executor))
}

impl Drop for Entered {
    fn drop(&mut self) {
        drop(put(self.before.take()));
    }
}

/// Returns the executor to which this thread's code belongs.
pub(crate) fn current() -> Option<Handle> {
    EXECUTOR.with_borrow(|slot| Option::clone(slot))
}
