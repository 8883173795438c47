//! The system call: its commands, its arguments, names of objects, and what its errors mean.

use crate::error::Error;
use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

/// `enum bpf_cmd`, as far as it is used here.
#[derive(Clone, Copy)]
#[repr(i32)]
pub(super) enum Command {
    MapCreate = 0,
    MapLookup = 1,
    MapUpdate = 2,
    MapDelete = 3,
    MapGetNextKey = 4,
    ProgLoad = 5,
    ObjPin = 6,
    ObjGet = 7,
    ProgTestRun = 10,
    ProgGetFdById = 13,
    MapGetFdById = 14,
    ObjGetInfoByFd = 15,
    RawTracepointOpen = 17,
    MapFreeze = 22,
    LinkCreate = 28,
    LinkUpdate = 29,
    LinkGetFdById = 30,
    LinkGetNextId = 31,
}

/// Longest object name, with its terminating zero (`BPF_OBJ_NAME_LEN`).
pub(super) const NAME_LEN: usize = 16;

/// Marks the structs that may be handed to bpf(2).
///
/// # Safety
/// The implementor is `repr(C)`, a prefix of `union bpf_attr` for the command it is used with, has no implicit
/// padding, and every address in it points to memory that lives and is large enough for the whole call.
pub(super) unsafe trait Attr {}

/// One bpf(2) call. The kernel may write results into `attr`.
pub(super) fn bpf<A: Attr>(command: Command, attr: &mut A) -> io::Result<i32> {
    // SAFETY: `attr` is a live, exclusive, fully initialised prefix of union bpf_attr by the contract of `Attr`,
    // and the kernel reads and writes no more of it than the size passed.
    let result = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            command as libc::c_int,
            std::ptr::from_mut(attr),
            size_of::<A>() as libc::c_uint,
        )
    };
    match result {
        -1 => Err(io::Error::last_os_error()),
        value => Ok(value as i32),
    }
}

/// A bpf(2) call whose result is a new descriptor. All such descriptors are close-on-exec.
pub(super) fn bpf_fd<A: Attr>(command: Command, attr: &mut A) -> io::Result<OwnedFd> {
    let fd = bpf(command, attr)?;
    // SAFETY: the kernel just made this descriptor for us; nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// A kernel object name: at most 15 bytes of `[A-Za-z0-9_.]`; other characters become `_`.
pub(super) fn object_name(name: &str) -> [u8; NAME_LEN] {
    let mut out = [0; NAME_LEN];
    for (slot, byte) in out[..NAME_LEN - 1].iter_mut().zip(name.bytes()) {
        let allowed = byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'.';
        *slot = if allowed { byte } else { b'_' };
    }
    out
}

/// Text up to the first zero byte.
pub(super) fn name_text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|&b| b == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

/// An error of bpf(2) with the remedy that its error number suggests.
pub(super) fn failed(what: String, source: io::Error) -> Error {
    let mend = match source.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => Some(
            "run as root, or with the capabilities CAP_BPF and CAP_NET_ADMIN; a low memory lock limit \
             (ulimit -l) gives the same error on kernels before 5.11",
        ),
        Some(libc::ENOSYS) => {
            Some("this kernel was built without bpf(2): use one with CONFIG_BPF_SYSCALL")
        }
        Some(libc::ENOMEM) => Some("free some memory, or ask for fewer map entries"),
        Some(libc::EMFILE) => Some("raise the limit on open files (ulimit -n)"),
        _ => None,
    };
    let mut error = Error::io(what, source);
    error.mend = mend.map(str::to_owned);
    error
}
