//! The reader of a sweep's file: the scenario, the table of parameters, and the points that they make.

use std::collections::BTreeMap;
use std::ops::Range;

use serde::Deserialize;
use tickless_sim::{InputError, Profile, Scenario};
use toml::{Spanned, Table, Value};

use super::super::input::{Text, refused};
use super::point::{self, Point};
use crate::failure::Failure;
use crate::hash::Hash;
use crate::units;

/// The largest number of points: more than a user waits for, and a file with as many lines.
const POINTS_MAX: usize = 1_000_000;
/// The parameter that belongs to the run and not to the scenario.
const SEED: &str = "seed";

/// A sweep whose points were all checked.
#[derive(Debug)]
pub(super) struct Sweep {
    /// The name of the scenario.
    pub(super) name: String,
    /// The names of the parameters.
    pub(super) names: Vec<String>,
    pub(super) points: Vec<Point>,
    /// A hash that is the same only for the same sweep.
    pub(super) hash: String,
    document: Table,
    profiles: Vec<Profile>,
    default_seed: u64,
}

#[derive(Deserialize)]
struct Head {
    sweep: Option<Spanned<BTreeMap<Spanned<String>, Spanned<Value>>>>,
}

/// A parameter, and the position of its list in the file.
struct Parameter {
    name: String,
    values: Vec<Value>,
    span: Range<usize>,
}

impl Sweep {
    /// Reads the sweep, and checks each point.
    pub(super) fn read(text: &Text, seed: u64, profiles: &[Profile]) -> Result<Self, Failure> {
        let (Ok(head), Ok(mut document)) = (
            toml::from_str::<Head>(&text.text),
            text.text.parse::<Table>(),
        ) else {
            // It says the same of the whole file, and more of a table that is none.
            return Err(
                Scenario::from_toml(&text.text, &text.name).map_or_else(refused, |_| {
                    Failure::Input(format!("{}: sweep: write a table, [sweep]", text.name))
                }),
            );
        };
        let parameters = parameters(text, head)?;
        let mut hash = Hash::new();
        hash.add(env!("CARGO_PKG_VERSION"));
        hash.add(document.to_string());
        hash.add(seed.to_string());
        profiles
            .iter()
            .for_each(|profile| hash.add(profile.to_toml()));
        document.remove("sweep");
        let name = document
            .get("name")
            .and_then(Value::as_str)
            .unwrap_or("a scenario without name");
        let sweep = Self {
            name: name.to_owned(),
            names: parameters.iter().map(|one| one.name.clone()).collect(),
            points: points(text, &parameters)?,
            hash: hash.text(),
            document,
            profiles: profiles.to_vec(),
            default_seed: seed,
        };
        sweep.check(text, &parameters)?;
        Ok(sweep)
    }

    /// Returns the seed of a point.
    pub(super) fn seed(&self, point: &Point) -> u64 {
        let given = point.values.iter().find(|(name, _)| name == SEED);
        let given = given.and_then(|(_, value)| u64::try_from(value.as_integer()?).ok());
        given.unwrap_or(self.default_seed)
    }

    /// Returns the scenario of a point.
    pub(super) fn scenario(&self, point: &Point) -> Result<Scenario, InputError> {
        Scenario::from_toml_with(&self.file(point).0, "point", &self.profiles)
    }

    /// Returns the scenario of a point as a file, and the first parameter that has no place in the file.
    fn file(&self, point: &Point) -> (String, Option<(&str, String)>) {
        let mut document = self.document.clone();
        let mut misplaced = None;
        for ((name, value), own) in point.values.iter().zip(&self.names) {
            if name == SEED {
                continue;
            }
            if let Err(right) = point::set(&mut document, name, value.clone()) {
                misplaced.get_or_insert((own.as_str(), right));
            }
        }
        (document.to_string(), misplaced)
    }

    /// Reads the scenario of every point; of points that differ only in their seed, it reads one.
    fn check(&self, text: &Text, parameters: &[Parameter]) -> Result<(), Failure> {
        let first_seed = parameters
            .iter()
            .find(|one| one.name == SEED)
            .map(|one| &one.values[0]);
        let is_first = |point: &&Point| {
            let seed = point.values.iter().find(|(name, _)| name == SEED);
            seed.is_none_or(|(_, value)| Some(value) == first_seed)
        };
        for point in self.points.iter().filter(is_first) {
            let (file, misplaced) = self.file(point);
            let span = |name: &str| {
                let own = parameters.iter().find(|one| one.name == name);
                own.map(|one| one.span.clone())
            };
            if let Some((name, right)) = misplaced {
                return Err(wrong(
                    text,
                    span(name).unwrap_or(0..0),
                    &format!("{name}: {right}"),
                ));
            }
            if let Err(error) = Scenario::from_toml_with(&file, &text.name, &self.profiles) {
                return Err(explained(text, &file, parameters, point, error));
            }
        }
        Ok(())
    }
}

