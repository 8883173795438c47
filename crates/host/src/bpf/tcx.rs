//! tcx links: a traffic control program on an interface, for as long as a descriptor is open or a name is pinned.
//!
//! Several links may be on one hook; ours goes behind those that are there. Needs Linux 6.6.

use super::info;
use super::pin;
use super::prog::Prog;
use super::syscall::{Attr, Command, bpf_fd, failed};
use crate::error::{Error, Result};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

const BPF_LINK_TYPE_TCX: u32 = 11;

/// Which packets of the interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum TcxHook {
    /// Those that come in (`BPF_TCX_INGRESS`).
    Ingress = 46,
    /// Those that go out (`BPF_TCX_EGRESS`).
    Egress = 47,
}

/// A program attached to a hook. Dropped: detached, unless pinned.
#[derive(Debug)]
pub struct TcxLink {
    fd: OwnedFd,
    ifindex: u32,
}

#[repr(C)]
struct CreateAttr {
    prog_fd: u32,
    target_ifindex: u32,
    attach_type: u32,
    flags: u32,
    relative_fd: u32,
    padding: u32,
    expected_revision: u64,
}
// SAFETY: the prefix for BPF_LINK_CREATE with tcx, padding explicit, no addresses.
unsafe impl Attr for CreateAttr {}

impl TcxLink {
    /// Attach `prog`, loaded with [`Prog::load_classifier`], to the interface.
    pub fn attach(ifindex: u32, prog: &Prog, hook: TcxHook) -> Result<Self> {
        let mut attr = CreateAttr {
            prog_fd: prog.raw_fd() as u32,
            target_ifindex: ifindex,
            attach_type: hook as u32,
            flags: 0,
            relative_fd: 0,
            padding: 0,
            expected_revision: 0,
        };
        let fd = bpf_fd(Command::LinkCreate, &mut attr).map_err(|e| explain(ifindex, hook, e))?;
        Ok(Self { fd, ifindex })
    }

    /// The interface; 0 when it is gone.
    pub fn ifindex(&self) -> u32 {
        self.ifindex
    }

    /// Put another program in place of the present one, without a gap.
    pub fn update(&self, prog: &Prog) -> Result<()> {
        super::link::replace(self.fd.as_fd(), prog).map_err(|source| {
            failed(
                format!("cannot replace the program of interface {}", self.ifindex),
                source,
            )
        })
    }

    /// Give it a name in a BPF file system, so that it outlives this process.
    pub fn pin(&self, path: &Path) -> Result<()> {
        pin::pin(self.fd.as_fd(), path)
    }

    /// Open the link of this name.
    pub fn open_pinned(path: &Path) -> Result<Self> {
        let fd = pin::open(path)?;
        let link = info::link_target(fd.as_fd())?;
        if link.kind != BPF_LINK_TYPE_TCX {
            return Err(Error::new(format!("{} is no tcx link", path.display()))
                .mend("remove it: it is not ours"));
        }
        Ok(Self {
            fd,
            ifindex: link.ifindex,
        })
    }
}

impl AsFd for TcxLink {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

fn explain(ifindex: u32, hook: TcxHook, source: io::Error) -> Error {
    let mut error = failed(
        format!("cannot attach a traffic control program to interface {ifindex} ({hook:?})"),
        source,
    );
    let mend = match error.errno() {
        Some(libc::EINVAL) => Some("links for traffic control need Linux 6.6 or newer"),
        Some(libc::ENODEV) => {
            Some("there is no such interface in this network namespace: `ip link` lists them")
        }
        _ => None,
    };
    if let Some(mend) = mend {
        error.mend = Some(mend.to_owned());
    }
    error
}
