//! Loom cases for a kick that meets the setting of a device.

use loom::sync::{Arc, Mutex};
use loom::thread;

use super::Kick;
use tickless_link::sync::{AtomicU32, Ordering};

const DUE: u32 = 0;
const LATER: u32 = 5;

/// A thread that is kicked. It has two devices, and `role` selects the device in use. The mutex orders the operations
/// on a device, as the kernel does.
struct Kicked {
    kick: Kick,
    role: AtomicU32,
    devices: [Mutex<u32>; 2],
}

impl Kicked {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            kick: Kick::new(),
            role: AtomicU32::new(0),
            devices: [Mutex::new(LATER), Mutex::new(LATER)],
        })
    }

    /// Returns the device in use.
    fn device(&self) -> &Mutex<u32> {
        // Relaxed: ordered by the fences.
        &self.devices[self.role.load(Ordering::Relaxed) as usize]
    }

    fn is_due(&self) -> bool {
        *self.device().lock().unwrap() == DUE
    }

    fn ask(&self) {
        self.kick.raise();
        *self.device().lock().unwrap() = DUE;
    }

    fn set(&self) {
        *self.device().lock().unwrap() = LATER;
        if self.kick.was_raised_meanwhile() {
            *self.device().lock().unwrap() = DUE;
        }
    }
}

/// The end of a turn sets the device for the next timer while a kick arrives. The device is due afterwards, no matter
/// which thread wrote it last.
#[test]
fn a_kick_while_the_device_is_set() {
    loom::model(|| {
        let kicked = Kicked::new();
        let sender = {
            let kicked = Arc::clone(&kicked);
            thread::spawn(move || kicked.ask())
        };
        kicked.set();
        sender.join().unwrap();
        assert!(kicked.is_due(), "nothing tells the thread of the kick");
    });
}

/// The thread changes its kind, and with it its device, while a kick arrives.
#[test]
fn a_kick_while_the_thread_gets_another_device() {
    loom::model(|| {
        let kicked = Kicked::new();
        let sender = {
            let kicked = Arc::clone(&kicked);
            thread::spawn(move || kicked.ask())
        };
        // Relaxed: as above.
        kicked.role.store(1, Ordering::Relaxed);
        kicked.set();
        sender.join().unwrap();
        assert!(kicked.is_due(), "nothing tells the thread of the kick");
    });
}
