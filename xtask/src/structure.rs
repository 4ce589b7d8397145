//! The check of the structure of a crate's files: their imports, circles of imports, and the number of lines.
//!
//! The compiler keeps crates apart, but it does not keep the modules of a crate apart. This task does: it reads the
//! imports of each crate under `crates`, of `conformance` and of the kernel, and compares them with two rules.
//!
//! - *No circles.* Files that import each other in a circle can only be understood together. A parent and a child of
//!   one module may import each other, because they are one subject. In crates in which larger circles are still
//!   allowed ([`CRATES`]), a parent that imports a child which imports the parent does not count.
//! - *No arrows up.* A lower file does not name a higher one ([`STOREYS`]).
//!
//! An arrow leads from a file to each file that defines an item which the first file names, through all re-exports. A
//! file that only re-exports an item has no arrow for the item. Code that only tests and models see is left out.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use clap::Args;

use self::modules::Modules;
use crate::files;
use crate::tidy::lines_of_users;

mod graph;
mod marks;
mod modules;

/// Shows the files of each crate, the arrows between them, the circles and the lines, and the sizes of the repository
/// beside their ceilings.
///
/// Exits with 1 when an arrow breaks a rule.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Shows only the crates whose names contain this text.
    #[arg(value_name = "CRATE")]
    only: Option<String>,
    /// Shows each arrow, too.
    #[arg(long)]
    arrows: bool,
}

/// The limit for the circles of a crate.
struct Limit {
    /// The directory of the package.
    of: &'static str,
    /// The largest number of files in one circle; 1 allows no circle except of a parent and a child.
    circle: usize,
}

/// The crates that are checked. The other crates are only shown.
const CRATES: &[Limit] = &[
    Limit {
        of: "crates/tickless-link",
        circle: 1,
    },
    Limit {
        of: "crates/tickless-core",
        circle: 1,
    },
    Limit {
        of: "crates/tickless-sched",
        circle: 1,
    },
    Limit {
        of: "crates/tickless",
        circle: 1,
    },
    Limit {
        of: "crates/tickless-capi",
        circle: 1,
    },
    Limit {
        of: "conformance",
        circle: 1,
    },
    Limit {
        of: "kernel",
        circle: 1,
    },
];

/// Files that must not name the files above them.
struct Storey {
    of: &'static str,
    below: &'static [&'static str],
    above: &'static [&'static str],
}

/// Beginnings of paths, relative to `src/`.
const STOREYS: &[Storey] = &[
    Storey {
        of: "crates/tickless-core",
        below: &["exact/", "wheel/", "slots/"],
        above: &["base/", "hrtimer/", "coarse/", "hierarchy/", "tick/"],
    },
    Storey {
        of: "crates/tickless",
        below: &["host/"],
        above: &["worker", "driver", "builder", "time", "coarse", "callback"],
    },
    // The files that a port copies call no test, and the code of a machine calls nothing above it.
    Storey {
        of: "kernel",
        below: &[
            "arch/",
            "clock",
            "host",
            "idle",
            "interrupt",
            "lock",
            "machine",
            "processors",
            "classes",
            "tasks",
            "thread",
            "user",
        ],
        above: &["suite/", "entry/"],
    },
];

/// The files of one crate and the arrows between them.
#[derive(Debug)]
pub(crate) struct Crate {
    directory: String,
    modules: Modules,
    arrows: BTreeSet<(usize, usize)>,
    lines: Lines,
}

/// The numbers of lines in a crate's files.
#[derive(Clone, Copy, Debug, Default)]
struct Lines {
    /// The lines that are built for users.
    product: usize,
    /// The lines of unit tests, models, and the files under `tests`, `benches` and `examples`.
    tests: usize,
}

/// A breach of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Breach {
    /// The file to change.
    pub(crate) path: String,
    pub(crate) message: String,
}

/// Runs `cargo xtask structure`.
pub(crate) fn main(root: &Path, arguments: &Arguments) -> Result<(), String> {
    let mut texts = BTreeMap::new();
    for path in files::list(root)? {
        if path.ends_with(".rs") || path.ends_with("Cargo.toml") {
            let text = files::read(root, &path)?;
            texts.insert(path, text);
        }
    }
    let mut crates = read(&texts)?;
    if let Some(only) = &arguments.only {
        crates.retain(|each| each.directory.contains(only.as_str()));
    }
    for each in &crates {
        each.show(arguments.arrows);
    }
    if arguments.only.is_none() {
        marks::show(root)?;
    }
    let breaches = breaches(&crates);
    for breach in &breaches {
        println!("{}: {}", breach.path, breach.message);
    }
    if breaches.is_empty() {
        Ok(())
    } else {
        Err(format!("{} arrows or circles too many", breaches.len()))
    }
}

