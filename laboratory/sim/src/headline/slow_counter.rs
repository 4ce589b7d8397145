//! The slow counter that all CPUs share. Either each CPU reads it itself, or one CPU reads it for all CPUs that wait.
//!
//! The duration of a read comes from published figures of the device, not from the claims that are tested here. The
//! figure is that of a read without contention, and all of it counts as serial, because no source gives a part that
//! overlaps. The table in the notes shows how much the results depend on this.

mod crowd;

use self::crowd::{Figures, Setting, watch};
use super::measure::{Effort, Measurement, Trial, in_unit, micros};
use crate::baseline::Reads;
use crate::model::profile::Profile;
use crate::model::time::Picos;

/// CPU time of a job of AIM7's compute load where the clock costs nothing: 144 CPUs, 1,042,431 jobs a minute.
const JOB: Picos = Picos::from_micros(8_288);
const MILLISECOND: Picos = Picos::from_millis(1);
/// The period of the tick in the source.
const TICK: Picos = MILLISECOND;
/// Tasks of other CPUs that each CPU wakes in ten ticks. Ten of 1,500 users wait on each CPU and compute; that one of
/// them has another one woken at each tick is an assumption, and the notes say what is without.
const WAKES: u32 = 10;
/// Serial parts of a read, for the table.
const SERIAL_NANOS: [u64; 5] = [250, 500, 750, 1_000, 1_500];
/// The source's figures for direct reads: the share of CPU time in them, and the share of the jobs that is lost.
const SHARE: f64 = 11.19;
const LOST: f64 = 23.4;
/// CPUs of a machine on which CPUs were stuck: 583 at least, and these are 17 sockets of 36.
const CPUS_AT_BOOT: u32 = 612;
/// The time that such a machine runs on the slow counter until its fast ones are known, and the time for which combined
/// reads are watched of it: nothing in them changes from one tick to the next.
const BOOT: Picos = Picos::from_millis(25_000);
const BOOT_COMBINED: Picos = Picos::from_millis(2_000);

/// A crowd to be watched: the machine's profile, and the crowd's setting.
#[derive(Clone, Copy)]
struct Case<'a> {
    profile: &'a Profile,
    setting: Setting,
}

impl<'a> Case<'a> {
    /// Makes the load that the source of the claims ran.
    fn load(trial: &Trial<'a>) -> Self {
        let length = match trial.effort {
            Effort::Full => Picos::from_millis(1_000),
            Effort::Quick => Picos::from_millis(30),
        };
        Self {
            profile: trial.profile,
            setting: Setting {
                cpus: trial.profile.topology.cpus(),
                reads: None,
                tick: TICK,
                wakes: WAKES,
                has_locks: true,
                length,
                seed: trial.seed,
            },
        }
    }

    fn with(&self, reads: Option<Reads>) -> Figures {
        let setting = Setting {
            reads,
            ..self.setting
        };
        watch(self.profile, setting).unwrap_or_default()
    }

    fn time(&self) -> Picos {
        self.setting.length * u64::from(self.setting.cpus)
    }

    /// Returns `part` in percent of all CPU time.
    fn percent(&self, part: Picos) -> f64 {
        100.0 * in_unit(part, self.time())
    }

    /// Returns `number` divided by the ticks of the machine.
    fn per_tick(&self, number: u64) -> f64 {
        number as f64 / in_unit(self.setting.length, TICK)
    }

    /// Returns the number of jobs in a minute.
    fn jobs(&self, figures: &Figures) -> f64 {
        in_unit(figures.computing, JOB) * 60_000.0 / in_unit(self.setting.length, TICK)
    }

    /// Returns the jobs done with combined reads, as a multiple of those with direct ones.
    fn gain(&self) -> f64 {
        let [direct, combined] = BOTH.map(|reads| self.with(Some(reads)));
        self.jobs(&combined) / self.jobs(&direct)
    }
}

const BOTH: [Reads; 2] = [Reads::Direct, Reads::Combined];

/// Returns the profile with another serial part of a read.
fn with_serial(profile: &Profile, nanos: u64) -> Profile {
    let mut profile = profile.clone();
    let serial = Picos::from_nanos(nanos);
    profile.costs.slow_counter_serial.value = serial;
    let read = &mut profile.costs.slow_counter.value;
    *read = serial.max(*read);
    profile
}

/// Returns true if `here` is the source's figure, to a factor of two.
fn lands(here: f64, source: f64) -> bool {
    (source / 2.0..source * 2.0).contains(&here)
}

fn measurement(
    (baseline, with): (f64, f64),
    ratio: f64,
    misfit: Option<String>,
    notes: String,
) -> Measurement {
    Measurement {
        baseline: Some(baseline),
        with: Some(with),
        ratio: Some(ratio),
        spread: None,
        misfit,
        broken: Vec::new(),
        notes,
    }
}

