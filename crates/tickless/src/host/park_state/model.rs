//! Loom cases for notifications. The model of the kernel is a flag under a lock; a lost wake-up is a deadlock, which
//! loom reports.

use loom::cell::UnsafeCell;
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;

use super::{ParkState, Sleep};

/// A thread, as seen by the threads that wake it.
struct Sleeper {
    state: ParkState,
    woken: Mutex<bool>,
    wake: Condvar,
    /// The value that is written before a notification. It is not atomic, because the notification has to order the
    /// accesses to it.
    told: UnsafeCell<u32>,
}

impl Sleeper {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            state: ParkState::new(),
            woken: Mutex::new(false),
            wake: Condvar::new(),
            told: UnsafeCell::new(0),
        })
    }

    fn park(&self, sleep: Sleep) -> bool {
        if self.state.enter(sleep) {
            let mut woken = self.woken.lock().unwrap();
            while !*woken && self.state.is_asleep(sleep) {
                woken = self.wake.wait(woken).unwrap();
            }
            *woken = false;
        }
        self.state.take()
    }

    fn unpark(&self) {
        if self.state.leave().is_some() {
            *self.woken.lock().unwrap() = true;
            self.wake.notify_one();
        }
    }
}

/// A notification is left while the thread goes to sleep: the thread wakes, and sees the writes before the
/// notification.
#[test]
fn notification_is_left_while_parking() {
    for sleep in [Sleep::Parked, Sleep::OnEpoll] {
        loom::model(move || {
            let sleeper = Sleeper::new();
            let other = {
                let sleeper = Arc::clone(&sleeper);
                thread::spawn(move || {
                    sleeper.told.with_mut(drop);
                    sleeper.unpark();
                })
            };
            while !sleeper.park(sleep) {}
            sleeper.told.with(drop);
            other.join().unwrap();
        });
    }
}

/// Two notifications at once count as one or two, never as none. The case has three threads, so the short check (`cargo
/// xtask check`) bounds their preemptions.
#[test]
fn two_notifications_are_left_while_parking() {
    let mut builder = loom::model::Builder::new();
    if std::env::var_os("TICKLESS_SHORT_MODELS").is_some() {
        builder.preemption_bound = Some(3);
    }
    builder.check(|| {
        let sleeper = Sleeper::new();
        let others = [(); 2].map(|()| {
            let sleeper = Arc::clone(&sleeper);
            thread::spawn(move || sleeper.unpark())
        });
        while !sleeper.park(Sleep::Parked) {}
        for other in others {
            other.join().unwrap();
        }
    });
}

/// A notification that is left between two checks ends the next sleep before it begins.
#[test]
fn notification_is_taken_once() {
    loom::model(|| {
        let sleeper = Sleeper::new();
        let other = {
            let sleeper = Arc::clone(&sleeper);
            thread::spawn(move || sleeper.unpark())
        };
        let early = sleeper.state.take();
        let late = !early && sleeper.park(Sleep::OnEpoll);
        assert!(early != late);
        other.join().unwrap();
        assert!(!sleeper.state.is_there());
    });
}
