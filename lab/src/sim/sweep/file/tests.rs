use super::{Sweep, Text};

const FILE: &str = r#"name = "four"
profile = "skl-112"
cpus = 2
duration = "10 ms"

[[workload]]
kind = "cyclictest"
cpus = "0"
period = "1 ms"

[[workload]]
kind = "oslat"
cpus = "all"

[sweep]
seed = [3, 1]
cpus = [2, 4, 8]
"workload.0.period" = ["1 ms", "2 ms"]
"#;

fn read(text: &str) -> Result<Sweep, String> {
    let text = Text {
        name: "s.toml".to_owned(),
        text: text.to_owned(),
    };
    Sweep::read(&text, 1, &[]).map_err(|failure| failure.to_string())
}

#[test]
fn points_are_all_combinations_and_the_last_parameter_changes_first() {
    let sweep = read(FILE).expect("it is right");
    assert_eq!(sweep.names, ["cpus", "seed", "workload.0.period"]);
    assert_eq!(sweep.points.len(), 12);
    let titles: Vec<String> = sweep.points.iter().map(super::Point::title).collect();
    assert_eq!(
        titles[1],
        "point 1 (cpus = 2, seed = 3, workload.0.period = \"2 ms\")"
    );
    assert_eq!(
        titles[11],
        "point 11 (cpus = 8, seed = 1, workload.0.period = \"2 ms\")"
    );
    let mut distinct = titles.clone();
    distinct.sort();
    distinct.dedup();
    assert_eq!(distinct.len(), 12);
    let last = &sweep.points[11];
    assert_eq!(sweep.seed(last), 1);
    assert_eq!(sweep.scenario(last).expect("it is right").cpus, 8);
}

#[test]
fn another_sweep_has_another_hash() {
    let hash = |text: &str| read(text).expect("it is right").hash;
    assert_eq!(
        hash(FILE),
        hash(&FILE.replace("cpus = 2\n", "cpus = 2 # two\n"))
    );
    for (from, to) in [
        ("[3, 1]", "[1, 3]"),
        ("\"10 ms\"", "\"11 ms\""),
        ("\"oslat\"", "\"busy\""),
    ] {
        assert_ne!(hash(FILE), hash(&FILE.replace(from, to)), "{from}");
    }
}

/// Wrong inputs: the text to replace, its replacement, and the resulting message.
const WRONG: &[(&str, &str, &str)] = &[
    (
        "[sweep]",
        "[swept]",
        "s.toml:1: there is no table [sweep]; add one",
    ),
    (
        "seed = [3, 1]",
        "seed = 3",
        "s.toml:16: sweep: seed: it is one value; write the list",
    ),
    (
        "seed = [3, 1]",
        "seed = [-3]",
        "s.toml:16: sweep: seed: a seed is a whole number",
    ),
    (
        "seed = [3, 1]",
        "seed = [3, 3]",
        "s.toml:16: sweep: seed: 3 is in the list twice; delete one",
    ),
    (
        "[2, 4, 8]",
        "[]",
        "s.toml:17: sweep: cpus: the list is empty",
    ),
    (
        "[2, 4, 8]",
        "[2, 57]",
        "s.toml:17: sweep: cpus: there is no such machine with 57 CPUs; whole sockets of 56, or a part of one, in \
         point 4 (cpus = 57, seed = 3",
    ),
    (
        "[2, 4, 8]",
        "[\"two\"]",
        "s.toml:17: sweep: cpus: invalid type: string \"two\"; expected u32, in point 0",
    ),
    (
        "workload.0.period",
        "workload.2.period",
        "s.toml:18: sweep: workload.2.period: there is no workload 2; the",
    ),
    (
        "workload.0.period",
        "workload.1.period",
        "s.toml:18: sweep: workload.1.period: the workload oslat has no field",
    ),
    (
        "\"2 ms\"]",
        "\"2 miles\"]",
        "s.toml:18: sweep: workload.0.period: \"2 miles\" is not a time; write",
    ),
    (
        "\"workload.0.period\"",
        "\"color\"",
        "s.toml:18: sweep: color: unknown field `color`; expected one of",
    ),
    (
        "cpus = \"all\"",
        "cpus = \"al\"",
        "s.toml:13: cpus: \"al\" is not a set of CPUs",
    ),
    (
        "kind = \"oslat\"",
        "kind = \"oslot\"",
        "s.toml:12: kind: there is no workload \"oslot\"",
    ),
    (
        "duration = \"10 ms\"",
        "duration = \"10\"",
        "s.toml:4: duration: \"10\" is not a time",
    ),
    (
        "\"1 ms\", \"2",
        "\"1 ms\", \"2\n",
        "s.toml:19: missing comma",
    ),
    ("[sweep]", "[sweep", "s.toml:15:"),
    ("profile = \"skl-112\"\n", "", "s.toml:"),
];

#[test]
fn wrong_sweeps_say_where_and_what_would_be_right() {
    for (from, to, said) in WRONG {
        assert!(FILE.contains(from), "{from}");
        let error = read(&FILE.replacen(from, to, 1)).expect_err(to);
        assert!(error.starts_with(said), "{error}\nis not\n{said}");
    }
    let many: Vec<String> = (0..2_000).map(|number| number.to_string()).collect();
    let many = many.join(",");
    let text = FILE
        .replace("[3, 1]", &format!("[{many}]"))
        .replace("[2, 4, 8]", &format!("[{many}]"));
    let error = read(&text).expect_err("too many");
    assert!(
        error.contains("2000 x 2000 x 2 points are too many; 1,000,000 at most"),
        "{error}"
    );
}
