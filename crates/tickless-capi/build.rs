//! The build script that sets the name (`soname`) by which programs load the shared library.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libtickless.so.0");
}
