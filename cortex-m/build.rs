//! Passes the memory layout of the board to the linker.

fn main() {
    let root = std::env::var("CARGO_MANIFEST_DIR").unwrap_or_default();
    println!("cargo::rerun-if-changed={root}/memory.x");
    println!("cargo::rustc-link-search={root}");
    println!("cargo::rustc-link-arg-bins=-Tlink.x");
    println!("cargo::rustc-link-arg-bins=--nmagic");
}
