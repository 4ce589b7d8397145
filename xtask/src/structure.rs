//! The check of the structure of a crate's files: their imports, circles of imports, and the number of lines.
//!
//! The compiler keeps crates apart, but it does not keep the modules of a crate apart. This task does: it reads the
//! imports of each crate, and compares them with two rules.
//!
//! - *No circles.* Files that import each other in a circle can only be understood together. A parent and a child of
//!   one module may import each other, because they are one subject.
//! - *No arrows up.* A lower file does not name a higher one ([`STOREYS`]).
//!
//! An arrow leads from a file to each file that defines an item which the first file names, through all re-exports. A
//! file that only re-exports an item has no arrow for the item. Code that only tests and models see is left out.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use clap::Args;

use self::modules::Modules;
use crate::files;
use crate::tidy::tree::tests_from;

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

/// Files that must not name the files above them: a crate, and beginnings of paths in `src`, below and above.
type Storey = (
    &'static str,
    &'static [&'static str],
    &'static [&'static str],
);

const STOREYS: &[Storey] = &[
    (
        "crates/tickless-core",
        &["exact/", "wheel/", "slots/"],
        &["base/", "hrtimer/", "coarse/", "hierarchy/", "tick/"],
    ),
    (
        "crates/tickless",
        &["host/"],
        &["worker", "driver", "builder", "time", "coarse", "callback"],
    ),
    // The files that a port copies call no test, and the code of a machine calls nothing above it.
    (
        "kernel",
        &[
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
        &["suite/", "entry/"],
    ),
];

/// The files of one crate and the arrows between them.
#[derive(Debug)]
pub(crate) struct Crate {
    directory: String,
    modules: Modules,
    arrows: BTreeSet<(usize, usize)>,
    /// The lines that are built for users.
    product: usize,
    /// The lines of unit tests, models, and the files under `tests`, `benches` and `examples`.
    tests: usize,
}

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
    for (path, message) in &breaches {
        println!("{path}: {message}");
    }
    if breaches.is_empty() {
        Ok(())
    } else {
        Err(format!("{} arrows or circles too many", breaches.len()))
    }
}

/// Reads every crate that has a library or a program.
pub(crate) fn read(texts: &BTreeMap<String, String>) -> Result<Vec<Crate>, String> {
    let directories = texts
        .keys()
        .filter_map(|path| path.strip_suffix("/Cargo.toml"));
    let roots = directories.filter_map(|directory| {
        let roots = ["lib.rs", "main.rs"].map(|name| format!("{directory}/src/{name}"));
        let root = roots.into_iter().find(|root| texts.contains_key(root))?;
        Some(Crate::read(directory, &root, texts))
    });
    roots.collect()
}

/// Returns each breach of a rule in `crates`: the file to change, and what is wrong.
pub(crate) fn breaches(crates: &[Crate]) -> Vec<(String, String)> {
    crates.iter().flat_map(Crate::breaches).collect()
}

impl Crate {
    fn read(directory: &str, root: &str, texts: &BTreeMap<String, String>) -> Result<Self, String> {
        let text_of = |path: &str| texts.get(path).map(String::as_str);
        let modules = Modules::read(root, &text_of)?;
        let arrows = modules.arrows();
        let (mut product, mut tests) = (0, 0);
        let inside = format!("{directory}/");
        let own = texts
            .range(inside.clone()..)
            .take_while(|(path, _)| path.starts_with(&inside));
        for (path, text) in own.filter(|(path, _)| path.ends_with(".rs")) {
            let of_users = if modules.files().contains(path) {
                text[..tests_from(path, text)].lines().count()
            } else {
                0
            };
            product += of_users;
            tests += text.lines().count() - of_users;
        }
        let directory = directory.into();
        Ok(Self {
            directory,
            modules,
            arrows,
            product,
            tests,
        })
    }

    /// Returns the name of a file, relative to `src/`.
    fn name(&self, file: usize) -> &str {
        self.modules.files()[file][self.directory.len()..].trim_start_matches("/src/")
    }

    /// Returns the groups of files in which each file reaches each other, except of a parent and a child.
    fn circles(&self) -> Vec<Vec<usize>> {
        let files = self.modules.files().len();
        let reached: Vec<BTreeSet<usize>> = (0..files).map(|file| self.reach(file)).collect();
        let mut found: Vec<Vec<usize>> = Vec::new();
        for file in 0..files {
            if found.iter().all(|circle| !circle.contains(&file)) {
                let back = |other: &usize| reached[*other].contains(&file);
                found.push(reached[file].iter().copied().filter(back).collect());
            }
        }
        let is_parent = |from, to| self.modules.parent_of(to) == Some(from);
        found.retain(|circle| match circle[..] {
            [one, other] => !is_parent(one, other) && !is_parent(other, one),
            _ => circle.len() > 1,
        });
        found
    }

