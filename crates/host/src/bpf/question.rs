//! Programs that the kernel asks before it does something, and that can refuse it: security modules (`BPF_PROG_TYPE_LSM`).
//!
//! The functions that can be asked about are `bpf_lsm_...`: each is called before the act that it is named after. What the
//! program returns, if it is not 0, is the error of the call. The kernel asks only where the security module `bpf` is on
//! (`lsm=`, `CONFIG_LSM`): attaching a program succeeds elsewhere, too, and nobody asks it. So try.
//!
//! Since Linux 6.2 such a program is asked each time. One at `security_...` (`BPF_MODIFY_RETURN`) is left out where another call on
//! the processor has been interrupted while it was asked.

use super::pin;
use super::prog::Prog;
use super::syscall::{Attr, Command, bpf_fd, failed};
use crate::error::{Error, Result};
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;

/// `BPF_XDP`.
const XDP: u32 = 37;

/// A program that is asked, for as long as this or its name is there.
#[derive(Debug)]
pub struct Question {
    fd: OwnedFd,
}

#[repr(C)]
struct OpenAttr {
    name: u64,
    prog_fd: u32,
    padding: u32,
}
// SAFETY: the prefix for BPF_RAW_TRACEPOINT_OPEN, padding explicit, no address.
unsafe impl Attr for OpenAttr {}

#[repr(C)]
struct LinkAttr {
    prog_fd: u32,
    target: u32,
    attach_type: u32,
    flags: u32,
}
// SAFETY: the prefix for BPF_LINK_CREATE, no padding, no address.
unsafe impl Attr for LinkAttr {}

impl Question {
    /// Has the kernel ask a program before the function of this number ([`super::KernelTypes::function`]).
    ///
    /// # Errors
    ///
    /// The kernel refuses the program, or to be asked: it has no trampolines, or 38 programs are asked already.
    pub fn ask(insns: &[u64], name: &str, function: i32) -> Result<Self> {
        let prog = Prog::load_question(insns, name, function)?;
        let mut attr = OpenAttr {
            name: 0,
            prog_fd: prog.raw_fd() as u32,
            padding: 0,
        };
        let opened = bpf_fd(Command::RawTracepointOpen, &mut attr);
        let fd =
            opened.map_err(|e| failed(format!("the kernel cannot ask the program `{name}`"), e))?;
        Ok(Self { fd })
    }

    /// Gives it a name in a BPF file system, so that it outlives this process.
    pub fn pin(&self, path: &Path) -> Result<(), Error> {
        pin::pin(self.fd.as_fd(), path)
    }
}

/// The error's number when an XDP program is attached by this number of a descriptor, which is none: that of who was asked
/// before the kernel looked for it, or EBADF.
pub fn refusal_to_attach(descriptor: u32) -> Option<i32> {
    let mut attr = LinkAttr {
        prog_fd: descriptor,
        target: 1,
        attach_type: XDP,
        flags: 0,
    };
    bpf_fd(Command::LinkCreate, &mut attr).err()?.raw_os_error()
}
