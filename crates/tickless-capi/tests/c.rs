//! The interface as C and C++ see it: programs are compiled against the header and the static library, and executed.
//!
//! Programs that the machine lacks are left out, and named.

use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Command;

mod programs;

use programs::{built, is_there, remove, run, say};

const HERE: &str = env!("CARGO_MANIFEST_DIR");

/// The system libraries that the static library needs.
const SYSTEM: [&str; 4] = ["-lpthread", "-ldl", "-lm", "-lrt"];

const BEHAVIOUR: &str = "tests/c/behaviour.c";
const POSIX: &str = "tests/c/posix.c";
const BAD: &str = "tests/c/bad.c";

fn library() -> PathBuf {
    let library = built().join("libtickless_capi.a");
    assert!(library.exists(), "{} was not built", library.display());
    library
}

fn compiler(program: &str, standard: &str) -> Command {
    let mut command = Command::new(program);
    let include = Path::new(HERE).join("include");
    command
        .args([standard, "-pedantic", "-Wall", "-Wextra", "-Werror", "-g"])
        .arg("-I")
        .arg(include);
    command
}

/// Compiles the C program `source` as `name`, with more `options`.
fn compile(source: &str, name: &str, options: &[&str]) -> PathBuf {
    let program = built().join(format!("capi-{name}-{}", std::process::id()));
    run(compiler("gcc", "-std=c99")
        .args(options)
        .arg(Path::new(HERE).join(source))
        .arg(library())
        .args(SYSTEM)
        .arg("-o")
        .arg(&program));
    program
}

#[test]
fn the_header_is_c99_and_cxx17() {
    let languages = [("gcc", "-std=c99", "c"), ("g++", "-std=c++17", "c++")];
    let headers = ["tickless.h", "tickless-posix.h"];
    for (program, standard, language) in languages {
        for header in headers.map(|name| Path::new(HERE).join("include").join(name)) {
            if !is_there(program) {
                continue;
            }
            run(compiler(program, standard)
                .args([
                    "-fsyntax-only",
                    "-D_POSIX_C_SOURCE=200809L",
                    "-Wno-pragma-once-outside-header",
                    "-x",
                    language,
                ])
                .arg(&header));
        }
    }
}

/// Compiles a program and has it end with 0, if there is a compiler.
fn passes(source: &str, name: &str, options: &[&str]) {
    if is_there("gcc") {
        let program = compile(source, name, options);
        run(&mut Command::new(&program));
        remove(&program);
    }
}

#[test]
fn a_c_program_gets_what_the_header_promises() {
    passes(BEHAVIOUR, "plain", &[]);
}

#[test]
fn wrong_calls_and_calls_in_handlers_get_errors() {
    passes(BAD, "bad", &[]);
}

#[test]
fn timers_of_posix_are_as_the_system_has_them() {
    passes(POSIX, "posix-system", &["-DSYSTEM"]);
    passes(POSIX, "posix", &[]);
}

#[test]
fn a_debug_build_names_who_freed_a_pending_timer() {
    if is_there("gcc") {
        let program = compile("tests/c/freed.c", "freed", &["-fno-omit-frame-pointer"]);
        let output = Command::new(&program).output().expect("it can be started");
        remove(&program);
        let errors = String::from_utf8_lossy(&output.stderr);
        if cfg!(debug_assertions) {
            assert_eq!(output.status.signal(), Some(6), "{errors}");
            assert!(errors.contains("initialises_twice"), "{errors}");
            assert!(
                errors.contains("was pending when its memory was freed"),
                "{errors}"
            );
            assert!(errors.contains("forgets_to_destroy"), "{errors}");
        }
    }
}

#[test]
fn the_memory_checker_finds_nothing() {
    if is_there("gcc") && is_there("valgrind") {
        for (source, name) in [(BEHAVIOUR, "valgrind"), (POSIX, "posix-valgrind")] {
            let program = compile(source, name, &[]);
            run(Command::new("valgrind")
                .args(["--error-exitcode=9", "--quiet", "--fair-sched=yes"])
                .arg(&program));
            remove(&program);
        }
    }
}

#[test]
fn the_sanitisers_find_nothing() {
    if is_there("gcc") {
        for (source, name) in [(BEHAVIOUR, "sanitised"), (POSIX, "posix-sanitised")] {
            let options = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"];
            let program = compile(source, name, &options);
            // What a thread that ends without freeing its loop leaves behind is one of the cases.
            run(Command::new(&program).env("ASAN_OPTIONS", "detect_leaks=0"));
            remove(&program);
        }
    }
}

#[test]
fn the_example_runs() {
    passes("examples/epoll.c", "epoll", &[]);
}

#[test]
fn objects_of_cxx_get_what_their_header_promises() {
    if is_there("g++") {
        let program = built().join(format!("capi-objects-{}", std::process::id()));
        run(compiler("g++", "-std=c++17")
            .args(["-fsanitize=address,undefined", "-fno-sanitize-recover=all"])
            .arg(Path::new(HERE).join("tests/c/objects.cpp"))
            .arg(library())
            .args(SYSTEM)
            .arg("-o")
            .arg(&program));
        run(&mut Command::new(&program));
        remove(&program);
    }
}

/// Runs an example with an event loop of others, if their header is there.
fn run_with_foreign_loop(header: &str, name: &str, link: &str) {
    if !is_there("gcc") {
        return;
    }
    // Debian has some below the name of the machine.
    let machine = format!("{}-linux-gnu", std::env::consts::ARCH);
    let places = [
        Path::new("/usr/include").to_owned(),
        Path::new("/usr/include").join(machine),
    ];
    if !places.iter().any(|place| place.join(header).exists()) {
        say(&format!("left out: there is no {header}"));
        return;
    }
    passes(
        &format!("examples/{name}.c"),
        name,
        &["-Wl,--no-as-needed", link],
    );
}

#[test]
fn timers_fire_in_a_loop_of_libevent() {
    run_with_foreign_loop("event2/event.h", "libevent", "-levent");
}

#[test]
fn timers_fire_in_a_loop_of_libuv() {
    run_with_foreign_loop("uv.h", "libuv", "-luv");
}

#[test]
fn the_timer_of_libcurl_is_one_of_these() {
    run_with_foreign_loop("curl/curl.h", "curl", "-lcurl");
}

#[test]
fn a_poller_of_packets_fires_its_timers() {
    if is_there("gcc") {
        let program = compile("examples/poller.c", "poller", &[]);
        run(&mut Command::new(&program));
        remove(&program);
    }
}