/// Reads every crate under `crates` and `tests` that has a library.
pub(crate) fn read(texts: &BTreeMap<String, String>) -> Result<Vec<Crate>, String> {
    texts
        .keys()
        .filter_map(|path| path.strip_suffix("/Cargo.toml"))
        .filter(|directory| {
            directory.starts_with("crates/") || ["conformance", "kernel"].contains(directory)
        })
        .filter(|directory| root_of(directory, texts).is_some())
        .map(|directory| Crate::read(directory, texts))
        .collect()
}

/// Returns the root file of a package: of its library, or of its program.
fn root_of(directory: &str, texts: &BTreeMap<String, String>) -> Option<String> {
    let roots = ["lib.rs", "main.rs"].map(|name| format!("{directory}/src/{name}"));
    roots.into_iter().find(|root| texts.contains_key(root))
}

/// Returns each breach of a rule in `crates`.
pub(crate) fn breaches(crates: &[Crate]) -> Vec<Breach> {
    crates.iter().flat_map(Crate::breaches).collect()
}

impl Crate {
    fn read(directory: &str, texts: &BTreeMap<String, String>) -> Result<Self, String> {
        let text_of = |path: &str| texts.get(path).map(String::as_str);
        let root = root_of(directory, texts).unwrap_or_default();
        let modules = Modules::read(&root, &text_of)?;
        let arrows = modules.arrows();
        let mut lines = Lines::default();
        let inside = format!("{directory}/");
        for (path, text) in texts.range(inside.clone()..) {
            if !path.starts_with(&inside) {
                break;
            }
            if path.ends_with(".rs") {
                let all = text.lines().count();
                let is_product = modules.files().contains(path);
                let product = if is_product {
                    lines_of_users(path, text)
                } else {
                    0
                };
                lines.product += product;
                lines.tests += all - product;
            }
        }
        Ok(Self {
            directory: directory.into(),
            modules,
            arrows,
            lines,
        })
    }

    /// Returns the name of a file, relative to `src/`.
    fn name(&self, file: usize) -> &str {
        let path = &self.modules.files()[file];
        path[self.directory.len()..].trim_start_matches("/src/")
    }

    /// Returns the circles that are larger than `limit` allows.
    fn circles(&self, limit: usize) -> Vec<Vec<usize>> {
        let is_parent = |from, to| self.modules.parent_of(to) == Some(from);
        let files = self.modules.files().len();
        if limit == 1 {
            let mut circles = graph::circles(files, &self.arrows);
            circles.retain(|circle| match circle[..] {
                [one, other] => !is_parent(one, other) && !is_parent(other, one),
                _ => true,
            });
            return circles;
        }
        let one_way = self
            .arrows
            .iter()
            .copied()
            .filter(|&(from, to)| !is_parent(from, to) || !self.arrows.contains(&(to, from)))
            .collect();
        let mut circles = graph::circles(files, &one_way);
        circles.retain(|circle| circle.len() > limit);
        circles
    }

    /// Returns the largest circle that this crate may have; `None` if circles of this crate are not checked.
    fn limit(&self) -> Option<usize> {
        let limit = CRATES.iter().find(|limit| limit.of == self.directory)?;
        Some(limit.circle)
    }

    fn breaches(&self) -> Vec<Breach> {
        let too_large = self.limit().map(|limit| self.circles(limit));
        let mut breaches: Vec<Breach> = too_large
            .unwrap_or_default()
            .into_iter()
            .map(|circle| {
                let names: Vec<&str> = circle.iter().map(|file| self.name(*file)).collect();
                Breach {
                    path: self.modules.files()[circle[0]].clone(),
                    message: format!("imports in a circle: {}", names.join(", ")),
                }
            })
            .collect();
        breaches.extend(self.arrows_up().map(|(from, to)| Breach {
            path: self.modules.files()[from].clone(),
            message: format!("imports what stands above it: {}", self.name(to)),
        }));
        breaches
    }

