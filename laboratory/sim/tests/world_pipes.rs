//! Tests of machines whose tasks send each other messages, and of slices.

mod support;

use tickless_sim::{Outcome, Picos, Scenario};

use support::{kept, read, refusal};

fn scenario(head: &str, workloads: &str) -> Scenario {
    let text = format!(
        "name = \"pipes\"\nprofile = \"skl-112\"\ncpus = 4\nduration = \"100 ms\"\nlate_max = \"6 ms\"\n{head}\n\n\
         {workloads}\n"
    );
    read(&text)
}

fn holds(head: &str, workloads: &str) -> Outcome {
    kept(&scenario(head, workloads), 1)
}

fn hackbench(fields: &str) -> String {
    format!(
        "[[workload]]\nkind = \"hackbench\"\ncpus = \"all\"\ngroups = 2\ntasks = 3\nmessages = 40\nsize = 8\n\
         work = \"500 ns\"\n{fields}"
    )
}

/// Returns the time at which the last group finished.
fn finish(outcome: &Outcome) -> Picos {
    let groups = outcome.series("finish").expect("a group got everything");
    assert_eq!(groups.count(), 2, "both groups get everything");
    groups.max()
}

#[test]
fn every_message_arrives_once() {
    let outcome = holds("", &hackbench("room = 65536"));
    let messages = outcome.series("message").expect("some arrived");
    assert_eq!(messages.count(), 2 * 3 * 3 * 40);
    assert!(finish(&outcome) < Picos::from_millis(20));
}

#[test]
fn senders_wait_for_room() {
    let roomy = holds("", &hackbench("room = 65536"));
    let tight = holds("", &hackbench("room = 16"));
    let (much, little) = (roomy.counts.switches, tight.counts.switches);
    assert!(little > much * 2, "{little} {much}");
    assert!(finish(&tight) > finish(&roomy));
    let waited = |outcome: &Outcome| outcome.series("message").map(|one| one.mean());
    assert!(
        waited(&tight) < waited(&roomy),
        "two messages are soon taken"
    );
}

#[test]
fn large_messages_take_longer() {
    let small = finish(&holds("", &hackbench("room = 65536")));
    let large = hackbench("room = 65536").replace("size = 8", "size = 8192");
    let large = finish(&holds("", &large));
    assert!(large > small + small, "{large} {small}");
}

const BUSY: &str =
    "[[workload]]\nkind = \"busy\"\ncpus = \"1\"\n\n[[workload]]\nkind = \"busy\"\ncpus = \"1\"\n";

#[test]
fn equals_take_turns_when_there_are_slices() {
    let endless = holds("", BUSY);
    assert_eq!(
        endless.counts.switches, 1,
        "a task that has the CPU keeps it"
    );
    let fair = holds("slice = \"3 ms\"", BUSY);
    // 100 ms by 3 ms.
    assert!(
        (33..=35).contains(&fair.counts.switches),
        "{:?}",
        fair.counts
    );
}

#[test]
fn a_task_that_is_alone_has_no_slice() {
    let alone = "[[workload]]\nkind = \"busy\"\ncpus = \"1\"\n\n[[workload]]\nkind = \"busy\"\ncpus = \"1\"\n\
                 priority = 2";
    let outcome = holds("slice = \"100 us\"", alone);
    assert_eq!(outcome.counts.switches, 1, "the lower one is not its equal");
}

#[test]
fn a_slice_begins_to_count_when_another_task_comes() {
    // The sleepers come for 50 us, with a slice of 1 ms, and go on where they were.
    let text = format!(
        "{}\n\n[[workload]]\nkind = \"cyclictest\"\ncpus = \"1\"\nperiod = \"10 ms\"",
        "[[workload]]\nkind = \"busy\"\ncpus = \"1\""
    );
    let late = |slice| {
        holds(slice, &text)
            .series("latency")
            .map(|one| (one.count(), one.min(), one.max()))
    };
    let (count, least, most) = late("slice = \"1 ms\"").expect("it runs");
    assert!(count >= 8, "{count}");
    // The other has had its slice long before.
    assert!(most < Picos::from_micros(30), "{least} {most}");
    assert_eq!(late(""), None, "no task makes room");
}

#[test]
fn what_cannot_be_is_refused() {
    let error = |head: &str, workload: &str| {
        let text = format!(
            "name = \"p\"\nprofile = \"skl-112\"\nduration = \"1 ms\"\n{head}\n{workload}\n"
        );
        refusal(&text)
    };
    assert_eq!(
        error("slice = \"9 us\"", ""),
        "s.toml:4: slice: a CPU would do nothing but switch; 10 us at least"
    );
    assert!(
        error("slice = 3", "").starts_with("s.toml:4: slice: invalid type"),
        "{}",
        error("slice = 3", "")
    );
    assert_eq!(
        error("", &hackbench("room = 0")),
        "s.toml:13: room: room is nothing; 1 at least"
    );
    assert_eq!(
        error("", &hackbench("gap = \"1 ms\"\nroom = 1")),
        "s.toml:13: gap: the workload hackbench has no field gap; delete it"
    );
    assert_eq!(
        error("", &hackbench("")),
        "s.toml:6: kind: the workload hackbench needs the field room"
    );
    assert!(error("[policy]\nrearm = \"late\"", "").contains("unknown variant `late`"));
}
