//! Tests that the examples for users do what their documentation says.

use std::str::FromStr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use croner::Cron;
use futures::executor::block_on;

#[expect(dead_code, reason = "a test calls what `main` does")]
#[path = "../../examples/axum_drain.rs"]
mod axum_drain;
#[expect(dead_code, reason = "a test calls what `main` does")]
#[path = "../../examples/cron_alarms.rs"]
mod cron_alarms;
#[expect(dead_code, reason = "a test calls what `main` does")]
#[path = "../../examples/quinn_echo.rs"]
mod quinn_echo;
#[expect(dead_code, reason = "a test calls what `main` does")]
#[path = "../../examples/rate_limiter.rs"]
mod rate_limiter;
#[expect(dead_code, reason = "a test calls what `main` does")]
#[path = "../../examples/retry.rs"]
mod retry;

use self::cron_alarms::{alarm, by, next_alarm};

#[test]
fn a_server_drains_what_is_under_way() {
    let (never, soon, drained) = axum_drain::run().unwrap();
    assert!(never.starts_with("HTTP/1.1 503"), "{never}");
    // A machine that took longer than the pause to connect is refused instead: the server had ended by then.
    assert!(soon.starts_with("HTTP/1.1 "), "{soon}");
    assert!(drained);
}

#[test]
fn quic_echoes_what_it_is_sent() {
    assert_eq!(quinn_echo::run().unwrap(), 505_005);
}

#[test]
fn limiters_take_their_time() {
    let (client, server) = rate_limiter::run(12);
    // Four at once, then one each period; four in each period.
    assert!(client >= Duration::from_millis(2) * 7);
    assert!(server >= Duration::from_millis(2) * 2);
}

#[test]
fn the_third_attempt_is_answered() {
    assert_eq!(retry::run(), 3);
}

#[test]
fn alarms_come_in_their_order() {
    let came = cron_alarms::run("* * * * * *", 2).unwrap();
    assert!(came[0] < came[1]);
}

/// The rule answers with an earlier time, as croner does in the hour that occurs twice.
#[test]
fn a_rule_that_goes_back_in_time_is_told() {
    let back = |now: SystemTime| Ok(now - Duration::from_secs(2400));
    let told = block_on(alarm(back)).unwrap_err();
    assert!(told.contains("and answered"), "{told}");
    let still = |now: SystemTime| Ok(now);
    assert!(next_alarm(still, UNIX_EPOCH).is_err());
}

#[test]
fn a_rule_without_a_next_time_is_told() {
    let past = Cron::from_str("0 0 30 2 *");
    // Croner may refuse the pattern, or the question.
    if let Ok(pattern) = past {
        let told = block_on(alarm(by(&pattern))).unwrap_err();
        assert!(told.starts_with("the rule has no next time"), "{told}");
    }
    let hourly = Cron::from_str("0 * * * *").unwrap();
    let next = next_alarm(by(&hourly), UNIX_EPOCH + Duration::from_secs(60));
    assert_eq!(next, Ok(UNIX_EPOCH + Duration::from_secs(3600)));
}
