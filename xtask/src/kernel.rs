//! The kernel on bare machines: how it is built, and how an emulator runs it.
//!
//! The kernel is a workspace of its own, so that no build of the library includes it. It ends with an exit code of its
//! own, never 0, because a machine that resets itself ends with 0.

mod hackbench;

use std::fs;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};

use crate::files;
use crate::invocation::{Invocation, is_installed};
use crate::toolchain;

const MANIFEST: &str = "kernel/Cargo.toml";
/// The exit status of the kernel when all of its tests passed.
const PASSED: i32 = 33;
/// The tests that end a run badly on purpose.
pub(crate) const BAD_ENDS: [BadEnd; 8] = [
    BadEnd::new("fails", 35),
    BadEnd::new("panics", 37),
    BadEnd::new("wedges", 39),
    BadEnd::new("faults", 41),
    BadEnd::new("no-such-test", 43),
    BadEnd {
        cpus: 2,
        ..BadEnd::new("mute", 43)
    },
    BadEnd {
        only: Some(Arch::X86),
        ..BadEnd::new("unrestartable", 41)
    },
    BadEnd {
        only: Some(Arch::X86),
        ..BadEnd::new("uncorrected", 41)
    },
];
/// The number of real seconds that a run may take. The kernel limits guest time itself; this limit is for a kernel that
/// hangs without output.
const LIMIT: u64 = 300;
/// The same limit for the suites on the rig's hosts. They execute 90 billion instructions, which takes a minute of a
/// processor, and several minutes if instructions are counted.
const LONG_LIMIT: u64 = 1800;
/// The name of the test that needs a kernel that traces.
pub(crate) const TRACE_TEST: &str = "trace";
/// The name of the test that needs a kernel with the conformance suites for its own host.
pub(crate) const CONFORMANCE_TEST: &str = "conformance";
/// The name of the test that needs a kernel with the conformance suites for the rig's hosts, too.
const CONFORMANCE_RIG_TEST: &str = "conformance-rig";

/// The tests that need a feature, each with the name of the feature.
const FEATURES: [(&str, &str); 3] = [
    (TRACE_TEST, "trace"),
    (CONFORMANCE_TEST, "conformance"),
    (CONFORMANCE_RIG_TEST, "conformance-rig"),
];

/// Builds the kernel, runs it in an emulator, and shows its report.
///
/// Exits with 0 when all of its tests passed or a machine is skipped, with 1 otherwise. It then says which of these
/// happened: a test failed, the kernel panicked, its guest time was over, the machine reported an exception, or the
/// kernel hung without output.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    settings: Settings,
    /// Has the simulator predict a load in the shape of hackbench on one CPU, and runs that load in the kernel. Prints
    /// both counts together, and the time of messages of 8 to 256 bytes with all mechanisms off and on, in guest time
    /// and in the host's. It builds the command `tickless` first.
    #[arg(long, conflicts_with_all = ["test", "cpus", "relative", "immediate", "arch"])]
    hackbench: bool,
    /// Runs exact and coarse timers on all CPUs, and writes the kernel's own trace of them to this file, which
    /// `tickless verify` checks.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["test", "hackbench"])]
    trace: Option<PathBuf>,
}

/// The options of a run.
#[derive(Clone, Debug, Args)]
pub(crate) struct Settings {
    /// The machine on which the kernel runs.
    #[arg(long, value_enum, default_value_t = Arch::Aarch64)]
    pub(crate) arch: Arch,
    /// The executor of the instructions: QEMU's translator, or the processor through KVM.
    #[arg(long, value_enum, default_value_t = Accel::Tcg)]
    pub(crate) accel: Accel,
    /// The number of CPUs of the machine.
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=254))]
    pub(crate) cpus: u32,
    /// Counts instructions for time, one a nanosecond: times are exact, and each run is the same.
    #[arg(long)]
    pub(crate) icount: bool,
    /// Programs the device with a delay, even if the device could take the time at which to fire.
    #[arg(long)]
    pub(crate) relative: bool,
    /// Lets the interrupt write the device itself, instead of a flush point.
    #[arg(long)]
    pub(crate) immediate: bool,
    /// The switch that the kernel arms, where it has switches.
    #[arg(skip)]
    pub(crate) mutant: Option<String>,
    /// The processor of the host on which the emulator runs, counted among the processors that this process may use.
    #[arg(skip)]
    pub(crate) lane: usize,
    /// The number of real seconds that the run may take, in place of the usual number.
    #[arg(skip)]
    pub(crate) limit: Option<u64>,
    /// Runs only this test, or these, with commas between them. The kernel runs them in its own order.
    #[arg(value_name = "TEST")]
    pub(crate) test: Option<String>,
}

impl Settings {
    /// Describes a run in which instructions are counted.
    pub(crate) fn counted(arch: Arch, cpus: u32, test: Option<&str>) -> Self {
        Self {
            arch,
            accel: Accel::Tcg,
            cpus,
            icount: true,
            relative: false,
            immediate: false,
            mutant: None,
            lane: 0,
            limit: None,
            test: test.map(str::to_owned),
        }
    }
}

