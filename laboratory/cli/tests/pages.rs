//! Tests of the pages of `--report`, as browsers and screen readers read them.

mod support;

use std::fs;

use support::{Place, end};

/// Runs the command line, and returns the page.
fn page(line: &str) -> String {
    let place = Place::new();
    let line = format!("{line} --report out.html");
    let output = place.run(&line.split_whitespace().collect::<Vec<_>>());
    let (code, error) = end(&output);
    assert!(matches!(code, Some(0 | 1)), "{line}: {error}");
    fs::read_to_string(place.path("out.html")).expect("the page")
}

/// Checks the properties that every page must have.
fn check(page: &str, line: &str) {
    assert!(page.starts_with("<!DOCTYPE html>"), "{line}");
    for foreign in ["http-equiv", "<script", "<link", "src=", "NaN", "0. %"] {
        assert!(!page.contains(foreign), "{foreign} in the page of {line}");
    }
    let roots = page.split("<svg ").skip(1);
    for root in roots {
        let (root, rest) = root.split_once('>').expect("an element");
        assert!(root.contains("role=\"img\""), "{line}: {root}");
        let has_title = rest.trim_start().starts_with("<title id=\"");
        assert!(
            has_title || root.contains("aria-label=\""),
            "{line}: a picture has no name"
        );
    }
    for table in page.split("<div class=\"wide").skip(1) {
        let (root, _) = table.split_once('>').expect("an element");
        let can_be_reached = root.contains("tabindex=\"0\"") && root.contains("aria-label=\"");
        assert!(can_be_reached, "{line}: {root}");
    }
}

/// Command lines, and the parts that the page of each must contain.
const PAGES: &[(&str, &[&str])] = &[
    (
        "sim run start-cost -q",
        &["The same as a table", "never_early"],
    ),
    (
        "demo --connections 10 --rate 1000 -D 1 -q",
        &[
            "for-narrow",
            "<summary>The figures</summary>",
            "What it says",
        ],
    ),
];

#[test]
fn every_page_can_be_read_by_all() {
    for (line, parts) in PAGES {
        let page = page(line);
        check(&page, line);
        for part in *parts {
            assert!(page.contains(part), "{part} is missing in that of {line}");
        }
    }
}

#[test]
fn a_page_cannot_go_where_the_table_goes() {
    let place = Place::new();
    let says = "would mix the page with the table";
    place.refuses(&["sim", "run", "start-cost"], &[(&["--report", "-"], says)]);
}
