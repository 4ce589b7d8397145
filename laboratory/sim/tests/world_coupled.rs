//! Tests of machines whose clock is steered, with devices that follow the clock and devices that do not (spec ).

mod support;

use tickless_sim::{Outcome, Picos};

use support::{kept, read, with};

const COUPLED: &str = include_str!("../scenarios/coupled-steering.toml");

fn steered(ppm: i32, device: &str) -> Outcome {
    let text = with(COUPLED, "ppm = 500", &format!("ppm = {ppm}"));
    let text = with(&text, "kind = \"coupled\"", &format!("kind = \"{device}\""));
    let outcome = kept(&read(&text), 1);
    assert!(outcome.counts.exact_fires > 2_000, "{:?}", outcome.counts);
    outcome
}

/// CPL-2, CPL-4: at any rate no timer is early, the device fires within a count and the nanosecond that the clock
/// shows, and no clock is read to write the device. The rounding of the reverse factor, 0.5 ppm, makes the device
/// early, but that time has passed before the interrupt reads the clock.
#[test]
fn a_coupled_device_follows_a_clock_that_is_steered() {
    for ppm in [-500, -123, 0, 77, 500] {
        let Outcome { counts, .. } = steered(ppm, "coupled");
        assert!(
            counts.device_late_by <= Picos::from_nanos(2),
            "{ppm}: {counts:?}"
        );
        assert!(
            counts.device_early_by <= Picos::from_nanos(50),
            "{ppm}: {counts:?}"
        );
        // That of the timer of 100 ms that was written before the rate changed, at the millisecond.
        assert!(counts.spurious <= 1, "{ppm}");
        assert_eq!(counts.device_clock_reads, 0, "{ppm}");
        assert!(counts.device_writes > 2_000, "{counts:?}");
    }
}

/// The control of the test above: a tenth of a second, scaled by a factor that is wrong by 500 ppm, is off by 50 µs.
#[test]
fn a_device_that_is_told_delays_is_early_or_late() {
    let spread = Picos::from_micros(45);
    let fast = steered(500, "less-or-equal").counts;
    assert!(fast.device_late_by > spread, "{fast:?}");
    let slow = steered(-500, "less-or-equal").counts;
    assert!(slow.device_early_by > spread, "{slow:?}");
    assert!(
        slow.spurious > 10,
        "an early interrupt finds nothing and asks again: {slow:?}"
    );
    for counts in [fast, slow] {
        assert!(
            counts.device_clock_reads * 10 > counts.device_writes * 9,
            "{counts:?}"
        );
    }
}
