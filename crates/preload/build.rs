//! Builds the library that is loaded into programs, of the sources of this crate, for [`LIBRARY`](src/lib.rs) to hold.
//!
//! It depends on nothing but `std`, so that one call of the compiler makes it.

use std::path::PathBuf;
use std::process::Command;
use std::{env, process};

fn main() {
    println!("cargo::rustc-check-cfg=cfg(exos_preload)");
    println!("cargo::rerun-if-changed=src");
    // What is linted as that library holds none.
    if env::var_os("CARGO_CFG_EXOS_PRELOAD").is_some() {
        return;
    }
    let var = |name| env::var(name).unwrap_or_else(|_| panic!("cargo sets {name}"));
    let library = PathBuf::from(var("OUT_DIR")).join("libexos_preload.so");
    let mut rustc = Command::new(var("RUSTC"));
    rustc.args(["src/lib.rs", "--crate-name", "exos_preload"]);
    rustc.args(["--crate-type", "cdylib", "--edition", "2024"]);
    rustc.args(["--cfg", "exos_preload", "-A", "dead_code"]);
    rustc.args(["-C", "opt-level=3", "-C", "panic=abort"]);
    rustc.args(["-C", "codegen-units=1", "-C", "strip=debuginfo"]);
    rustc.args(["--target", &var("TARGET")]);
    rustc.arg("-o").arg(&library);
    if let Ok(linker) = env::var("RUSTC_LINKER") {
        rustc.arg("-C").arg(format!("linker={linker}"));
    }
    let flags = env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    rustc.args(flags.split('\u{1f}').filter(|flag| !flag.is_empty()));
    match rustc.status() {
        Ok(status) if status.success() => {}
        Ok(status) => {
            println!("cargo::error=the library for programs cannot be built: {status}");
            process::exit(1);
        }
        Err(error) => {
            println!("cargo::error=cannot run the compiler: {error}");
            process::exit(1);
        }
    }
}
