//! Tests of machines that run clients and servers, and desktops.

mod support;

use tickless_sim::{Outcome, Picos, Scenario, run};

use support::{kept, read, refusal};

fn scenario(fields: &str) -> Scenario {
    let text = format!(
        "name = \"pairs\"\nprofile = \"skl-112\"\ncpus = 4\nduration = \"400 ms\"\nlate_max = \"6 ms\"\n\n\
         [[workload]]\n{fields}\n"
    );
    read(&text)
}

fn holds(fields: &str) -> Outcome {
    kept(&scenario(fields), 1)
}

const DBENCH: &str = "kind = \"dbench\"\ncpus = \"all\"\ntasks = 3\nwork = \"20 us\"\nwork_max = \"200 us\"\n\
                      timeout = \"20 ms\"";

#[test]
fn clients_are_answered_and_push_their_timeouts_out() {
    let outcome = holds(DBENCH);
    let trips = outcome.series("round-trip").expect("a client was answered");
    assert!(trips.count() > 2_000, "{trips:?}");
    assert!(trips.min() >= Picos::from_micros(20), "a server computes");
    assert!(
        outcome.series("no-answer").is_none(),
        "no task waits for 20 ms"
    );
    // Two modifications of a round trip, most of which take a lock.
    let counts = outcome.counts;
    assert!(counts.coarse_arms + counts.lockless > trips.count());
    assert!(counts.coarse_fires < 100, "{counts:?}");
}

#[test]
fn clients_of_slow_servers_notice() {
    let slow = DBENCH
        .replace("\"20 ms\"", "\"100 us\"")
        .replace("\"200 us\"", "\"9 ms\"");
    let outcome = holds(&slow);
    assert!(
        outcome
            .series("no-answer")
            .is_some_and(|one| one.count() > 10)
    );
}

const DESKTOP: &str = "kind = \"desktop\"\ncpus = \"all\"\ntimers = 6\nperiod = \"4 ms\"\nperiod_max = \"120 ms\"\n\
                       work = \"5 us\"\nwork_max = \"100 us\"\nslack = \"2 ms\"\ngap = \"50 ms\"";

#[test]
fn a_desktop_mostly_sleeps_and_slack_saves_interrupts() {
    let outcome = holds(DESKTOP);
    assert!(
        outcome.deep_idle_permille() > 500,
        "{}",
        outcome.deep_idle_permille()
    );
    assert!(outcome.counts.coarse_fires > 100 && outcome.counts.exact_fires > 200);
    let exact = run(&scenario(&DESKTOP.replace("\"2 ms\"", "\"1 ns\"")), 1);
    assert!(
        outcome.counts.interrupts < exact.counts.interrupts,
        "{} {}",
        outcome.counts.interrupts,
        exact.counts.interrupts
    );
}

#[test]
fn fields_that_are_missing_are_asked_for() {
    let text = |fields: &str| {
        format!(
            "name = \"p\"\nprofile = \"skl-112\"\nduration = \"1 ms\"\n[[workload]]\n{fields}\n"
        )
    };
    let error = |fields: &str| refusal(&text(fields));
    let said = error(&DESKTOP.replace("slack = \"2 ms\"\n", ""));
    assert_eq!(
        said,
        "s.toml:5: kind: the workload desktop needs the field slack"
    );
    let said = error(&format!("{DBENCH}\nslack = \"1 ms\""));
    assert_eq!(
        said,
        "s.toml:11: slack: the workload dbench has no field slack; delete it"
    );
}

#[test]
fn a_tree_without_links_takes_longer_to_start_what_keeps_its_place() {
    use tickless_sim::baseline::Tree;
    let mut scenario =
        scenario("kind = \"starts\"\ncpus = \"1\"\ntimers = 16\nrepetitions = 100\ngap = \"1 ms\"");
    let linked = run(&scenario, 1);
    scenario.policy.tree = Tree::Plain;
    let plain = run(&scenario, 1);
    assert!(linked.holds() && plain.holds(), "{:?}", plain.violations);
    let mean = |outcome: &Outcome, name| outcome.series(name).expect("it was measured").mean();
    // Out of the tree and in again: 30 and 40 ns in this profile.
    let more = mean(&plain, "in-place") - mean(&linked, "in-place");
    assert!(more >= Picos::from_nanos(69), "{more}");
    let latency = |scenario: &Scenario| run(scenario, 1).late_exact.mean();
    let mut sleepers = self::scenario("kind = \"cyclictest\"\ncpus = \"all\"\nperiod = \"1 ms\"");
    let linked = latency(&sleepers);
    sleepers.policy.tree = Tree::Plain;
    assert!(latency(&sleepers) > linked, "the next one is looked for");
}
