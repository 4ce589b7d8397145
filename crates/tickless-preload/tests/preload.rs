//! Tests with unmodified programs, which run with the library in front of the C library.
//!
//! The tests skip programs that are not installed on the machine, and print their names.

use std::path::{Path, PathBuf};
use std::process::Command;

#[path = "../../tickless-capi/tests/programs/mod.rs"]
mod programs;

use programs::{built, is_there, remove, run};

const HERE: &str = env!("CARGO_MANIFEST_DIR");

fn preloaded(program: impl AsRef<std::ffi::OsStr>) -> Command {
    let library = built().join("libtickless_preload.so");
    assert!(library.exists(), "{} was not built", library.display());
    let mut command = Command::new(program);
    command.env("LD_PRELOAD", library);
    command
}

/// Compiles a C program that does not use Tickless.
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

#[test]
fn an_unmodified_program_gets_what_posix_says() {
    if is_there("gcc") {
        let program = compile("tickless-capi/tests/c/posix.c", "posix");
        run(&mut preloaded(&program));
        remove(&program);
    }
}

#[test]
fn sleeps_leave_the_slack_of_the_program() {
    if is_there("gcc") {
        let program = compile("tickless-capi/tests/c/slack.c", "slack");
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
fn a_process_ends_when_its_last_thread_has_ended() {
    if is_there("gcc") && is_there("timeout") {
        let program = compile("tickless-preload/tests/c/main_ends.c", "main-ends");
        for order in ["first", "then"] {
            // What does not end blocks all other signals.
            run(preloaded("timeout")
                .args(["-s", "KILL", "60"])
                .arg(&program)
                .arg(order));
        }
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