/// Returns an error at `span`.
fn wrong(text: &Text, span: Range<usize>, what: &str) -> Failure {
    let before = text.text.get(..span.start).unwrap_or("");
    let line = 1 + before.bytes().filter(|byte| *byte == b'\n').count();
    Failure::Input(format!("{}:{line}: sweep: {what}", text.name))
}

fn parameters(text: &Text, head: Head) -> Result<Vec<Parameter>, Failure> {
    let Some(sweep) = head.sweep else {
        return Err(Failure::Input(format!(
            "{}:1: there is no table [sweep]; add one, such as [sweep] with cpus = [8, 64], or use tickless sim run",
            text.name
        )));
    };
    let span = sweep.span();
    let parameters = sweep.into_inner().into_iter().map(|(name, list)| {
        let (name, span) = (name.into_inner(), list.span());
        let refuse = |what: &str| Err(wrong(text, span.clone(), &format!("{name}: {what}")));
        let Value::Array(values) = list.into_inner() else {
            return refuse("it is one value; write the list of what it takes, such as [1, 2, 3]");
        };
        if values.is_empty() {
            return refuse("the list is empty; write a value, or delete the line");
        }
        let twice = values
            .iter()
            .enumerate()
            .find(|(place, value)| values[..*place].contains(value));
        if let Some((_, value)) = twice {
            return refuse(&format!("{value} is in the list twice; delete one"));
        }
        let is_seed = |value: &Value| value.as_integer().is_some_and(|seed| seed >= 0);
        if name == SEED && !values.iter().all(is_seed) {
            return refuse("a seed is a whole number from 0 on");
        }
        Ok(Parameter { name, values, span })
    });
    let parameters: Vec<Parameter> = parameters.collect::<Result<_, _>>()?;
    if parameters.is_empty() {
        return Err(wrong(
            text,
            span,
            "it has no parameter; add one, such as cpus = [8, 64]",
        ));
    }
    Ok(parameters)
}

/// Returns all combinations of values; the last parameter changes first.
fn points(text: &Text, parameters: &[Parameter]) -> Result<Vec<Point>, Failure> {
    let counts = parameters.iter().map(|one| one.values.len());
    let count = counts.clone().try_fold(1_usize, usize::checked_mul);
    let Some(count) = count.filter(|count| *count <= POINTS_MAX) else {
        let counts: Vec<String> = counts.map(|count| count.to_string()).collect();
        let most = units::count(POINTS_MAX as u64);
        let what = format!("{} points are too many; {most} at most", counts.join(" x "));
        return Err(wrong(text, parameters[0].span.clone(), &what));
    };
    let point = |index: usize| {
        let mut rest = index;
        let mut values: Vec<(String, Value)> = Vec::new();
        for parameter in parameters.iter().rev() {
            let value = &parameter.values[rest % parameter.values.len()];
            rest /= parameter.values.len();
            values.push((parameter.name.clone(), value.clone()));
        }
        values.reverse();
        Point { index, values }
    };
    Ok((0..count).map(point).collect())
}

/// Explains a fault of a point in the words of the file that the user wrote.
fn explained(
    text: &Text,
    file: &str,
    parameters: &[Parameter],
    point: &Point,
    error: InputError,
) -> Failure {
    let InputError {
        line,
        wrong: what,
        right,
        key,
        ..
    } = error;
    let right = if right.is_empty() {
        right
    } else {
        format!("; {right}")
    };
    let told = format!("{what}{right}");
    let path = paths(file)
        .into_iter()
        .nth(line.saturating_sub(1))
        .flatten();
    if let Some(own) = parameters
        .iter()
        .find(|one| Some(&one.name) == path.as_ref())
    {
        return wrong(
            text,
            own.span.clone(),
            &format!("{}: {told}, in {}", own.name, point.title()),
        );
    }
    let stands = paths(&text.text)
        .into_iter()
        .position(|one| one.is_some() && one == path);
    match stands {
        Some(line) => Failure::Input(format!("{}:{}: {key}: {told}", text.name, line + 1)),
        None => wrong(
            text,
            parameters[0].span.clone(),
            &format!("{told}, in {}", point.title()),
        ),
    }
}

/// Returns the path of the key in each line of a file: `cpus`, `policy.target`, `workload.0.period`.
fn paths(text: &str) -> Vec<Option<String>> {
    let mut prefix = String::new();
    let mut lists: BTreeMap<String, usize> = BTreeMap::new();
    let path = |line: &str| {
        let line = line.trim();
        if let Some(name) = line
            .strip_prefix("[[")
            .and_then(|rest| rest.split_once("]]"))
        {
            let count = lists.entry(name.0.to_owned()).or_default();
            prefix = format!("{}.{count}.", name.0);
            *count += 1;
        } else if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            prefix = format!("{}.", name.0);
        } else if let Some((key, _)) = line.split_once('=') {
            return Some(format!("{prefix}{}", key.trim()));
        }
        None
    };
    text.lines().map(path).collect()
}

#[cfg(test)]
mod tests;
