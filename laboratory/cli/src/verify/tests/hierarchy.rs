//! Tests of the check that what sleeping CPUs wait for is known above them and promised.

use super::by_hand;

const LEAF_IDLE: &str = concat!(
    r#""tmigr_group_set_cpu_inactive","group":0,"childmask":2,"#,
    r#""active":0,"migrator":null,"seq":4"#
);
const LEAF_TOLD: &str =
    r#""tmigr_update_events","group":0,"child":2,"evtcpu":1,"nextevt":7,"next_expiry":7"#;
const ROOT_IDLE: &str = concat!(
    r#""tmigr_group_set_cpu_inactive","group":1,"childmask":1,"#,
    r#""active":0,"migrator":null,"seq":2"#
);
const ROOT_TOLD: &str =
    r#""tmigr_update_events","group":1,"child":1,"evtcpu":1,"nextevt":7,"next_expiry":7"#;
const ROOT_NEVER: &str = r#""tmigr_group_expiry","group":1,"next_expiry":null"#;
const PROMISE: &str = r#""tmigr_cpu_wakeup","of_cpu":1,"wakeup":7"#;
const LATE: &str = r#""tmigr_cpu_wakeup","of_cpu":1,"wakeup":8"#;
const NONE: &str = r#""tmigr_cpu_wakeup","of_cpu":1,"wakeup":null"#;
const OTHER_PROMISE: &str = r#""tmigr_cpu_wakeup","of_cpu":0,"wakeup":6"#;
const NEW: &str = r#""tmigr_cpu_new_timer_idle","of_cpu":1,"nextevt":7"#;
const SERVE: &str = r#""tmigr_handle_remote_cpu","of_cpu":0"#;
const SERVED: &str = r#""tmigr_handle_remote_cpu_done","of_cpu":0,"nextevt":null"#;
const LEAVES: &str = r#""tmigr_cpu_unavailable","of_cpu":1"#;
/// The CPU does something outside of the hierarchy.
const REST: &str = r#""cpu_idle","state":null,"wakes":null"#;

/// A trace of two CPUs below one group, and a root above that group. Each event has the CPU that executes it.
fn of_tree(events: &[(u32, &str)]) -> Result<Vec<&'static str>, String> {
    const BEGIN: [&str; 6] = [
        r#"{"format":"tickless-trace","version":1,"unit":"ns","cpus":2,"tick":1,"late_max":1,"isolated":[]}"#,
        r#"{"time":0,"cpu":null,"event":"tmigr_group_set","group":0,"lvl":0,"numa":0}"#,
        r#"{"time":0,"cpu":null,"event":"tmigr_group_set","group":1,"lvl":1,"numa":0}"#,
        r#"{"time":0,"cpu":null,"event":"tmigr_connect_child_parent","group":0,"parent":1,"groupmask":1}"#,
        r#"{"time":0,"cpu":null,"event":"tmigr_connect_cpu_parent","of_cpu":0,"parent":0,"groupmask":1}"#,
        r#"{"time":0,"cpu":null,"event":"tmigr_connect_cpu_parent","of_cpu":1,"parent":0,"groupmask":2}"#,
    ];
    by_hand(&BEGIN, events)
}

/// CPU 1 was the last one to become idle, and tells its groups of a timer of time 7; then `events` of CPU 1 follow.
fn asleep_then(events: &[&'static str]) -> Vec<(u32, &'static str)> {
    let asleep = [
        (0, REST),
        (1, LEAF_IDLE),
        (1, LEAF_TOLD),
        (1, ROOT_IDLE),
        (1, ROOT_TOLD),
    ];
    let events = events.iter().map(|event| (1, *event));
    asleep.into_iter().chain(events).collect()
}

#[test]
fn what_idle_groups_wait_for_is_known_above_and_promised() {
    let good = [
        asleep_then(&[PROMISE, REST]),
        // In the middle of the walk.
        asleep_then(&[]),
        // The other one promised, and the recording began after that.
        [&[(0, OTHER_PROMISE)], asleep_then(&[NONE, REST]).as_slice()].concat(),
        // It serves another one, and promises afterwards.
        asleep_then(&[PROMISE, REST, NONE, SERVE, REST, SERVED, PROMISE, REST]),
        // It has a new timer: it takes its promise back, and others run a callback before it promises anew.
        asleep_then(&[PROMISE, REST, NEW, NONE, REST, PROMISE, REST]),
        // It leaves, and the other one takes over.
        asleep_then(&[PROMISE, REST, NONE, LEAVES, REST]),
    ];
    for events in &good {
        assert_eq!(of_tree(events), Ok(vec![]), "{events:?}");
    }
    let bad = [
        asleep_then(&[NONE, REST]),
        asleep_then(&[LATE, REST]),
        asleep_then(&[ROOT_NEVER, PROMISE, REST]),
        asleep_then(&[PROMISE, REST, NONE, REST]),
        asleep_then(&[PROMISE, REST, NONE, SERVE, REST, SERVED, NONE, REST]),
        asleep_then(&[PROMISE, REST, NEW, NONE, REST, NONE, REST]),
    ];
    for events in &bad {
        assert_eq!(of_tree(events), Ok(vec!["covered"]), "{events:?}");
    }
}

/// The same in the second of two hierarchies.
#[test]
fn each_hierarchy_is_followed_by_its_number() {
    let second = |events: &[(u32, &str)]| {
        let of = |event: &str| format!("{event},\"tree\":3");
        let made = [
            of(r#""tmigr_group_set","group":0,"lvl":0,"numa":0"#),
            of(r#""tmigr_group_set","group":1,"lvl":1,"numa":0"#),
            of(r#""tmigr_connect_child_parent","group":0,"parent":1,"groupmask":1"#),
            of(r#""tmigr_connect_cpu_parent","of_cpu":1,"parent":0,"groupmask":2"#),
        ];
        let moved = events.iter().map(|(_, event)| of(event));
        let lines: Vec<_> = made.into_iter().chain(moved).collect();
        let lines: Vec<_> = lines.iter().map(|line| (1, line.as_str())).collect();
        of_tree(&lines)
    };
    assert_eq!(second(&asleep_then(&[PROMISE, REST])), Ok(vec![]));
    assert_eq!(second(&asleep_then(&[NONE, REST])), Ok(vec!["covered"]));
    let unknown = of_tree(&[(
        0,
        r#""tmigr_group_expiry","group":0,"tree":3,"next_expiry":1"#,
    )]);
    let error = unknown.expect_err("the third hierarchy has no group");
    assert!(error.contains("there is no group 0"), "{error}");
    let odd = of_tree(&[(0, r#""tmigr_cpu_active","of_cpu":0,"tree":-1"#)]);
    let error = odd.expect_err("a number begins with 0");
    assert!(error.contains("invalid value: integer `-1`"), "{error}");
    let moved = of_tree(&[
        (0, r#""tmigr_group_set","group":2,"lvl":1,"numa":0"#),
        (
            0,
            r#""tmigr_connect_child_parent","group":0,"parent":2,"groupmask":1"#,
        ),
    ]);
    let error = moved.expect_err("a group keeps its parent");
    assert!(
        error.contains("group 0 is below group 1 already"),
        "{error}"
    );
}
