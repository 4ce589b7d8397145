//! The rounding of timeouts to whole seconds, so that timeouts that need no precision share a wake-up (spec C-7.8).

use crate::cpu::CpuId;
use crate::slots::geometry::Tick;

/// The direction in which a timeout may be rounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rounding {
    /// Rounds down by less than a quarter of a second, and up otherwise. So the timer may fire early.
    Nearest,
    /// Rounds up, so that the timer never fires earlier than requested.
    Up,
}

/// The distance in ticks between the whole seconds of two neighbouring CPUs. Without it, the timeouts of all CPUs would
/// fire at once.
const SKEW: u64 = 3;

/// Returns the whole second, in ticks, to which `expiry` is rounded for `cpu`.
///
/// `per_second` is the number of ticks in a second; with 0 the function returns `expiry` itself. The function also
/// returns `expiry` if the rounded tick is not after `now`.
#[must_use]
pub const fn to_second(
    expiry: Tick,
    now: Tick,
    cpu: CpuId,
    per_second: u64,
    rounding: Rounding,
) -> Tick {
    let skew = SKEW * cpu.0 as u64;
    let skewed = expiry.0.saturating_add(skew);
    let Some(behind) = skewed.checked_rem(per_second) else {
        return expiry;
    };
    let down = matches!(rounding, Rounding::Nearest) && behind < per_second / 4;
    let second = if down || behind == 0 {
        skewed - behind
    } else {
        (skewed - behind).saturating_add(per_second)
    };
    let rounded = second.saturating_sub(skew);
    if rounded > now.0 {
        Tick(rounded)
    } else {
        expiry
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const fn on_cpu_0(expiry: u64, rounding: Rounding) -> u64 {
        to_second(Tick(expiry), Tick(1_000), CpuId(0), 1_000, rounding).0
    }

    #[test]
    fn what_is_just_behind_a_second_is_that_second() {
        assert_eq!(on_cpu_0(5_249, Rounding::Nearest), 5_000);
        assert_eq!(on_cpu_0(5_250, Rounding::Nearest), 6_000);
        assert_eq!(on_cpu_0(5_001, Rounding::Up), 6_000);
        assert_eq!(on_cpu_0(5_000, Rounding::Up), 5_000);
    }

    #[test]
    fn what_would_be_over_is_left_alone() {
        assert_eq!(on_cpu_0(1_100, Rounding::Nearest), 1_100);
        assert_eq!(
            to_second(Tick(7), Tick(0), CpuId(0), 0, Rounding::Up),
            Tick(7)
        );
    }

    #[test]
    fn cpus_do_not_fire_at_the_same_time() {
        let rounded = |cpu| to_second(Tick(5_500), Tick(0), CpuId(cpu), 1_000, Rounding::Nearest);
        assert_eq!(
            [rounded(0), rounded(1), rounded(2)],
            [Tick(6_000), Tick(5_997), Tick(5_994)]
        );
    }

    proptest! {
        #[test]
        fn rounding_moves_by_less_than_a_second(
            expiry in 1..1_u64 << 40,
            cpu in 0..4_096_u32,
            up in any::<bool>(),
        ) {
            let rounding = if up { Rounding::Up } else { Rounding::Nearest };
            let rounded = to_second(Tick(expiry), Tick(0), CpuId(cpu), 1_000, rounding).0;
            prop_assert!(rounded > 0);
            if up {
                prop_assert!(rounded >= expiry);
            }
            prop_assert!(rounded < expiry + 1_000 && rounded + 250 > expiry);
        }
    }
}
