//! A compiler of C, and programs that it makes with the library.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The crate's folder.
pub fn folder() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Where the library is that belongs to this test.
pub fn libraries() -> PathBuf {
    let program = std::env::current_exe().expect("a path");
    program.parent().expect("a folder").to_owned()
}

/// Compiles a program, with the shared library or the one that is linked into it. Nothing where there is no compiler.
pub fn compile(source: &Path, out: &Path, is_shared: bool) -> Option<()> {
    let libraries = libraries();
    let mut cc = Command::new("cc");
    cc.args([
        "-std=c11",
        "-Wall",
        "-Wextra",
        "-Wpedantic",
        "-Werror",
        "-O1",
    ]);
    cc.arg(source).arg("-o").arg(out);
    cc.arg("-I").arg(folder().join("include"));
    match is_shared {
        true => {
            cc.arg("-L").arg(&libraries).arg("-lexos_application_c");
            cc.arg(format!("-Wl,-rpath,{}", libraries.display()));
        }
        false => {
            cc.arg(libraries.join("libexos_application_c.a"));
            cc.args(["-lpthread", "-lm", "-ldl"]);
        }
    }
    let Ok(done) = cc.output() else {
        println!("SKIPPED: a program in C: there is no cc (apt-get install gcc)");
        return None;
    };
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{}: {said}", source.display());
    Some(())
}
