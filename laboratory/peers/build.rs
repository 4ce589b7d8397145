//! Builds the shims of C and C++ libraries, behind the feature `c-peers`.
//!
//! A library that is not installed is left out, and the program lists it as missing. If the environment variable
//! `TICKLESS_C_PEERS` is `none`, nothing is built. `cargo xtask check` sets it, because this check builds with all
//! features and its results must not depend on the libraries of a system.

/// The `cfg` names, one for each library that can be present.
const LIBRARIES: [&str; 7] = [
    "tickless", "timerfd", "libevent", "libev", "libuv", "asio", "dpdk",
];

fn main() {
    println!("cargo::rustc-check-cfg=cfg(has_any)");
    for name in LIBRARIES {
        println!("cargo::rustc-check-cfg=cfg(has_{name})");
    }
    println!("cargo::rerun-if-env-changed=TICKLESS_C_PEERS");
    println!("cargo::rerun-if-changed=shims");
    #[cfg(feature = "c-peers")]
    if std::env::var_os("TICKLESS_C_PEERS").is_none_or(|wanted| wanted != "none") {
        shims::build();
    }
}

#[cfg(feature = "c-peers")]
mod shims {
    use std::path::{Path, PathBuf};

    /// The headers of the C interface.
    const OWN: &str = "../../crates/tickless-capi/include";

    pub(super) fn build() {
        println!("cargo::rerun-if-changed={OWN}");
        let own = [PathBuf::from(OWN)];
        let files = [
            "tickless_timer.c",
            "tickless_timeout.c",
            "tickless_loop.c",
            "tickless_checks.c",
        ];
        compile("tickless", &own, &files);
        compile("timerfd", &[], &["timerfd.c"]);
        // Locks are in a library of their own.
        let locks = found("libevent_pthreads");
        if let Some(includes) = locks.and_then(|_| found("libevent_core")) {
            compile("libevent", &includes, &["libevent.c", "libevent_common.c"]);
        }
        // Debian's package of libev has no description for pkg-config.
        if let Some(includes) = header("ev.h") {
            compile("libev", &includes, &["libev.c"]);
            println!("cargo::rustc-link-lib=ev");
        }
        if let Some(includes) = found("libuv") {
            compile("libuv", &includes, &["libuv.c"]);
        }
        if let Some(includes) = header("boost/asio.hpp") {
            compile("asio", &includes, &["asio.cpp"]);
        }
        if let Some(includes) = found("libdpdk") {
            compile("dpdk", &includes, &["dpdk.c"]);
        }
    }

    /// Links a library and returns the directories of its headers, if pkg-config knows the library.
    fn found(library: &str) -> Option<Vec<PathBuf>> {
        let library = pkg_config::Config::new()
            .cargo_metadata(false)
            .probe(library)
            .ok()?;
        // Behind the shim, which is linked first.
        for path in &library.link_paths {
            println!("cargo::rustc-link-search=native={}", path.display());
        }
        for name in &library.libs {
            println!("cargo::rustc-link-lib={name}");
        }
        Some(library.include_paths)
    }

    fn header(name: &str) -> Option<Vec<PathBuf>> {
        let roots = ["/usr/include", "/usr/local/include"].map(Path::new);
        roots
            .iter()
            .any(|root| root.join(name).exists())
            .then(Vec::new)
    }

    fn compile(name: &str, includes: &[PathBuf], files: &[&str]) {
        let mut build = cc::Build::new();
        build.cpp(files.iter().any(|file| file.ends_with(".cpp")));
        // Headers of others, with their warnings; DPDK's need vectors of SSSE3.
        build.includes(includes).warnings(false).opt_level(2);
        build.flag_if_supported(if name == "dpdk" {
            "-mssse3"
        } else {
            "-std=gnu11"
        });
        build.files(files.iter().map(|file| Path::new("shims").join(file)));
        match build.try_compile(&format!("peer_{name}")) {
            Ok(()) => {
                println!("cargo::rustc-cfg=has_{name}");
                println!("cargo::rustc-cfg=has_any");
            }
            Err(error) => println!("cargo::warning={name} cannot be measured: {error}"),
        }
    }
}
