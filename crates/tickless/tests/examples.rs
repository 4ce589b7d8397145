//! Tests of the examples that users are to copy.

#[expect(dead_code, reason = "a test calls what `main` does")]
#[path = "../examples/control_loop.rs"]
mod control_loop;
#[expect(dead_code, reason = "a test calls what `main` does")]
#[path = "../examples/isolation.rs"]
mod isolation;
#[expect(dead_code, reason = "a test calls what `main` does")]
#[path = "../examples/metrics.rs"]
mod metrics;
#[expect(dead_code, reason = "a test calls what `main` does")]
#[path = "../examples/sans_io.rs"]
mod sans_io;

#[test]
fn a_control_loop_runs_its_periods() {
    control_loop::run(50).unwrap();
}

#[test]
fn a_worker_that_polls_fires_its_timer_and_no_thread_wakes_it() {
    let turns = isolation::run(std::time::Duration::from_millis(300)).unwrap();
    assert!(turns.fired >= 1, "{turns:?}");
    assert_eq!(turns.unparks, 0, "no thread has business with it");
}

#[test]
fn counters_are_printed_for_prometheus() {
    let text = metrics::run().unwrap();
    let value = |name: &str| {
        let mut lines = text.lines().filter(|line| line.starts_with(name));
        let value = lines.next().and_then(|line| line.rsplit_once(' '));
        value.unwrap_or_else(|| panic!("{name}\n{text}")).1
    };
    assert_ne!(value("tickless_missed_ticks_total"), "0");
    assert!(text.contains(r#",role="worker","#), "{text}");
    assert!(text.contains(r#"le="+Inf"}"#), "{text}");
}

/// The wire loses each third packet: 20 messages are sent 29 times, and nine of these packets are lost.
#[test]
fn a_protocol_without_io_gets_its_messages_over_a_wire_that_loses() {
    let sent = sans_io::run(20).unwrap();
    assert!((29..200).contains(&sent), "{sent}");
}
