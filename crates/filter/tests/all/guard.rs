//! The guard of lent XDP programs, in the kernel: who may attach one is asked as by netlink.

use crate::common;

use exos_filter::guard::{ANSWER, FUNCTION, GuardLayout, QUESTION, guard};
use exos_host::bpf::{KernelTypes, Map, Prog, Question, permitted, refusal_to_attach};
use exos_host::netns::NetNs;
use std::os::fd::{AsFd as _, AsRawFd as _, FromRawFd as _, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::process::Command;

/// Has the kernel ask the guard; None where it cannot.
pub fn ask() -> Option<Question> {
    let types = KernelTypes::load().ok()?;
    let member = |structure: &str, name: &str| Some(types.member(structure, name)?.offset_bits);
    let code = guard(&GuardLayout::from_layout(member)?);
    let function = types.function(FUNCTION)?;
    match Question::ask(&code.words(), "exos_guard", function) {
        // It is not asked where the security module `bpf` is off.
        Ok(asked) => (refusal_to_attach(QUESTION) == Some(ANSWER)).then_some(asked),
        // A kernel in lockdown has nobody look into it.
        Err(error) if error.is(libc::EPERM) => None,
        Err(error) => panic!("{error}"),
    }
}

/// One bpf(2) call; the error's number.
fn bpf(command: i32, attr: &[u32; 8]) -> Result<i32, i32> {
    // SAFETY: the kernel reads as many bytes as it is told.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, attr.as_ptr(), size_of_val(attr)) };
    if result < 0 {
        return Err(std::io::Error::last_os_error().raw_os_error().unwrap());
    }
    Ok(result as i32)
}

/// Attaches the program with this descriptor to the loopback interface; the error's number.
fn attach(program: i32) -> Result<(), i32> {
    const LINK_CREATE: i32 = 28;
    let link = bpf(LINK_CREATE, &[program as u32, 1, 37, 1 << 1, 0, 0, 0, 0])?;
    // SAFETY: just made, and nobody else's.
    drop(unsafe { OwnedFd::from_raw_fd(link) });
    Ok(())
}

/// Binds a map to a program; the error's number.
fn bind(program: i32, map: i32) -> Result<(), i32> {
    const BIND_MAP: i32 = 35;
    bpf(BIND_MAP, &[program as u32, map as u32, 0, 0, 0, 0, 0, 0]).map(drop)
}

/// What a process of nobody gets that attaches it: in this namespace, and in one of its own where it has all rights.
fn nobody_attaches(program: &Prog, map: &Map, own_namespace: bool) -> String {
    let inherited = [program.raw_fd(), map.raw_fd()].map(|fd| {
        // SAFETY: numbers only; the new descriptor is ours alone, and a program that is started has it too.
        unsafe { OwnedFd::from_raw_fd(libc::fcntl(fd, libc::F_DUPFD, 100)) }
    });
    let numbers = inherited.each_ref().map(|fd| fd.as_raw_fd().to_string());
    let mut command = Command::new("/proc/self/exe");
    command
        .args([
            "guard::program_of_nobody",
            "--exact",
            "--ignored",
            "--nocapture",
        ])
        .env("EXOS_TEST_FDS", numbers.join(","))
        .uid(65_534)
        .gid(65_534)
        .current_dir("/");
    if own_namespace {
        command.env("EXOS_TEST_OWN", "1");
    }
    let output = command.output().unwrap();
    String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
}

#[test]
#[ignore = "run by another test of this file, in a process of its own"]
fn program_of_nobody() {
    if std::env::var_os("EXOS_TEST_OWN").is_some() {
        // SAFETY: numbers only.
        let made = unsafe { libc::unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWNET) };
        if made != 0 {
            // More than one thread, or not allowed here.
            println!("no namespace: {}", std::io::Error::last_os_error());
            return;
        }
    }
    let fds = std::env::var("EXOS_TEST_FDS").unwrap();
    let fds: Vec<i32> = fds.split(',').map(|fd| fd.parse().unwrap()).collect();
    println!(
        "attached: {:?}, bound: {:?}",
        attach(fds[0]),
        bind(fds[0], fds[1])
    );
}

#[test]
fn without_the_right_to_nobody_attaches_a_program() {
    let test = "without_the_right_to_nobody_attaches_a_program";
    if let Err(error) = permitted() {
        return common::skipped(&format!("{test}: {error}"));
    }
    let namespace = match NetNs::anonymous() {
        Ok(namespace) => namespace,
        Err(error) => return common::skipped(&format!("{test}: {error}")),
    };
    let work = || {
        // r0 = XDP_PASS; exit
        let program = Prog::load(&[0x0000_0002_0000_00b7, 0x95], "pass", false).unwrap();
        let guarded = ask();
        let Some(guarded) = guarded else {
            return common::skipped(&format!("{test}: the kernel asks nobody"));
        };
        let map = Map::array("map", 8, 1).unwrap();
        let said = nobody_attaches(&program, &map, false);
        assert!(said.contains("attached: Err(1), bound: Err(1)"), "{said}");
        assert_eq!(
            attach(program.as_fd().as_raw_fd()),
            Ok(()),
            "who has the right"
        );
        let bound = bind(program.raw_fd(), map.raw_fd());
        assert_eq!(bound, Ok(()), "who has the right");
        let said = nobody_attaches(&program, &map, true);
        let is_free = said.contains("attached: Ok(()), bound: Err(1)");
        assert!(is_free || said.contains("no namespace"), "{said}");
        drop(guarded);
    };
    namespace.run(work).unwrap();
}
