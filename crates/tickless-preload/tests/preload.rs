//! Programs that were not written for it, with the library in front of the C library.
//!
//! What a machine does not have is left out, and named.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const HERE: &str = env!("CARGO_MANIFEST_DIR");

#[expect(
    clippy::print_stderr,
    reason = "a reader is to know what was not tested"
)]
fn is_there(program: &str) -> bool {
    let is_there = Command::new(program).arg("--version").output().is_ok();
    if !is_there {
        eprintln!("left out: there is no {program}");
    }
    is_there
}

/// The directory that this program stands in: cargo puts the library there too.
fn built() -> PathBuf {
    let program = std::env::current_exe().expect("a program knows where it is");
    program.parent().expect("in a directory").to_owned()
}

fn preloaded(program: impl AsRef<std::ffi::OsStr>) -> Command {
    let library = built().join("libtickless_preload.so");
    assert!(library.exists(), "{} was not built", library.display());
    let mut command = Command::new(program);
    command.env("LD_PRELOAD", library);
    command
}

#[track_caller]
fn run(command: &mut Command) -> Output {
    let output = command.output().expect("it can be started");
    assert!(
        output.status.success(),
        "{command:?}: {}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    output
}

/// Compiles a C program that knows nothing of Tickless.
fn compile(source: &str, name: &str) -> PathBuf {
    let program = built().join(format!("preload-{name}-{}", std::process::id()));
    let root = Path::new(HERE).join("..");
    run(Command::new("gcc")
        .args([
            "-std=gnu99",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-DSYSTEM",
            "-I",
        ])
        .arg(root.join("tickless-capi/include"))
        .arg(root.join(source))
        .arg("-o")
        .arg(&program)
        .args(["-lpthread", "-lrt"]));
    program
}

fn remove(program: &Path) {
    let _it_may_stay = std::fs::remove_file(program);
}

#[test]
fn an_unmodified_program_gets_what_posix_says() {
    if is_there("gcc") {
        let program = compile("tickless-capi/tests/c/posix.c", "posix");
        run(&mut preloaded(&program));
        remove(&program);
    }
}

#[test]
fn many_timers_of_a_program_are_none_of_the_kernel() {
    if is_there("gcc") {
        let program = compile("tickless-preload/tests/c/many.c", "many");
        run(preloaded(&program).arg("20000"));
        remove(&program);
    }
}

#[test]
fn timeout_ends_its_command() {
    if is_there("timeout") {
        let output = preloaded("timeout").args(["0.2", "sleep", "600"]).output();
        let output = output.expect("it can be started");
        assert_eq!(output.status.code(), Some(124), "{output:?}");
        let output = preloaded("timeout").args(["600", "true"]).output();
        assert!(output.expect("it can be started").status.success());
    }
}
