//! Tests that every command shows text from files harmlessly: the text cannot control a terminal, and cannot begin a
//! line.

mod support;

use std::fs;
use std::process::Output;

use support::{Place, end, text, words};

/// A text that would clear the screen, set the title of the window, begin a line of its own, and insert HTML.
const EVIL: &str = r"\u001B[2J\u001B]0;gone\u0007\nFORGED <b>\u202E";

fn scenario(name: &str, profile: &str, kind: &str) -> String {
    format!(
        r#"name = "{name}"
profile = "{profile}"
cpus = 2
duration = "20 ms"

[[workload]]
kind = "{kind}"
cpus = "all"
period = "1 ms"
"#
    )
}

/// Checks that a page escapes the text. Line breaks mean nothing in a page.
#[track_caller]
fn assert_page(page: &str) {
    let obeyed = |letter: char| letter.is_control() && letter != '\n' && letter != '\t';
    assert!(!page.contains(obeyed), "{page:?}");
    assert!(!page.contains('\u{202e}'), "{page:?}");
    assert!(page.contains("FORGED &lt;b&gt;"), "{page}");
    assert!(!page.contains("FORGED <b>"), "{page}");
}

#[track_caller]
fn assert_shown(shown: &str) {
    let obeyed = |letter: char| letter.is_control() && letter != '\n' && letter != '\t';
    assert!(!shown.contains(obeyed), "{shown:?}");
    assert!(!shown.contains('\u{202e}'), "{shown:?}");
    let forged = |line: &str| line.trim_start().starts_with("FORGED");
    assert!(!shown.lines().any(forged), "{shown}");
}

/// Checks that both outputs escape the text, and contain it.
#[track_caller]
fn assert_escaped(output: &Output) {
    let (out, (_, error)) = (text(&output.stdout), end(output));
    assert_shown(&out);
    assert_shown(&error);
    let has = |part: &str| out.contains(part) || error.contains(part);
    assert!(has(r"\u{1b}[2J") && has(r"\nFORGED"), "{out}{error}");
}

#[test]
fn names_in_scenarios_and_profiles_are_only_shown() {
    let place = Place::new();
    let write = |name: &str, text: &str| fs::write(place.path(name), text).expect("it fits");
    write("name.toml", &scenario(EVIL, "skl-112", "cyclictest"));
    write("profile.toml", &scenario("fine", EVIL, "cyclictest"));
    write("kind.toml", &scenario("fine", "skl-112", EVIL));
    let run = place.run(&words(
        "sim run name.toml --report out.html --trace t.jsonl",
    ));
    assert_eq!(end(&run).0, Some(0), "{run:?}");
    assert_escaped(&run);
    let page = fs::read_to_string(place.path("out.html")).expect("it was written");
    assert_page(&page);
    for name in ["profile.toml", "kind.toml"] {
        let refused = place.run(&["sim", "run", name]);
        assert_eq!(end(&refused).0, Some(2), "{refused:?}");
        assert_escaped(&refused);
    }
}

#[test]
fn events_of_traces_are_only_shown() {
    let place = Place::new();
    let small = scenario("fine", "skl-112", "cyclictest");
    fs::write(place.path("small.toml"), small).expect("it fits");
    let run = place.run(&["sim", "run", "small.toml", "--trace", "t.jsonl"]);
    assert_eq!(end(&run).0, Some(0), "{run:?}");
    let trace = fs::read_to_string(place.path("t.jsonl")).expect("it was written");
    let (before, behind) = trace.split_once("\"hrtimer_start\"").expect("a start");
    let forged = format!("{before}\"{EVIL}\"{behind}");
    // A trace that was changed on purpose has none.
    let (before, _) = forged.split_once(",\"digest\"").expect("one at the end");
    let forged = format!("{before}}}\n");
    fs::write(place.path("forged.jsonl"), forged).expect("it fits");
    assert_escaped(&place.run(&["verify", "forged.jsonl"]));
}
