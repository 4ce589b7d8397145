//! Tests of `tickless topology` and `tickless timers`, and of the behaviour that all commands share.

mod support;

use std::fs;

use support::{Place, end, json, text};

/// Returns the path of a machine that the tests of the library describe.
fn machine(name: &str) -> String {
    let root = env!("CARGO_MANIFEST_DIR");
    format!("{root}/../../crates/tickless/tests/fixtures/topology/{name}")
}

#[test]
fn another_machine_is_read_from_copies_of_its_files() {
    let place = Place::new();
    let root = machine("two-sockets");
    let output = place.run(&["topology", "--root", &root, "--json", "-"]);
    assert_eq!(end(&output), (Some(0), String::new()));
    let result = json(&output.stdout);
    assert_eq!(result["online"], "0-15");
    assert_eq!(result["isolated"], "2-3,6-7,10-11,14-15");
    assert_eq!(
        (&result["packages"], &result["cores"]),
        (&2.into(), &8.into())
    );
    assert_eq!(
        result["nodes"][3]["distances"],
        serde_json::json!([21, 21, 12, 10])
    );
    let third = &result["cpus"][2];
    assert_eq!(
        (&third["siblings"], &third["isolated"]),
        (&"2,10".into(), &true.into())
    );

    let output = place.run(&["topology", "--root", &root]);
    let table = text(&output.stdout);
    assert!(
        table.starts_with("16 CPUs, 8 cores, 2 packages, 4 nodes\n"),
        "{table}"
    );
    assert!(
        table.contains("isolated          2-3,6-7,10-11,14-15\n"),
        "{table}"
    );
}

#[test]
fn the_hierarchy_of_another_machine_is_drawn() {
    let place = Place::new();
    let root = machine("two-sockets");
    let output = place.run(&["topology", "--root", &root]);
    let drawing = text(&output.stdout);
    let end = "\nhierarchy         2 levels of at most 2, groups of up to 8, nodes mix from level 1 on\n\
               group 2, level 1, nodes 0-3: CPUs 0-1,4-5,8-9,12-13\n\
               ├─ group 0, level 0, node 0: CPUs 0-1,8-9\n\
               ├─ group 1, level 0, node 1: CPUs none (places kept for 2-3,10-11)\n\
               ├─ group 3, level 0, node 2: CPUs 4-5,12-13\n\
               └─ group 4, level 0, node 3: CPUs none (places kept for 6-7,14-15)\n\
               left out          2-3,6-7,10-11,14-15: isolated, neither pulls nor is pulled\n";
    assert!(drawing.ends_with(end), "{drawing}");

    let output = place.run(&["topology", "--root", &root, "--json", "-"]);
    let hierarchy = &json(&output.stdout)["hierarchy"];
    assert_eq!(hierarchy["cross_node_level"], 1);
    assert_eq!(
        hierarchy["groups"][4],
        serde_json::json!({
            "group": 4, "level": 0, "parent": 2, "slot": 3, "nodes": [3], "cpus": "", "kept": "6-7,14-15",
        })
    );
    assert_eq!(
        hierarchy["left_out"],
        serde_json::json!([{"cpus": "2-3,6-7,10-11,14-15", "why": "isolated"}])
    );
}

/// The expected figures are those of spec C-4.1.
#[test]
fn the_hierarchy_of_a_machine_that_need_not_exist_is_drawn() {
    let place = Place::new();
    let output = place.run(&["topology", "--cpus", "3840", "--nodes", "16", "--json", "-"]);
    assert_eq!(end(&output), (Some(0), String::new()));
    let result = json(&output.stdout);
    let hierarchy = &result["hierarchy"];
    assert_eq!(
        (&hierarchy["levels"], &hierarchy["cross_node_level"]),
        (&5.into(), &3.into())
    );
    let groups = hierarchy["groups"].as_array().expect("a list");
    let on_level = |level| {
        groups
            .iter()
            .filter(|group| group["level"] == level)
            .count()
    };
    assert_eq!([0, 1, 2, 3, 4].map(on_level), [480, 64, 16, 2, 1]);
    assert_eq!(result.get("online"), None);
}

#[test]
fn machines_that_make_no_sense_are_refused() {
    let place = Place::new();
    place.refuses(
        &["topology"],
        &[
            (&["--cpus", "0"], "'0'"),
            (&["--cpus", "-1"], "'-1'"),
            (&["--cpus", "many"], "write a number from 1 to 8192"),
            (&["--cpus", "8193"], "write a number from 1 to 8192"),
            (&["--cpus", "4", "--nodes", "5"], "write --nodes 4 or less"),
            (&["--nodes", "2"], "--cpus <N>"),
            (&["--isolated", "2"], "--cpus <N>"),
            (&["--cpus", "4", "--root", "."], "cannot be used with"),
            (
                &["--cpus", "4", "--isolated", "3-4"],
                "\"3-4\" in the CPU list",
            ),
            (&["--cpus", "4", "--isolated", ""], "names no CPU"),
        ],
    );
}

#[test]
fn this_machine_is_read() {
    let place = Place::new();
    let output = place.run(&["topology", "--json", "-"]);
    assert_eq!(end(&output), (Some(0), String::new()));
    let cpus = json(&output.stdout)["cpus"].as_array().map(Vec::len);
    assert!(cpus >= Some(1));
}

