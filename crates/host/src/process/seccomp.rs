//! Confinement to a list of system calls (seccomp(2), mode filter).
//!
//! A list of numbers becomes a program of classic BPF: the wrong architecture and any other call end the process at
//! once (SIGSYS), because code that asks for something else is not ours any more. Threads that are started afterwards
//! inherit it; nothing takes it back.

use crate::error::{Context as _, Error, Result};
use std::io;

/// `AUDIT_ARCH_*` of what this was compiled for: system calls have other numbers elsewhere.
const ARCHITECTURE: Option<u32> = if cfg!(target_arch = "x86_64") {
    Some(0xc000_003e)
} else if cfg!(target_arch = "aarch64") {
    Some(0xc000_00b7)
} else {
    None
};

/// Offsets in `struct seccomp_data { int nr; u32 arch; u64 instruction_pointer; u64 args[6]; }`.
const NR: u32 = 0;
const ARCH: u32 = 4;
const ARGUMENTS: u32 = 16;

const LOAD: u32 = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
const JUMP_IF_EQUAL: u32 = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
const RETURN: u32 = libc::BPF_RET | libc::BPF_K;

/// What an argument of a call has to be, or must not be. Arguments count from 0, and of each the lower half is looked at:
/// for those that the kernel takes as an `int`, as it does process numbers and commands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Guard {
    /// This call, this argument: this value and no other.
    Only(libc::c_long, u32, u32),
    /// This call, this argument: any value but this.
    Never(libc::c_long, u32, u32),
}

impl Guard {
    /// A call whose first argument is a process: this one alone.
    pub fn itself(call: libc::c_long) -> Self {
        Self::Only(call, 0, std::process::id())
    }
}

/// From now on the calling thread, and those that it starts, may make these system calls (`libc::SYS_*`) and no others,
/// and those that have guards only as all of these say.
/// Needs "no new privileges" ([`crate::caps::keep_only`] sets it) or `CAP_SYS_ADMIN`. To be called while there is one
/// thread.
pub fn allow_only(calls: &[libc::c_long], guards: &[Guard]) -> Result<()> {
    let Some(architecture) = ARCHITECTURE else {
        return Err(Error::new("no confinement is known for this architecture")
            .mend("use x86-64 or AArch64"));
    };
    let mut program = program(architecture, calls, guards);
    let what = || "cannot confine this process (seccomp)";
    let len = program.len().try_into();
    let len = len.map_err(|_| Error::new("more system calls than a filter holds"))?;
    let program = libc::sock_fprog {
        len,
        filter: program.as_mut_ptr(),
    };
    // SAFETY: the kernel reads `len` instructions from `filter`, both of one vector that lives until after the call.
    let result = unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_SET_MODE_FILTER,
            0,
            &raw const program,
        )
    };
    if result == 0 {
        return Ok(());
    }
    Err(io::Error::last_os_error()).context(what)
}

fn program(architecture: u32, calls: &[libc::c_long], guards: &[Guard]) -> Vec<libc::sock_filter> {
    let mut code = vec![
        instruction(LOAD, ARCH, 0, 0),
        instruction(JUMP_IF_EQUAL, architecture, 1, 0),
        instruction(RETURN, libc::SECCOMP_RET_KILL_PROCESS, 0, 0),
        instruction(LOAD, NR, 0, 0),
    ];
    guards.iter().for_each(|it| code.extend(guard(*it)));
    for call in calls {
        code.push(instruction(JUMP_IF_EQUAL, number(*call), 0, 1));
        code.push(instruction(RETURN, libc::SECCOMP_RET_ALLOW, 0, 0));
    }
    code.push(instruction(RETURN, libc::SECCOMP_RET_KILL_PROCESS, 0, 0));
    code
}

/// Ends the process when the call is the guard's and the argument is not as it says. Found and left with the call's
/// number loaded.
fn guard(guard: Guard) -> [libc::sock_filter; 5] {
    let (call, argument, value, (good, bad)) = match guard {
        Guard::Only(call, argument, value) => (call, argument, value, (1, 0)),
        Guard::Never(call, argument, value) => (call, argument, value, (0, 1)),
    };
    // Both architectures are little-endian: the lower half comes first.
    let at = ARGUMENTS + 8 * argument;
    [
        instruction(JUMP_IF_EQUAL, number(call), 0, 4),
        instruction(LOAD, at, 0, 0),
        instruction(JUMP_IF_EQUAL, value, good, bad),
        instruction(RETURN, libc::SECCOMP_RET_KILL_PROCESS, 0, 0),
        instruction(LOAD, NR, 0, 0),
    ]
}

/// Numbers of the x32 way of calling have bit 30 set and so are in no list.
fn number(call: libc::c_long) -> u32 {
    u32::try_from(call).expect("system calls have small numbers")
}

fn instruction(code: u32, k: u32, jt: u8, jf: u8) -> libc::sock_filter {
    let code = code.try_into().expect("operation codes have 16 bits");
    libc::sock_filter { code, jt, jf, k }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::ExitStatus;

    /// What runs in a process of its own: confined to few calls, it makes one of them or another.
    #[test]
    fn role() {
        let Some(role) = exos_testing::role() else {
            return;
        };
        rustix::thread::set_no_new_privs(true).expect("always allowed");
        let calls = [libc::SYS_exit_group, libc::SYS_dup, libc::SYS_tgkill];
        let guards = [
            Guard::itself(libc::SYS_tgkill),
            Guard::Never(libc::SYS_dup, 0, 1001),
            Guard::Never(libc::SYS_dup, 0, 1002),
        ];
        let (itself, parent) = (std::process::id(), std::os::unix::process::parent_id());
        allow_only(&calls, &guards).expect("the kernel takes the filter");
        // The signal is 0: it would arrive nowhere.
        let (call, first) = match &role[..] {
            "forbidden" => (libc::SYS_getppid, 0),
            "itself" => (libc::SYS_tgkill, itself),
            "another" => (libc::SYS_tgkill, parent),
            "any" => (libc::SYS_dup, 1000),
            "never" => (libc::SYS_dup, 1001),
            "nor" => (libc::SYS_dup, 1002),
            _ => (libc::SYS_exit_group, 42),
        };
        // SAFETY: none of them touches memory; descriptors of a thousand are not open here.
        unsafe { libc::syscall(call, first, first, 0) };
        // SAFETY: ends the process; nothing of it is used after.
        unsafe { libc::_exit(42) }
    }

    fn child(role: &str) -> ExitStatus {
        exos_testing::play("process::seccomp::tests::role", role)
    }

    #[test]
    fn what_is_allowed_works_and_all_else_is_the_end() {
        for allowed in ["allowed", "itself", "any"] {
            assert_eq!(child(allowed).code(), Some(42), "{allowed}");
        }
        for forbidden in ["forbidden", "another", "never", "nor"] {
            assert_eq!(child(forbidden).signal(), Some(libc::SIGSYS), "{forbidden}");
        }
    }
}
