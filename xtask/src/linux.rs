//! The tests of the library on other kinds of Linux: on other processors, and with another C library.
//!
//! Programs for AArch64 and riscv64 are executed by `qemu-user`, which translates the instructions of one process and
//! passes on its system calls. This machine itself executes programs for i686 and for musl; those for i686 are linked
//! statically, because few machines have the libraries. A test that starts its own program once more starts it by the
//! emulator that `TICKLESS_EMULATOR` names.

use std::path::Path;

use clap::{Args, ValueEnum};

use crate::invocation::{Invocation, is_installed};
use crate::toolchain;

/// The number of seconds after which a test counts as hung: an emulator executes it while other tests run.
const PATIENCE: &str = "300";

/// Runs the suites of link, core, sched and the library on other kinds of Linux: by qemu-user, or natively.
///
/// Prints the tests that the emulator cannot execute, each with the reason. A tool that the machine lacks is named as
/// skipped; this is no failure. All suites take half an hour.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The kind of Linux; all if none is given.
    #[arg(long, value_enum)]
    kind: Vec<LinuxKind>,
    /// Runs only the part that `check` runs.
    #[arg(long)]
    fast: bool,
}

/// A kind of Linux.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LinuxKind {
    /// ARM with 64 bits, by qemu-user.
    Aarch64,
    /// RISC-V with 64 bits, by qemu-user.
    Riscv64,
    /// A PC with 32 bits.
    I686,
    /// A PC with the C library musl.
    Musl,
}

/// An emulator of a processor.
struct Emulator {
    program: &'static str,
    /// The directory of the libraries with which the emulated programs are linked.
    libraries: &'static str,
    runner: &'static str,
}

impl LinuxKind {
    const fn target(self) -> &'static str {
        match self {
            Self::Aarch64 => "aarch64-unknown-linux-gnu",
            Self::Riscv64 => "riscv64gc-unknown-linux-gnu",
            Self::I686 => "i686-unknown-linux-gnu",
            Self::Musl => "x86_64-unknown-linux-musl",
        }
    }

    const fn emulator(self) -> Option<Emulator> {
        match self {
            Self::Aarch64 => Some(Emulator {
                program: "qemu-aarch64",
                libraries: "/usr/aarch64-linux-gnu",
                runner: "CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER",
            }),
            Self::Riscv64 => Some(Emulator {
                program: "qemu-riscv64",
                libraries: "/usr/riscv64-linux-gnu",
                runner: "CARGO_TARGET_RISCV64GC_UNKNOWN_LINUX_GNU_RUNNER",
            }),
            Self::I686 | Self::Musl => None,
        }
    }

    /// Returns the program that links, and the variable that names it to cargo; `None` for the usual program.
    const fn linker(self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::Aarch64 => Some((
                "aarch64-linux-gnu-gcc",
                "CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER",
            )),
            Self::Riscv64 => Some((
                "riscv64-linux-gnu-gcc",
                "CARGO_TARGET_RISCV64GC_UNKNOWN_LINUX_GNU_LINKER",
            )),
            Self::I686 => Some((
                "i686-linux-gnu-gcc",
                "CARGO_TARGET_I686_UNKNOWN_LINUX_GNU_LINKER",
            )),
            Self::Musl => None,
        }
    }

    /// Returns the tests that cannot pass on this kind of Linux, each with the reason.
    const fn left_out(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Aarch64 | Self::Riscv64 => EMULATED,
            Self::I686 | Self::Musl => &[],
        }
    }

    /// Fails with the reason if the machine lacks a tool to build and execute programs of this kind.
    fn present(self, root: &Path) -> Result<(), String> {
        let programs = [
            self.linker().map(|(program, _)| program),
            self.emulator().map(|emulator| emulator.program),
        ];
        for program in programs.into_iter().flatten() {
            if !is_installed(program) {
                return Err(format!("there is no {program}"));
            }
        }
        if self.emulator().is_none() && cfg!(not(target_arch = "x86_64")) {
            return Err("this processor does not execute its programs".into());
        }
        toolchain::ensure_target(root, self.target())
    }

    /// Returns the command lines of the part of the suites that takes seconds.
    fn fast(self) -> Vec<Invocation> {
        let library = self.any_host();
        if self.emulator().is_some() {
            return vec![library];
        }
        vec![self.test(&BELOW, &["--lib"]), library]
    }

    /// Returns the command line of the tests of what every host promises.
    fn any_host(self) -> Invocation {
        self.test(&["tickless"], &["--test", "any_host"])
    }

    /// Returns the command lines of all suites.
    fn whole(self) -> Vec<Invocation> {
        let library = ["--tests", "--features", FEATURES, "--no-fail-fast"];
        let mut lines = vec![
            self.test(&BELOW, &["--lib"]),
            self.test(&["tickless"], &library),
        ];
        for line in &mut lines {
            let skips = self.left_out().iter();
            let skips: Vec<_> = skips.flat_map(|(test, _)| ["--skip", test]).collect();
            *line = line.clone().arg("--").args(&skips);
        }
        lines
    }

    /// Returns the command line that tests `packages`.
    fn test(self, packages: &[&str], arguments: &[&str]) -> Invocation {
        let mut line = Invocation::cargo(&["test", "--target", self.target()])
            .packages(packages)
            .args(arguments);
        if let Some((program, variable)) = self.linker() {
            line = line.variable(variable, program);
        }
        if let Some(emulator) = self.emulator() {
            line = line
                .variable(emulator.runner, emulator.program)
                .variable("TICKLESS_EMULATOR", emulator.program)
                .variable("QEMU_LD_PREFIX", emulator.libraries)
                .variable("TICKLESS_PATIENCE", PATIENCE);
        }
        if self == Self::I686 {
            line = line.variable(
                "CARGO_TARGET_I686_UNKNOWN_LINUX_GNU_RUSTFLAGS",
                "-Ctarget-feature=+crt-static",
            );
        }
        line
    }
}

