//! `tickless sim sweep`: runs one scenario with many combinations of parameters. Each machine of a cluster can run a
//! share.

mod file;
mod point;
mod report;
mod row;

use std::path::PathBuf;

use clap::Args;
use tickless_sim::Profile;

use super::input::{self, Input};
use super::{limits, parallel};
use crate::failure::{CheckVerdict, Failure};
use crate::output::{self, OutFile, Place, Progress, Screen};
use crate::page;
use crate::shown;
use crate::table::{Align, table};
use crate::units;
use file::Sweep;
use point::Point;
use row::Row;

/// Runs a scenario with all combinations of parameters, or a share of them.
///
/// The file is a scenario with a table [sweep], in which each key is a parameter and its value the list of its values.
/// A parameter is a key of the scenario (cpus, profile, isolated, ...), "policy.NAME", "workload.N.NAME" with N from 0
/// on, or seed. Other keys stay as in the scenario. All combinations are numbered; the parameters are in alphabetical
/// order, and the last one changes first.
///
/// A point gives the same result wherever and whenever it runs, so shares can run on several machines of a cluster, or
/// be repeated. The lines of all shares, sorted by the index, are the lines of the whole sweep.
///
/// Checked: every promise of the library, in every point.
#[derive(Clone, Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Scenario with a table [sweep]; `-` is standard input
    #[arg(value_name = "FILE.toml")]
    file: Input,

    /// Run share I of N only, counted from 0: the points whose number leaves I when divided by N
    #[arg(long, value_name = "I/N", value_parser = Shard::parse)]
    shard: Option<Shard>,

    /// Seed of the points, unless the sweep has a parameter seed
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,

    /// A machine that parameters can name: a file, or local for local.toml; may be given several times
    #[arg(long, value_name = "PROFILE")]
    profile: Vec<input::Chosen>,

    /// Write a line of JSON for each point to this file; `-` is standard output, and then nothing else is printed there
    #[arg(long, value_name = "PATH")]
    json: Option<Place>,

    /// Write a page with plots to this file
    #[arg(long, value_name = "OUT.html", value_parser = crate::page::file())]
    report: Option<PathBuf>,

    #[command(flatten)]
    limits: limits::Bounds,

    /// Print nothing but errors
    #[arg(short, long)]
    quiet: bool,
}

const EXAMPLES: &str = "\
A sweep is a scenario with a table of the values that its keys take.
This sweep.toml has 12 points:
  name = \"timeouts\"
  profile = \"epyc-128\"
  duration = \"20 ms\"

  [[workload]]
  kind = \"network\"
  cpus = \"all\"
  connections = 16
  gap = \"1 ms\"
  work = \"5 us\"
  timeout = \"200 ms\"
  timeout_max = \"1.6 s\"
  cancelled = 95

  [sweep]
  cpus = [8, 64]
  seed = [1, 2, 3]
  \"workload.0.timeout\" = [\"1 ms\", \"10 ms\"]

Examples:
  tickless sim sweep sweep.toml --json all.jsonl
  tickless sim sweep sweep.toml --shard $SLURM_ARRAY_TASK_ID/16 --json part-$SLURM_ARRAY_TASK_ID.jsonl
      A job array of 16, numbered from 0
  LC_ALL=C sort -t: -k3,3n part-*.jsonl > all.jsonl
      Put together, by the index

Exit codes: 0 every promise was kept, 1 one was broken, 2 bad arguments or a bad file.";

/// A share of the points.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shard {
    index: usize,
    count: usize,
}

impl Shard {
    const WHOLE: Self = Self { index: 0, count: 1 };

