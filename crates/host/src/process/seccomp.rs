//! Confinement to a list of system calls (seccomp(2), mode filter).
//!
//! A list of numbers becomes a program of classic BPF, by the crate seccompiler: the wrong architecture and any other call
//! end the process at once (SIGSYS), because code that asks for something else is not ours any more. Threads that are
//! started afterwards inherit it; nothing takes it back.

use crate::error::{Error, Result};
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition,
    SeccompFilter, SeccompRule, TargetArch, apply_filter,
};

/// What an argument of a call has to be, or must not be. Arguments count from 0, and of each the lower half is looked at:
/// for those that the kernel takes as an `int`, as it does process numbers and commands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Guard {
    /// This call, this argument: this value and no other.
    Only(libc::c_long, u8, u32),
    /// This call, this argument: any value but this.
    Never(libc::c_long, u8, u32),
}

impl Guard {
    /// A call whose first argument is a process: this one alone.
    pub fn itself(call: libc::c_long) -> Self {
        Self::Only(call, 0, std::process::id())
    }
}

/// From now on the calling thread, and those that it starts, may make these system calls (`libc::SYS_*`) and no others,
/// and those that have guards only as all of these say. It can have no new privileges from then on. To be called while
/// there is one thread.
pub fn allow_only(calls: &[libc::c_long], guards: &[Guard]) -> Result<()> {
    let what = "cannot confine this process (seccomp)";
    let architecture = TargetArch::try_from(std::env::consts::ARCH).map_err(|_| {
        Error::new("no confinement is known for this architecture").mend("use x86-64 or AArch64")
    })?;
    let program = program(architecture, calls, guards);
    let program = program.map_err(|e| Error::new(format!("{what}: {e}")))?;
    apply_filter(&program).map_err(|e| match e {
        seccompiler::Error::Prctl(e) | seccompiler::Error::Seccomp(e) => Error::io(what, e),
        e => Error::new(format!("{what}: {e}")),
    })
}

fn program(
    architecture: TargetArch,
    calls: &[libc::c_long],
    guards: &[Guard],
) -> Result<BpfProgram, BackendError> {
    let rule = |call: &libc::c_long| {
        let guards = guards.iter().filter(|guard| guard.call() == *call);
        let conditions: Vec<_> = guards
            .map(|guard| guard.condition())
            .collect::<Result<_, _>>()?;
        // A call without guards has no rule: it is allowed.
        let rules = if conditions.is_empty() {
            Vec::new()
        } else {
            vec![SeccompRule::new(conditions)?]
        };
        Ok((*call, rules))
    };
    let rules = calls
        .iter()
        .map(rule)
        .collect::<Result<_, BackendError>>()?;
    let (other, allowed) = (SeccompAction::KillProcess, SeccompAction::Allow);
    SeccompFilter::new(rules, other, allowed, architecture)?.try_into()
}

impl Guard {
    fn call(self) -> libc::c_long {
        match self {
            Self::Only(call, ..) | Self::Never(call, ..) => call,
        }
    }

    fn condition(self) -> Result<SeccompCondition, BackendError> {
        let (argument, operator, value) = match self {
            Self::Only(_, argument, value) => (argument, SeccompCmpOp::Eq, value),
            Self::Never(_, argument, value) => (argument, SeccompCmpOp::Ne, value),
        };
        SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operator, value.into())
    }
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
