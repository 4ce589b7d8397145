//! Tests of the Python package in its wheel: its own tests, and the tests of asyncio for event loops.
//!
//! Tests whose programs are missing on the machine are skipped, and the missing programs are named.

use std::path::{Path, PathBuf};
use std::process::Command;

mod programs;

use programs::{built, is_there, remove, run, say};

const HERE: &str = env!("CARGO_MANIFEST_DIR");
/// The exit code of `asyncio_suite.py` if the interpreter has no tests of asyncio.
#[cfg(debug_assertions)]
const NO_TESTS: i32 = 77;

/// The directory of an unpacked wheel, which is removed when this value is dropped.
struct Unpacked(PathBuf);

impl Unpacked {
    /// Builds the wheel with the library that cargo built for these tests, and unpacks the wheel. An installation does
    /// nothing else with a wheel.
    fn new(name: &str) -> Self {
        let place = built().join(format!("python-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&place).expect("a directory can be made");
        let library = built().join("libtickless_capi.so");
        run(Command::new("python3")
            .arg("-B")
            .arg(Path::new(HERE).join("python/backend.py"))
            .arg(&place)
            .env("TICKLESS_LIBRARY", library));
        let wheels = std::fs::read_dir(&place).expect("it was made");
        let wheel = wheels.map(|entry| entry.expect("it can be read").path());
        let wheel = wheel.last().expect("the wheel was written");
        run(Command::new("python3")
            .args(["-m", "zipfile", "-e"])
            .args([&wheel, &place]));
        remove(&wheel);
        Self(place)
    }

    fn python(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("python3");
        command
            .args(["-B", "-W", "error::ResourceWarning"])
            .args(arguments)
            .env("PYTHONPATH", &self.0)
            .env_remove("TICKLESS_LIBRARY");
        command
    }
}

impl Drop for Unpacked {
    fn drop(&mut self) {
        let _it_may_stay = std::fs::remove_dir_all(&self.0);
    }
}

fn test(name: &str) -> String {
    format!("{HERE}/python/tests/{name}.py")
}

#[test]
fn the_package_keeps_its_promises() {
    if is_there("python3") {
        let package = Unpacked::new("own");
        run(&mut package.python(&[&test("test_tickless")]));
    }
}

/// Builds the wheel by the command of `docs/capi.md`, with the library that cargo built for these tests.
#[test]
fn pip_builds_a_wheel_and_installs_it() {
    if !is_there("python3") {
        return;
    }
    let pip = || {
        let mut pip = Command::new("python3");
        pip.args(["-m", "pip", "--disable-pip-version-check"]);
        pip
    };
    let version = pip().arg("--version").output().expect("it can be started");
    if !version.status.success() {
        say("left out: there is no pip");
        return;
    }
    let place = Unpacked(built().join(format!("python-pip-{}", std::process::id())));
    let wheels = place.0.join("dist");
    run(pip()
        .args(["wheel", "--no-deps", "--no-index", "--wheel-dir"])
        .arg(&wheels)
        .arg(Path::new(HERE).join("python"))
        .env("TICKLESS_LIBRARY", built().join("libtickless_capi.so")));
    run(pip()
        .args(["install", "--no-deps", "--no-index", "--find-links"])
        .arg(&wheels)
        .arg("--target")
        .arg(&place.0)
        .arg("tickless"));
    let program = "import tickless; tickless.run(tickless.sleep(0.001)); print(tickless.__file__)";
    let output = run(&mut place.python(&["-c", program]));
    let file = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(Path::new(file.trim()).starts_with(&place.0), "{file}");
}

/// Runs the programs of the package's page, with all warnings of Python turned into errors.
#[test]
fn the_program_of_the_page_runs() {
    let page = Path::new(HERE).join("python/README.md");
    let page = std::fs::read_to_string(page).expect("the page");
    let programs: Vec<&str> = page.split("```python\n").skip(1).collect();
    assert!(!programs.is_empty(), "the page has a program");
    if is_there("python3") {
        let package = Unpacked::new("page");
        for program in programs {
            let (program, _) = program.split_once("```").expect("an end");
            run(&mut package.python(&["-c", program]));
        }
    }
}

/// Runs in debug builds only: what Python executes of the library is the C interface, whose own tests are executed in
/// optimised builds, too, as are the tests of the package. These take ten seconds.
#[cfg(debug_assertions)]
#[test]
fn the_loop_passes_the_tests_of_asyncio() {
    if is_there("python3") {
        let package = Unpacked::new("asyncio");
        let output = package.python(&[&test("asyncio_suite")]).output();
        let output = output.expect("it can be started");
        let text = String::from_utf8_lossy(&output.stdout);
        if output.status.code() == Some(NO_TESTS) {
            say(text.trim());
            return;
        }
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{text}{errors}");
        assert!(text.contains(" tests, "), "{text}");
    }
}

#[test]
fn the_measurement_prints_both_loops() {
    if is_there("python3") {
        let package = Unpacked::new("measure");
        let output = run(&mut package.python(&["-m", "tickless.measure"]));
        let text = String::from_utf8_lossy(&output.stdout);
        assert_eq!(text.matches("tickless's loop").count(), 2, "{text}");
    }
}
