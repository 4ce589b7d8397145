use super::{Limits, TooMuch};
use crate::run::draw::Draft;
use crate::run::runner::run;
use crate::run::scenario::Scenario;

fn scenario(text: &str) -> Scenario {
    let head = "name = \"m\"\nprofile = \"vm-64\"\ncpus = 2\nduration = \"2 ms\"\n";
    let read = Scenario::from_toml(&format!("{head}{text}"), "m.toml");
    read.unwrap_or_else(|error| panic!("{error}"))
}

fn refused(text: &str) -> TooMuch {
    let fits = scenario(text).fits(&Limits::default());
    fits.expect_err("it needs too much")
}

#[test]
fn what_asks_for_more_memory_than_there_is_is_refused_by_its_part() {
    let too_much = refused(
        "[[workload]]\nkind = \"busy\"\ncpus = \"0\"\n[[workload]]\nkind = \"polls\"\ncpus = \"0\"\n\
         timers = 200000000\nperiod = \"10 ms\"\nwork = \"1 us\"\n",
    );
    assert!(too_much.is_memory);
    assert_eq!(
        too_much.to_string(),
        "workload 2 (polls) needs about 48 GiB of memory, and the scenario 48 GiB; the limit is 4 GiB"
    );
    let many = "[[workload]]\nkind = \"KIND\"\ncpus = \"all\"\n";
    for (kind, fields) in [
        (
            "daemons",
            "tasks = 4000000000\nperiod = \"1 ms\"\nwork = \"1 us\"\n",
        ),
        (
            "network",
            "connections = 4000000000\ngap = \"1 ms\"\nwork = \"1 us\"\ntimeout = \"1 ms\"\ncancelled = 1\n",
        ),
        (
            "starts",
            "timers = 4000000000\nrepetitions = 1\ngap = \"1 ms\"\n",
        ),
        (
            "alarms",
            "clock = \"tai\"\ntimers = 4000000000\nperiod = \"1 ms\"\n",
        ),
        (
            "dbench",
            "tasks = 4000000000\nwork = \"1 us\"\ntimeout = \"1 ms\"\n",
        ),
        (
            "desktop",
            "timers = 4000000000\nperiod = \"1 ms\"\nwork = \"1 us\"\nslack = \"1 us\"\ngap = \"1 ms\"\n",
        ),
        (
            "hackbench",
            "groups = 60000\ntasks = 60000\nmessages = 9\nsize = 1\nroom = 1\nwork = \"1 us\"\n",
        ),
    ] {
        let too_much = refused(&(many.replace("KIND", kind) + fields));
        assert!(
            too_much.is_memory && too_much.part.contains(kind),
            "{too_much}"
        );
    }
}

#[test]
fn what_would_never_end_is_refused_by_its_part() {
    let too_much = refused("[[fault]]\nkind = \"spurious\"\ncpus = \"all\"\nevery = \"1 ps\"\n");
    assert!(!too_much.is_memory || too_much.needs > 0);
    assert!(too_much.part == "fault 1 (spurious)", "{too_much}");
    let mut long =
        scenario("[[workload]]\nkind = \"cyclictest\"\ncpus = \"all\"\nperiod = \"1 ps\"\n");
    assert_eq!(
        long.fits(&Limits::default()),
        Ok(()),
        "a CPU has no time for more"
    );
    long.duration = long.duration * 10_000_000;
    let too_much = long.fits(&Limits::default()).expect_err("it is hours long");
    assert!(
        !too_much.is_memory && too_much.part == "workload 1 (cyclictest)",
        "{too_much}"
    );
    assert_eq!(long.fits(&Limits::NONE), Ok(()));
}

#[test]
fn what_is_drawn_and_what_ships_fits_and_is_estimated_within_a_factor() {
    for seed in 0..60 {
        let draft = Draft::of(seed);
        let scenario =
            Scenario::from_toml(&draft.to_toml(), "drawn.toml").expect("draws are right");
        assert_eq!(scenario.fits(&Limits::default()), Ok(()), "{seed}");
        let (needs, counts) = (scenario.needs(), run(&scenario, seed).counts);
        assert!(
            counts.events < needs.events.saturating_mul(20) + 100_000,
            "{seed}: {} events, {needs:?}\n{}",
            counts.events,
            draft.to_toml()
        );
    }
    let directory = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios");
    for file in std::fs::read_dir(directory).expect("it is there") {
        let path = file.expect("it can be read").path();
        let text = std::fs::read_to_string(&path).expect("it is text");
        let scenario = Scenario::from_toml(&text, "shipped.toml");
        let scenario = scenario.unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(
            scenario.fits(&Limits::default()),
            Ok(()),
            "{}",
            path.display()
        );
    }
}