/// Measures the jobs per minute with direct and with combined reads.
pub(super) fn throughput(trial: &Trial<'_>) -> Measurement {
    let case = Case::load(trial);
    let with = trial.mechanism.choose(Reads::Combined, Reads::Direct);
    let fast = case.with(None);
    let direct = case.with(Some(Reads::Direct));
    let combined = case.with(Some(with));
    let lost = |figures: &Figures| 100.0 * (1.0 - case.jobs(figures) / case.jobs(&fast));
    let setting = |wakes, has_locks| Case {
        setting: Setting {
            wakes,
            has_locks,
            ..case.setting
        },
        ..case
    };
    let table = SERIAL_NANOS.map(|nanos| {
        let profile = with_serial(case.profile, nanos);
        let case = Case {
            profile: &profile,
            ..case
        };
        format!("{nanos} ns {:.2}", case.gain())
    });
    let notes = format!(
        "With a fast counter it is {:.0} here, and 1042431 in the source. Direct reads cost {:.1} % of the jobs here \
         and {LOST} % in the source, combined ones {:.1} and 1.2 %. Of all CPU time {:.1} % goes by in direct reads, \
         and {:.1} % in waits for the record and for run queues whose holders read. The ratio is {:.2} without those \
         locks, and {:.2} if no CPU wakes tasks of others. By the serial part of a read, which no source has: {}.",
        case.jobs(&fast),
        lost(&direct),
        lost(&combined),
        case.percent(direct.reading),
        case.percent(direct.waiting),
        setting(WAKES, false).gain(),
        setting(0, true).gain(),
        table.join(", "),
    );
    let misfit = (!lands(lost(&direct), LOST)).then(|| {
        format!(
            "direct reads cost {:.1} % of the jobs, and {LOST} in the source; with the published time of a read, all \
             of it serial, the counter is busier here than there.",
            lost(&direct)
        )
    });
    let jobs = (case.jobs(&direct), case.jobs(&combined));
    measurement(jobs, jobs.1 / jobs.0, misfit, notes)
}

/// Measures the share of CPU time that is spent in reads.
pub(super) fn share(trial: &Trial<'_>) -> Measurement {
    let case = Case::load(trial);
    let with = trial.mechanism.choose(Reads::Combined, Reads::Direct);
    let (direct, combined) = (case.with(Some(Reads::Direct)), case.with(Some(with)));
    let shares = (case.percent(direct.reading), case.percent(combined.reading));
    let table = SERIAL_NANOS.map(|nanos| {
        let profile = with_serial(case.profile, nanos);
        let case = Case {
            profile: &profile,
            ..case
        };
        let [direct, combined] = BOTH.map(|reads| case.with(Some(reads)));
        format!(
            "{nanos} ns {:.1} to {:.2} % ({:.0} to {:.0})",
            case.percent(direct.reading),
            case.percent(combined.reading),
            case.per_tick(direct.served),
            case.per_tick(combined.served),
        )
    });
    let notes = format!(
        "A read takes {:.1} us on average, and {:.1} us combined. The counter itself is read {:.0} times in a tick, \
         and {:.0} combined; {:.0} of the first are done again because the record of the time changed meanwhile. {} \
         By the serial part of a read, which no source has, the shares, and the reads of the counter in a tick: {}.",
        mean(&direct),
        mean(&combined),
        case.per_tick(direct.served),
        case.per_tick(combined.served),
        case.per_tick(direct.again),
        crossover(&case),
        table.join(", "),
    );
    let misfit = (!lands(shares.0, SHARE)).then(|| {
        format!(
            "direct reads take {:.1} % of the CPU time, and {SHARE} in the source; with the published time of a read, \
             all of it serial, the counter is busier here than there.",
            shares.0
        )
    });
    measurement(shares, shares.0 / shares.1, misfit, notes)
}

/// Returns the mean duration of a read, in microseconds.
fn mean(figures: &Figures) -> f64 {
    micros(Picos(figures.reading.0 / figures.reads.max(1)))
}

/// Finds the number of CPUs from which on a combined read is the shorter one.
fn crossover(case: &Case<'_>) -> String {
    let first = (2..=case.setting.cpus.min(16)).find(|cpus| {
        let case = Case {
            setting: Setting {
                cpus: *cpus,
                ..case.setting
            },
            ..*case
        };
        let [direct, combined] = BOTH.map(|reads| mean(&case.with(Some(reads))));
        combined < direct
    });
    first.map_or_else(
        || "No combined read is shorter on up to 16 CPUs.".to_owned(),
        |cpus| format!("A combined read is shorter from {cpus} CPUs on."),
    )
}

