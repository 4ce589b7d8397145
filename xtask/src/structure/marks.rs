//! The size of the repository, and its ceilings: a stranger has to be able to carry it on.

use std::path::Path;

use crate::files;

/// What is counted.
enum Of {
    /// The lines of Rust below these directories.
    Lines(&'static [&'static str]),
    /// The words of Markdown below these directories, or of this page.
    Words(&'static [&'static str]),
    /// The packages in the lock of the root.
    Packages,
}

/// The directories of the library, its suites and its check.
const PRODUCT: &[&str] = &[
    "adapters/",
    "conformance/",
    "crates/",
    "examples/",
    "xtask/",
];

/// What is counted, by name, with its ceiling.
const MARKS: &[(&str, Of, usize)] = &[
    ("lines of Rust, everything", Of::Lines(&[""]), 205_000),
    (
        "lines of Rust, the root's workspace and adapters",
        Of::Lines(PRODUCT),
        142_000,
    ),
    ("lines of Rust, xtask", Of::Lines(&["xtask/"]), 6_000),
    (
        "lines of Rust, laboratory/cli",
        Of::Lines(&["laboratory/cli/"]),
        18_000,
    ),
    (
        "lines of Rust, laboratory/peers",
        Of::Lines(&["laboratory/peers/"]),
        7_000,
    ),
    ("words of Markdown, everything", Of::Words(&[""]), 120_000),
    ("words of Markdown, docs", Of::Words(&["docs/"]), 62_000),
    (
        "words of Markdown, CHANGELOG",
        Of::Words(&["CHANGELOG.md"]),
        500,
    ),
    ("packages locked at the root", Of::Packages, 140),
];

/// Prints each size beside its ceiling.
pub(super) fn show(root: &Path) -> Result<(), String> {
    let paths = files::list(root)?;
    println!("\n{:<52}{:>9}{:>9}", "size", "today", "at most");
    for (name, of, ceiling) in MARKS {
        let count = of.count(root, &paths)?;
        let over = if count > *ceiling { "  too many" } else { "" };
        println!("{name:<52}{count:>9}{ceiling:>9}{over}");
    }
    Ok(())
}

impl Of {
    fn count(&self, root: &Path, paths: &[String]) -> Result<usize, String> {
        let (places, ending): (&[&str], _) = match self {
            Self::Lines(places) => (places, ".rs"),
            Self::Words(places) => (places, ".md"),
            Self::Packages => (&["Cargo.lock"], ""),
        };
        let chosen = paths.iter().filter(|path| {
            path.ends_with(ending) && places.iter().any(|place| path.starts_with(place))
        });
        let mut count = 0;
        for path in chosen {
            let text = files::read(root, path)?;
            count += match self {
                Self::Lines(_) => text.lines().count(),
                Self::Words(_) => text.split_whitespace().count(),
                Self::Packages => text.matches("[[package]]").count(),
            };
        }
        Ok(count)
    }
}
