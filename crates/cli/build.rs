//! Keeps an idle server small, where the compiler's usual linker is at work.
//!
//! - A position-independent binary of this size has tens of thousands of addresses to mend at every start, which
//!   costs a megabyte of memory for as long as it runs: it is linked at a fixed address.
//! - What a server runs is a tenth of the code, spread over all of it, and the system loads sixteen pages
//!   around each one that is touched: `server.ld` lays it side by side. A name in there that no longer
//!   exists does no harm. It holds the names that link-time optimisation leaves, so it is for the profile
//!   `dist`: of the names of `release` too few are in it, and the linker takes twenty seconds to look.

use std::env;
use std::path::Path;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=server.ld");
    let variable = |name: &str| env::var(name).unwrap_or_default();
    let target = |part: &str| variable(&format!("CARGO_CFG_TARGET_{part}"));
    if target("OS") != "linux" || target("ENV") != "gnu" || target("ARCH") != "x86_64" {
        return;
    }
    println!("cargo::rustc-link-arg-bins=-no-pie");
    // Somebody else's linker may not know such a script.
    let usual = variable("RUSTC_LINKER").is_empty() && variable("CARGO_ENCODED_RUSTFLAGS").is_empty();
    // `PROFILE` is "release" for both: `…/dist/build/larder-cli-…/out` tells.
    let out = variable("OUT_DIR");
    if usual && Path::new(&out).ancestors().nth(3).is_some_and(|profile| profile.ends_with("dist")) {
        println!("cargo::rustc-link-arg-bins=-Wl,-T,{}/server.ld", variable("CARGO_MANIFEST_DIR"));
    }
}