    fn parse(text: &str) -> Result<Self, String> {
        let numbers = text.split_once('/').and_then(|(index, count)| {
            Some((index.parse::<usize>().ok()?, count.parse::<usize>().ok()?))
        });
        match numbers {
            Some((index, count)) if index < count => Ok(Self { index, count }),
            Some((_, 0)) => Err("there is no share of nothing; write 0/1 for all".to_owned()),
            Some((_, count)) => Err(format!(
                "shares are counted from 0: the last of {count} is {}/{count}",
                count - 1
            )),
            None => Err("write I/N, such as 0/4 for the first of four".to_owned()),
        }
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<CheckVerdict, Failure> {
    let profiles = arguments.profile.iter().map(input::Chosen::read);
    let profiles: Vec<Profile> = profiles.collect::<Result<_, _>>()?;
    let sweep = Sweep::read(&arguments.file.read()?, arguments.seed, &profiles)?;
    let shard = arguments.shard.unwrap_or(Shard::WHOLE);
    let options = output::Options {
        json: arguments.json.clone(),
        quiet: arguments.quiet,
    };
    let json = output::prepare_json(&options)?;
    let report = page::prepare(arguments.report.as_ref())?;
    let points: Vec<&Point> = sweep
        .points
        .iter()
        .skip(shard.index)
        .step_by(shard.count)
        .collect();
    for point in &points {
        let scenario = sweep.scenario(point).map_err(input::refused)?;
        let name = format!("{}, {}", arguments.file.name(), point.title());
        arguments.limits.check(&scenario, &name)?;
    }
    let rows = simulated(&sweep, &points, &Progress::new(&options))?;
    write(json, &rows)?;
    if let Some(report) = report {
        report.write(report::of(&sweep, &points, &rows)?.as_bytes())?;
    }
    let screen = Screen::new(&options);
    if screen.is_shown() {
        screen.print(&text(&sweep, &points, &rows))?;
    }
    Ok(CheckVerdict::from_passed(rows.iter().all(|row| row.holds)))
}

/// Runs the points, and returns their rows in order.
fn simulated(sweep: &Sweep, points: &[&Point], progress: &Progress) -> Result<Vec<Row>, Failure> {
    let count = points.len();
    progress.show(&format!("0 of {}", units::counted(count as u64, "point")));
    let work = |number: usize| {
        let point = points[number];
        let scenario = sweep.scenario(point);
        let scenario = scenario.unwrap_or_else(|error| panic!("it was right before: {error}"));
        Row::new(
            sweep,
            point,
            &tickless_sim::run(&scenario, sweep.seed(point)),
        )
    };
    let results = parallel::each(count, work, |done, _| {
        let done = units::count(done as u64);
        progress.show(&format!(
            "{done} of {}",
            units::counted(count as u64, "point")
        ));
    });
    let results = points.iter().zip(results);
    results
        .map(|(point, result)| {
            result.map_err(|story| {
                let point = point.title();
                Failure::Machine(format!("the simulator panicked at {point}: {story}"))
            })
        })
        .collect()
}

fn write(json: Option<OutFile>, rows: &[Row]) -> Result<(), Failure> {
    let Some(json) = json else {
        return Ok(());
    };
    let mut lines = Vec::new();
    for row in rows {
        serde_json::to_writer(&mut lines, row)
            .map_err(|error| Failure::Machine(format!("cannot write JSON: {error}")))?;
        lines.push(b'\n');
    }
    json.write(&lines)
}

/// Returns the head of the table, and a line for each point.
fn cells<'s>(
    sweep: &'s Sweep,
    points: &[&Point],
    rows: &[Row],
) -> (Vec<&'s str>, Vec<Vec<String>>) {
    let mut head = vec!["point"];
    head.extend(sweep.names.iter().map(String::as_str));
    let figures = [
        "exact p99",
        "coarse p99",
        "timer ops",
        "woken",
        "deep idle",
        "broken",
    ];
    head.extend(figures);
    let lines = points.iter().zip(rows).map(|(point, row)| {
        let mut line = vec![point.index.to_string()];
        line.extend(point.values.iter().map(|(_, value)| point::shown(value)));
        line.extend(row.figures());
        line
    });
    (head, lines.collect())
}

/// Formats the number of points on this page, and the number of all points.
fn share(sweep: &Sweep, points: &[&Point]) -> String {
    format!(
        "{} of {}",
        units::count(points.len() as u64),
        units::counted(sweep.points.len() as u64, "point"),
    )
}

fn text(sweep: &Sweep, points: &[&Point], rows: &[Row]) -> String {
    let (head, lines) = cells(sweep, points, rows);
    let version = env!("CARGO_PKG_VERSION");
    let share = share(sweep, points);
    let mut out = format!(
        "tickless {version}: {}, {share}\n\n",
        shown::line(&sweep.name)
    );
    out.push_str(&table(&head, &[Align::Right], lines));
    out
}

#[cfg(test)]
mod tests {
    use super::Shard;

    #[test]
    fn shares_are_counted_from_nothing() {
        assert_eq!(Shard::parse("3/4"), Ok(Shard { index: 3, count: 4 }));
        for (text, said) in [
            ("4/4", "the last of 4 is 3/4"),
            ("0/0", "no share of nothing"),
            ("1", "write I/N"),
            ("-1/4", "write I/N"),
            ("a/b", "write I/N"),
        ] {
            let error = Shard::parse(text).expect_err(text);
            assert!(error.contains(said), "{error}");
        }
    }
}
