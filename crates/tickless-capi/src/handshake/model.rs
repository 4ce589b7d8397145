//! Loom cases for the handshake. The model of a record is the word of its version, which is exchanged and read as in
//! `arm`.

use loom::sync::Arc;
use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use loom::thread;

use super::Handshake;

struct Shared {
    version: AtomicU64,
    /// The state is true while a timer of the kernel is armed.
    handshake: Handshake<bool>,
    sent: AtomicU32,
}

fn shared() -> Arc<Shared> {
    Arc::new(Shared {
        version: AtomicU64::new(0),
        handshake: Handshake::new(false),
        sent: AtomicU32::new(0),
    })
}

impl Shared {
    /// Notifies if the record with this version is still current, as the service does for a timer whose record expired.
    fn notify(&self, version: u64) {
        self.handshake.enter(|_| {
            if self.version.load(Ordering::SeqCst) == version {
                // Relaxed: published by the end of the call.
                self.sent.fetch_add(1, Ordering::Relaxed);
            }
            ((), false)
        });
    }

    /// Arms a timer of the kernel if the record with this version is still current.
    fn hand_over(&self, version: u64) {
        self.handshake.enter(|is_armed| {
            *is_armed = self.version.load(Ordering::SeqCst) == version;
            ((), *is_armed)
        });
    }

    /// Replaces the record, as `settime` does, and returns the number of notifications sent so far.
    fn replace(&self) -> u32 {
        self.version.swap(1, Ordering::SeqCst);
        if self.handshake.may_notify() {
            self.handshake.enter(|is_armed| {
                *is_armed = false;
                ((), false)
            });
        }
        // Relaxed: what was sent before is seen, by the end of the delivery.
        self.sent.load(Ordering::Relaxed)
    }
}

/// The service has read the record of an expired timer, and `settime` replaces that record. A notification of the
/// former record is sent before `settime` returns, or never.
#[test]
fn behind_a_settime_no_notification_of_the_former_record_is_sent() {
    loom::model(|| {
        let shared = shared();
        let service = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || shared.notify(0))
        };
        let sent_before = shared.replace();
        service.join().unwrap();
        assert_eq!(shared.sent.load(Ordering::Relaxed), sent_before);
    });
}

/// The service arms a timer of the kernel for a record, and `settime` replaces that record. After `settime` the timer
/// is not armed.
#[test]
fn behind_a_settime_no_timer_of_the_kernel_has_the_former_record() {
    loom::model(|| {
        let shared = shared();
        let service = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || shared.hand_over(0))
        };
        shared.replace();
        service.join().unwrap();
        let is_armed = shared.handshake.enter(|is_armed| (*is_armed, *is_armed));
        assert!(!is_armed);
    });
}
