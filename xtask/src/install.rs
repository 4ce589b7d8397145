//! The installation of the C interface, in directories where a compiler and `man` find it.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use clap::Args;
use object::read::archive::ArchiveFile;
use object::{Object, ObjectSection, SectionKind};

use crate::invocation::Invocation;
use crate::man;
use crate::workspace::Workspace;

const PACKAGE: &str = "tickless-capi";
const HEADERS: &str = "crates/tickless-capi/include";
/// The name by which programs request the shared library; its build script sets the same name.
const SONAME: &str = "libtickless.so.0";
/// The directory of the build, relative to the root.
const BUILT: &str = "target/install";
/// The arguments of the build. It builds no other packages, because the features that those need of the library would
/// be in the build.
const BUILD: [&str; 6] = ["build", "-p", PACKAGE, "-p", "tickless-preload", "--lib"];

/// Builds the C interface, and puts libraries, headers, manual pages and `tickless.pc` below a directory.
///
/// Prints how large the libraries are: the file, and the machine code in it.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The directory, as `/usr/local`.
    #[arg(long, value_name = "DIR")]
    prefix: PathBuf,
}

/// Runs `cargo xtask install`.
pub(crate) fn main(root: &Path, arguments: &Arguments) -> Result<(), String> {
    Invocation::cargo(&BUILD)
        .args(&["--release", "--target-dir", BUILT])
        .run(root)?;
    let prefix = std::path::absolute(&arguments.prefix)
        .map_err(|error| format!("{}: {error}", arguments.prefix.display()))?;
    put(root, &root.join(BUILT).join("release"), &prefix)?;
    for library in ["libtickless.a", "libtickless.so", "libtickless-preload.so"] {
        println!("{}", size_of(&prefix.join("lib").join(library))?);
    }
    println!("{} has the C interface", prefix.display());
    Ok(())
}

/// Installs the libraries that cargo left in `built` below `prefix`, with their headers, manual pages and settings.
fn put(root: &Path, built: &Path, prefix: &Path) -> Result<(), String> {
    let workspace = Workspace::load(root)?;
    let package = workspace.member(PACKAGE).ok_or("there is no C interface")?;
    let (library, include) = (prefix.join("lib"), prefix.join("include"));
    let settings = library.join("pkgconfig");
    for directory in [&library, &include, &settings] {
        fs::create_dir_all(directory)
            .map_err(|error| format!("{}: {error}", directory.display()))?;
    }
    let shared = format!("libtickless.so.{}", package.version);
    copy(
        &built.join("libtickless_capi.a"),
        &library.join("libtickless.a"),
    )?;
    copy(&built.join("libtickless_capi.so"), &library.join(&shared))?;
    copy(
        &built.join("libtickless_preload.so"),
        &library.join("libtickless-preload.so"),
    )?;
    link(&shared, &library.join(SONAME))?;
    link(SONAME, &library.join("libtickless.so"))?;
    for header in ["tickless.h", "tickless-posix.h", "tickless.hpp"] {
        copy(&root.join(HEADERS).join(header), &include.join(header))?;
    }
    man::install(root, &prefix.join("share/man"), &package.version)?;
    let file = settings.join("tickless.pc");
    fs::write(&file, settings_of(prefix, &package.version))
        .map_err(|error| format!("{}: {error}", file.display()))
}

/// Returns a line on the size of a library.
fn size_of(path: &Path) -> Result<String, String> {
    let bytes = fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let text = text_of(&bytes).map_err(|error| format!("{}: {error}", path.display()))?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let (file, text) = (kib(bytes.len() as u64), kib(text));
    Ok(format!("{name}: {file} KiB, {text} KiB of them text"))
}

/// Converts bytes to KiB, rounded up, so that only an empty file has size 0.
const fn kib(bytes: u64) -> u64 {
    bytes.div_ceil(1024)
}

/// Adds up the machine code of a library. A static library counts with all of its members, whether a program needs them
/// or not.
fn text_of(bytes: &[u8]) -> Result<u64, object::Error> {
    if !bytes.starts_with(&object::archive::MAGIC) {
        return text_of_object(bytes);
    }
    let mut text = 0;
    for member in ArchiveFile::parse(bytes)?.members() {
        text += text_of_object(member?.data(bytes)?)?;
    }
    Ok(text)
}

fn text_of_object(bytes: &[u8]) -> Result<u64, object::Error> {
    let file = object::File::parse(bytes)?;
    let text = { file.sections() }.filter(|section| section.kind() == SectionKind::Text);
    Ok(text.map(|section| section.size()).sum())
}

