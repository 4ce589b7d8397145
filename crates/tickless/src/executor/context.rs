//! The executor that a thread's code belongs to, for the functions that name none.

use std::cell::RefCell;
use std::sync::Arc;

use super::shared::Handle;

thread_local! {
    static EXECUTOR: RefCell<Option<Handle>> = const { RefCell::new(None) };
}

/// Puts back what was before, also when it is dropped by a panic.
#[derive(Debug)]
pub(crate) struct Entered {
    before: Option<Handle>,
}

/// Code of this thread belongs to `executor` until the result is dropped.
pub(crate) fn enter(executor: &Handle) -> Entered {
    let before = EXECUTOR.with_borrow_mut(|slot| slot.replace(Arc::clone(executor)));
    Entered { before }
}

impl Drop for Entered {
    fn drop(&mut self) {
        let before = self.before.take();
        // At the end of a thread there is nothing to put back to.
        let _ended = EXECUTOR.try_with(|slot| slot.replace(before));
    }
}

/// The executor of this thread's code.
pub(crate) fn current() -> Option<Handle> {
    EXECUTOR.try_with(|slot| slot.borrow().clone()).ok()?
}
