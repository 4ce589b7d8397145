//! A build script that passes the linker the memory layout of the machine for which the kernel is built.

use std::path::Path;

fn main() {
    let arch = std::env::var("CARGO_CFG_TARGET_ARCH").unwrap_or_default();
    let root = std::env::var("CARGO_MANIFEST_DIR").unwrap_or_default();
    let layout = Path::new(&root)
        .join("src/arch")
        .join(&arch)
        .join("layout.ld");
    println!("cargo::rerun-if-changed={}", layout.display());
    // A machine that the kernel does not know is reported by the compiler, in `src/arch/mod.rs`.
    if layout.exists() {
        println!("cargo::rustc-link-arg-bins=-T{}", layout.display());
        println!("cargo::rustc-link-arg-bins=--build-id=none");
        if arch == "x86_64" {
            // The target's own way is a program that may be moved.
            println!("cargo::rustc-link-arg-bins=--no-pie");
            println!("cargo::rustc-link-arg-bins=-zmax-page-size=4096");
        }
    }
}
