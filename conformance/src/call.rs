//! Scripts as callbacks of owned timers. A timer's closure must be `Send` but a script need not be, so the closure
//! holds the number of the script.

use alloc::rc::Rc;
use core::any::Any;
use core::cell::RefCell;

use crate::prelude::*;
use crate::surroundings::thread_values;

/// A script whose kind is forgotten.
type SharedScript = Rc<RefCell<dyn Any>>;

thread_values! {
    /// The scripts of all timers of this thread. A timer's own closure has to be `Send`; scripts hold machines and
    /// other timers, which are not `Send`, so the closure only holds the number of its script.
    static SCRIPTS: RefCell<Vec<Option<SharedScript>>> = const { RefCell::new(Vec::new()) };
}

/// A callback that holds the number of its script.
#[derive(Debug)]
pub struct Call {
    script: usize,
}

impl Call {
    /// Makes the callback that runs `script`.
    pub fn new<S: 'static>(script: S) -> Self {
        SCRIPTS.with_borrow_mut(|scripts| {
            scripts.push(Some(Rc::new(RefCell::new(script))));
            Self {
                script: scripts.len() - 1,
            }
        })
    }

    /// Calls `run` with the script, if it still exists.
    pub fn run<S: 'static, R>(&self, run: impl FnOnce(&mut S) -> R) -> Option<R> {
        let script = SCRIPTS.with_borrow(|scripts| scripts[self.script].clone())?;
        let mut script = script.borrow_mut();
        let script = script
            .downcast_mut::<S>()
            .expect("the script that was put there");
        Some(run(script))
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        // Taken out first: dropping a script may drop timers, which come here again.
        let script = SCRIPTS.with_borrow_mut(|scripts| scripts[self.script].take());
        drop(script);
    }
}
