//! The check of the kernel: it is formatted and linted like the library, and run on each of its machines.
//!
//! On a machine that counts instructions for time, each run with one CPU is the same, to the last byte of its report,
//! and on aarch64 each run with several: the step runs it until two runs are alike. The emulator runs on one processor
//! of the host, because its threads must not overtake each other (`docs/kernel.md`, "Exact time"). On a PC an interrupt
//! may still be entered two instructions later than in another run, so a run is repeated; a fault of the kernel shows
//! in every run.
//!
//! The kernels of all machines are built first, together. Each is kept under a name of its own, because cargo gives
//! them the same name. Then two kernels run at a time, each on a processor of its own, and the longest runs begin
//! first.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use clap::ValueEnum;

use super::run::Run;
use crate::files;
use crate::invocation::Invocation;
use crate::kernel::{
    Accel, Arch, BAD_ENDS, BadEnd, CONFORMANCE_TEST, Settings, TRACE_TEST, building, explained,
    image, lacking, running, traced,
};

/// The number of CPUs of the run that takes all tests.
const CPUS: u32 = 4;
/// The tests that run under KVM: those that pass there in every run and take no longer than some seconds.
const KVM_TESTS: &str = "soft,moved,withdrawn,sweep,remote,instants,hotplug,kicked,extended,broadcast,combined,dead,absent";
/// The number of runs that must fail before a failure is reported.
const ATTEMPTS: usize = 6;
/// The number of emulators that run at a time.
const LANES: usize = 2;

/// A run of the kernel, or several runs until enough of them have the same report.
#[derive(Debug)]
struct Job {
    settings: Settings,
    image: PathBuf,
    wanted: usize,
}

/// A run that ended: the line, its output, and the time that it took.
type Ended = (Invocation, String, Duration);

pub(super) fn step(run: &mut Run<'_>) -> Result<(), String> {
    let manifest = ["--manifest-path", "kernel/Cargo.toml"];
    for package in ["tickless-kernel", "tickless-kernel-pc"] {
        let format = ["fmt", "--check", "--package", package];
        run.invoke(&Invocation::cargo(&format).args(&manifest))?;
    }
    let target = files::target(run.root()).display().to_string();
    let pc = ["--package", "tickless-kernel-pc", "--target-dir", &target];
    let lint = Invocation::cargo(&["clippy", "--all-targets"]).args(&manifest);
    run.invoke(&lint.args(&pc).deny_warnings())?;
    run.invoke(&Invocation::cargo(&["test"]).args(&manifest).args(&pc))?;
    let mut machines = Vec::new();
    for &arch in Arch::value_variants() {
        match lacking(run.root(), &Settings::counted(arch, 1, None))? {
            Some((what, reason)) => run.skip(&what, &reason),
            None => machines.push(arch),
        }
    }
    if machines.is_empty() {
        return Ok(());
    }
    lint_all(run, &machines)?;
    let plain = kept(run, &machines, "plain", &[])?;
    let traced = kept(run, &machines, TRACE_TEST, &[TRACE_TEST])?;
    // The build and the run take a minute of a processor, so the other machines have theirs by `cargo xtask kernel`.
    let first = &machines[..1];
    let conforming = kept(run, first, CONFORMANCE_TEST, &[CONFORMANCE_TEST])?;
    // The longest first.
    let long = [
        (&conforming, 1, Some(CONFORMANCE_TEST), 1),
        (&plain, 1, None, 2),
        (&plain, CPUS, None, 1),
        (&traced, CPUS, Some(TRACE_TEST), 1),
    ];
    let bad = BAD_ENDS.map(|bad| (&plain, bad.cpus, Some(bad.test), 1));
    let jobs = long
        .iter()
        .chain(&bad)
        .flat_map(|&(images, cpus, test, wanted)| {
            let job = move |(&arch, image): (&Arch, &PathBuf)| Job {
                settings: Settings::counted(arch, cpus, test),
                image: image.clone(),
                wanted: match (arch, test) {
                    // Several CPUs print the same in each run there, too.
                    (Arch::Aarch64, None) => 2,
                    _ => wanted,
                },
            };
            machines.iter().zip(images).map(job)
        });
    let jobs = jobs.filter(|job| is_on(job.settings.arch, job.settings.test.as_deref()));
    let traces = run_all(run, jobs.collect())?;
    for (arch, lines) in traces {
        verify(run, arch, &lines)?;
    }
    deadline(run, &machines, &plain)
}

fn is_on(arch: Arch, test: Option<&str>) -> bool {
    let only = BadEnd::of(test).and_then(|bad| bad.only);
    only.is_none_or(|only| only == arch)
}

/// Lints the kernel of each machine, without the suites and with them.
fn lint_all(run: &mut Run<'_>, machines: &[Arch]) -> Result<(), String> {
    let target = files::target(run.root()).display().to_string();
    for features in [&[][..], &["--features", "conformance-rig"]] {
        let lint = Invocation::cargo(&["clippy", "--release"])
            .args(&["--manifest-path", "kernel/Cargo.toml"])
            .args(&["--target-dir", &target]);
        let lint = machines
            .iter()
            .fold(lint, |lint, arch| lint.args(&["--target", arch.target()]));
        run.invoke(&lint.args(features).deny_warnings())?;
    }
    Ok(())
}

