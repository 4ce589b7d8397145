//! A test of the switch with which experiments measure the saving from timers that keep their place.

use std::pin::pin;

use tickless::hrtimer::{HrTimer, Restart, Span, Start};
use tickless::internals::set_updates_in_place;
use tickless::stats;

/// Returns the number of starts of a queued timer, out of a hundred, that kept its place.
fn kept() -> u64 {
    let timer = pin!(HrTimer::new(|_: &mut _| Restart::No));
    let timer = timer.as_ref();
    let before = stats().kept();
    for step in 0..=100 {
        let _ = timer.start(Start::after(Span::from_secs(3_600 + step)));
    }
    stats().kept() - before
}

#[test]
fn a_switch_files_each_timer_anew_that_is_started_again() {
    assert_eq!(kept(), 100);
    set_updates_in_place(false);
    assert_eq!(kept(), 0);
    set_updates_in_place(true);
    assert_eq!(kept(), 100);
}