/// A machine for which the kernel can be built.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Arch {
    Aarch64,
    Riscv64,
    #[value(name = "x86-64")]
    X86,
}

/// A test that ends a run badly on purpose.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BadEnd {
    pub(crate) test: &'static str,
    /// The exit status that the run has to have.
    pub(crate) code: i32,
    /// The number of CPUs that the test needs.
    pub(crate) cpus: u32,
    /// The machine that has the test, if the others do not.
    pub(crate) only: Option<Arch>,
}

impl BadEnd {
    const fn new(test: &'static str, code: i32) -> Self {
        Self {
            test,
            code,
            cpus: 1,
            only: None,
        }
    }

    /// Returns the entry of `test`; `None` if the test ends a run well.
    pub(crate) fn of(test: Option<&str>) -> Option<Self> {
        BAD_ENDS.into_iter().find(|bad| test == Some(bad.test))
    }
}

/// The executor of the instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Accel {
    Tcg,
    Kvm,
}

impl Arch {
    pub(crate) const fn target(self) -> &'static str {
        match self {
            Self::Aarch64 => "aarch64-unknown-none-softfloat",
            Self::Riscv64 => "riscv64imac-unknown-none-elf",
            Self::X86 => "x86_64-unknown-none",
        }
    }

    const fn emulator(self) -> &'static str {
        match self {
            Self::Aarch64 => "qemu-system-aarch64",
            Self::Riscv64 => "qemu-system-riscv64",
            Self::X86 => "qemu-system-x86_64",
        }
    }

    /// Returns the emulator's options for the machine, and the address at which the kernel finds its parameters.
    const fn machine(self) -> (&'static [&'static str], &'static str) {
        match self {
            Self::Aarch64 => (
                &[
                    "-machine",
                    "virt,gic-version=3",
                    "-cpu",
                    "cortex-a57",
                    "-semihosting-config",
                    "enable=on,target=native",
                ],
                "0x4fff0000",
            ),
            // The alarm that is the watchdog goes by guest time.
            Self::Riscv64 => (
                &["-machine", "virt", "-cpu", "rv64", "-rtc", "clock=vm"],
                "0x8fc00000",
            ),
            Self::X86 => (
                &["-device", "isa-debug-exit,iobase=0xf4,iosize=4"],
                "0xf000000",
            ),
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Aarch64 => "aarch64",
            Self::Riscv64 => "riscv64",
            Self::X86 => "x86_64",
        }
    }
}

pub(crate) fn main(root: &Path, arguments: &Arguments) -> Result<(), String> {
    if arguments.hackbench {
        return hackbench::compare(root, &arguments.settings);
    }
    if let Some(file) = &arguments.trace {
        return trace(root, &arguments.settings, file);
    }
    show(root, &arguments.settings)
}

/// The beginning of each line of the report that belongs to the trace.
const TRACED: &str = "trace: ";

fn trace(root: &Path, settings: &Settings, file: &Path) -> Result<(), String> {
    let settings = Settings {
        test: Some(TRACE_TEST.to_owned()),
        ..settings.clone()
    };
    let Some(run) = built(root, &settings)? else {
        return Ok(());
    };
    let captured = run.capture(root)?;
    captured.result.map_err(|message| explained(&message))?;
    let traced = traced(captured.stdout.lines());
    fs::write(file, &traced).map_err(|error| format!("{}: {error}", file.display()))?;
    println!("{}: {} lines", file.display(), traced.lines().count());
    Ok(())
}

pub(crate) fn traced<'l>(report: impl Iterator<Item = &'l str>) -> String {
    let lines = report.filter_map(|line| line.strip_prefix(TRACED));
    lines.flat_map(|line| [line.trim_end(), "\n"]).collect()
}

fn show(root: &Path, settings: &Settings) -> Result<(), String> {
    let Some(run) = built(root, settings)? else {
        return Ok(());
    };
    println!("   {run}");
    run.run(root).map_err(|message| explained(&message))
}

/// Builds the kernel, and returns the command line of the emulator. If a tool is missing, prints the skip and returns
/// `None`.
fn built(root: &Path, settings: &Settings) -> Result<Option<Invocation>, String> {
    if let Some((what, reason)) = lacking(root, settings)? {
        println!("skipped: {what}, because {reason}");
        return Ok(None);
    }
    let test = settings.test.as_deref();
    let named = FEATURES.iter().find(|of| test == Some(of.0));
    let mut features = Vec::from_iter(named.map(|of| of.1));
    if settings.immediate {
        features.push("immediate");
    }
    building(root, &[settings.arch], &features).run(root)?;
    running(root, settings, &image(root, settings.arch)).map(Some)
}

