//! What the daemon cannot do any more once it has started.
//!
//! First it gives up the capabilities that only the start needs. From here on it makes namespaces and interfaces for
//! newcomers (SYS_ADMIN, NET_ADMIN), sockets (NET_RAW), programs (BPF) and locked memory (IPC_LOCK) that keeps its pages
//! (LINUX_IMMUTABLE), keeps the host from granted ports (NET_BIND_SERVICE), and does nothing else that takes a privilege:
//! it becomes nobody else, and reads and changes no files but root's, whose user it stays. Then it gives up all system
//! calls but those of its loop: it starts no program, looks into no process, signals none but itself, and loads no module.
//! A call that is not on the list, or not as its guard says, ends it; programs keep their links, and the service manager
//! starts it again.
//!
//! What this is no wall against: files of root's (the calls that write the state file write any), and what SYS_ADMIN and
//! NET_ADMIN can do by the calls that are left.
//!
//! The list was taken from what the tests make it do, and completed with the calls that other C libraries use for the
//! same purpose.

use exos_host::caps::{self, CapabilitySet};
use exos_host::error::Result;
use exos_host::seccomp::{self, Guard};
use libc::c_long;

/// The capabilities that the daemon needs to start with.
pub(super) const NEEDED: CapabilitySet = CapabilitySet::NET_ADMIN
    .union(CapabilitySet::NET_RAW)
    .union(CapabilitySet::BPF)
    .union(CapabilitySet::SYS_ADMIN);

/// For the life of the process.
pub(super) fn confine() -> Result<()> {
    let memory = CapabilitySet::IPC_LOCK | CapabilitySet::LINUX_IMMUTABLE;
    caps::keep_only(NEEDED | memory | CapabilitySet::NET_BIND_SERVICE)?;
    let calls: Vec<c_long> = [ALWAYS, FILES, SOCKETS, KERNEL, OLDER_KERNELS, OLD].concat();
    seccomp::allow_only(&calls, &guards())
}

/// Calls that reach other processes, by what they are used for here: the signal of a panic that aborts, and the limits of
/// this process. A thread moves no other to another processor. Nobody gets a signal as the owner of a descriptor either. And of
/// a process's attributes the names of threads alone.
fn guards() -> [Guard; 9] {
    [
        Guard::Only(libc::SYS_prctl, 0, libc::PR_SET_NAME as u32),
        Guard::itself(libc::SYS_tgkill),
        Guard::Only(libc::SYS_prlimit64, 0, 0),
        Guard::Only(libc::SYS_sched_setaffinity, 0, 0),
        Guard::Never(libc::SYS_fcntl, 1, libc::F_SETOWN as u32),
        Guard::Never(libc::SYS_fcntl, 1, F_SETOWN_EX),
        Guard::Never(libc::SYS_fcntl, 1, F_SETSIG),
        Guard::Never(libc::SYS_ioctl, 1, FIOSETOWN),
        Guard::Never(libc::SYS_ioctl, 1, SIOCSPGRP),
    ]
}

/// linux/fcntl.h and asm-generic/sockios.h.
const F_SETSIG: u32 = 10;
const F_SETOWN_EX: u32 = 15;
const FIOSETOWN: u32 = 0x8901;
const SIOCSPGRP: u32 = 0x8902;

/// Memory, time, threads (entering a namespace is a property of a thread), signals of our own, the end.
const ALWAYS: &[c_long] = &[
    libc::SYS_brk,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_clone,
    libc::SYS_clone3,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_futex,
    // Where the vDSO does not say it.
    libc::SYS_getcpu,
    libc::SYS_getegid,
    libc::SYS_geteuid,
    libc::SYS_getpid,
    libc::SYS_getrandom,
    libc::SYS_gettid,
    libc::SYS_getuid,
    libc::SYS_madvise,
    libc::SYS_mmap,
    libc::SYS_mprotect,
    libc::SYS_mremap,
    libc::SYS_munmap,
    libc::SYS_nanosleep,
    libc::SYS_prctl,
    libc::SYS_prlimit64,
    libc::SYS_restart_syscall,
    libc::SYS_rseq,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_setaffinity,
    libc::SYS_sched_yield,
    libc::SYS_set_robust_list,
    libc::SYS_set_tid_address,
    libc::SYS_sigaltstack,
    libc::SYS_uname,
    libc::SYS_tgkill,
];

