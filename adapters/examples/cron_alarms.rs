//! Alarms by cron rules, on the time of day: the alarms survive sets of the clock, and a rule that answers with an
//! earlier time is an error.
//!
//! `cargo run --manifest-path adapters/Cargo.toml --example cron_alarms`
//!
//! Cron crates disagree on the hour that occurs twice in autumn, and some of them answer with a time in the past. A
//! loop that sleeps until such an answer and then queries the rule again would spin for an hour. Here an answer that is
//! not later than the time of the query is an error.
#![expect(clippy::print_stdout, reason = "it shows what happens")]

use std::error::Error;
use std::str::FromStr;
use std::time::SystemTime;

use chrono::{DateTime, Utc};
use croner::Cron;
use tickless::realtime::sleep_until_next;

/// The time of the next alarm, or the reason why there is none.
type Next = Result<SystemTime, String>;

/// Returns the first time after `now` at which `rule` fires.
pub(crate) fn next_alarm(rule: impl Fn(SystemTime) -> Next, now: SystemTime) -> Next {
    let next = rule(now)?;
    if next > now {
        return Ok(next);
    }
    let [asked, answered] = [now, next].map(DateTime::<Utc>::from);
    Err(format!(
        "the rule was asked what comes after {asked}, and answered {answered}"
    ))
}

/// Returns the rule of a cron pattern in UTC, in which no hour occurs twice.
pub(crate) fn by(pattern: &Cron) -> impl Fn(SystemTime) -> Next {
    move |now| {
        let next = pattern.find_next_occurrence(&DateTime::<Utc>::from(now), false);
        next.map(SystemTime::from)
            .map_err(|error| format!("the rule has no next time: {error}"))
    }
}

/// Waits for the next alarm of `rule`, and returns its time.
///
/// After each set of the clock the rule is queried again, so no alarm is missed or rung twice. If the rule has no
/// answer, the wait ends at once with the reason.
pub(crate) async fn alarm(rule: impl Fn(SystemTime) -> Next) -> Next {
    let mut failed = None;
    let came = sleep_until_next(|now| match next_alarm(&rule, now) {
        Ok(next) => next,
        Err(error) => {
            failed = Some(error);
            // Over already: the wait ends.
            now
        }
    })
    .await;
    failed.map_or(Ok(came), Err)
}

/// Waits for `count` alarms of a pattern with seconds.
pub(crate) fn run(pattern: &str, count: usize) -> Result<Vec<SystemTime>, Box<dyn Error>> {
    let pattern = Cron::from_str(pattern)?;
    futures::executor::block_on(async {
        let mut came = Vec::new();
        for _ in 0..count {
            let at = alarm(by(&pattern)).await?;
            println!("alarm of {}", DateTime::<Utc>::from(at));
            came.push(at);
        }
        Ok(came)
    })
}

fn main() -> Result<(), Box<dyn Error>> {
    run("* * * * * *", 3)?;
    Ok(())
}
