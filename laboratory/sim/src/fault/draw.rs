//! Plans of faults that a seed draws.

use tickless_conformance::random::Random;

use super::{Fault, FaultKind, When};
use crate::clock::PPM_MAX;
use crate::model::time::Picos;

const FAULTS_MAX: u64 = 5;
/// The most CPUs that one fault of a plan takes off: their timers go to one CPU, which must not get more work than it
/// can do. Too much work makes timers late without any fault of theirs.
const OFF_MAX: usize = 8;
/// The number that separates a plan from other draws of the same seed.
const SALT: u64 = 0xFA01_7ED0_5EED_0F0B;

/// Adds to the plan of a run on `cpus` that is `duration` long: one to five faults, each of any kind, on some of the
/// CPUs. Leap seconds beyond the first that is inserted are deleted.
pub(crate) fn draw(plan: &mut Vec<Fault>, seed: u64, cpus: u32, duration: Picos) {
    let mut random = Random::new(seed ^ SALT);
    for _ in 0..=random.below(FAULTS_MAX) {
        let mut fault = one(&mut random, cpus, duration);
        fault.back &= !(fault.inserts() && plan.iter().any(Fault::inserts));
        plan.push(fault);
    }
}

fn one(random: &mut Random, cpus: u32, duration: Picos) -> Fault {
    let kind = FaultKind::ALL[random.index(FaultKind::ALL.len())];
    // From 16 us to 4 ms, each octave as likely as the others: from less than an interrupt takes to more than a tick.
    let octave = random.below(8);
    let amount = Picos::from_micros(16 << octave) + Picos(random.below(16_000_000 << octave));
    let (amount, back) = amount_of(kind, amount, random);
    let when = match random.below(3) {
        _ if kind == FaultKind::LeapSecond => When::At(Picos(random.below(duration.0.max(1)))),
        0 => When::At(Picos(random.below(duration.0.max(1)))),
        1 if kind.spoils() => When::OneIn(1 + u32::try_from(random.below(50)).unwrap_or(0)),
        _ => {
            let least = amount * 4 + Picos::from_micros(200);
            let hits = 1 + random.below(40);
            When::Every(Picos(duration.0 / hits).max(least))
        }
    };
    let spread = 1 + random.below(4);
    let mut chosen: Vec<u32> = (0..cpus).filter(|_| random.one_in(spread)).collect();
    if chosen.is_empty() {
        chosen.push(u32::try_from(random.below(u64::from(cpus))).unwrap_or(0));
    }
    if kind == FaultKind::Offline {
        chosen.truncate(OFF_MAX);
    }
    Fault {
        kind,
        when,
        cpus: chosen,
        amount,
        back,
        ppm: if kind == FaultKind::Frequency {
            i32::try_from(random.between(-PPM, PPM)).unwrap_or(0)
        } else {
            0
        },
    }
}

/// The largest steering of a clock.
const PPM: i64 = PPM_MAX as i64;

/// Turns a drawn `amount` into the amount of a fault of this `kind`, and its direction.
fn amount_of(kind: FaultKind, amount: Picos, random: &mut Random) -> (Picos, bool) {
    let back = random.one_in(2);
    match kind {
        FaultKind::LeapSecond => (Picos::from_millis(1_000), back),
        // From 16 us to hours.
        FaultKind::ClockStep => (amount * (1 << (4 * random.below(6))), back),
        FaultKind::Suspend => (amount * (1 << (4 * random.below(6))), false),
        kind if kind.has_amount() => (amount, false),
        _ => (Picos::ZERO, false),
    }
}

#[cfg(test)]
mod tests {
    use super::draw;
    use crate::fault::{FaultKind, When};
    use crate::model::time::Picos;

    #[test]
    fn plans_are_those_of_their_seed_and_have_every_kind() {
        let plan = |seed| {
            let mut plan = Vec::new();
            draw(&mut plan, seed, 8, Picos::from_millis(100));
            plan
        };
        assert_eq!(plan(3), plan(3));
        assert_ne!(plan(3), plan(4));
        let all: Vec<_> = (0..100).flat_map(plan).collect();
        for kind in &FaultKind::ALL {
            let kind = *kind;
            assert!(all.iter().any(|fault| fault.kind == kind), "{kind:?}");
        }
        for seed in 0..2_000 {
            let inserted = plan(seed).iter().filter(|fault| fault.inserts()).count();
            assert!(inserted <= 1, "{seed}");
        }
        for fault in &all {
            assert!(fault.cpus.is_sorted() && fault.cpus.iter().all(|cpu| *cpu < 8));
            let is_leap = fault.kind == FaultKind::LeapSecond;
            let has_amount = fault.kind.has_amount() || is_leap;
            assert_eq!(fault.amount != Picos::ZERO, has_amount);
            assert!(!is_leap || matches!(fault.when, When::At(_)));
            assert!(fault.kind.spoils() || !matches!(fault.when, When::OneIn(_)));
        }
    }
}