/// The policy, the state file, names in /sys/fs/bpf, /proc.
const FILES: &[c_long] = &[
    libc::SYS_close,
    // By a thread that closes a connection with its end.
    libc::SYS_close_range,
    libc::SYS_faccessat,
    libc::SYS_fallocate,
    libc::SYS_fchmod,
    libc::SYS_fcntl,
    libc::SYS_fstat,
    libc::SYS_fstatfs,
    libc::SYS_fsync,
    libc::SYS_ftruncate,
    // For the backtrace of a panic.
    libc::SYS_getcwd,
    libc::SYS_getdents64,
    libc::SYS_lseek,
    libc::SYS_memfd_create,
    libc::SYS_mkdirat,
    libc::SYS_newfstatat,
    libc::SYS_openat,
    libc::SYS_ppoll,
    libc::SYS_pread64,
    libc::SYS_read,
    libc::SYS_readlinkat,
    libc::SYS_readv,
    libc::SYS_renameat,
    libc::SYS_renameat2,
    libc::SYS_statfs,
    libc::SYS_statx,
    libc::SYS_unlinkat,
    libc::SYS_write,
    libc::SYS_writev,
];

/// Programs, the host by netlink, rings, reservations.
const SOCKETS: &[c_long] = &[
    libc::SYS_accept4,
    libc::SYS_bind,
    libc::SYS_connect,
    libc::SYS_getsockname,
    libc::SYS_getsockopt,
    libc::SYS_ioctl,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_sendmsg,
    libc::SYS_sendto,
    libc::SYS_setsockopt,
    // Where the kernel cannot refuse descriptors.
    libc::SYS_shutdown,
    libc::SYS_socket,
];

/// Programs and maps of the packet path, namespaces.
const KERNEL: &[c_long] = &[libc::SYS_bpf, libc::SYS_setns, libc::SYS_unshare];

/// What kernels have no other way for: before Linux 6.5, to hear that a client has ended. It reaches no process without
/// calls that are not here.
const OLDER_KERNELS: &[c_long] = &[libc::SYS_pidfd_open];

/// Calls under older names, which newer architectures do not have.
#[cfg(target_arch = "x86_64")]
const OLD: &[c_long] = &[
    libc::SYS_access,
    libc::SYS_lstat,
    libc::SYS_mkdir,
    libc::SYS_open,
    libc::SYS_poll,
    libc::SYS_readlink,
    libc::SYS_rename,
    libc::SYS_rmdir,
    libc::SYS_stat,
    libc::SYS_unlink,
];
#[cfg(not(target_arch = "x86_64"))]
const OLD: &[c_long] = &[];

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::{Resource, getpid, getrlimit, prlimit};
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::{Command, ExitStatus};

    /// What runs in a process of its own.
    #[test]
    fn role() {
        let Some(role) = exos_testing::role() else {
            return;
        };
        let server = crate::server::tests::server_that_is_sent_descriptors;
        let server = (role == "serve").then(|| server("confined"));
        confine().expect("always allowed");
        match &role[..] {
            "work" => {
                let read = || std::fs::read_to_string("/proc/thread-self/status");
                // The kernel is told the name.
                let thread = std::thread::Builder::new().name("worker".to_owned());
                let thread = thread.spawn(read).expect("a thread");
                let status = thread.join().expect("it ends").expect("our own");
                assert!(status.contains("Seccomp:\t2"), "{status}");
                std::net::UdpSocket::bind("127.0.0.1:0").expect("a free port");
            }
            // As on kernels that cannot refuse descriptors, which have more to do when a connection ends.
            "serve" => {
                let (server, path) = server.expect("it was made for this");
                crate::server::tests::come_and_go(server, &path);
            }
            "exec" => drop(Command::new("/bin/true").status()),
            "signal" => {
                let init = rustix::process::Pid::INIT;
                let _ = rustix::process::test_kill_process(init);
            }
            "abort" => std::process::abort(),
            // By its number it is a process like any other; without one it is this one.
            "attributes" => drop(rustix::thread::set_no_new_privs(true)),
            "limits" => {
                let core = Resource::Core;
                let _ = prlimit(Some(getpid()), core, getrlimit(core));
            }
            other => panic!("no such role: {other}"),
        }
        exos_testing::done();
    }

    fn child(role: &str) -> ExitStatus {
        exos_testing::play("command::confinement::tests::role", role)
    }

    #[test]
    fn it_works_on_and_a_call_that_it_has_no_use_for_ends_it() {
        for allowed in ["work", "serve"] {
            assert!(exos_testing::is_done(child(allowed)), "{allowed}");
        }
        assert_eq!(child("abort").signal(), Some(libc::SIGABRT));
        for forbidden in ["exec", "signal", "limits", "attributes"] {
            assert_eq!(child(forbidden).signal(), Some(libc::SIGSYS), "{forbidden}");
        }
        assert!(guards().contains(&Guard::itself(libc::SYS_tgkill)));
    }
}
