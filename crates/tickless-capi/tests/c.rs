//! Tests of the C interface from C and C++: programs are compiled against the header and the static library, and
//! executed.
//!
//! Tests whose programs are missing on the machine are skipped, and the missing programs are named. `cargo xtask check
//! --only sanitizers` runs these tests with a library that a sanitizer instruments: `TICKLESS_SANITIZED` is the path of
//! this library, and `TICKLESS_SANITIZER` the name of the sanitizer.

use std::fs;
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
const HANDLERS: &str = "tests/c/handlers.c";

/// The name and source of each C test program. A program exits with 0 if all its checks passed.
///
/// `freed.c` is not in this list, because it writes to memory that it freed.
const PROGRAMS: [(&str, &str); 6] = [
    ("behaviour", BEHAVIOUR),
    ("posix", POSIX),
    ("bad", BAD),
    ("handlers", HANDLERS),
    ("epoll", "examples/epoll.c"),
    ("poller", "examples/poller.c"),
];

/// Returns the name of the sanitizer with which the library was built, or `None`.
fn sanitizer() -> Option<String> {
    std::env::var("TICKLESS_SANITIZER").ok()
}

/// Returns the options that a C compiler needs for a library with that sanitizer, including the libraries to link.
fn instrumented() -> Vec<String> {
    match sanitizer().as_deref() {
        None => Vec::new(),
        Some("address") => SANITIZED.map(str::to_owned).to_vec(),
        Some("thread") => {
            let copies = Path::new(HERE).join("tests/c/thread_sanitizer.c");
            vec![
                "-fsanitize=thread".to_owned(),
                "-fno-builtin".to_owned(),
                copies.display().to_string(),
            ]
        }
        Some(other) => panic!("the tests know no sanitizer {other}"),
    }
}

/// The compiler options for the sanitizers of addresses and undefined behaviour; any error that they find ends the
/// program.
const SANITIZED: [&str; 2] = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"];

/// Runs a program with the options of its sanitizer. The program must exit with 0.
fn run_sanitized(program: &Path) {
    run(Command::new(program)
        // What a thread that ends without freeing its worker leaves behind is one of the cases.
        .env("ASAN_OPTIONS", "detect_leaks=0")
        // Children of forks start threads: the sanitizer gives up on those by itself otherwise.
        .env("TSAN_OPTIONS", "die_after_fork=0"));
}

