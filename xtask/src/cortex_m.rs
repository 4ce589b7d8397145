//! The program for Cortex-M: how it is built, how an emulator runs it, and how large its exact queue is.
//!
//! The program is a workspace of its own, so that no build of the library includes it. A program for a Cortex-M0 runs
//! on the board of the Cortex-M3, because a Cortex-M3 executes all instructions of a Cortex-M0. The program ends with
//! an exit code of its own, never 0.

use std::fs;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use object::{Object, ObjectSection, ObjectSymbol, SymbolKind};

use crate::files;
use crate::invocation::{Invocation, is_installed};
use crate::toolchain;

const MANIFEST: &str = "cortex-m/Cargo.toml";
const EMULATOR: &str = "qemu-system-arm";
/// The exit status of a program whose tests all passed.
const PASSED: i32 = 33;
/// The number of seconds that a run may take; it takes two.
const LIMIT: &str = "120";

/// Builds the program for Cortex-M, runs it in an emulator that counts instructions for time, and shows its report.
///
/// Exits with 0 when all of its tests passed, or when the task says that something it needs is missing; with 1
/// otherwise.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The processor for which the program is built.
    #[arg(long, value_enum, default_value_t = Processor::CortexM3)]
    processor: Processor,
    /// Prints how many bytes of text the exact queue has, and runs nothing.
    #[arg(long)]
    size: bool,
}

/// The processors for which the program can be built.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Processor {
    /// A processor with compare-and-swap on words, but not on 64 bits.
    #[value(name = "cortex-m3")]
    CortexM3,
    /// A processor without compare-and-swap.
    #[value(name = "cortex-m0")]
    CortexM0,
}

impl Processor {
    pub(crate) const fn target(self) -> &'static str {
        match self {
            Self::CortexM3 => "thumbv7m-none-eabi",
            Self::CortexM0 => "thumbv6m-none-eabi",
        }
    }
}

/// The size of a program's text, in bytes.
#[derive(Debug, Default, PartialEq, Eq)]
struct Size {
    /// The whole text, including the code that starts the program, copies memory, and divides.
    all: u64,
    /// The text of the functions of the core and of the link crate that were not inlined into others.
    core: u64,
}

/// Runs `cargo xtask cortex-m`.
pub(crate) fn main(root: &Path, arguments: &Arguments) -> Result<(), String> {
    let processor = arguments.processor;
    if let Err(reason) = toolchain::ensure_target(root, processor.target()) {
        println!("skipped: the program for Cortex-M, because {reason}");
        return Ok(());
    }
    if arguments.size {
        return size(root, processor);
    }
    if !is_installed(EMULATOR) {
        println!("skipped: the program for Cortex-M, because there is no {EMULATOR}");
        return Ok(());
    }
    build(root, processor).run(root)?;
    let run = emulation(root, processor);
    println!("   {run}");
    run.run(root).map_err(|message| explained(&message))
}

/// Prints the size of a program with the exact queue alone: once with a sorted queue only, and once with the far wheel
/// in front of it.
fn size(root: &Path, processor: Processor) -> Result<(), String> {
    let sorted = build(root, processor).args(&["--bin", "size", "--no-default-features"]);
    for (line, what) in [
        (sorted, "the sorted queue"),
        (build(root, processor), "the sorted queue and the far wheel"),
    ] {
        line.run(root)?;
        print_size(root, processor, what)?;
    }
    Ok(())
}

fn print_size(root: &Path, processor: Processor, what: &str) -> Result<(), String> {
    let path = image(root, processor, "size");
    let bytes = fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    let size = measure(&bytes).map_err(|error| format!("{}: {error}", path.display()))?;
    println!(
        "{}, {what}: {} bytes of text, {} of them functions of core and link",
        processor.target(),
        size.all,
        size.core
    );
    Ok(())
}

/// Adds up the text of a program.
fn measure(bytes: &[u8]) -> Result<Size, object::Error> {
    let file = object::File::parse(bytes)?;
    let all = file
        .section_by_name(".text")
        .map_or(0, |section| section.size());
    let core = file
        .symbols()
        .filter(|symbol| symbol.kind() == SymbolKind::Text)
        .filter(|symbol| symbol.name().is_ok_and(is_of_core))
        .map(|symbol| symbol.size())
        .sum();
    Ok(Size { all, core })
}

/// Returns true if a mangled name belongs to the core or the link crate, or to a method for one of their types.
fn is_of_core(name: &str) -> bool {
    ["tickless_core", "tickless_link"]
        .iter()
        .any(|path| name.contains(path))
}

pub(crate) fn build(root: &Path, processor: Processor) -> Invocation {
    Invocation::cargo(&["build", "--quiet", "--release", "--manifest-path", MANIFEST])
        .args(&["--target", processor.target()])
        .arg("--target-dir")
        .arg(files::target(root).display().to_string())
}

fn image(root: &Path, processor: Processor, program: &str) -> PathBuf {
    let place = files::target(root).join(processor.target());
    place.join("release").join(program)
}

pub(crate) fn emulation(root: &Path, processor: Processor) -> Invocation {
    Invocation::new(EMULATOR)
        .args(&["-machine", "mps2-an385", "-nographic", "-no-reboot"])
        .args(&["-monitor", "none", "-serial", "none", "-nic", "none"])
        .args(&["-icount", "shift=0,sleep=off"])
        .args(&["-semihosting-config", "enable=on,target=native"])
        .arg("-kernel")
        .arg(
            image(root, processor, "tickless-cortex-m")
                .display()
                .to_string(),
        )
        .emulated(LIMIT, true, 0)
        .passes_with(PASSED)
}

/// Returns the `message` of a failed run, with the meaning of its exit code in front.
pub(crate) fn explained(message: &str) -> String {
    let meaning = match message.rsplit(' ').next() {
        Some("35") => "a test on Cortex-M failed",
        Some("37") => "the program on Cortex-M panicked",
        Some("124" | "137") => "the program on Cortex-M said nothing any more",
        _ => "the machine ended without a word of the program",
    };
    format!("{meaning}: {message}")
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{Processor, emulation, explained, is_of_core, measure};

    #[test]
    fn the_emulator_counts_instructions_and_is_limited() {
        let line = emulation(Path::new("/tree"), Processor::CortexM0).to_string();
        assert!(
            line.contains("timeout -k 5 120 qemu-system-arm -machine mps2-an385"),
            "{line}"
        );
        assert!(line.contains(" -icount shift=0,sleep=off "), "{line}");
        assert!(
            line.ends_with("thumbv6m-none-eabi/release/tickless-cortex-m"),
            "{line}"
        );
    }

    #[test]
    fn each_code_has_a_meaning_and_0_is_none_of_success() {
        let of = |code: &str| explained(&format!("`qemu` failed: exit status: {code}"));
        assert!(of("35").starts_with("a test on Cortex-M failed: "));
        assert!(of("0").starts_with("the machine ended without a word"));
    }

    #[test]
    fn text_is_counted_in_programs_alone() {
        let this = std::env::current_exe().expect("a test is a file");
        let size = measure(&std::fs::read(this).expect("it can be read")).expect("it is a program");
        assert!(size.all > 0);
        assert_eq!(size.core, 0, "this program has no timers");
        measure(b"no program").expect_err("text is no program");
        assert!(is_of_core(
            "_ZN13tickless_core5exact9far_wheel8FarWheel5empty17h0E"
        ));
        assert!(is_of_core(
            "_ZN13tickless_link4tree13Tree$LT$F$GT$4link17h0E"
        ));
        assert!(!is_of_core("_ZN17compiler_builtins3mem6memcpy17h0E"));
    }
}
