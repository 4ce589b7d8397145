//! The C interface, put where a compiler and `man` find it.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use clap::Args;

use crate::invocation::Invocation;
use crate::man;
use crate::workspace::Workspace;

const PACKAGE: &str = "tickless-capi";
const HEADERS: &str = "crates/tickless-capi/include";
/// The name by which programs ask for the shared library; its build script says the same.
const SONAME: &str = "libtickless.so.0";
/// Built there, below the root.
const BUILT: &str = "target/install";

/// Builds the C interface, and puts libraries, headers, manual pages and `tickless.pc` below a directory.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The directory, as `/usr/local`.
    #[arg(long, value_name = "DIR")]
    prefix: PathBuf,
}

/// Performs the task.
pub(crate) fn main(root: &Path, arguments: &Arguments) -> Result<(), String> {
    let workspace = Workspace::load(root)?;
    let package = workspace.member(PACKAGE).ok_or("there is no C interface")?;
    Invocation::cargo(&[
        "build",
        "--release",
        "-p",
        PACKAGE,
        "-p",
        "tickless-preload",
        "--lib",
        "--target-dir",
        BUILT,
    ])
    .run(root)?;
    let prefix = std::path::absolute(&arguments.prefix)
        .map_err(|error| format!("{}: {error}", arguments.prefix.display()))?;
    let (library, include) = (prefix.join("lib"), prefix.join("include"));
    let settings = library.join("pkgconfig");
    for directory in [&library, &include, &settings] {
        fs::create_dir_all(directory)
            .map_err(|error| format!("{}: {error}", directory.display()))?;
    }
    let built = root.join(BUILT).join("release");
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
    fs::write(&file, settings_of(&prefix, &package.version))
        .map_err(|error| format!("{}: {error}", file.display()))?;
    println!("{} has the C interface", prefix.display());
    Ok(())
}

fn copy(from: &Path, to: &Path) -> Result<(), String> {
    fs::copy(from, to).map_err(|error| format!("{}: {error}", to.display()))?;
    Ok(())
}

/// Replaces what stood there.
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
    use std::path::Path;

    use super::settings_of;

    #[test]
    fn the_settings_name_the_directories() {
        let settings = settings_of(Path::new("/opt/t"), "1.2.3");
        assert!(settings.starts_with("prefix=/opt/t\nlibdir=${prefix}/lib\n"));
        assert!(settings.contains("\nVersion: 1.2.3\nLibs: -L${libdir} -ltickless\n"));
    }
}
