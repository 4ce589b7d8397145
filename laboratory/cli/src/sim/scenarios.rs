//! The scenarios that come with the command.

/// The text of a scenario that comes with the command, and its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shipped {
    pub(super) name: &'static str,
    pub(super) text: &'static str,
}

macro_rules! shipped {
    ($($name:literal),* $(,)?) => {
        &[$(Shipped {
            name: $name,
            text: include_str!(concat!(
                "../../../sim/scenarios/",
                $name,
                ".toml"
            )),
        }),*]
    };
}

pub(super) const SHIPPED: &[Shipped] = shipped![
    "compute",
    "coupled-steering",
    "deep-idle",
    "enqueue",
    "hackbench",
    "idle-residency",
    "isolation-noise",
    "network",
    "softirq-latency",
    "softirq-mail",
    "start-cost",
];

pub(super) fn find(name: &str) -> Option<Shipped> {
    SHIPPED.iter().copied().find(|one| one.name == name)
}

pub(super) fn names() -> String {
    let names: Vec<&str> = SHIPPED.iter().map(|one| one.name).collect();
    names.join(", ")
}

impl Shipped {
    /// Returns the first sentence about the scenario, which is at the beginning of its file.
    pub(super) fn about(&self) -> String {
        let comment = self.text.lines().map_while(|line| line.strip_prefix("# "));
        let comment: Vec<&str> = comment.collect();
        let comment = comment.join(" ");
        let end = comment.find(". ").map_or(comment.len(), |dot| dot + 1);
        comment[..end].trim_end_matches('.').to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::{SHIPPED, find};
    use std::fs;
    use std::path::Path;
    use tickless_sim::Scenario;

    #[test]
    fn every_scenario_of_the_library_ships_under_its_name() {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../sim/scenarios");
        let files = fs::read_dir(directory).expect("they are there");
        let mut names: Vec<String> = files
            .map(|file| {
                let name = file.expect("it can be read").file_name();
                name.to_string_lossy().trim_end_matches(".toml").to_owned()
            })
            .collect();
        names.sort();
        assert_eq!(
            names,
            SHIPPED.iter().map(|one| one.name).collect::<Vec<_>>()
        );
        for one in SHIPPED {
            let scenario = Scenario::from_toml(one.text, one.name).expect(one.name);
            assert_eq!(scenario.name, one.name);
            assert!(one.about().len() > 10, "{one:?}");
        }
        assert!(find("nothing").is_none());
    }
}
