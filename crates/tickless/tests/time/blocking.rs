//! Tests of the waits of plain threads.

use std::time::{Duration, Instant as StdInstant};

use tickless::time::Instant;
use tickless::time::blocking::{sleep, sleep_until};

use crate::support::{self, us};

#[test]
fn a_wait_is_never_early_by_either_clock() {
    let _patience = support::begin();
    for micros in [0, 1, 7, 50, 300, 2_000] {
        for _ in 0..20 {
            let (start, std_start) = (Instant::now(), StdInstant::now());
            sleep(us(micros));
            assert!(start.elapsed() >= us(micros));
            assert!(std_start.elapsed() >= us(micros));
            let due = Instant::now() + us(micros);
            sleep_until(due);
            assert!(Instant::now() >= due && StdInstant::now() >= due.into_std());
        }
    }
}

#[test]
fn what_is_over_returns_at_once() {
    let _patience = support::begin();
    let an_hour_ago = Instant::now() - Duration::from_secs(3600);
    for _ in 0..1_000 {
        sleep_until(an_hour_ago);
        sleep(Duration::ZERO);
    }
}
