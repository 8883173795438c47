//! Programs that the kernel asks before it does something, and that can refuse it (`BPF_MODIFY_RETURN`, Linux 5.7).
//!
//! The functions that can be asked about are those of the security modules, `security_...`: each is called before the act that
//! it is named after. What the program returns, if it is not 0, is the error of the call.

use super::pin;
use super::prog::Prog;
use super::syscall::{Attr, Command, bpf_fd, failed};
use crate::error::{Error, Result};
use std::os::fd::OwnedFd;
use std::path::Path;

/// A program that is asked, for as long as this or its name is there.
#[derive(Debug)]
pub struct Question {
    _fd: OwnedFd,
}

#[repr(C)]
struct OpenAttr {
    name: u64,
    prog_fd: u32,
    padding: u32,
}
// SAFETY: the prefix for BPF_RAW_TRACEPOINT_OPEN, padding explicit, no address.
unsafe impl Attr for OpenAttr {}

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
        Ok(Self { _fd: fd })
    }

    /// Gives it a name in a BPF file system, so that it outlives this process.
    pub fn pin(&self, path: &Path) -> Result<(), Error> {
        pin::pin(std::os::fd::AsFd::as_fd(&self._fd), path)
    }
}
