//! The command lines in the shell blocks of README, CONTRIBUTING and docs, for tests that compare them with their
//! parsers. The test of the command `tickless` includes this file, too.

use std::fs;
use std::path::Path;

/// Returns each line with the page on which it stands. Comments are removed, and a line that a page breaks is joined.
pub(crate) fn all(root: &Path) -> Vec<(String, String)> {
    let mut pages = vec![root.join("README.md"), root.join("CONTRIBUTING.md")];
    for entry in fs::read_dir(root.join("docs")).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.extension().is_some_and(|end| end == "md") {
            pages.push(path);
        }
    }
    let mut found = Vec::new();
    for page in pages {
        let text = fs::read_to_string(&page).expect("a page");
        let mut inside = false;
        for line in text.replace("\\\n", " ").lines() {
            if line.starts_with("```") {
                inside = line == "```sh";
            } else if inside {
                let line = line.split(" #").next().unwrap_or_default();
                found.push((page.display().to_string(), line.to_owned()));
            }
        }
    }
    found
}
