//! The comparison of the library's binary interface with the committed interface.
//!
//! A program that was linked against an older library uses the structures and calls of the older header. So the
//! headers, and not the crate, define the interface. They are compiled into a library of empty functions; `abidw`
//! writes a description of that library, and `abidiff` compares the description with the committed one. The symbols of
//! the real library show that it exports all of these functions, and no others with the prefix of the interface.
//! (`cargo xtask header` compares headers and crate.) The step `package` of the check makes this comparison too.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;

use crate::files;
use crate::invocation::{Invocation, is_installed};

/// The description of the interface against which programs may have been built.
const BASELINE: &str = "crates/tickless-capi/abi/0.abi";
const INCLUDE: &str = "crates/tickless-capi/include";
const HEADERS: [&str; 2] = ["tickless.h", "tickless-posix.h"];

/// Compares the C interface with the committed interface, by libabigail.
///
/// Programs that the machine lacks are named as skipped; this is no failure.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Commits the present interface as the one for later comparisons.
    #[arg(long)]
    write: bool,
}

/// Runs `cargo xtask abi`.
pub(crate) fn main(root: &Path, arguments: &Arguments) -> Result<(), String> {
    if let Some(program) = missing() {
        println!("skipped: the comparison of the C interface, because there is no {program}");
        return Ok(());
    }
    check(root, arguments.write)
}

/// Returns a program that the comparison needs and the machine lacks; `None` if the machine has them all.
pub(crate) fn missing() -> Option<&'static str> {
    { ["gcc", "abidw", "abidiff", "nm"].into_iter() }.find(|program| !is_installed(program))
}

/// Compares the headers with the committed interface, and the library with both. With `write`, replaces the committed
/// interface first.
pub(crate) fn check(root: &Path, write: bool) -> Result<(), String> {
    let place = files::target(root).join("abi");
    let headers = headers(root)?;
    let library = describe(root, &place, &headers)?;
    let baseline = root.join(BASELINE);
    if write {
        fs::copy(&library.description, &baseline)
            .map_err(|error| format!("{}: {error}", baseline.display()))?;
        println!("{BASELINE} is the interface as it is");
    }
    compare(root, &baseline, &library.file)?;
    compare_symbols(root, &headers)
}

fn headers(root: &Path) -> Result<Vec<String>, String> {
    let read = |name: &&str| files::read(root, &format!("{INCLUDE}/{name}"));
    HEADERS.iter().map(read).collect()
}

/// A library of empty functions, and its description.
struct Described {
    file: PathBuf,
    description: PathBuf,
}