fn library() -> PathBuf {
    if let Some(library) = std::env::var_os("TICKLESS_SANITIZED") {
        return PathBuf::from(library);
    }
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
        .args(instrumented())
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

/// Compiles the pieces of C and C++ on the page of this crate, each as the body of a function. If the lines before the
/// first empty line are a function, they are placed outside.
#[test]
fn the_pieces_of_the_page_compile() {
    let page = fs::read_to_string(Path::new(HERE).join("../../docs/capi.md")).expect("the page");
    let languages = [
        (
            "c",
            "gcc",
            "-std=c99",
            "#include \"tickless-posix.h\"\n#include <signal.h>\n",
        ),
        (
            "cpp",
            "g++",
            "-std=c++17",
            "#include \"tickless.hpp\"\n#include <cstdio>\nusing namespace std::chrono_literals;\n",
        ),
    ];
    for (language, program, standard, head) in languages {
        if !is_there(program) {
            continue;
        }
        let fence = format!("```{language}\n");
        let pieces: Vec<&str> = page.split(&fence).skip(1).collect();
        assert!(!pieces.is_empty(), "{language}");
        for (number, piece) in pieces.into_iter().enumerate() {
            let (piece, _) = piece.split_once("```").expect("an end");
            let (outside, inside) = match piece.split_once("\n\n") {
                Some(parts) if piece.starts_with("static") => parts,
                _ => ("", piece),
            };
            let name = format!("capi-page-{number}-{}.{language}", std::process::id());
            let file = built().join(name);
            let text = format!(
                "#include \"tickless.h\"\n{head}{outside}\nvoid f(void);\nvoid f(void) {{\n{inside}}}\n"
            );
            fs::write(&file, text).expect("it can be written");
            run(compiler(program, standard)
                .args([
                    "-fsyntax-only",
                    "-D_POSIX_C_SOURCE=200809L",
                    "-Wno-unused-parameter",
                ])
                .arg(&file));
            remove(&file);
        }
    }
}

/// Compiles and runs a program, which must exit with 0. Does nothing if there is no compiler.
fn passes(source: &str, name: &str, options: &[&str]) {
    if is_there("gcc") {
        let program = compile(source, name, options);
        run_sanitized(&program);
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
fn calls_in_handlers_allocate_nothing_and_find_what_they_looked_at() {
    let mut build = Vec::new();
    if !cfg!(debug_assertions) {
        build.push("-DRELEASE");
    }
    if tickless::FOLLOWS_TOKIO {
        build.push("-DFOLLOWS_TOKIO");
    }
    passes(HANDLERS, "handlers", &build);
}

#[test]
fn timers_of_posix_are_as_the_system_has_them() {
    // A sanitizer has nothing to say on the system's, whose helper threads the thread sanitizer crashes in.
    if sanitizer().is_none() {
        passes(POSIX, "posix-system", &["-DSYSTEM"]);
    }
    passes(POSIX, "posix", &[]);
}

#[test]
fn sleeps_leave_the_slack_of_the_program() {
    if sanitizer().as_deref() == Some("thread") {
        say("left out: the sanitizer calls the handler after the sleep that the signal ended");
    } else {
        passes("tests/c/slack.c", "slack", &[]);
    }
}

#[test]
fn relative_times_of_the_time_of_day_do_not_follow_when_it_is_set() {
    if sanitizer().is_some() {
        say("left out: the program replaces functions that sanitizers replace, too");
    } else {
        passes("tests/c/clock_set.c", "clock-set", &[]);
    }
}

#[test]
fn a_debug_build_names_who_freed_a_pending_timer() {
    if sanitizer().is_some() {
        say("left out: a sanitizer ends the program first, for it writes to memory that it freed");
    } else if is_there("gcc") {
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

/// Runs those of `programs` in valgrind, if it is installed.
fn memory_checker_finds_nothing(programs: &[(&str, &str)]) {
    if sanitizer().is_some() {
        say("left out: valgrind does not run what a sanitizer instruments");
    } else if is_there("gcc") && is_there("valgrind") {
        for (name, source) in programs {
            let program = compile(source, &format!("{name}-valgrind"), &[]);
            run_in_valgrind(&program);
            remove(&program);
        }
    }
}

// Two tests, which are executed at the same time: together they take longer than all others.
#[test]
fn the_memory_checker_finds_nothing_in_the_first_program() {
    memory_checker_finds_nothing(&PROGRAMS[..1]);
}

#[test]
fn the_memory_checker_finds_nothing_in_the_other_programs() {
    memory_checker_finds_nothing(&PROGRAMS[1..]);
}

/// Programs that lose memory on purpose: a thread of `behaviour` ends without freeing its worker, and child processes of
/// `posix` abandon the service, because the fork did not copy the service thread.
const LOSING: [&str; 2] = ["capi-behaviour", "capi-posix"];

/// Runs a program in valgrind. Lost memory is an error, too.
fn run_in_valgrind(program: &Path) {
    let name = program.to_string_lossy();
    let loses = LOSING.iter().any(|losing| name.contains(losing));
    let leaks = if loses { "no" } else { "full" };
    run(Command::new("valgrind")
        .args(["--error-exitcode=9", "--quiet", "--fair-sched=yes"])
        // `handlers.c` goes on after a fault of memory: the registers have to be right there.
        .arg("--vex-iropt-register-updates=allregs-at-mem-access")
        .args([
            "--show-leak-kinds=definite",
            "--errors-for-leak-kinds=definite",
        ])
        .arg(format!("--leak-check={leaks}"))
        .arg(program));
}

#[test]
fn the_sanitisers_find_nothing() {
    if sanitizer().is_none() && is_there("gcc") {
        for (name, source) in PROGRAMS {
            let program = compile(source, &format!("{name}-sanitised"), &SANITIZED);
            run_sanitized(&program);
            remove(&program);
        }
    }
}

#[test]
fn the_example_runs() {
    passes("examples/epoll.c", "epoll", &[]);
}

/// Compiles the C++ program of the tests as `name`, with more `options`.
fn compile_objects(name: &str, options: &[String]) -> PathBuf {
    let program = built().join(format!("capi-{name}-{}", std::process::id()));
    let (copies, options): (Vec<_>, Vec<_>) = options.iter().partition(|text| is_of_c(text));
    let mut objects = Vec::new();
    for source in copies {
        let object = built().join(format!("capi-{name}-{}.o", std::process::id()));
        run(Command::new("gcc")
            .args(&options)
            .args(["-c", source, "-o"])
            .arg(&object));
        objects.push(object);
    }
    run(compiler("g++", "-std=c++17")
        .args(&options)
        .arg(Path::new(HERE).join("tests/c/objects.cpp"))
        .args(&objects)
        .arg(library())
        .args(SYSTEM)
        .arg("-o")
        .arg(&program));
    for object in &objects {
        remove(object);
    }
    program
}

fn is_of_c(text: &str) -> bool {
    Path::new(text)
        .extension()
        .is_some_and(|extension| extension == "c")
}

#[test]
fn objects_of_cxx_get_what_their_header_promises() {
    if !is_there("g++") {
        return;
    }
    if sanitizer().is_some() {
        let program = compile_objects("objects", &instrumented());
        run_sanitized(&program);
        remove(&program);
        return;
    }
    let program = compile_objects("objects", &SANITIZED.map(str::to_owned));
    run(&mut Command::new(&program));
    remove(&program);
    if is_there("valgrind") {
        let program = compile_objects("objects-valgrind", &[]);
        run_in_valgrind(&program);
        remove(&program);
    }
}

/// Runs an example with the event loop of another library, if the header of that library is installed.
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
    passes("examples/poller.c", "poller", &[]);
}
