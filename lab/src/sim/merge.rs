//! `tickless sim merge`: the shares of a sweep, put together.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs;
use std::path::PathBuf;

use clap::Args;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::parquet;
use super::summary::ranges;
use crate::failure::{Failure, Verdict};
use crate::output::{OutFile, Place};
use crate::units;

/// Puts the shares of a sweep together, in the order of their points.
///
/// Checked: all lines belong to the same sweep, every point is there, and none is there twice. The result is what one
/// run of the whole sweep writes, to the byte.
#[derive(Clone, Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Files that `tickless sim sweep --json` wrote
    #[arg(value_name = "FILE.jsonl", required = true)]
    files: Vec<PathBuf>,

    /// Write the result to this file; `-` is standard output. A name that ends in .parquet gets columns instead of
    /// lines, if the command was built with the feature parquet
    #[arg(short, long, value_name = "OUT.jsonl", default_value = "-")]
    output: Place,
}

const EXAMPLES: &str = "\
Examples:
  tickless sim merge part-*.jsonl -o all.jsonl
  tickless sim merge part-*.jsonl -o all.parquet
  tickless sim merge part-*.jsonl | jq 'select(.holds | not) | .parameters'

Exit codes: 0 done, 2 bad arguments, or the files are not the whole of one sweep.";

/// What is looked at of a line.
#[derive(Debug, Deserialize)]
struct Line {
    sweep: String,
    index: u64,
    points: u64,
}

/// A line and where it was.
#[derive(Debug)]
struct Found {
    place: String,
    text: String,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Verdict, Failure> {
    let out = match &arguments.output {
        Place::File(path) if parquet::is_meant_by(&arguments.output) => parquet::prepare(path)?,
        place => OutFile::prepare(place)?,
    };
    let mut whole = Whole::default();
    for path in &arguments.files {
        let name = path.display().to_string();
        let text = fs::read_to_string(path)
            .map_err(|error| Failure::Input(format!("cannot read {name}: {error}")))?;
        whole.add(&name, &text).map_err(Failure::Input)?;
    }
    let text = whole.text().map_err(Failure::Input)?;
    if parquet::is_meant_by(&arguments.output) {
        out.write(&columns(&text)?)?;
    } else {
        out.write(text.as_bytes())?;
    }
    Ok(Verdict::Passed)
}

/// The lines as a Parquet file.
fn columns(text: &str) -> Result<Vec<u8>, Failure> {
    let rows: Result<Vec<Map<String, Value>>, _> = text.lines().map(serde_json::from_str).collect();
    let rows = rows.map_err(|error| Failure::Input(format!("a line is no object: {error}")))?;
    let rows: Vec<_> = rows.iter().collect();
    parquet::encode(&rows)
}

/// What was read so far.
#[derive(Debug, Default)]
struct Whole {
    /// The first line: its sweep and its number of points, and where it was.
    head: Option<(String, u64, String)>,
    lines: BTreeMap<u64, Found>,
}

impl Whole {
    /// Adds a file. On error it says what is wrong with it, and where.
    fn add(&mut self, name: &str, text: &str) -> Result<(), String> {
        for (number, text) in (1..).zip(text.split_inclusive('\n')) {
            let place = format!("{name}:{number}");
            let Some(text) = text.strip_suffix('\n') else {
                return Err(format!(
                    "{place}: the line is cut off; run this share again"
                ));
            };
            let line: Line = serde_json::from_str(text).map_err(|error| {
                let what = error.to_string();
                let what = what.split(" at line ").next().unwrap_or("").to_owned();
                format!("{place}: it is not a line of a sweep ({what}); run this share again")
            })?;
            self.add_line(place, text, &line)?;
        }
        Ok(())
    }