    fn arrows_up(&self) -> impl Iterator<Item = (usize, usize)> {
        let is_in = |file: usize, rooms: &[&str]| {
            rooms.iter().any(|room| self.name(file).starts_with(room))
        };
        self.arrows.iter().copied().filter(move |&(from, to)| {
            STOREYS
                .iter()
                .filter(|storey| storey.of == self.directory)
                .any(|storey| is_in(from, storey.below) && is_in(to, storey.above))
        })
    }

    fn show(&self, with_arrows: bool) {
        println!(
            "{}: {} files, {} arrows, {} lines and {} of tests",
            self.directory,
            self.modules.files().len(),
            self.arrows.len(),
            self.lines.product,
            self.lines.tests,
        );
        if with_arrows {
            for &(from, to) in &self.arrows {
                println!("   {} -> {}", self.name(from), self.name(to));
            }
        }
        // What is not forbidden is shown too: a circle of two that are not parent and child, and more.
        let shown = if self.limit() == Some(1) { 1 } else { 0 };
        for circle in self.circles(shown) {
            let names: Vec<&str> = circle.iter().map(|file| self.name(*file)).collect();
            println!("   a circle of {}: {}", circle.len(), names.join(", "));
        }
        for (from, to) in self.arrows_up() {
            println!("   up: {} -> {}", self.name(from), self.name(to));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::{breaches, read};

    fn breaches_of(package: &str, files: &[(&str, &str)]) -> Vec<String> {
        let mut texts: BTreeMap<String, String> = files
            .iter()
            .map(|(path, text)| (format!("{package}/src/{path}"), (*text).to_owned()))
            .collect();
        texts.insert(format!("{package}/Cargo.toml"), "[package]".into());
        breaches(&read(&texts).unwrap())
            .into_iter()
            .map(|breach| format!("{}: {}", breach.path, breach.message))
            .collect()
    }

    #[test]
    fn a_circle_is_found_unless_it_is_parent_and_child() {
        let circle = [
            ("lib.rs", "mod a; mod b;"),
            ("a.rs", "pub struct A(crate::b::B);"),
            ("b.rs", "pub struct B(Box<crate::a::A>);"),
        ];
        assert_eq!(
            breaches_of("crates/tickless-core", &circle),
            ["crates/tickless-core/src/a.rs: imports in a circle: a.rs, b.rs"]
        );
        assert_eq!(breaches_of("crates/other", &circle), [""; 0]);
        let family = [
            ("lib.rs", "mod a;"),
            ("a.rs", "mod b; pub struct A(b::B);"),
            ("a/b.rs", "pub struct B(Box<super::A>);"),
        ];
        assert_eq!(breaches_of("crates/tickless-core", &family), [""; 0]);
    }

    #[test]
    fn a_circle_through_a_parent_is_one() {
        let files = [
            ("lib.rs", "mod a;"),
            ("a.rs", "mod b; mod c; pub struct A(b::B);"),
            ("a/b.rs", "pub struct B(Box<super::c::C>);"),
            ("a/c.rs", "pub struct C(Box<super::A>);"),
        ];
        assert_eq!(
            breaches_of("crates/tickless-link", &files),
            ["crates/tickless-link/src/a.rs: imports in a circle: a.rs, a/b.rs, a/c.rs"]
        );
    }

    #[test]
    fn a_parent_with_two_children_that_import_it_and_each_other_is_a_circle_of_three() {
        let files = [
            ("lib.rs", "mod a;"),
            ("a.rs", "mod b; mod c; pub struct A(b::B, c::C);"),
            ("a/b.rs", "pub struct B(Box<super::A>, Box<super::c::C>);"),
            ("a/c.rs", "pub struct C(Box<super::A>);"),
        ];
        assert_eq!(
            breaches_of("crates/tickless", &files),
            ["crates/tickless/src/a.rs: imports in a circle: a.rs, a/b.rs, a/c.rs"]
        );
    }

    #[test]
    fn an_arrow_up_is_found() {
        let files = [
            ("lib.rs", "mod base; mod wheel;"),
            ("base/mod.rs", "mod cpu; pub use cpu::Base;"),
            ("base/cpu.rs", "pub struct Base;"),
            ("wheel/mod.rs", "use crate::base::Base; fn f(_: Base) {}"),
        ];
        assert_eq!(
            breaches_of("crates/tickless-core", &files),
            ["crates/tickless-core/src/wheel/mod.rs: imports what stands above it: base/cpu.rs"]
        );
    }
}
