//! Tests that every shipped scenario gives identical runs, to the byte, when it is run twice. Random scenarios are run
//! twice in `world_random.rs`, faults in `world_fault.rs`.

use std::path::{Path, PathBuf};

use tickless_sim::headline::{CLAIMS, Effort, one};
use tickless_sim::{Picos, Scenario, run};

/// The longest run, which is enough for ticks, idle states and timeouts on machines of any size.
const LONGEST: Picos = Picos::from_millis(40);

fn shipped() -> Vec<PathBuf> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios");
    let entries = std::fs::read_dir(directory).expect("they are there");
    let paths = entries.map(|entry| entry.expect("it can be read").path());
    let mut paths: Vec<_> = paths
        .filter(|path| path.extension().is_some_and(|end| end == "toml"))
        .collect();
    paths.sort();
    paths
}

#[test]
fn shipped_scenarios_are_the_same_twice_to_the_byte() {
    let paths = shipped();
    assert!(paths.len() >= 6, "{paths:?}");
    for path in paths {
        let text = std::fs::read_to_string(&path).expect("it can be read");
        let file = path.display().to_string();
        let mut scenario =
            Scenario::from_toml(&text, &file).unwrap_or_else(|error| panic!("{error}"));
        scenario.duration = scenario.duration.min(LONGEST);
        let (first, second) = (run(&scenario, 3), run(&scenario, 3));
        assert!(first.counts.events > 30, "{file}: {:?}", first.counts);
        assert_eq!(first.digest, second.digest, "{file}");
        let written = |outcome| serde_json::to_vec(&outcome).expect("it is data");
        assert!(
            written(first) == written(second),
            "{file}: what is written differs"
        );
    }
}

#[test]
fn claims_are_the_same_twice_to_the_byte() {
    for claim in CLAIMS {
        let written = || {
            let headline = one(claim.id, 5, Effort::Quick).expect("it is claimed");
            serde_json::to_vec(&headline).expect("it is data")
        };
        assert_eq!(written(), written(), "{}", claim.id);
    }
}