/// Builds the kernel for all machines, and copies each image to a name of its own.
fn kept(
    run: &mut Run<'_>,
    machines: &[Arch],
    name: &str,
    features: &[&str],
) -> Result<Vec<PathBuf>, String> {
    run.invoke(&building(run.root(), machines, features))?;
    let directory = files::target(run.root()).join("kernel");
    fs::create_dir_all(&directory).map_err(|error| format!("{}: {error}", directory.display()))?;
    let keep = |&arch: &Arch| {
        let to = directory.join(format!("{}-{name}", arch.target()));
        let copied = fs::copy(image(run.root(), arch), &to);
        copied.map_err(|error| format!("{}: {error}", to.display()))?;
        Ok(to)
    };
    machines.iter().map(keep).collect()
}

/// Executes all jobs, a limited number at a time, and shows each run after its end. Returns the reports of traces.
fn run_all(run: &mut Run<'_>, jobs: Vec<Job>) -> Result<Vec<(Arch, Vec<String>)>, String> {
    let root = run.root();
    let jobs = Mutex::new(jobs.into_iter());
    let mut traces = Vec::new();
    let mut result = Ok(());
    thread::scope(|threads| {
        let (ended, endings) = mpsc::channel();
        for lane in 0..LANES {
            let (jobs, ended) = (&jobs, ended.clone());
            threads.spawn(move || {
                let next = || jobs.lock().unwrap_or_else(PoisonError::into_inner).next();
                while let Some(mut job) = next() {
                    job.settings.lane = lane;
                    let (runs, result) = alike(root, &job);
                    // The receiver is gone only if the step panicked.
                    let _heard = ended.send((job.settings, runs, result));
                }
            });
        }
        drop(ended);
        for (settings, runs, ending) in endings {
            let test = settings.test.as_deref();
            let is_bad = BadEnd::of(test).is_some();
            for (line, output, took) in &runs {
                // A bad end that was asked for looks like a failure of the check.
                let shown = if is_bad && ending.is_ok() { "" } else { output };
                run.show_run(line, shown, *took);
            }
            match ending {
                Ok(lines) if test == Some(TRACE_TEST) => traces.push((settings.arch, lines)),
                Ok(_) => {}
                Err(message) => {
                    println!("{message}");
                    let last = runs.into_iter().next_back();
                    let output = last.map_or_else(String::new, |(_, output, _)| output);
                    run.show_at_the_end(message.clone(), output);
                    result = Err(message);
                }
            }
        }
    });
    result.map(|()| traces)
}

/// Runs the kernel until enough runs have passed with the same report, and returns that report, with all runs.
fn alike(root: &Path, job: &Job) -> (Vec<Ended>, Result<Vec<String>, String>) {
    let mut passed: Vec<Vec<String>> = Vec::new();
    let mut runs = Vec::new();
    let wanted = job.wanted;
    let mut last = format!("no {wanted} of {ATTEMPTS} runs are alike");
    for _ in 0..ATTEMPTS {
        match once(root, job, &mut runs) {
            Ok(lines) => {
                passed.push(lines.clone());
                if passed.iter().filter(|before| **before == lines).count() == wanted {
                    return (runs, Ok(lines));
                }
            }
            Err(message) => last = message,
        }
    }
    (runs, Err(last))
}

/// Runs the kernel once, and returns the lines of its output.
fn once(root: &Path, job: &Job, runs: &mut Vec<Ended>) -> Result<Vec<String>, String> {
    let line = running(root, &job.settings, &job.image)?;
    let began = Instant::now();
    let captured = line.capture(root)?;
    let lines = captured.stdout.lines().map(str::to_owned).collect();
    let output = captured.stderr + &captured.stdout;
    runs.push((line, output, began.elapsed()));
    captured.result.map_err(|message| explained(&message))?;
    Ok(lines)
}

/// Checks the kernel's own trace with the trace checker.
fn verify(run: &mut Run<'_>, arch: Arch, lines: &[String]) -> Result<(), String> {
    let text = traced(lines.iter().map(String::as_str));
    let name = format!("kernel/trace-{}.jsonl", arch.target());
    let file = files::target(run.root()).join(name);
    fs::write(&file, text).map_err(|error| format!("{}: {error}", file.display()))?;
    let verify = Invocation::laboratory(&["run", "--quiet", "-p", "tickless-cli", "--"]);
    run.invoke(&verify.arg("verify").arg(file.display().to_string()))
}

/// Runs the kernel with the one device that takes its deadline in the TSC. The time is that of the host machine, so
/// only a small part is run.
fn deadline(run: &mut Run<'_>, machines: &[Arch], images: &[PathBuf]) -> Result<(), String> {
    let settings = Settings {
        accel: Accel::Kvm,
        icount: false,
        ..Settings::counted(Arch::X86, 2, Some(KVM_TESTS))
    };
    if let Some((what, reason)) = lacking(run.root(), &settings)? {
        run.skip(&what, &reason);
        return Ok(());
    }
    let mut images = machines.iter().zip(images);
    let Some((_, image)) = images.find(|(arch, _)| **arch == Arch::X86) else {
        return Ok(());
    };
    let job = Job {
        settings,
        image: image.clone(),
        wanted: 1,
    };
    run_all(run, vec![job]).map(drop)
}
