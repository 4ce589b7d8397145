//! A point of a sweep: one value of each parameter, and the place of each value in the scenario.

use serde_json::{Map, Value as Json};
use toml::{Table, Value};

/// A point of a sweep: a combination of parameter values.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Point {
    /// The number of the point among all points of the sweep.
    pub(super) index: usize,
    /// The value of each parameter.
    pub(super) values: Vec<(String, Value)>,
}

impl Point {
    /// Returns the parameters as JSON.
    pub(super) fn parameters(&self) -> Map<String, Json> {
        let json = |value: &Value| serde_json::to_value(value).unwrap_or_default();
        let values = self.values.iter();
        values
            .map(|(name, value)| (name.clone(), json(value)))
            .collect()
    }

    /// Formats the point for messages: `point 3 (cpus = 8, seed = 2)`.
    pub(super) fn title(&self) -> String {
        let values = self.values.iter();
        let values: Vec<String> = values
            .map(|(name, value)| format!("{name} = {value}"))
            .collect();
        format!("point {} ({})", self.index, values.join(", "))
    }
}

/// Formats a value for a cell of a table.
pub(super) fn shown(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}

/// Sets the key `path` of a scenario to `value`. A path has names and numbers with dots between them.
///
/// Missing tables are made, missing entries of lists are not. An error says which path would be right.
pub(super) fn set(document: &mut Table, path: &str, value: Value) -> Result<(), String> {
    let (parents, last) = path.rsplit_once('.').unwrap_or(("", path));
    let mut table = document;
    let mut steps = parents.split('.').filter(|_| path.contains('.')).peekable();
    while let Some(name) = steps.next() {
        let below = table
            .entry(name)
            .or_insert_with(|| Value::Table(Table::new()));
        let below = match (below, steps.peek()) {
            (Value::Array(list), Some(number)) => {
                let count = list.len();
                let entry = number
                    .parse::<usize>()
                    .ok()
                    .and_then(|number| list.get_mut(number));
                let Some(entry) = entry else {
                    return Err(format!(
                        "there is no {name} {number}; the scenario has {count}, numbered from 0"
                    ));
                };
                steps.next();
                entry
            }
            (Value::Array(_), None) => {
                return Err(format!("say which {name}, as in {name}.0.{last}"));
            }
            (below, _) => below,
        };
        table = below
            .as_table_mut()
            .ok_or_else(|| format!("{name} has nothing below it; delete what follows the dot"))?;
    }
    table.insert(last.to_owned(), value);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::set;
    use toml::{Table, Value};

    fn document() -> Table {
        "cpus = 2\n[[workload]]\nkind = \"oslat\"\n"
            .parse()
            .expect("it is right")
    }

    #[test]
    fn values_go_where_the_path_says() {
        let mut document = document();
        for path in ["cpus", "policy.target", "workload.0.period"] {
            set(&mut document, path, Value::Integer(7)).expect(path);
        }
        assert_eq!(document["cpus"].as_integer(), Some(7));
        assert_eq!(document["policy"]["target"].as_integer(), Some(7));
        assert_eq!(document["workload"][0]["period"].as_integer(), Some(7));
    }

    #[test]
    fn paths_that_lead_nowhere_say_what_there_is() {
        for (path, said) in [
            (
                "workload.1.period",
                "there is no workload 1; the scenario has 1, numbered from 0",
            ),
            (
                "workload.x.period",
                "there is no workload x; the scenario has 1",
            ),
            (
                "workload.period",
                "say which workload, as in workload.0.period",
            ),
            ("cpus.count", "cpus has nothing below it"),
            ("workload.0.kind.x", "kind has nothing below it"),
        ] {
            let error = set(&mut document(), path, Value::Integer(1)).expect_err(path);
            assert!(error.contains(said), "{error}");
        }
    }
}
