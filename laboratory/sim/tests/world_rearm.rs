//! Tests of the times at which devices are written, and of the cost of each policy.

mod support;

use tickless_sim::baseline::Rearm;
use tickless_sim::{Counts, Outcome, Scenario, run};

use support::read;

fn scenario(fields: &str, rearm: Rearm) -> Scenario {
    let text = format!(
        "name = \"rearm\"\nprofile = \"skl-112\"\ncpus = 4\nduration = \"200 ms\"\n\n{fields}\n"
    );
    let mut scenario = read(&text);
    scenario.policy.rearm = rearm;
    scenario
}

fn holds(fields: &str, rearm: Rearm) -> Outcome {
    let outcome = run(&scenario(fields, rearm), 1);
    support::holds(&outcome);
    outcome
}

const SLEEPERS: &str = "[[workload]]\nkind = \"cyclictest\"\ncpus = \"all\"\nperiod = \"3 ms\"";

#[test]
fn an_interrupt_that_makes_a_cpu_idle_again_writes_its_device_once() {
    let deferred = holds(SLEEPERS, Rearm::Deferred).counts;
    let immediate = holds(SLEEPERS, Rearm::Immediate).counts;
    assert_eq!(deferred.exact_fires, immediate.exact_fires);
    // The tick stops and starts with each of them, and the sleep is long: what the interrupt writes at its end is not
    // what the device is left with.
    assert!(
        deferred.device_writes * 4 < immediate.device_writes * 3,
        "{} {}",
        deferred.device_writes,
        immediate.device_writes
    );
}

#[test]
fn a_first_timer_that_moves_is_written_once_or_twice() {
    // Starts the only timer of a CPU besides the tick, earlier and later, again and again.
    let starts = "[[workload]]\nkind = \"starts\"\ncpus = \"1\"\ntimers = 1\nrepetitions = 200\ngap = \"1 ms\"";
    let deferred = holds(starts, Rearm::Deferred).counts;
    let immediate = holds(starts, Rearm::Immediate).counts;
    // Out, and in again; but the core starts the tick by itself.
    assert!(
        immediate.exact_in_place * 20 < deferred.exact_in_place,
        "{} {}",
        immediate.exact_in_place,
        deferred.exact_in_place
    );
    assert!(
        deferred.device_writes + 4_000 < immediate.device_writes,
        "{} {}",
        deferred.device_writes,
        immediate.device_writes
    );
}

/// Returns the number of flushes at each point: at the return to a task, at the return to idle, before a soft stage,
/// after a pick.
fn paid_at(counts: &Counts) -> [u64; 4] {
    let points = [
        counts.flushes_to_task,
        counts.flushes_to_idle,
        counts.flushes_before_soft,
        counts.flushes_after_pick,
    ];
    assert_eq!(points.iter().sum::<u64>(), counts.interrupts, "{points:?}");
    points
}

#[test]
fn each_interrupt_is_paid_for_once_at_one_of_the_points() {
    let busy = "[[workload]]\nkind = \"busy\"\ncpus = \"0-1\"\n\n\
                [[workload]]\nkind = \"cyclictest\"\ncpus = \"all\"\nperiod = \"3 ms\"\npriority = 2\n\n\
                [[workload]]\nkind = \"polls\"\ncpus = \"all\"\ntimers = 2\nperiod = \"5 ms\"\nperiod_max = \"9 ms\"\n\
                work = \"2 us\"\n\n\
                [[workload]]\nkind = \"desktop\"\ncpus = \"2-3\"\ntimers = 3\nperiod = \"4 ms\"\nwork = \"5 us\"\n\
                slack = \"1 us\"\ngap = \"90 ms\"";
    let counts = holds(busy, Rearm::Deferred).counts;
    let points = paid_at(&counts);
    assert!(points[0] > 100 && points[1] > 20, "{points:?}");
    assert!(points[2] > 80 && points[3] > 150, "{points:?}");
    let counts = holds(busy, Rearm::Immediate).counts;
    assert_eq!(counts.flushes_to_idle, counts.interrupts, "at once");
}

/// A decision of a fair queue takes over the rearm that the interrupt before it owes. It carries out the rearm after
/// the tick of the slice, whether another task runs or the same task goes on.
#[test]
fn a_decision_pays_what_the_interrupt_before_it_owes() {
    let fair = "slice = \"1 ms\"\n\n[policy]\nscheduler = \"fair\"\n\n\
                [[workload]]\nkind = \"busy\"\ncpus = \"0-1\"\n\n\
                [[workload]]\nkind = \"busy\"\ncpus = \"0-1\"\n\n\
                [[workload]]\nkind = \"cyclictest\"\ncpus = \"all\"\nperiod = \"3 ms\"\nrequest = \"200 us\"";
    let counts = holds(fair, Rearm::Deferred).counts;
    let points = paid_at(&counts);
    assert!(points[0] > 100 && points[3] > 500, "{points:?}");
}
