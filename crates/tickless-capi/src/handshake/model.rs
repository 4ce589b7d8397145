//! Loom cases for the handshake. The model of a record is the word of its version, which is exchanged and read as in
//! `arm`.

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
    /// Notifies if the record with this version is still current, as the service does for a timer whose record expired.
    fn notify(&self, version: u64) {
        self.handshake.deliver(SLOT, || {
            if self.version.load(Ordering::SeqCst) == version {
                // Relaxed: published by the end of the delivery.
                self.sent.fetch_add(1, Ordering::Relaxed);
            }
        });
    }

    /// Replaces the record, as `settime` does, and returns the number of notifications sent so far.
    fn replace(&self) -> u32 {
        self.version.swap(1, Ordering::SeqCst);
        self.handshake.settle(SLOT, |_| thread::yield_now());
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

/// The service notifies of the former record and directly afterwards of the new record. `settime` ends in either case.
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
