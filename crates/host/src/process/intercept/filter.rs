//! Of which calls we are told: a filter in classic BPF (linux/filter.h, linux/seccomp.h), which the kernel runs for each call.

/// The architecture in a filter's data (linux/audit.h).
#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: u32 = 0xc000_00b7;

// Where things lie in a filter's data (`struct seccomp_data`); of an argument the lower half is first.
const NUMBER: u32 = 0;
const ARCH: u32 = 4;
const ARGUMENTS: u32 = 16;
const ARGUMENT_BYTES: u32 = 8;
const UPPER_HALF: u32 = 4;

/// A call that we are told of. Arguments count from 0.
#[derive(Copy, Clone, Debug)]
pub enum Told {
    /// Always.
    Always(libc::c_long),
    /// Unless the kernel can do it without asking us.
    Unless {
        /// Which call (`libc::SYS_*`).
        call: libc::c_long,
        /// It passes where the lower half of this argument has this value,
        argument: (u8, u32),
        /// and the upper half of this one not this, by which a program says that we are to be told.
        mark: (u8, u32),
    },
}

impl Told {
    /// The instructions that decide about this call, with its number loaded; they end, or go on behind themselves.
    fn instructions(self) -> Vec<libc::sock_filter> {
        match self {
            Self::Always(call) => vec![
                jump(libc::BPF_JEQ, call as u32, 0, 1),
                give(libc::SECCOMP_RET_USER_NOTIF),
            ],
            Self::Unless {
                call,
                argument,
                mark,
            } => vec![
                jump(libc::BPF_JEQ, call as u32, 0, 6),
                load(lower_half(argument.0)),
                jump(libc::BPF_JEQ, argument.1, 0, 2),
                load(lower_half(mark.0) + UPPER_HALF),
                jump(libc::BPF_JEQ, mark.1, 0, 1),
                give(libc::SECCOMP_RET_USER_NOTIF),
                give(libc::SECCOMP_RET_ALLOW),
            ],
        }
    }
}

/// The filter that tells of these calls.
pub(super) fn filter(told: &[Told]) -> Vec<libc::sock_filter> {
    let mut filter = vec![
        load(ARCH),
        jump(libc::BPF_JEQ, ARCHITECTURE, 1, 0),
        // Other kinds of programs of this machine's (32 bits) go by the kernel.
        give(libc::SECCOMP_RET_ALLOW),
        load(NUMBER),
    ];
    filter.extend(told.iter().flat_map(|told| told.instructions()));
    filter.push(give(libc::SECCOMP_RET_ALLOW));
    filter
}

fn lower_half(argument: u8) -> u32 {
    ARGUMENTS + ARGUMENT_BYTES * u32::from(argument)
}

fn load(at: u32) -> libc::sock_filter {
    statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, at)
}

fn give(what: u32) -> libc::sock_filter {
    statement(libc::BPF_RET | libc::BPF_K, what)
}

fn statement(code: u32, k: u32) -> libc::sock_filter {
    libc::sock_filter {
        code: code as u16,
        jt: 0,
        jf: 0,
        k,
    }
}

fn jump(test: u32, k: u32, jt: u8, jf: u8) -> libc::sock_filter {
    libc::sock_filter {
        jt,
        jf,
        ..statement(libc::BPF_JMP | test | libc::BPF_K, k)
    }
}