    /// Returns every file that can be reached from `start` by one or more arrows.
    fn reach(&self, start: usize) -> BTreeSet<usize> {
        let (mut reached, mut open) = (BTreeSet::new(), vec![start]);
        while let Some(file) = open.pop() {
            let next = self.arrows.range((file, 0)..=(file, usize::MAX));
            open.extend(
                next.map(|arrow| arrow.1)
                    .filter(|next| reached.insert(*next)),
            );
        }
        reached
    }

    fn breaches(&self) -> Vec<(String, String)> {
        let path = |file: usize| self.modules.files()[file].clone();
        let circles = self.circles().into_iter().map(|circle| {
            let names: Vec<&str> = circle.iter().map(|file| self.name(*file)).collect();
            (
                path(circle[0]),
                format!("imports in a circle: {}", names.join(", ")),
            )
        });
        let up = self.arrows.iter().filter(|arrow| self.is_up(**arrow));
        let up = up.map(|&(from, to)| {
            (
                path(from),
                format!("imports what stands above it: {}", self.name(to)),
            )
        });
        circles.chain(up).collect()
    }

    fn is_up(&self, (from, to): (usize, usize)) -> bool {
        let is_in =
            |file, rooms: &[&str]| rooms.iter().any(|room| self.name(file).starts_with(room));
        let storeys = STOREYS.iter().filter(|(of, _, _)| *of == self.directory);
        storeys
            .into_iter()
            .any(|(_, below, above)| is_in(from, below) && is_in(to, above))
    }

    fn show(&self, with_arrows: bool) {
        let (name, files, arrows) = (
            &self.directory,
            self.modules.files().len(),
            self.arrows.len(),
        );
        println!(
            "{name}: {files} files, {arrows} arrows, {} lines and {} of tests",
            self.product, self.tests
        );
        for &(from, to) in self.arrows.iter().filter(|_| with_arrows) {
            println!("   {} -> {}", self.name(from), self.name(to));
        }
        for circle in self.circles() {
            let names: Vec<&str> = circle.iter().map(|file| self.name(*file)).collect();
            println!("   a circle of {}: {}", circle.len(), names.join(", "));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{breaches, read};

    fn breaches_of(package: &str, files: &[(&str, &str)]) -> Vec<String> {
        let files = files
            .iter()
            .map(|(path, text)| (format!("{package}/src/{path}"), (*text).to_owned()));
        let manifest = (format!("{package}/Cargo.toml"), "[package]".to_owned());
        let found = breaches(&read(&files.chain([manifest]).collect()).unwrap());
        found
            .into_iter()
            .map(|(path, message)| format!("{path}: {message}"))
            .collect()
    }

    #[test]
    fn a_circle_is_found_unless_it_is_parent_and_child() {
        let circle = [
            ("lib.rs", "mod a; mod b;"),
            ("a.rs", "pub struct A(crate::b::B);"),
            (
                "b.rs",
                "pin_project! { pub struct B<T: Unpin> { a: Box<crate::a::A> } }",
            ),
        ];
        assert_eq!(
            breaches_of("one", &circle),
            ["one/src/a.rs: imports in a circle: a.rs, b.rs"]
        );
        let b = ("a/b.rs", "pub struct B(Box<super::A>);");
        let family = [
            ("lib.rs", "mod a;"),
            ("a.rs", "mod b; pub struct A(b::B);"),
            b,
        ];
        assert_eq!(breaches_of("one", &family), [""; 0]);
        let through_the_parent = [
            ("lib.rs", "mod a;"),
            ("a.rs", "mod b; mod c; pub struct A(b::B);"),
            ("a/b.rs", "pub struct B(Box<super::c::C>);"),
            ("a/c.rs", "pub struct C(Box<super::A>);"),
        ];
        let found = breaches_of("one", &through_the_parent);
        assert_eq!(
            found,
            ["one/src/a.rs: imports in a circle: a.rs, a/b.rs, a/c.rs"]
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
        let found = breaches_of("crates/tickless-core", &files);
        assert_eq!(
            found,
            ["crates/tickless-core/src/wheel/mod.rs: imports what stands above it: base/cpu.rs"]
        );
    }
}