#[test]
fn files_that_are_missing_or_wrong_are_named() {
    let place = Place::new();
    let root = place.path("machine");
    let files = root.join("sys/devices/system/cpu");
    fs::create_dir_all(&files).expect("it is new");
    let arguments = ["topology", "--root", root.to_str().expect("text")];

    let (code, error) = end(&place.run(&arguments));
    assert_eq!(code, Some(2));
    assert!(error.contains("sys/devices/system/cpu/online"), "{error}");

    fs::write(files.join("online"), "3-1\n").expect("it can be written");
    let (code, error) = end(&place.run(&arguments));
    assert_eq!(code, Some(2));
    assert!(error.contains("did you mean \"1-3\"?"), "{error}");
}

/// Checks that the result has a runtime with a reactor, one thread, and a far timer on that thread.
fn assert_one_runtime(result: &serde_json::Value) {
    let reactor = &result["reactors"][0];
    let number = &reactor["number"];
    assert!(number.is_number() && reactor["rings_at_ns"].is_number());
    assert_eq!(reactor["hierarchy"]["of"], "threads of a runtime");
    let threads = result["threads"].as_array().expect("a list");
    let of_it = threads.iter().filter(|one| &one["reactor"] == number);
    let of_it: Vec<_> = of_it.map(|one| (&one["name"], &one["timers"])).collect();
    let [(name, timers)] = of_it[..] else {
        panic!("one thread has a runtime: {result}");
    };
    assert_eq!(
        (name, &timers[0]["queue"]),
        (&"runtime".into(), &"far".into())
    );
    assert_eq!(timers.as_array().map(Vec::len), Some(1));
}

#[test]
fn the_timers_that_are_shown_are_those_that_are_pending() {
    let place = Place::new();
    let output = place.run(&["timers", "--workers", "2", "--timers", "30", "--json", "-"]);
    assert_eq!(end(&output), (Some(0), String::new()));
    let result = json(&output.stdout);
    let threads = result["threads"].as_array().expect("a list");
    let timers = |queue: &str| {
        let timers = threads.iter().flat_map(|thread| {
            let timers = thread["timers"].as_array().expect("a list");
            timers.iter().filter(|timer| timer["queue"] == queue)
        });
        timers.count()
    };
    // One of the thread that is none, of the time of day; far away two of that thread, one of the runtime, and three of
    // each worker; and one on each wheel. The first of those far away are sorted where a thread had time to ask.
    let [sorted, far, wheel] = ["sorted", "far", "wheel"].map(timers);
    assert_eq!((sorted + far, wheel), (10, 3), "{result}");
    assert!((1..=4).contains(&sorted), "{result}");
    let stats = &result["stats"];
    assert_eq!(
        (&stats["pending"], &stats["cancelled"]),
        (&10.into(), &54.into()),
        "{stats}"
    );
    assert_eq!(stats["panics"], 0);
    let names: Vec<_> = threads
        .iter()
        .filter_map(|one| one["name"].as_str())
        .collect();
    for name in ["worker-0", "worker-1", "runtime", "tickless"] {
        assert!(names.contains(&name), "{names:?}");
    }
    let workers = threads.iter().filter(|one| one["role"] == "worker");
    assert_eq!(workers.count(), 2, "{result}");
    assert_eq!(result["hierarchies"][1]["of"], "workers");
    assert_eq!(result["hierarchies"][1]["available"], 2);
    assert_eq!(result.get("dump"), None, "data, not text");
    assert_one_runtime(&result);

    let output = place.run(&["timers", "--workers", "2", "--timers", "30"]);
    let shown = text(&output.stdout);
    let lines = shown.lines();
    let timers = lines.filter(|line| line.starts_with(" #") && line.contains(", S:01"));
    assert_eq!(timers.count(), 13, "{shown}");
    for part in [
        "Timer List Version: ",
        "Broadcast device\n",
        "Per CPU device:",
        "Hierarchy: workers\n",
        "  .thread         : worker-0, thread ",
        " mode:           3\n",
        "  .isolated       : 0\n",
        "wakes a task, S:01",
        "timers::work::",
        "Since the process began:",
    ] {
        assert!(shown.contains(part), "{part} is missing in\n{shown}");
    }
    assert!(
        !shown.contains("code at"),
        "where things lie in memory\n{shown}"
    );
    let output = place.run(&["timers", "--workers", "1", "--timers", "0", "--addresses"]);
    let shown = text(&output.stdout);
    assert!(shown.contains("\n # code at 0"), "{shown}");
}

#[test]
fn every_command_has_help_and_is_silent_when_asked() {
    let place = Place::new();
    let commands = ["demo", "latency", "timers", "topology"];
    let simulations = ["run", "headline", "fuzz"].map(|name| vec!["sim", name]);
    let commands = commands.map(|name| vec![name]);
    for words in [commands.as_slice(), &simulations, &[vec!["sim"]]].concat() {
        let command = words[0];
        let output = place.run(&[&words[..], &["--help"]].concat());
        assert_eq!(end(&output), (Some(0), String::new()));
        let help = text(&output.stdout);
        assert!(
            help.contains("Examples:") || command == "timers" && help.contains("tickless timers")
        );
        let widest = help.lines().map(|line| line.chars().count()).max();
        assert!(widest <= Some(120), "{command}: {widest:?}");
    }
    for command in ["timers", "topology"] {
        let output = place.run(&[command, "--quiet"]);
        assert_eq!(end(&output), (Some(0), String::new()));
        assert!(output.stdout.is_empty());
    }
    let (code, error) = end(&place.run(&["dance"]));
    assert_eq!(code, Some(2));
    assert!(error.contains("unrecognized subcommand 'dance'"), "{error}");
    assert_eq!(end(&place.run(&[])).0, Some(2));
}
