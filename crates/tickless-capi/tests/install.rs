//! Tests the interface as programs use it: `install.sh` puts it below a directory, pkg-config finds it there, programs
//! link it statically and dynamically, and they run.
#![cfg(target_os = "linux")]

use std::path::Path;
use std::process::Command;

#[track_caller]
fn output(command: &mut Command) -> String {
    let output = command.output().expect("it can be started");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {text}{errors}");
    text
}

/// Returns the shared libraries that a program or a library requests, and the name of a library.
fn dynamic(file: &Path) -> String {
    output(Command::new("readelf").arg("-d").arg(file))
}

#[test]
#[expect(clippy::print_stdout, reason = "the reason why nothing is tested")]
fn programs_are_built_against_what_is_installed() {
    for program in ["gcc", "pkg-config", "readelf", "size"] {
        if Command::new(program).arg("--version").output().is_err() {
            println!("skipped: the installation, because there is no {program}");
            return;
        }
    }
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let place = std::env::temp_dir().join(format!("tickless-install-{}", std::process::id()));
    let prefix = place.join("prefix");
    // Twice: an installation replaces the last one.
    for _ in 0..2 {
        output(
            Command::new(package.join("install.sh"))
                .arg(&prefix)
                .arg("dev"),
        );
    }
    let library = prefix.join("lib");
    let name = dynamic(&library.join("libtickless.so"));
    assert!(name.contains("soname: [libtickless.so.0]"), "{name}");
    for is_static in [false, true] {
        let program = place.join(format!("example-{is_static}"));
        let options = output(
            Command::new("pkg-config")
                .args(is_static.then_some("--static"))
                .args(["--cflags", "--libs", "tickless"])
                .env("PKG_CONFIG_PATH", library.join("pkgconfig")),
        );
        let options = options.split_whitespace().map(|option| match option {
            // By its name, because a linker prefers the shared library beside it.
            "-ltickless" if is_static => "-l:libtickless.a",
            option => option,
        });
        let mut compile = Command::new("gcc");
        compile
            .arg(package.join("examples/epoll.c"))
            .arg("-o")
            .arg(&program);
        output(compile.args(options));
        let needed = dynamic(&program).contains("[libtickless.so.0]");
        assert_eq!(needed, !is_static);
        // A program with the static library runs without the shared one.
        let found = if is_static { &place } else { &library };
        let said = output(Command::new(&program).env("LD_LIBRARY_PATH", found));
        assert!(said.starts_with("0 beats missing"), "{said}");
    }
    for header in ["include/tickless.hpp", "include/tickless-posix.h"] {
        assert!(prefix.join(header).exists(), "{header}");
    }
    std::fs::remove_dir_all(&place).expect("nothing of it is open");
}