fn copy(from: &Path, to: &Path) -> Result<(), String> {
    fs::copy(from, to).map_err(|error| format!("{}: {error}", to.display()))?;
    Ok(())
}

/// Makes a link to `target`, and replaces an existing file.
fn link(target: &str, at: &Path) -> Result<(), String> {
    let _there_was_none = fs::remove_file(at);
    symlink(target, at).map_err(|error| format!("{}: {error}", at.display()))
}

/// Returns the text of the file that pkg-config reads.
fn settings_of(prefix: &Path, version: &str) -> String {
    format!(
        "prefix={}\nlibdir=${{prefix}}/lib\nincludedir=${{prefix}}/include\n\n\
         Name: tickless\nDescription: exact and coarse timers\nVersion: {version}\n\
         Libs: -L${{libdir}} -ltickless\nLibs.private: -lpthread -ldl -lm -lrt\nCflags: -I${{includedir}}\n",
        prefix.display()
    )
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::{Path, PathBuf};
    use std::process::Command;

    use super::{BUILD, SONAME, put, settings_of, size_of};
    use crate::files;
    use crate::invocation::{Invocation, is_installed};

    /// A directory that is removed when its test ends.
    struct Directory(PathBuf);

    impl Drop for Directory {
        fn drop(&mut self) {
            let _it_may_stay = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn the_settings_name_the_directories() {
        let settings = settings_of(Path::new("/opt/t"), "1.2.3");
        assert!(settings.starts_with("prefix=/opt/t\nlibdir=${prefix}/lib\n"));
        assert!(settings.contains("\nVersion: 1.2.3\nLibs: -L${libdir} -ltickless\n"));
    }

    #[track_caller]
    fn output(command: &mut Command) -> String {
        let output = command.output().expect("it can be started");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{command:?}: {text}{errors}");
        text
    }

    /// Returns the compiler options that `pkg-config` prints for the libraries that are installed below `prefix`.
    fn options(prefix: &Path, arguments: &[&str]) -> Vec<String> {
        let text = output(
            Command::new("pkg-config")
                .args(arguments)
                .args(["--cflags", "--libs", "tickless"])
                .env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig")),
        );
        text.split_whitespace().map(str::to_owned).collect()
    }

    /// Returns the shared libraries that a program or a library requests, and the name of a library.
    fn dynamic(file: &Path) -> String {
        output(Command::new("readelf").arg("-d").arg(file))
    }

    /// Tests the interface as programs use it: pkg-config finds it, programs link it statically and dynamically, and
    /// they run in the place of the installation.
    #[test]
    fn programs_are_built_against_what_is_installed() {
        for program in ["gcc", "pkg-config", "readelf"] {
            if !is_installed(program) {
                println!("left out: there is no {program}");
                return;
            }
        }
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        Invocation::cargo(&BUILD).run(root).unwrap();
        let place = std::env::temp_dir().join(format!("tickless-install-{}", std::process::id()));
        let place = Directory(place);
        let prefix = place.0.join("prefix");
        // Twice: an installation replaces the last one.
        for _ in 0..2 {
            put(root, &files::target(root).join("debug"), &prefix).unwrap();
        }

        let library = prefix.join("lib");
        let name = dynamic(&library.join("libtickless.so"));
        assert!(name.contains(&format!("soname: [{SONAME}]")), "{name}");
        let example = root.join("crates/tickless-capi/examples/epoll.c");
        for is_static in [false, true] {
            let program = place.0.join(format!("example-{is_static}"));
            let options: Vec<_> = if is_static {
                // By its name, because a linker prefers the shared library beside it.
                let all = options(&prefix, &["--static"]).into_iter();
                all.map(|option| option.replace("-ltickless", "-l:libtickless.a"))
                    .collect()
            } else {
                options(&prefix, &[])
            };
            let mut compile = Command::new("gcc");
            compile.arg(&example).arg("-o").arg(&program);
            output(compile.args(&options));
            let needed = dynamic(&program).contains(&format!("[{SONAME}]"));
            assert_eq!(needed, !is_static, "{options:?}");
            // A program with the static library runs without the shared one.
            let found = if is_static { &place.0 } else { &library };
            let said = output(Command::new(&program).env("LD_LIBRARY_PATH", found));
            assert!(said.starts_with("0 beats missing"), "{said}");
        }
        for page in ["include/tickless.hpp", "share/man/man3"] {
            assert!(prefix.join(page).exists(), "{page}");
        }
        for library in ["libtickless.a", "libtickless.so"] {
            let size = size_of(&prefix.join("lib").join(library)).unwrap();
            assert!(size.starts_with(&format!("{library}: ")), "{size}");
            assert!(!size.contains(" 0 KiB"), "{size}");
        }
    }
}
