//! XDP links: a program on an interface for as long as a descriptor is open.
//!
//! A link cannot be replaced by somebody else's program, and goes when its descriptor is closed, also when the
//! process is killed: that is what makes clean-up after SIGKILL unnecessary. Replacing the program of a link on a
//! live veth stalls it for some 16 ms; swap a program array's entry instead where packets flow.

use super::info;
use super::info::who_holds_xdp;
use super::merging::Merging;
use super::pin;
use super::prog::Prog;
use super::syscall::{Attr, Command, bpf, bpf_fd, failed};
use crate::error::Error;
use crate::netlink::Netlink;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;

const BPF_XDP: u32 = 37;
const XDP_FLAGS_SKB_MODE: u32 = 1 << 1;
const XDP_FLAGS_DRV_MODE: u32 = 1 << 2;

/// Where the program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum XdpMode {
    /// In the driver, before a socket buffer is made. Not every driver has it.
    Native,
    /// After the kernel has made a socket buffer: any interface, slower.
    Generic,
}

/// A program attached to an interface. Dropped: detached, unless it has a name; then what the interface did before is put
/// back.
#[derive(Debug)]
pub struct Link {
    fd: OwnedFd,
    ifindex: u32,
    mode: XdpMode,
    /// Dropped after the descriptor.
    merging: Merging,
}

#[repr(C)]
struct CreateAttr {
    prog_fd: u32,
    target_ifindex: u32,
    attach_type: u32,
    flags: u32,
}
// SAFETY: the prefix for BPF_LINK_CREATE, no padding, no addresses.
unsafe impl Attr for CreateAttr {}

#[repr(C)]
struct UpdateAttr {
    link_fd: u32,
    new_prog_fd: u32,
    flags: u32,
    old_prog_fd: u32,
}
// SAFETY: the prefix for BPF_LINK_UPDATE, no padding, no addresses.
unsafe impl Attr for UpdateAttr {}

impl Link {
    /// Attach `prog` to the interface in `mode`.
    pub fn attach_xdp(ifindex: u32, prog: &Prog, mode: XdpMode) -> Result<Self, Error> {
        let mut attr = CreateAttr {
            prog_fd: prog.raw_fd() as u32,
            target_ifindex: ifindex,
            attach_type: BPF_XDP,
            flags: match mode {
                XdpMode::Native => XDP_FLAGS_DRV_MODE,
                XdpMode::Generic => XDP_FLAGS_SKB_MODE,
            },
        };
        let merging = Merging::note(ifindex);
        let fd = match bpf_fd(Command::LinkCreate, &mut attr) {
            Ok(fd) => fd,
            Err(error) => {
                merging.put_back_at_once();
                return Err(explain(ifindex, mode, error));
            }
        };
        Ok(Self {
            fd,
            ifindex,
            mode,
            merging,
        })
    }

    /// Put another program in place of the present one, without a gap.
    pub fn update(&self, prog: &Prog) -> Result<(), Error> {
        replace(self.fd.as_fd(), prog).map_err(|source| {
            failed(
                format!(
                    "cannot replace the XDP program of interface {}",
                    self.ifindex
                ),
                source,
            )
        })
    }

    /// Give it a name in a BPF file system, so that it outlives this process.
    pub fn pin(&self, path: &Path) -> Result<(), Error> {
        pin::pin(self.fd.as_fd(), path)
    }

    /// Leave the interface as it is when this is dropped: the link has a name, and stays. Nobody waits for it to go then.
    pub fn keep(&mut self) {
        self.merging.forget();
    }

    /// Open the link of this name. The interface must be in the calling thread's network namespace.
    pub fn open_pinned(path: &Path) -> Result<Self, Error> {
        let fd = pin::open(path)?;
        let link = info::link_target(fd.as_fd())?;
        let interface = match link.kind {
            info::BPF_LINK_TYPE_XDP => Netlink::new()?.link_by_index(link.ifindex)?,
            _ => None,
        };
        let Some(xdp) = interface.and_then(|interface| interface.xdp) else {
            return Err(Error::new(format!(
                "{} is no XDP link on an interface of this namespace",
                path.display()
            ))
            .mend("remove it: its interface is gone, or it is not ours"));
        };
        let mode = match xdp.mode {
            crate::netlink::XdpMode::Generic => XdpMode::Generic,
            _ => XdpMode::Native,
        };
        Ok(Self {
            fd,
            ifindex: link.ifindex,
            mode,
            merging: Merging::note(link.ifindex),
        })
    }

    /// Whether the XDP link of this name is on an interface still, whatever network namespace that is in.
    pub fn is_attached(path: &Path) -> Result<bool, Error> {
        let link = info::link_target(pin::open(path)?.as_fd())?;
        Ok(link.kind == info::BPF_LINK_TYPE_XDP && link.ifindex != 0)
    }

    /// The interface.
    pub fn ifindex(&self) -> u32 {
        self.ifindex
    }

    /// Where the program runs.
    pub fn mode(&self) -> XdpMode {
        self.mode
    }
}

impl AsFd for Link {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Another program for a link of any kind.
pub(super) fn replace(link: BorrowedFd<'_>, prog: &Prog) -> io::Result<()> {
    let mut attr = UpdateAttr {
        link_fd: link.as_raw_fd() as u32,
        new_prog_fd: prog.raw_fd() as u32,
        flags: 0,
        old_prog_fd: 0,
    };
    bpf(Command::LinkUpdate, &mut attr).map(drop)
}

/// Why attaching failed, in words.
fn explain(ifindex: u32, mode: XdpMode, source: io::Error) -> Error {
    let how = match mode {
        XdpMode::Native => "native",
        XdpMode::Generic => "generic",
    };
    let mut error = failed(
        format!("cannot attach an XDP program to interface {ifindex} in {how} mode"),
        source,
    );
    let mend = match error.source.as_ref().and_then(io::Error::raw_os_error) {
        Some(libc::EBUSY | libc::EEXIST) => Some(match who_holds_xdp(ifindex) {
            Ok(Some(holder)) => format!("{holder} holds the interface: stop its owner first"),
            _ => "another program holds the interface: `ip link set dev IFACE xdp off` takes away one that was \
                  attached without a link"
                .to_owned(),
        }),
        Some(_) if !interface_exists(ifindex) => {
            Some("there is no such interface in this network namespace: `ip link` lists them".to_owned())
        }
        Some(libc::EOPNOTSUPP) if mode == XdpMode::Native => {
            Some("the driver has no native XDP: use generic mode".to_owned())
        }
        Some(libc::EINVAL | libc::ERANGE | libc::EMSGSIZE | libc::EOPNOTSUPP) => Some(
            "the driver refuses its present settings: lower the MTU to 3498 or less, turn receive offloads (LRO) \
             off, or use generic mode"
                .to_owned(),
        ),
        _ => None,
    };
    if mend.is_some() {
        error.mend = mend;
    }
    error
}

/// Whether the calling thread's network namespace has this interface: bpf(2) gives EINVAL when not.
fn interface_exists(ifindex: u32) -> bool {
    let mut name = [0; libc::IF_NAMESIZE];
    // SAFETY: if_indextoname writes at most IF_NAMESIZE bytes, which `name` has.
    !unsafe { libc::if_indextoname(ifindex, name.as_mut_ptr()) }.is_null()
}