/// Compiles the headers into a library, and has `abidw` describe it.
fn describe(root: &Path, place: &Path, headers: &[String]) -> Result<Described, String> {
    fs::create_dir_all(place).map_err(|error| format!("{}: {error}", place.display()))?;
    let source = place.join("interface.c");
    let described = Described {
        file: place.join("libinterface.so"),
        description: place.join("interface.abi"),
    };
    fs::write(&source, program(headers))
        .map_err(|error| format!("{}: {error}", source.display()))?;
    Invocation::new("gcc")
        .args(&[
            "-std=c99",
            "-D_POSIX_C_SOURCE=200809L",
            "-g",
            "-O0",
            "-shared",
            "-fPIC",
            "-w",
        ])
        // The description is the same wherever it was made.
        .arg(format!("-fdebug-prefix-map={}=.", place.display()))
        .args(&["-I", INCLUDE, "-o", &text(&described.file), &text(&source)])
        .run(root)?;
    Invocation::new("abidw")
        .args(&[
            "--no-corpus-path",
            "--no-comp-dir-path",
            "--no-show-locs",
            "--out-file",
        ])
        .args(&[text(&described.description), text(&described.file)])
        .run(root)?;
    Ok(described)
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

/// Returns a program that defines every function of the headers with an empty body.
fn program(headers: &[String]) -> String {
    let mut program = String::new();
    for header in HEADERS {
        // Writing to a string succeeds.
        let _written = writeln!(program, "#include \"{header}\"");
    }
    for header in headers {
        for prototype in prototypes(header) {
            let head = prototype.trim_end_matches(';');
            let _written = writeln!(program, "{head} {{ return 0; }}");
        }
    }
    program
}

fn prototypes(header: &str) -> impl Iterator<Item = &str> {
    header.lines().filter(|line| {
        let is_function =
            line.starts_with("int tickless_") || line.starts_with("uint32_t tickless_");
        is_function && line.ends_with(");")
    })
}

fn functions(headers: &[String]) -> BTreeSet<String> {
    let all = headers.iter().flat_map(|header| prototypes(header));
    all.filter_map(|prototype| prototype.split([' ', '(']).nth(1))
        .map(str::to_owned)
        .collect()
}

/// Compares two interfaces in files that libabigail reads.
fn compare(root: &Path, old: &Path, new: &Path) -> Result<(), String> {
    let compared = Invocation::new("abidiff")
        .args(&[text(old), text(new)])
        .capture(root)?;
    if compared.result.is_err() {
        return Err(format!(
            "the C interface is not the one of {BASELINE}:\n{}{}\
             A change that old programs survive: cargo xtask abi --write. Any other: a new TICKLESS_ABI_VERSION, \
             soname and baseline.",
            compared.stdout, compared.stderr
        ));
    }
    println!("abidiff: the interface is that of {BASELINE}");
    Ok(())
}

/// Builds the shared library, and compares its exported functions with the headers.
fn compare_symbols(root: &Path, headers: &[String]) -> Result<(), String> {
    Invocation::cargo(&["build", "-p", "tickless-capi", "--lib"]).run(root)?;
    let library = files::target(root).join("debug/libtickless_capi.so");
    let listed = Invocation::new("nm")
        .args(&["-D", "--defined-only", &text(&library)])
        .capture(root)?;
    if listed.result.is_err() {
        return Err(format!("nm: {}", listed.stderr));
    }
    let faults = differences(&functions(headers), &exported(&listed.stdout));
    if !faults.is_empty() {
        return Err(faults.join("\n   "));
    }
    println!("the shared library exports what the headers declare");
    Ok(())
}

/// Returns the functions of this interface in the output of `nm`.
fn exported(listed: &str) -> BTreeSet<String> {
    let names = listed
        .lines()
        .filter_map(|line| line.split_whitespace().nth(2));
    names
        .filter(|name| name.starts_with("tickless_"))
        .map(str::to_owned)
        .collect()
}

fn differences(declared: &BTreeSet<String>, exported: &BTreeSet<String>) -> Vec<String> {
    let missing = declared.difference(exported);
    let missing =
        missing.map(|name| format!("{name} is declared, and the library does not export it"));
    let unknown = exported.difference(declared);
    let unknown = unknown.map(|name| format!("{name} is exported, and no header declares it"));
    missing.chain(unknown).collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{compare, describe, differences, exported, functions, headers, program};
    use crate::invocation::is_installed;

    fn root() -> &'static Path {
        Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
    }

    #[test]
    fn functions_and_their_definitions_come_from_the_headers() {
        let header = "/* int tickless_old(void); */\nint tickless_loop_turn(struct tickless_loop *loop);\n\
            typedef void (*tickless_f)(int);\n";
        let headers = [header.to_owned()];
        let names: Vec<_> = functions(&headers).into_iter().collect();
        assert_eq!(names, ["tickless_loop_turn"]);
        assert!(
            program(&headers)
                .ends_with("int tickless_loop_turn(struct tickless_loop *loop) { return 0; }\n")
        );
    }

    #[test]
    fn symbols_that_differ_are_named() {
        let has = exported("0001 T tickless_a\n0002 T rust_eh_personality\n0003 T tickless_b\n");
        let declares = ["tickless_a", "tickless_c"].map(str::to_owned).into();
        assert_eq!(
            differences(&declares, &has),
            [
                "tickless_c is declared, and the library does not export it",
                "tickless_b is exported, and no header declares it",
            ]
        );
    }

    #[test]
    fn an_interface_with_a_function_less_is_another_one() {
        if ["gcc", "abidw", "abidiff"]
            .into_iter()
            .any(|program| !is_installed(program))
        {
            return;
        }
        let place = std::env::temp_dir().join(format!("tickless-abi-{}", std::process::id()));
        let now = headers(root()).unwrap();
        let baseline = root().join(super::BASELINE);
        let same = describe(root(), &place.join("same"), &now).unwrap();
        compare(root(), &baseline, &same.file).unwrap();
        // Fewer functions, as if one had been removed.
        let fewer: Vec<_> = now
            .iter()
            .map(|header| header.replace("int tickless_loop_fd(", "int tickles_loop_fd("))
            .collect();
        let other = describe(root(), &place.join("other"), &fewer).unwrap();
        let error = compare(root(), &baseline, &other.file).unwrap_err();
        assert!(error.contains("tickless_loop_fd"), "{error}");
        std::fs::remove_dir_all(&place).unwrap();
    }
}
