//! The largest load that a machine can carry. With more load the timers of every library are late, so that no draft has
//! more.

use crate::model::profile::Profile;
use crate::model::time::Picos;

/// The largest lateness of a timer, for each tick. It is three ticks; with a short tick it is so long that a callback
/// takes a tenth of it at most.
///
/// A coarse timer that other CPUs may fire is late, at worst, by two ticks and the work that is executed before it. The
/// CPU that expires timers for the owner ticks when the timer is due, but before the CPU that counts has counted that
/// tick: it finds no due timer for one more tick. At the next tick, before that CPU checks again, the owner wakes,
/// takes back its timers, and checks them at its own next tick. So two ticks alone are no bound.
const LATE_MAX: [(&str, &str); 2] = [("1 ms", "8 ms"), ("4 ms", "12 ms")];
/// The largest number of clock reads of a CPU in a millisecond, if the CPU need not wait for them. Nine of ten drafts
/// stay below a third of this number; the drafts whose reads made timers late had 7 and 22 reads on average. Tasks that
/// request more reads read again and again, each read after the one before: such tasks wait, and each keeps the other
/// CPUs waiting once.
const READS_MAX: u64 = 30;
/// The number of CPUs of the largest random machine.
const CPUS_MAX: u64 = 64;

/// Returns the largest lateness of a timer on a machine with this tick.
pub(super) fn late_max(tick: &str) -> &'static str {
    let found = LATE_MAX.iter().find(|(of, _)| *of == tick);
    found.map_or("8 ms", |(_, late_max)| late_max)
}

/// Returns the number of CPUs that may share the slow counter of a machine.
///
/// The counter serves one CPU at a time, so all reads of a millisecond together, `CPUs * READS_MAX * serial`, may not
/// take longer than a millisecond. On `vm-64` a read occupies the counter for 2.5 us: it serves 400 reads in a
/// millisecond, so 13 CPUs may share it. On the other machines a read occupies it for 0.4 us at most: 2,500 reads in a
/// millisecond, so 83 CPUs may share it.
pub(super) fn readers_max(profile: &str) -> u32 {
    Profile::embedded(profile).map_or(0, |profile| {
        let serial = profile.costs.slow_counter_serial.value;
        let readers = Picos::from_millis(1).0 / (READS_MAX * serial.0);
        u32::try_from(readers).unwrap_or(u32::MAX)
    })
}

/// Returns the shortest period, in milliseconds, of `timers` timers on each CPU whose callbacks take `works`
/// microseconds. `works` is the sum of the shortest and the longest callback, twice the average.
///
/// If all CPUs but one sleep, that CPU runs the timers of all. The timers may take half of its time: on 64 CPUs, `64 *
/// timers * works / 2` in half a period.
pub(super) const fn least_period(timers: u64, works: u64) -> u64 {
    (CPUS_MAX * timers * works).div_ceil(1_000)
}

#[cfg(test)]
mod tests {
    use super::super::{Draft, SIZES};
    use super::{CPUS_MAX, least_period, readers_max};
    use crate::model::time::Picos;
    use crate::run::scenario::Scenario;
    use crate::workload::Workload;

    #[test]
    fn a_slow_counter_is_shared_by_as_many_as_it_can_serve() {
        assert_eq!(readers_max("vm-64"), 13, "1 ms / 30 / 2.5 us");
        assert_eq!(readers_max("epyc-128"), 83, "1 ms / 30 / 0.4 us");
        assert_eq!(readers_max("no such machine"), 0);
    }

    #[test]
    fn the_timers_of_all_cpus_leave_one_cpu_half_of_its_time() {
        assert_eq!(u64::from(SIZES.into_iter().max().unwrap()), CPUS_MAX);
        // 256 callbacks of 46 us, where 6 ms were drawn once.
        assert_eq!(least_period(4, 5 + 87), 24);
        assert_eq!(least_period(1, 1 + 1), 1);
        assert_eq!(least_period(5, 10 + 100), 36, "short enough to be drawn");
    }

    /// The load of a machine, computed again from the draft, is never more than the machine can carry. The first three
    /// seeds once had too much.
    #[test]
    fn nothing_is_drawn_that_asks_more_of_a_machine_than_it_can_do() {
        let found = [
            1_795_315_479_200_694,
            1_795_315_479_235_803,
            1_795_315_479_324_273,
        ];
        let mut slow = 0;
        for seed in found.into_iter().chain(0..2_000) {
            let text = Draft::of(seed).to_toml();
            let scenario = Scenario::from_toml(&text, "draw.toml").unwrap();
            if scenario.slow_counter || scenario.counter.stops_in_deep_idle {
                let serial = scenario.profile.costs.slow_counter_serial.value;
                let reads = serial * u64::from(scenario.cpus) * 30;
                assert!(reads <= Picos::from_millis(1), "{reads} in\n{text}");
                slow += 1;
            }
            for placed in &scenario.workloads {
                if let Workload::Polls {
                    timers,
                    period,
                    work,
                } = placed.workload
                {
                    let works = (work.low + work.high) * u64::from(timers * scenario.cpus);
                    assert!(works <= period.low, "{works} in\n{text}");
                }
            }
        }
        assert!(slow > 200, "{slow} have a slow counter");
    }
}
