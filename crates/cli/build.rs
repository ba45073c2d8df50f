//! Links the binary at a fixed address where that is usual.
//!
//! A position-independent binary of this size has tens of thousands of addresses to mend at every start, which costs
//! a megabyte of memory for as long as it runs.

fn main() {
    let target = |part: &str| std::env::var(format!("CARGO_CFG_TARGET_{part}")).unwrap_or_default();
    if target("OS") == "linux" && target("ENV") == "gnu" && target("ARCH") == "x86_64" {
        println!("cargo::rustc-link-arg-bins=-no-pie");
    }
    println!("cargo::rerun-if-changed=build.rs");
}
