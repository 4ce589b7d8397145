//! The progress of a run, shown to visitors of the servers. At the end, the report is made from this progress.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use maud::{DOCTYPE, html};
use serde_json::json;

use super::subject::{Arm, ServerKind};
use super::tally::Tally;
use super::totals::{self, Total, Totals, Window};
use crate::page::STYLE;
use crate::units;

/// The totals of all arms, and the running arm.
#[derive(Debug)]
pub(crate) struct Status {
    started: Instant,
    inside: Mutex<Inside>,
}

#[derive(Debug)]
struct Inside {
    now: Option<(u32, Arm)>,
    totals: Totals,
}

/// The time after which the page for visitors loads itself again, in seconds.
const RELOAD: u32 = 2;

impl Status {
    pub(crate) fn new() -> Self {
        Self {
            started: Instant::now(),
            inside: Mutex::new(Inside {
                now: None,
                totals: totals::none(),
            }),
        }
    }

    fn inside(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    pub(crate) fn begin(&self, round: u32, arm: Arm) {
        self.inside().now = Some((round, arm));
    }

    /// Adds the counts of an arm's part of a round; `cut` is true if the part was ended early.
    pub(crate) fn end(&self, arm: Arm, tally: &Tally, window: Window, cut: bool) {
        let mut inside = self.inside();
        inside.totals[arm.index()].absorb(tally, window, cut);
        inside.now = None;
    }

    /// Notes how many system calls the server's threads made in a window.
    pub(crate) fn count_syscalls(&self, arm: Arm, calls: u64, window: Window) {
        let length = window.length.as_secs_f64();
        let rate = (length > 0.0).then(|| calls as f64 / length);
        self.inside().totals[arm.index()].syscalls = rate;
    }

    pub(crate) fn totals(&self) -> Totals {
        self.inside().totals.clone()
    }

    /// Returns the page for visitors.
    pub(crate) fn page(&self, whose: ServerKind) -> String {
        let (now, totals) = {
            let inside = self.inside();
            (inside.now, inside.totals.clone())
        };
        let late = |nanos: Option<u64>| {
            nanos.map_or_else(|| "-".to_owned(), |nanos| units::nanos(nanos as f64))
        };
        let row = |name: &str, show: &dyn Fn(&Total) -> String| {
            html! { tr { th scope="row" { (name) } @for total in &totals { td { (show(total)) } } } }
        };
        let at = now.map_or_else(String::new, |(round, arm)| {
            format!(", round {}, now with {}", round + 1, arm.name())
        });
        html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta http-equiv="refresh" content=(RELOAD);
                    title { "tickless demo, live" }
                    style { (maud::PreEscaped(STYLE)) }
                }
                body {
                    h1 { "tickless demo, live" }
                    p { "This page was served with " code { (whose.module()) } ". The run has lasted "
                        (format!("{:.0} s", self.elapsed().as_secs_f64())) (at)
                        ". Figures are those of the rounds that are over." }
                    div.wide { table {
                        thead { tr { th {} @for arm in Arm::ALL { th scope="col" { (arm.name()) } } } }
                        tbody {
                            (row("paced ticks", &|total| units::count(total.paced.histogram.len())))
                            (row("late, p50", &|total| late(total.paced.quantile(0.5))))
                            (row("late, p99", &|total| late(total.paced.quantile(0.99))))
                            (row("idle timeouts", &|total| units::count(total.idle.histogram.len())))
                            (row("late, p50", &|total| late(total.idle.quantile(0.5))))
                            (row("late, p99", &|total| late(total.idle.quantile(0.99))))
                            (row("requests", &|total| units::count(total.window.requests)))
                        }
                    } }
                    p { a href="/stats" { "The same as JSON" } }
                }
            }
        }
        .into_string()
    }

    /// Returns the progress as JSON, for programs.
    pub(crate) fn json(&self) -> String {
        let inside = self.inside();
        let arms: Vec<_> = Arm::ALL
            .iter()
            .zip(&inside.totals)
            .map(|(arm, total)| {
                json!({
                    "arm": arm,
                    "rounds": total.rounds.len(),
                    "requests": total.window.requests,
                    "paced": {
                        "count": total.paced.histogram.len(),
                        "p50_ns": total.paced.quantile(0.5),
                        "p99_ns": total.paced.quantile(0.99),
                    },
                    "idle_timeouts": {
                        "count": total.idle.histogram.len(),
                        "p50_ns": total.idle.quantile(0.5),
                        "p99_ns": total.idle.quantile(0.99),
                    },
                })
            })
            .collect();
        let now = inside
            .now
            .map(|(round, arm)| json!({"round": round + 1, "arm": arm}));
        let status = json!({
            "elapsed_s": self.elapsed().as_secs_f64(),
            "now": now,
            "arms": arms,
        });
        format!("{status}\n")
    }
}
