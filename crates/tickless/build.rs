//! Chooses the host: `cfg(portable_host)` is the one that stands on the standard library alone, and `cfg(event_host)`
//! its kind for programs that an event loop of JavaScript calls, which have one thread that must not wait.
//!
//! Systems other than Linux have it, and Linux with the feature `portable`. The feature `internals` opens the Linux
//! host to measurements, so that one stays where both are on, as with `--all-features`.

use std::env;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-check-cfg=cfg(portable_host, event_host)");
    let has = |feature: &str| env::var_os(format!("CARGO_FEATURE_{feature}")).is_some();
    let is_linux = env::var("CARGO_CFG_TARGET_OS").is_ok_and(|system| system == "linux");
    if !is_linux || (has("PORTABLE") && !has("INTERNALS")) {
        println!("cargo::rustc-cfg=portable_host");
    }
    let is = |name: &str, value: &str| env::var(name).is_ok_and(|it| it == value);
    if is("CARGO_CFG_TARGET_ARCH", "wasm32") && is("CARGO_CFG_TARGET_OS", "unknown") {
        println!("cargo::rustc-cfg=event_host");
    }
}
