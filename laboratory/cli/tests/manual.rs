//! Tests of `tickless completions` and `tickless man`.

mod support;

use std::fs;

use support::{Place, end, text};

#[test]
fn shells_complete_every_command() {
    let place = Place::new();
    for shell in ["bash", "zsh", "fish"] {
        let output = place.run(&["completions", shell]);
        assert_eq!(end(&output), (Some(0), String::new()));
        let out = text(&output.stdout);
        for word in ["latency", "verify", "trace-limit", "histogram"] {
            assert!(out.contains(word), "{word} is missing for {shell}");
        }
    }
    place.refuses(&["completions"], &[(&["sh"], "possible values: bash")]);
}

#[test]
fn every_command_has_a_page_in_the_manual() {
    let place = Place::new();
    let output = place.run(&["man"]);
    assert_eq!(end(&output), (Some(0), String::new()));
    assert!(text(&output.stdout).contains(".TH tickless 1"));
    place.refuses(&["man"], &[(&["pages"], "there is no directory")]);
    assert!(!place.path("pages").exists());
    fs::create_dir(place.path("pages")).expect("it is new");
    let output = place.run(&["man", "pages"]);
    assert_eq!(end(&output), (Some(0), String::new()));
    for (page, says) in [
        ("tickless", "completions"),
        ("tickless-bench", "With up to ten million pending timers"),
        ("tickless-latency", "histogram"),
        ("tickless-sim-run", "Scenarios that come with the command"),
    ] {
        let text = fs::read_to_string(place.path("pages").join(format!("{page}.1")));
        assert!(text.expect(page).contains(says), "{page}");
    }
}
