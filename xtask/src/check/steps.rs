//! The steps of the check: a list of command lines, each of which a person can type.

use super::run::Run;
use super::{deny, kernel, moved, package, tokio_family};

/// The conditions under which a step runs if no step is named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Share {
    /// The step runs in every check.
    Quick,
    /// The step runs unless `--quick` is given.
    Full,
    /// The step runs with `--all`: the laboratory, the kernel, and what repeats the tests in another way.
    All,
    /// The step runs only if it is named, because it takes too long for every run.
    OnRequest,
}

/// A part of the machine that a line needs. What rustup has is installed; otherwise the line is skipped, with the reason.
#[derive(Clone, Copy, Debug)]
pub(super) enum Need {
    Target(&'static str),
    /// The nightly toolchain with this component.
    Nightly(&'static str),
    Toolchain(&'static str),
    Program(&'static str),
    /// A text in a file: the file, the text, and the reason to skip if the text is not there. `RUSTC` in the text stands
    /// for the version of the compiler.
    Text(&'static str, &'static str, &'static str),
}

/// A part of a step.
#[derive(Debug)]
pub(super) enum Part {
    /// A line for the shell.
    Line(&'static str),
    /// The same, with what the machine has to have.
    With(&'static [Need], &'static str),
    /// A line that searches. What it finds does not fail the check: a check that fails now and then by itself teaches
    /// people only to run it again. The end of the check shows it.
    Search(&'static str),
    /// The tests of packages that changed since they last passed in a quick check.
    Changed,
    /// The sets of features, each built alone.
    Features,
    /// A function of this program.
    Own(fn(&mut Run<'_>) -> Result<(), String>),
}

#[derive(Debug)]
pub(super) struct Step {
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    pub(super) share: Share,
    pub(super) parts: &'static [Part],
}

/// The sets of features with which each package is built, besides all and none. All combinations would be too many, and
/// a build with all hides a feature that forgot to enable another.
pub(super) const FEATURES: &[(&str, &[&str])] = &[
    ("tickless-capi", &[""]),
    ("tickless-conformance", &["", "default", "std,serde"]),
    // Without it what serves far timers must not be left over.
    ("tickless-core", &["", "default,far-wheel", "kernel"]),
    ("tickless-link", &[""]),
    ("tickless-preload", &[""]),
    ("tickless-sched", &[""]),
    (
        "tickless",
        &[
            "",
            "executor",
            "executor,hyper,stream,tokio",
            "hyper",
            "internals",
            "macros",
            "metrics",
            "portable",
            "stream",
            "tokio",
            "tokio-test-util",
            "tracepoints",
            "portable,tracepoints",
            "tracing",
            "worker",
        ],
    ),
];

use Need::{Nightly, Program, Target, Text, Toolchain};
use Part::{Line, Own, Search, With};
use Share::{All, Full, OnRequest, Quick};

/// The steps in the order in which they run. Builds with the same flags share the directory `target`.
pub(super) const STEPS: &[Step] = &[
    Step {
        name: "fmt",
        about: "the layout is what rustfmt makes of it",
        share: Quick,
        parts: &[Line("cargo fmt --all --check")],
    },
    Step {
        name: "tidy",
        about: "structure, citations, patches, unsafe code, links (cargo xtask tidy)",
        share: Quick,
        parts: &[Line("cargo xtask tidy")],
    },
    Step {
        name: "clippy",
        about: "no lint speaks, with all features and with none",
        share: Quick,
        parts: &[
            Line("cargo clippy --workspace --all-targets --all-features -- -D warnings"),
            Line(
                "cargo clippy --no-deps --all-targets --no-default-features -p tickless -p tickless-core \
                 -- -D warnings",
            ),
        ],
    },
    Step {
        name: "changed",
        about: "the tests of the packages that changed since they last passed",
        share: OnRequest,
        parts: &[Part::Changed],
    },
    Step {
        name: "features",
        about: "each set of features builds alone",
        share: Full,
        parts: &[Part::Features],
    },
    Step {
        name: "doc",
        about: "the documentation builds without broken links, private items included",
        share: Full,
        parts: &[
            Line(
                "RUSTDOCFLAGS='-D warnings' cargo doc --no-deps --workspace --all-features \
                 --document-private-items",
            ),
            Line("RUSTDOCFLAGS='-D warnings' cargo doc --no-deps --workspace --all-features"),
            Line(
                "RUSTDOCFLAGS='-D warnings' cargo doc --no-deps --no-default-features -p tickless \
                 -p tickless-core -p tickless-conformance",
            ),
            With(&[Program("mdbook")], "mdbook build --dest-dir target/book"),
        ],
    },
    Step {
        name: "test",
        about: "the tests pass, doctests included",
        share: Full,
        parts: &[Line("cargo test --workspace --all-features --no-fail-fast")],
    },
    // Each doctest is a program to be linked, and debug assertions do not decide whether an example is right. What
    // stands above the library is left out, because the code below it is tested directly.
    Step {
        name: "test-release",
        about: "the tests pass as users build: optimised, debug assertions off",
        share: All,
        parts: &[
            Line(
                "cargo test --workspace --all-features --no-fail-fast --profile testrelease --lib --bins --tests \
                 --exclude xtask",
            ),
            // The tests in which threads wait for each other, once more on one processor: there a thread that waits
            // for another waits for ever if it does not let it run.
            With(
                &[Program("taskset")],
                "taskset --cpu-list $(taskset -cp $$ | sed 's/.*: //; s/[-,].*//') \
                 cargo test --workspace --all-features --no-fail-fast --profile testrelease \
                 --exclude xtask \
                 --test builder --test event_loop --test executor --test hierarchy --test process --test runtimes \
                 --test time --test timers --test worker",
            ),
        ],
    },
    // The workspace beside: what measures the library, and shows that it holds.
    Step {
        name: "laboratory",
        about: "the simulator, the command and the measurements: layout, lints, documentation, tests",
        share: All,
        parts: &[
            Line("cargo fmt --all --check --manifest-path laboratory/Cargo.toml"),
            Line(
                "cargo clippy --manifest-path laboratory/Cargo.toml --target-dir target --workspace --all-targets \
                 --all-features -- -D warnings",
            ),
            // Without its features the command is what `cargo tickless` begins with.
            Line(
                "cargo clippy --manifest-path laboratory/Cargo.toml --target-dir target --no-deps -p tickless-cli \
                 -p tickless-peers --no-default-features -- -D warnings",
            ),
            Line(
                "RUSTDOCFLAGS='-D warnings' cargo doc --manifest-path laboratory/Cargo.toml --target-dir target/doc-laboratory \
                 --no-deps --workspace --all-features --document-private-items",
            ),
            Line(
                "cargo test --manifest-path laboratory/Cargo.toml --target-dir target --workspace --all-features \
                 --no-fail-fast",
            ),
        ],
    },
    // The command as its tests build it: another build would take longer than the worlds.
    Step {
        name: "worlds",
        about: "a thousand drawn worlds keep every promise, and fresh ones are tried",
        share: All,
        parts: &[
            Line(
                "cargo test --manifest-path laboratory/Cargo.toml --target-dir target --workspace --all-features \
                 --test sim --no-run",
            ),
            Line("target/debug/tickless sim fuzz --seeds 1000"),
            Search("target/debug/tickless sim fuzz --for 20s --from fresh --save target/worlds"),
        ],
    },
    Step {
        name: "no-std",
        about: "the crates that need no operating system build for a bare target",
        share: Full,
        parts: &[With(
            &[Target("x86_64-unknown-none")],
            "cargo build --lib --features tickless-core/kernel -p tickless-link -p tickless-core -p tickless-sched \
             --target x86_64-unknown-none \
             && cargo build --lib -p tickless-conformance --no-default-features --target x86_64-unknown-none",
        )],
    },
    Step {
        name: "kernel",
        about: "the kernel passes its tests on each machine, and runs alike each time",
        share: All,
        parts: &[Own(kernel::step)],
    },
    // Cargo chooses the features of dependencies for all targets of a command, so each family of systems has its own.
    Step {
        name: "platforms",
        about: "the library builds for other systems, and their host passes",
        share: All,
        parts: &[
            Line(
                "cargo test -p tickless --features portable --lib --test time --test timers --test worker",
            ),
            With(
                &[Target("x86_64-pc-windows-gnu")],
                "cargo clippy --no-deps -p tickless --features tokio --target x86_64-pc-windows-gnu -- -D warnings",
            ),
            With(
                &[
                    Target("aarch64-apple-darwin"),
                    Target("x86_64-apple-darwin"),
                    Target("x86_64-unknown-freebsd"),
                    Target("x86_64-unknown-netbsd"),
                ],
                "cargo clippy --no-deps -p tickless --features tokio --target aarch64-apple-darwin \
                 --target x86_64-apple-darwin --target x86_64-unknown-freebsd --target x86_64-unknown-netbsd \
                 -- -D warnings",
            ),
            With(
                &[
                    Target("aarch64-unknown-linux-gnu"),
                    Target("x86_64-unknown-linux-musl"),
                    Target("i686-unknown-linux-gnu"),
                    Target("riscv64gc-unknown-linux-gnu"),
                ],
                "cargo clippy --no-deps -p tickless --features tokio --target aarch64-unknown-linux-gnu \
                 --target x86_64-unknown-linux-musl --target i686-unknown-linux-gnu \
                 --target riscv64gc-unknown-linux-gnu -- -D warnings",
            ),
            // tokio itself has no reactor on WebAssembly.
            With(
                &[Target("wasm32-wasip1"), Target("wasm32-unknown-unknown")],
                "cargo clippy --no-deps -p tickless --target wasm32-wasip1 --target wasm32-unknown-unknown \
                 -- -D warnings",
            ),
            Line("cargo xtask linux --fast --kind aarch64"),
            Line("cargo xtask wine --fast"),
            With(
                &[Program("node"), Target("wasm32-wasip1")],
                "cargo run --example alone --target wasm32-wasip1 -p tickless",
            ),
            With(
                &[Target("wasm32-unknown-unknown")],
                "cargo build --manifest-path examples/web/Cargo.toml --target wasm32-unknown-unknown \
                 --target-dir target",
            ),
            With(
                &[
                    Target("wasm32-unknown-unknown"),
                    Program("node"),
                    Program("wasm-bindgen"),
                ],
                "wasm-bindgen --target nodejs --out-dir target/web \
                 target/wasm32-unknown-unknown/debug/tickless_web.wasm && node examples/web/node.mjs target/web",
            ),
            // Processors without 64-bit atomics; the first of them cannot even exchange a word.
            With(
                &[
                    Target("thumbv6m-none-eabi"),
                    Target("thumbv7m-none-eabi"),
                    Target("riscv32imac-unknown-none-elf"),
                ],
                "cargo clippy --no-deps --features tickless-core/kernel -p tickless-link -p tickless-core -p tickless-sched \
                 --target thumbv6m-none-eabi --target thumbv7m-none-eabi --target riscv32imac-unknown-none-elf \
                 -- -D warnings",
            ),
            // While other programs run, one run in twenty enters an interrupt late. A real fault shows in every run.
            Line("cargo xtask cortex-m || cargo xtask cortex-m || cargo xtask cortex-m"),
            Line(
                "cargo xtask cortex-m --processor cortex-m0 || cargo xtask cortex-m --processor cortex-m0 \
                 || cargo xtask cortex-m --processor cortex-m0",
            ),
            Line("cargo fmt --check --manifest-path cortex-m/Cargo.toml"),
            With(
                &[Target("thumbv7m-none-eabi")],
                "cargo clippy --release --manifest-path cortex-m/Cargo.toml --target thumbv7m-none-eabi \
                 --target-dir target -- -D warnings",
            ),
        ],
    },
    // Most cases with one preemption fewer than they name: half an hour less.
    Step {
        name: "loom",
        about: "the models hold in the interleavings that loom explores in some minutes",
        share: Full,
        parts: &[Line(
            "TICKLESS_SHORT_MODELS=1 RUSTFLAGS='--cfg loom' cargo test -p tickless -p tickless-capi \
             -p tickless-core -p tickless-link -p tickless-sched --lib --profile loom --target-dir target/loom \
             -- model::",
        )],
    },
    // The same schedules each time.
    Step {
        name: "soak",
        about: "random schedules of the protocols break no rule, for some seconds",
        share: All,
        parts: &[Line("cargo xtask soak --schedules 18000")],
    },
    // Miri executes all threads of a program on one CPU, so two programs share the tests.
    Step {
        name: "miri",
        about: "Miri finds no undefined behaviour in the crate with unsafe code",
        share: Full,
        parts: &[
            With(
                &[Nightly("miri"), Nightly("rust-src")],
                "cargo +nightly miri setup \
                 && cargo +nightly miri test -p tickless-link --target-dir target/miri --no-run",
            ),
            With(
                &[Nightly("miri"), Nightly("rust-src")],
                "cargo +nightly miri test -p tickless-link --target-dir target/miri -- tree::tests::r & \
                 cargo +nightly miri test -p tickless-link --target-dir target/miri -- --skip tree::tests::r \
                 && wait $!",
            ),
        ],
    },
    Step {
        name: "msrv",
        about: "the library builds with the oldest compiler it promises",
        share: Full,
        parts: &[With(
            &[Toolchain("1.88")],
            "cargo +1.88 check --lib --all-features -p tickless -p tickless-capi -p tickless-core -p tickless-link \
             -p tickless-macros -p tickless-preload -p tickless-sched --target-dir target/msrv",
        )],
    },
    Step {
        name: "package",
        about: "what would be published is complete and builds; the C interface is the same",
        share: Full,
        parts: &[
            Own(package::step),
            With(
                &[
                    Program("gcc"),
                    Program("abidw"),
                    Program("abidiff"),
                    Program("nm"),
                ],
                "crates/tickless-capi/abi/compare.sh",
            ),
        ],
    },
    Step {
        name: "deny",
        about: "licences, sources and the walls between the crates are as agreed",
        share: Full,
        parts: &[Own(deny::step)],
    },
    Step {
        name: "instructions",
        about: "no hot path takes 3 % more instructions than its table says",
        share: All,
        parts: &[With(
            &[
                Program("valgrind"),
                Text(
                    "docs/performance.md",
                    "With RUSTC for ",
                    "its table is of another compiler",
                ),
            ],
            "cargo laboratory --quiet -p tickless-bench -- --instructions --check",
        )],
    },
    Step {
        name: "tokio-family",
        about: "the tests that tokio has of its time pass with this one; two minutes to build",
        share: All,
        parts: &[Own(tokio_family::step)],
    },
    // A workspace of its own, because the dependencies are large: QUIC, TLS, a resolver. Each feature alone.
    Step {
        name: "adapters",
        about: "each adapter works with the crate that it is for; ten minutes to build",
        share: OnRequest,
        parts: &[
            Line("cargo fmt --all --check --manifest-path adapters/Cargo.toml"),
            Line(
                "cargo clippy --workspace --all-targets --all-features --manifest-path adapters/Cargo.toml \
                 --target-dir target/adapters -- -D warnings",
            ),
            Line(
                "for feature in backon embassy embedded-hal governor hickory opentelemetry quinn rtic tower; do \
                 cargo clippy --no-deps --lib --features $feature --manifest-path adapters/Cargo.toml \
                 --target-dir target/adapters -- -D warnings || exit 1; done",
            ),
            Line(
                "RUSTDOCFLAGS='-D warnings' cargo doc --no-deps --all-features \
                 --manifest-path adapters/Cargo.toml --target-dir target/adapters",
            ),
            Line(
                "cargo test --workspace --all-features --manifest-path adapters/Cargo.toml \
                 --target-dir target/adapters",
            ),
            Own(moved::step),
        ],
    },
    // The standard library is instrumented too, so that the sanitizer sees all of its locks. Gcc instruments the C
    // programs. The target is named, because otherwise build scripts would be instrumented.
    Step {
        name: "sanitizers",
        about: "the C tests pass with a library that sanitizers instrument; minutes to build",
        share: OnRequest,
        parts: &[With(
            &[Nightly("rust-src"), Program("gcc")],
            "for sanitizer in address thread; do \
             RUSTFLAGS=-Zsanitizer=$sanitizer cargo +nightly build -Zbuild-std --target x86_64-unknown-linux-gnu \
             -p tickless-capi --target-dir target/sanitizer-$sanitizer \
             && TICKLESS_SANITIZER=$sanitizer \
             TICKLESS_SANITIZED=$PWD/target/sanitizer-$sanitizer/x86_64-unknown-linux-gnu/debug/libtickless_capi.a \
             cargo test -p tickless-capi --test c || exit 1; done",
        )],
    },
    Step {
        name: "models",
        about: "the models hold in every interleaving that they name; half an hour",
        share: OnRequest,
        parts: &[Line(
            "RUSTFLAGS='--cfg loom' cargo test -p tickless -p tickless-capi -p tickless-core -p tickless-link \
             -p tickless-sched --lib --profile loom --target-dir target/loom -- model::",
        )],
    },
    // The order in which threads run differs from run to run, so this finds what the tests of the check do not.
    Step {
        name: "hunt",
        about: "executors, their ends, aborts and wakes, drawn for ten minutes",
        share: OnRequest,
        parts: &[Line(
            "TICKLESS_HUNT_SEED=${TICKLESS_HUNT_SEED:-1} TICKLESS_HUNT_SECONDS=${TICKLESS_HUNT_SECONDS:-600} \
             cargo test --release -p tickless --test hunt -- --nocapture",
        )],
    },
    Step {
        name: "mutants",
        about: "each rule broken on purpose is noticed (cargo xtask mutants)",
        share: OnRequest,
        parts: &[Line("cargo xtask mutants")],
    },
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::{FEATURES, Part, STEPS};
    use crate::{files, workspace::Workspace};

    fn root() -> &'static Path {
        Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
    }

    /// Returns the lines of a step.
    fn lines(name: &str) -> Vec<&'static str> {
        let step = STEPS.iter().find(|step| step.name == name).unwrap();
        let line = |part: &Part| match part {
            Part::Line(line) | Part::With(_, line) => Some(*line),
            _ => None,
        };
        step.parts.iter().filter_map(line).collect()
    }

    #[test]
    fn each_feature_is_in_a_set() {
        let workspace = Workspace::load(root()).unwrap();
        for package in workspace
            .members()
            .filter(|package| !package.features.is_empty())
        {
            let sets = FEATURES.iter().filter(|(name, _)| *name == package.name);
            let sets = sets.flat_map(|(_, sets)| sets.iter().flat_map(|set| set.split(',')));
            let covered: BTreeSet<&str> = sets.filter(|feature| !feature.is_empty()).collect();
            let existing: BTreeSet<&str> = package.features.keys().map(String::as_str).collect();
            assert_eq!(covered, existing, "{}", package.name);
        }
        for package in workspace.libraries() {
            assert!(
                FEATURES.iter().any(|(name, _)| *name == package.name),
                "{}",
                package.name
            );
        }
    }

    #[test]
    fn each_file_of_models_is_compiled_and_explored() {
        let paths = files::list(root()).unwrap();
        let mut count = 0;
        for path in paths.iter().filter(|path| path.ends_with("/model.rs")) {
            let (package, _) = path.split_once("/src/").unwrap();
            let package = package.rsplit('/').next().unwrap();
            for step in ["loom", "models"] {
                let line = format!("{} ", lines(step)[0]);
                assert!(
                    line.contains(&format!("-p {package} ")),
                    "{path} is not in {step}"
                );
            }
            let directory = path.strip_suffix("/model.rs").unwrap();
            let parents = [
                format!("{directory}.rs"),
                format!("{directory}/mod.rs"),
                format!("{directory}/lib.rs"),
            ];
            let is_declared = parents.iter().any(|parent| {
                files::read(root(), parent).is_ok_and(|text| text.contains("mod model;"))
            });
            assert!(is_declared, "no module declares {path}");
            count += 1;
        }
        assert!(count > 20, "{count}");
    }

    #[test]
    fn the_oldest_compiler_is_that_of_the_manifest() {
        let workspace = Workspace::load(root()).unwrap();
        for package in workspace.libraries() {
            let promised = package.rust_version.as_deref().unwrap();
            assert!(
                lines("msrv")[0].contains(&format!("cargo +{promised} ")),
                "{}",
                package.name
            );
        }
    }

    #[test]
    fn each_line_is_one_of_the_shell() {
        for line in STEPS.iter().flat_map(|step| lines(step.name)) {
            let read = std::process::Command::new("sh")
                .args(["-n", "-c", line])
                .status();
            assert!(read.unwrap().success(), "{line}");
        }
    }
}