/// The packages on which the library depends.
const BELOW: [&str; 3] = ["tickless-link", "tickless-core", "tickless-sched"];

/// The features of the library that its suites need.
const FEATURES: &str = "hyper,macros,metrics,stream,tokio,tracing";

/// The tests that `qemu-user` cannot execute, each with the reason.
const EMULATED: &[(&str, &str)] = &[
    (
        "one_wakes_up_for_all_that_is_due_at_an_instant",
        "an emulator takes longer to arm its timers than they have",
    ),
    (
        "the_descriptor_is_set_about_once_for_a_wake_up",
        "an emulator takes longer for a task than its timers have",
    ),
    (
        "timers_that_a_turn_has_started_set_the_descriptor_once",
        "an emulator takes longer to arm its timers than they have",
    ),
    (
        "a_callback_of_another_thread_counts_as_finished_in_the_child",
        FORKS,
    ),
    ("a_child_sleeps_whose_clock_is_ahead", FORKS),
    ("a_child_sleeps_whose_clock_is_behind", FORKS),
    (
        "a_child_takes_the_bases_of_threads_that_it_does_not_have",
        FORKS,
    ),
    ("a_child_that_may_open_nothing_lives", FORKS),
    (
        "a_child_that_may_start_no_thread_executes_another_program",
        FORKS,
    ),
    ("a_child_uses_timers_for_the_first_time", FORKS),
    (
        "a_child_whose_clock_is_behind_reads_it_where_its_parent_was",
        FORKS,
    ),
    ("a_generation_of_forks_costs_little_memory", FORKS),
    (
        "a_thread_forks_again_when_its_thread_local_values_are_gone",
        FORKS,
    ),
    ("a_wake_up_of_one_process_is_not_taken_by_the_other", FORKS),
    ("a_worker_that_forks_is_a_worker_in_both_processes", FORKS),
    ("both_processes_go_on_using_timers", FORKS),
    (
        "coarse_timers_of_an_ended_thread_fire_in_both_processes",
        FORKS,
    ),
    (
        "forks_meet_other_threads_in_the_middle_of_everything",
        FORKS,
    ),
    ("the_descriptors_of_event_loops_are_two_after_a_fork", FORKS),
    ("timers_of_other_threads_are_not_queued_in_the_child", FORKS),
    (
        "timers_of_the_forking_thread_and_of_ended_ones_fire_in_both_processes",
        FORKS,
    ),
    ("reactor::a_thread_of_an_attached_runtime_forks", FORKS),
    (
        "reactor::forks_meet_runtimes_in_the_middle_of_everything",
        FORKS,
    ),
    (
        "fork::a_child_that_was_forked_in_a_poll_ends_with_it",
        FORKS,
    ),
    ("fork::the_child_of_a_fork_has_no_executor", FORKS),
    (
        "tasks::a_million_tasks_at_once",
        "an emulator takes longer for it than a test has",
    ),
];

/// The reason for tests that fork: version 7.2 of the emulator ends such a child with 127, even in a program that uses
/// only the C library.
const FORKS: &str =
    "qemu-user starts no thread in the child of a fork of a process that has threads";

pub(crate) fn main(root: &Path, arguments: &Arguments) -> Result<(), String> {
    let kinds = if arguments.kind.is_empty() {
        LinuxKind::value_variants()
    } else {
        &arguments.kind
    };
    let mut failed = Vec::new();
    for &kind in kinds {
        if let Err(reason) = kind.present(root) {
            println!("skipped: the suites on {}, because {reason}", kind.target());
            continue;
        }
        let lines = if arguments.fast {
            kind.fast()
        } else {
            for (test, reason) in kind.left_out() {
                println!("skipped: {test} on {}, because {reason}", kind.target());
            }
            kind.whole()
        };
        for line in lines {
            println!("   {line}");
            failed.extend(line.run(root).err());
        }
    }
    if failed.is_empty() {
        return Ok(());
    }
    Err(failed.join("\n"))
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum as _;

    use super::LinuxKind;

    #[test]
    fn an_emulator_executes_what_this_processor_cannot() {
        let [line] = &LinuxKind::Aarch64.fast()[..] else {
            panic!("one line");
        };
        let shown = line.to_string();
        for part in [
            "--target aarch64-unknown-linux-gnu",
            "LINUX_GNU_LINKER=aarch64-linux-gnu-gcc",
            "LINUX_GNU_RUNNER=qemu-aarch64",
            "TICKLESS_EMULATOR=qemu-aarch64",
        ] {
            assert!(shown.contains(part), "{shown}");
        }
        let native = LinuxKind::Musl.fast()[0].to_string();
        assert!(!native.contains("EMULATOR"), "{native}");
    }

    #[test]
    fn the_whole_leaves_out_what_is_named_with_a_reason() {
        for kind in LinuxKind::value_variants() {
            let shown = kind.whole()[1].to_string();
            assert!(shown.contains("-p tickless --tests"), "{shown}");
            for (test, reason) in kind.left_out() {
                assert!(shown.contains(&format!("--skip {test}")), "{shown}");
                assert!(!reason.is_empty(), "{test}");
            }
        }
    }
}
