//! Packet scripts: what arrives, what the program does, and what must leave, line by line.
//!
//! | file | job |
//! |---|---|
//! | `parse` | the text of a file as scripts; `segment` and `value` are its parts |
//! | `play` | a script against a stack, on a virtual clock |
//! | `options` | a script's words for the stack's settings, commands and figures |
//! | `flow` | one connection: relative numbers, what left against what should |
//! | `wire` | frames, byte by byte, independent of the code under test |
//!
//! The format is described in `docs/internals/scripts.md`.

mod flow;
mod options;
mod parse;
mod play;
mod segment;
mod value;
pub mod wire;

use std::path::{Path, PathBuf};

/// Lines of what came and went that a failure shows.
const LOG_LINES: usize = 30;

/// The folder of the scripts.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scripts")
}

/// Run all scripts of a file over both families; panics with all failures. `EXOS_SCRIPT` picks those
/// whose names contain it.
pub fn run_file(area: &str) {
    let path = folder().join(format!("{area}.script"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let only = std::env::var("EXOS_SCRIPT").unwrap_or_default();
    let mut failures = Vec::new();
    for ipv6 in [false, true] {
        failures.extend(run_text(area, &text, ipv6, &only));
    }
    assert!(failures.is_empty(), "\n\n{}\n", failures.join("\n\n"));
}

/// The failures of a text's scripts over one family, each as a report to read.
pub fn run_text(area: &str, text: &str, ipv6: bool, only: &str) -> Vec<String> {
    let scripts = match parse::parse(text, ipv6) {
        Ok(scripts) => scripts,
        Err(e) => return vec![format!("{area}.script:{}: {}", e.line, e.what)],
    };
    scripts
        .iter()
        .filter(|s| s.setup.families[usize::from(ipv6)] && s.name.contains(only))
        .filter_map(|script| {
            let failure = play::play(script, ipv6).err()?;
            Some(report(area, script, ipv6, &failure))
        })
        .collect()
}

fn report(area: &str, script: &parse::Script, ipv6: bool, failure: &play::Failure) -> String {
    let family = if ipv6 { "IPv6" } else { "IPv4" };
    let (line, name) = (failure.line, &script.name);
    let mut out = format!("{area}.script:{line}: `{name}` over {family}\n\n");
    for step in script.steps.iter().filter(|s| s.line <= line) {
        let mark = if step.line == line { "->" } else { "  " };
        out += &format!("  {mark} {:>4} | {}\n", step.line, step.text);
    }
    out += &format!(
        "\n  {}\n\n  what came and went:\n",
        failure.what.replace('\n', "\n  ")
    );
    for entry in &failure.log[failure.log.len().saturating_sub(LOG_LINES)..] {
        out += &format!("    {entry}\n");
    }
    out
}