/// Returns what is skipped and the tool that this machine lacks for `settings`; `None` if it lacks none.
pub(crate) fn lacking(
    root: &Path,
    settings: &Settings,
) -> Result<Option<(String, String)>, String> {
    let arch = settings.arch;
    let what = format!("the kernel on {}", arch.name());
    let skip = |reason: String| Ok(Some((what.clone(), reason)));
    if !is_installed(arch.emulator()) {
        return skip(format!("there is no {}", arch.emulator()));
    }
    if settings.accel == Accel::Kvm {
        if std::env::consts::ARCH != arch.name() {
            return skip("KVM executes the instructions of the processor alone".to_owned());
        }
        if fs::File::open("/dev/kvm").is_err() {
            return skip("/dev/kvm cannot be opened".to_owned());
        }
        if settings.icount {
            return Err("KVM counts no instructions: --icount needs --accel tcg".to_owned());
        }
    }
    match toolchain::ensure_target(root, arch.target()) {
        Err(reason) => skip(reason),
        Ok(()) => Ok(None),
    }
}

/// Returns the command line that builds the kernel. All features are built in one directory, where they share their
/// dependencies.
pub(crate) fn building(root: &Path, machines: &[Arch], features: &[&str]) -> Invocation {
    let build = Invocation::cargo(&["build", "--quiet", "--release", "--manifest-path", MANIFEST])
        .args(&["--target-dir", &files::target(root).display().to_string()]);
    let build = machines.iter().fold(build, |build, arch| {
        build.args(&["--target", arch.target()])
    });
    if features.is_empty() {
        build
    } else {
        build.args(&["--features", &features.join(",")])
    }
}

/// Returns the path of the kernel that was built last.
pub(crate) fn image(root: &Path, arch: Arch) -> PathBuf {
    let directory = files::target(root).join(arch.target());
    directory.join("release/tickless-kernel")
}

/// Returns the command line that runs the kernel in `image`, and writes its parameters.
pub(crate) fn running(
    root: &Path,
    settings: &Settings,
    image: &Path,
) -> Result<Invocation, String> {
    let directory = files::target(root).join("kernel");
    fs::create_dir_all(&directory).map_err(|error| format!("{}: {error}", directory.display()))?;
    let line = parameters(settings);
    let file = format!("{}-{}", settings.arch.name(), line.replace([' ', ','], "-"));
    let file = directory.join(file);
    fs::write(&file, &line).map_err(|error| format!("{}: {error}", file.display()))?;
    Ok(emulation(settings, image, &file))
}

/// Returns the parameters that the kernel reads.
fn parameters(settings: &Settings) -> String {
    let mut words = vec![format!("cpus={}", settings.cpus)];
    if settings.icount {
        words.push("icount".to_owned());
    }
    if settings.relative {
        words.push("relative".to_owned());
    }
    if let Some(test) = &settings.test {
        words.push(format!("test={test}"));
    }
    if let Some(mutant) = &settings.mutant {
        words.push(format!("mutant={mutant}"));
    }
    words.join(" ")
}

fn emulation(settings: &Settings, image: &Path, parameters: &Path) -> Invocation {
    let (machine, page) = settings.arch.machine();
    let accel = match settings.accel {
        Accel::Tcg => "tcg",
        Accel::Kvm => "kvm",
    };
    let mut run = Invocation::new(settings.arch.emulator()).args(machine);
    if settings.arch == Arch::X86 {
        // What the processor has by itself under KVM; all that the translator knows otherwise.
        run = run.args(match settings.accel {
            Accel::Tcg => &["-cpu", "max"],
            Accel::Kvm => &["-cpu", "host,arch-capabilities=off,+invtsc"],
        });
    }
    let cpus = settings.cpus.to_string();
    run = run
        .args(&[
            "-smp", &cpus, "-m", "256", "-accel", accel, "-serial", "stdio",
        ])
        .args(&[
            "-nographic",
            "-no-reboot",
            "-monitor",
            "none",
            "-net",
            "none",
        ]);
    if settings.icount {
        run = run.args(&["-icount", "shift=0,sleep=off"]);
    }
    let is_long = settings.test.as_deref() == Some(CONFORMANCE_RIG_TEST);
    let usual = if is_long { LONG_LIMIT } else { LIMIT };
    let limit = settings.limit.unwrap_or(usual).to_string();
    run.arg("-kernel")
        .arg(image.display().to_string())
        .arg("-device")
        .arg(format!(
            "loader,file={},addr={page},force-raw=on",
            parameters.display()
        ))
        .emulated(&limit, settings.icount, settings.lane)
        .passes_with(BadEnd::of(settings.test.as_deref()).map_or(PASSED, |bad| bad.code))
}

/// Returns the `message` of a failed run, with the meaning of its exit code in front.
pub(crate) fn explained(message: &str) -> String {
    let meaning = match message.rsplit(' ').next() {
        Some("33") => "the kernel passed a test that should end it badly",
        Some("35") => "a test of the kernel failed",
        Some("37") => "the kernel panicked",
        Some("39") => "the kernel was wedged: its guest time was over",
        Some("41") => "the machine reported an exception",
        Some("43") => "the kernel could not begin",
        _ if is_hung(message) => "the kernel said nothing any more",
        _ => "the machine ended without a word of the kernel",
    };
    format!("{meaning}: {message}")
}

/// Returns true if the `message` of a failed run says that its real time was over.
pub(crate) fn is_hung(message: &str) -> bool {
    matches!(message.rsplit(' ').next(), Some("124" | "137"))
}