    fn add_line(&mut self, place: String, text: &str, line: &Line) -> Result<(), String> {
        let (sweep, points, first) = self
            .head
            .get_or_insert_with(|| (line.sweep.clone(), line.points, place.clone()));
        if (&line.sweep, line.points) != (&*sweep, *points) {
            return Err(format!(
                "{place}: it belongs to the sweep {}, and {first} to {sweep}; run both with the same file, seed and \
                 version",
                line.sweep
            ));
        }
        if line.index >= *points {
            return Err(format!(
                "{place}: there is no point {} in a sweep of {}",
                line.index,
                units::counted(*points, "point")
            ));
        }
        match self.lines.entry(line.index) {
            Entry::Vacant(free) => {
                let text = text.to_owned();
                free.insert(Found { place, text });
                Ok(())
            }
            Entry::Occupied(taken) => Err(format!(
                "{place}: point {} is in {} already; leave one of the files out",
                line.index,
                taken.get().place
            )),
        }
    }

    /// All lines, if that is the whole.
    fn text(&self) -> Result<String, String> {
        let Some((_, points, _)) = &self.head else {
            return Err("there is no point in these files; run the sweep first".to_owned());
        };
        let missing: Vec<u32> = (0..*points)
            .filter(|index| !self.lines.contains_key(index))
            .filter_map(|index| u32::try_from(index).ok())
            .collect();
        if !missing.is_empty() {
            return Err(format!(
                "{} of {} missing: {}; add the files of their shares",
                units::count(missing.len() as u64),
                units::counted(*points, "point"),
                shortened(ranges(&missing)),
            ));
        }
        let lines = self.lines.values();
        Ok(lines.map(|found| format!("{}\n", found.text)).collect())
    }
}

/// As much of a list as can be read.
fn shortened(list: String) -> String {
    const LONGEST: usize = 200;
    if list.len() <= LONGEST {
        return list;
    }
    let end = list[..LONGEST].rfind(',').unwrap_or(LONGEST);
    format!("{}, and so on", &list[..end])
}

#[cfg(test)]
mod tests {
    use super::Whole;

    fn line(index: u64) -> String {
        format!("{{\"sweep\":\"s\",\"points\":6,\"index\":{index}}}\n")
    }

    fn merged(files: &[&str]) -> Result<String, String> {
        let mut whole = Whole::default();
        for (number, text) in files.iter().enumerate() {
            whole.add(&format!("{number}.jsonl"), text)?;
        }
        whole.text()
    }

    #[test]
    fn shares_are_put_in_order() {
        let all: String = (0..6).map(line).collect();
        let even: String = [4, 0, 2].map(line).concat();
        let odd: String = [1, 3, 5].map(line).concat();
        assert_eq!(merged(&[&odd, "", &even]), Ok(all.clone()));
        assert_eq!(merged(&[&all]), Ok(all));
    }

    #[test]
    fn what_is_not_a_whole_is_refused_with_its_place() {
        let first: String = [0, 1, 2].map(line).concat();
        let cut = &first[..first.len() - 1];
        let half = &first[..first.len() - 9];
        let other = line(3).replace("\"s\"", "\"t\"");
        let larger = line(3).replace(":6", ":7");
        for (files, said) in [
            (vec![first.as_str()], "3 of 6 points missing: 3-5; add"),
            (
                vec![&first, &line(1)],
                "1.jsonl:1: point 1 is in 0.jsonl:2 already",
            ),
            (vec![cut], "0.jsonl:3: the line is cut off"),
            (vec![half], "0.jsonl:3: the line is cut off"),
            (
                vec![&first, &other],
                "1.jsonl:1: it belongs to the sweep t, and 0.jsonl:1 to s",
            ),
            (vec![&first, &larger], "1.jsonl:1: it belongs to the sweep"),
            (
                vec![&line(6)],
                "0.jsonl:1: there is no point 6 in a sweep of 6 points",
            ),
            (
                vec!["{}\n"],
                "0.jsonl:1: it is not a line of a sweep (missing field `sweep`)",
            ),
            (
                vec!["{\"sweep\":\n"],
                "0.jsonl:1: it is not a line of a sweep (EOF",
            ),
            (vec![""], "there is no point in these files"),
        ] {
            let error = merged(&files).expect_err(said);
            assert!(error.starts_with(said), "{error}\nis not\n{said}");
        }
    }
}
