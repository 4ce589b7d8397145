//! Loom cases for a call to a task.

use std::task::{Wake, Waker};

use loom::sync::{Arc, Mutex};
use loom::thread;

use super::Call;

/// True if the task has to be polled again; its executor keeps this flag.
#[derive(Clone)]
struct Woken(Arc<Mutex<bool>>);

impl Wake for Woken {
    fn wake(self: std::sync::Arc<Self>) {
        *self.0.lock().unwrap() = true;
    }
}

impl Woken {
    fn take(&self) -> bool {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

/// Two tasks call a third task while the third task is polled for the first time, and once more if it was woken.
/// Afterwards no call is pending without a wake-up of the third task.
#[test]
fn no_call_is_left_pending() {
    let mut builder = loom::model::Builder::new();
    // A bound keeps three parties within seconds.
    builder.preemption_bound = Some(2);
    builder.check(|| {
        let call = Arc::new(Call::new());
        let woken = Woken(Arc::new(Mutex::new(false)));
        let callers = [(); 2].map(|()| {
            let call = Arc::clone(&call);
            thread::spawn(move || call.make())
        });
        let waker = Waker::from(std::sync::Arc::new(woken.clone()));
        drop(call.introduce(waker));
        let _came = call.take();
        if woken.take() {
            let _came = call.take();
        }
        for caller in callers {
            caller.join().unwrap();
        }
        assert!(!call.take() || woken.take(), "called and not woken");
    });
}
