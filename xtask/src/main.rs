//! The project's own tasks, as `cargo xtask TASK`.
//!
//! What shell scripts do elsewhere is Rust here: the same compiler, lints and tests watch over it, it runs wherever the
//! library builds, and its lists come from `cargo metadata`, so that a new package cannot be forgotten.
//!
//! | task | does |
//! |---|---|
//! | `check` | everything that CI does, step by step; its result is CI's result |
//! | `tidy` | the rules of the house style that no lint knows |
//! | `mutants` | breaks each rule of the library on purpose and demands that the suite notices |
//! | `structure` | which file of a crate imports which, circles, lines |
//! | `abi` | compares the C interface with the committed one, by libabigail |
//! | `man` | makes the manual pages of the C interface, and checks them |
//! | `calls` | counts the system calls of programs with the preload library and without |
//! | `header` | compares the header of the C interface with its crate |
//! | `cortex-m` | builds the program for Cortex-M, runs it in an emulator, and shows its report, or its size |
//! | `kernel` | builds the kernel, runs it in an emulator, and shows its report |
//! | `linux` | runs the suites on other kinds of Linux: AArch64 and riscv64 by qemu-user, i686 and musl natively |
//! | `install` | builds the C interface, and puts library, header and `tickless.pc` below a directory |
//! | `semver` | compares the interfaces of the crates with the last release, by cargo-semver-checks |
//! | `soak` | runs random schedules of the protocols, a million unless told otherwise |
//! | `hunt` | draws executors and their ends, ten minutes unless told otherwise |
//! | `repeat` | runs the tests over and over, for those that fail now and then |
//! | `traces` | has the reader of Perfetto count what is in traces of the simulator and of the library |
//! | `wine` | runs what every host promises on Windows, under wine |
//!
//! Exit codes: 0 when all held, 1 when something did not, 2 for bad arguments.
#![forbid(unsafe_code)]
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command talks to its user"
)]

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

mod abi;
mod calls;
mod check;
mod cortex_m;
mod files;
mod header;
mod hunt;
mod install;
mod invocation;
mod kernel;
mod linux;
mod man;
mod mutants;
mod repeat;
mod semver;
mod soak;
mod structure;
mod tidy;
mod toolchain;
mod traces;
mod wine;
mod workspace;

/// The project's own tasks.
#[derive(Debug, Parser)]
#[command(name = "xtask", bin_name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    Abi(abi::Arguments),
    Man(man::Arguments),
    Check(check::Arguments),
    Tidy(tidy::Arguments),
    Mutants(mutants::Arguments),
    Structure(structure::Arguments),
    Calls(calls::Arguments),
    Header(header::Arguments),
    Install(install::Arguments),
    CortexM(cortex_m::Arguments),
    Kernel(kernel::Arguments),
    Linux(linux::Arguments),
    Semver(semver::Arguments),
    Soak(soak::Arguments),
    Hunt(hunt::Arguments),
    Repeat(repeat::Arguments),
    Traces(traces::Arguments),
    Wine(wine::Arguments),
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let result = root().and_then(|root| match cli.task {
        Task::Abi(arguments) => abi::main(&root, &arguments),
        Task::Man(arguments) => man::main(&root, &arguments),
        Task::Check(arguments) => check::main(&root, &arguments),
        Task::Tidy(arguments) => tidy::main(&root, &arguments),
        Task::Mutants(arguments) => mutants::main(&root, &arguments),
        Task::Structure(arguments) => structure::main(&root, &arguments),
        Task::Calls(arguments) => calls::main(&root, &arguments),
        Task::Header(arguments) => header::main(&root, &arguments),
        Task::Install(arguments) => install::main(&root, &arguments),
        Task::CortexM(arguments) => cortex_m::main(&root, &arguments),
        Task::Kernel(arguments) => kernel::main(&root, &arguments),
        Task::Linux(arguments) => linux::main(&root, &arguments),
        Task::Semver(arguments) => semver::main(&root, &arguments),
        Task::Soak(arguments) => soak::main(&root, &arguments),
        Task::Hunt(arguments) => hunt::main(&root, &arguments),
        Task::Repeat(arguments) => repeat::main(&root, &arguments),
        Task::Traces(arguments) => traces::main(&root, &arguments),
        Task::Wine(arguments) => wine::main(&root, &arguments),
    });
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("error: {message}");
            ExitCode::FAILURE
        }
    }
}

/// The root of the checkout that `cargo xtask` was called in.
///
/// Cargo says it at run time. The value it had at compile time would be wrong after the checkout was moved.
fn root() -> Result<PathBuf, String> {
    let package = std::env::var_os("CARGO_MANIFEST_DIR")
        .ok_or("the checkout is unknown: start this as `cargo xtask`")?;
    let mut root = PathBuf::from(package);
    root.pop();
    Ok(root)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn the_arguments_are_consistent() {
        super::Cli::command().debug_assert();
    }
}
