//! Loom cases for the handshake. The record is the word of its version, which is exchanged and read as in `arm`.

use loom::sync::Arc;
use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use loom::thread;

use super::Handshake;

const SLOT: u32 = 3;

struct Shared {
    version: AtomicU64,
    handshake: Handshake,
    sent: AtomicU32,
}

fn shared() -> Arc<Shared> {
    Arc::new(Shared {
        version: AtomicU64::new(0),
        handshake: Handshake::new(),
        sent: AtomicU32::new(0),
    })
}

impl Shared {
    /// Notifies, as the service does for a timer whose record expired, if that record is still current.
    fn notify(&self, version: u64) {
        self.handshake.deliver(SLOT, || {
            if self.version.load(Ordering::SeqCst) == version {
                // Relaxed: published by the end of the delivery.
                self.sent.fetch_add(1, Ordering::Relaxed);
            }
        });
    }

    /// Replaces the record, as `settime` does, and returns how many notifications were sent by then.
    fn replace(&self) -> u32 {
        self.version.swap(1, Ordering::SeqCst);
        self.handshake.settle(SLOT, |_| thread::yield_now());
        // Relaxed: what was sent before is seen, by the end of the delivery.
        self.sent.load(Ordering::Relaxed)
    }
}

/// The service has read the record of a timer that expired, and `settime` replaces it: a notification of it is sent
/// before `settime` returns, or never.
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

/// The service notifies of the former record and at once of the new one: `settime` ends, whichever it meets.
#[test]
fn a_settime_waits_for_one_delivery_alone() {
    loom::model(|| {
        let shared = shared();
        let service = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                shared.notify(0);
                shared.notify(1);
            })
        };
        let sent_before = shared.replace();
        service.join().unwrap();
        assert!(sent_before <= 2);
    });
}
