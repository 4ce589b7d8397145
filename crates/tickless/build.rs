//! Chooses the host. `cfg(portable_host)` selects the host that needs only the standard library. `cfg(event_host)`
//! selects its variant for programs that an event loop of JavaScript calls, which have one thread that must not wait.
//!
//! Systems other than Linux use the portable host, and so does Linux with the feature `portable`. The feature
//! `internals` opens the Linux host to measurements, so that the Linux host stays if both features are on, as with
//! `--all-features`.

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