/// Measures the longest time for which a CPU of a very large machine makes no progress while the machine boots.
pub(super) fn stall(trial: &Trial<'_>) -> Measurement {
    let (length, of_combined) = match trial.effort {
        Effort::Full => (BOOT, BOOT_COMBINED),
        Effort::Quick => (Picos::from_millis(300), Picos::from_millis(20)),
    };
    let of = |profile: &Profile, reads, length| {
        let setting = Setting {
            cpus: CPUS_AT_BOOT,
            reads: Some(reads),
            tick: TICK,
            wakes: 0,
            has_locks: true,
            length,
            seed: trial.seed,
        };
        watch(profile, setting).unwrap_or_default()
    };
    let direct = of(trial.profile, Reads::Direct, length);
    let with = trial.mechanism.choose(Reads::Combined, Reads::Direct);
    let of_with = trial.mechanism.choose(of_combined, length);
    let combined = of(trial.profile, with, of_with);
    let table = SERIAL_NANOS.map(|nanos| {
        let profile = with_serial(trial.profile, nanos);
        let stalled = of(&profile, Reads::Direct, Picos::from_millis(20)).stalled;
        format!("{nanos} ns {:.1} ms", in_unit(stalled, MILLISECOND))
    });
    let is_stuck = length - direct.stalled < TICK * 3;
    let misfit = (!is_stuck).then(|| {
        format!(
            "with direct reads CPUs make progress within {}.",
            direct.stalled
        )
    });
    let reads = f64::from(CPUS_AT_BOOT * 3 + 1);
    let serial = trial.profile.costs.slow_counter_serial.value;
    let notes = format!(
        "{CPUS_AT_BOOT} CPUs, {length} on the slow counter with direct reads; combined ones were watched for \
         {of_with}. The counter would have to be read {reads:.0} times in a tick, which is {:.2} ms of its time, and \
         is {:.0} times with combined reads. By the serial part of a read, which no source has, the longest time \
         within 20 ms of direct reads: {}.",
        reads * in_unit(serial, TICK),
        combined.served as f64 / in_unit(of_with, TICK),
        table.join(", "),
    );
    let stalls = (
        in_unit(direct.stalled, MILLISECOND),
        in_unit(combined.stalled, MILLISECOND),
    );
    measurement(stalls, stalls.0 / stalls.1, misfit, notes)
}

#[cfg(test)]
mod tests {
    use super::crowd::{Figures, Setting, watch};
    use super::{Reads, with_serial};
    use crate::model::profile::Profile;
    use crate::model::time::Picos;

    const TICKS: u64 = 20;

    fn haswell() -> Profile {
        Profile::embedded("hsw-144").expect("it is there")
    }

    fn crowd(profile: &Profile, cpus: u32, reads: Option<Reads>, has_locks: bool) -> Figures {
        let setting = Setting {
            cpus,
            reads,
            tick: Picos::from_millis(1),
            wakes: 0,
            has_locks,
            length: Picos::from_millis(TICKS) + Picos::from_micros(900),
            seed: 7,
        };
        watch(profile, setting).expect("there is such a machine")
    }

    /// Three reads at each tick, of which all but the first wait for those of all CPUs before.
    #[test]
    fn direct_reads_cost_what_a_queue_costs() {
        let profile = with_serial(&haswell(), 1_200);
        let figures = crowd(&profile, 36, Some(Reads::Direct), false);
        // The CPU that brings the record forward reads once more.
        assert_eq!(figures.served, TICKS * (36 * 3 + 1));
        assert_eq!((figures.again, figures.waiting), (0, Picos::ZERO));
        let mean = figures.reading.0 as f64 / figures.reads as f64 / 1e6;
        let closed = (36.0 * 3.0 - 18.0) * 1.2 / 3.0;
        assert!((mean / closed - 1.0).abs() < 0.1, "{mean} us, and {closed}");
    }

    #[test]
    fn one_read_serves_all_who_wait() {
        let profile = haswell();
        let figures = crowd(&profile, 36, Some(Reads::Combined), false);
        assert!(figures.reads >= TICKS * (36 * 3 + 1));
        assert!(figures.served * 4 < figures.reads, "{figures:?}");
        let direct = crowd(&profile, 36, Some(Reads::Direct), false);
        assert!(figures.stalled * 3 < direct.stalled);
        assert!(figures.computing > direct.computing);
    }

    /// A read while the record is brought forward waits for it, one that had begun is done again.
    #[test]
    fn locks_held_across_a_read_make_others_wait() {
        let profile = haswell();
        let [without, with] =
            [false, true].map(|has_locks| crowd(&profile, 36, Some(Reads::Direct), has_locks));
        assert!(with.again > 0 && with.waiting > Picos::ZERO);
        assert!(with.computing < without.computing);
    }

    #[test]
    fn a_fast_counter_keeps_no_cpu_waiting() {
        let figures = crowd(&haswell(), 144, None, true);
        assert_eq!(figures.served, 0);
        assert!(figures.stalled < Picos::from_micros(5), "{figures:?}");
    }
}
