//! `exos run --check`: which way a program would go, why, and what of it will not work or differs.

use std::ffi::OsStr;
use std::process::ExitCode;

use exos::Error;
use exos_program::text::plain;

use super::{Finding, Way, look_at};

/// Exit statuses of `--check`; it is 0 for shared sockets. What cannot be run has those of a shell.
const INTERCEPTED: u8 = 3;
const KERNEL: u8 = 4;

/// Prints what is known of a program without running it.
pub(crate) fn check(name: &OsStr) -> Result<ExitCode, Error> {
    let finding = match look_at(name) {
        Ok(finding) => finding,
        Err(refusal) => return Ok(refusal.tell()),
    };
    let lines: Vec<String> = lines(&finding).iter().map(|line| plain(line)).collect();
    exos_program::message::results(&(lines.join("\n") + "\n"))?;
    Ok(match finding.way {
        Way::Shared => ExitCode::SUCCESS,
        Way::Intercepted => ExitCode::from(INTERCEPTED),
        Way::Kernel => ExitCode::from(KERNEL),
    })
}

fn lines(finding: &Finding) -> Vec<String> {
    let way = match finding.way {
        Way::Shared => "shared sockets",
        Way::Intercepted => "intercepted calls",
        Way::Kernel => "none: its connections stay the kernel's",
    };
    let scripts = finding
        .scripts
        .iter()
        .map(|script| format!("script   {}", script.display()));
    let mut lines: Vec<_> = scripts.collect();
    lines.push(format!("program  {}", finding.file.display()));
    lines.push(format!("way      {way}"));
    lines.push(format!("because  {}", finding.why));
    lines.extend(
        differences(finding)
            .into_iter()
            .map(|what| format!("differs  {what}")),
    );
    lines
}

/// What its file tells of what does not work (docs/run.md has the whole list).
fn differences(finding: &Finding) -> Vec<String> {
    let elf = &finding.elf;
    let imports = |names: &[&str]| names.iter().any(|name| elf.imports.contains(*name));
    let uses_uring =
        finding.libraries.has("liburing.so") || imports(&["io_uring_setup", "io_uring_queue_init"]);
    let changes_user = imports(&["setuid", "setreuid", "setresuid", "seteuid"])
        && imports(&["execve", "execv", "execvp"]);
    let shared = [
        (
            imports(&["dprintf", "__dprintf_chk", "vdprintf", "__vdprintf_chk"]),
            "dprintf: a socket goes by intercepted calls from then on",
        ),
        (
            imports(&["fdopen"]),
            "fdopen: a socket goes by intercepted calls from then on",
        ),
        (
            imports(&["splice"]),
            "splice: a socket goes by intercepted calls from then on",
        ),
        (
            changes_user,
            "setuid: a process that then becomes another program goes by intercepted calls",
        ),
    ];
    let always = [
        (
            uses_uring,
            "io_uring: refused (ENOSYS), so that it takes other calls",
        ),
        (
            finding.way == Way::Intercepted,
            "UDP: stays the kernel's, with its addresses and its name servers; only TCP is on the stack",
        ),
    ];
    let shared = shared.iter().filter(|_| finding.way == Way::Shared);
    let told = always
        .iter()
        .filter(|_| finding.way != Way::Kernel)
        .chain(shared);
    let mut all: Vec<String> = told
        .filter(|(is_so, _)| *is_so)
        .map(|(_, what)| (*what).to_owned())
        .collect();
    if let Some(gains) = finding.gains {
        all.push(format!("privilege: it gains none, though {gains}"));
    }
    let missing = finding.libraries.missing.iter();
    all.extend(missing.map(|library| format!("{library}: not found, so that it may not start")));
    all
}
