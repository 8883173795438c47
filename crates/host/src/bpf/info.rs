//! Questions about programs and links that exist: names, ids, and who holds an interface.

use super::syscall::{Attr, Command, bpf, bpf_fd, failed, name_text};
use crate::error::Error;
use crate::netlink::Netlink;
use std::fmt;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

pub(super) const BPF_LINK_TYPE_XDP: u32 = 6;
/// More links than any machine has: bounds the walk over ids while others come and go.
const LINKS_MAX: usize = 1 << 16;

/// The kernel's description of a loaded program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgInfo {
    /// System-wide id.
    pub id: u32,
    /// The kernel's sum of its instructions, without numbers of maps.
    pub tag: [u32; 2],
    /// Name given at load, at most 15 bytes; may be empty.
    pub name: String,
    /// Bytes of machine code; 0 when the JIT compiler is off.
    pub jited_bytes: u32,
    /// Bytes of its instructions, which the kernel keeps.
    pub xlated_bytes: u32,
    /// The user who loaded it.
    pub uid: u32,
    /// Instructions that the verifier followed, over all paths; a million is the limit.
    pub verified_insns: u32,
}

/// The program on an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct XdpHolder {
    /// The link's system-wide id.
    pub link_id: u32,
    /// The program, as far as it may be looked at.
    pub program: ProgInfo,
}

#[repr(C)]
struct IdAttr {
    id: u32,
    next_id: u32,
    open_flags: u32,
}
// SAFETY: the prefix for BPF_*_GET_FD_BY_ID and BPF_*_GET_NEXT_ID, no padding, no addresses.
unsafe impl Attr for IdAttr {}

#[repr(C)]
struct InfoAttr {
    bpf_fd: u32,
    info_len: u32,
    info: u64,
}
// SAFETY: the prefix for BPF_OBJ_GET_INFO_BY_FD, no padding; `object_info` gives a live buffer of `info_len` bytes.
unsafe impl Attr for InfoAttr {}

/// The first `N` words of the object's info struct. All zero on entry: the kernel is asked for no arrays.
fn object_info<const N: usize>(fd: BorrowedFd<'_>) -> io::Result<[u32; N]> {
    // u64 alignment is what the kernel's structs have.
    #[repr(C, align(8))]
    struct Words<const N: usize>([u32; N]);
    let mut words = Words([0; N]);
    let mut attr = InfoAttr {
        bpf_fd: fd.as_raw_fd() as u32,
        info_len: size_of_val(&words.0) as u32,
        info: words.0.as_mut_ptr() as u64,
    };
    bpf(Command::ObjGetInfoByFd, &mut attr)?;
    Ok(words.0)
}

impl ProgInfo {
    /// The program behind an id, for example one that netlink reports for an interface.
    pub fn by_id(id: u32) -> Result<Self, Error> {
        let mut attr = IdAttr {
            id,
            next_id: 0,
            open_flags: 0,
        };
        let fd = bpf_fd(Command::ProgGetFdById, &mut attr).map_err(|source| {
            failed(format!("cannot open the BPF program with id {id}"), source)
        })?;
        Self::of_fd(std::os::fd::AsFd::as_fd(&fd))
    }

    /// The program behind a descriptor.
    pub(super) fn of_fd(fd: BorrowedFd<'_>) -> Result<Self, Error> {
        // struct bpf_prog_info: type 0, id 4, tag 8, jited_prog_len 16, xlated_prog_len 20, …, created_by_uid 48,
        // …, name 64..80, …, verified_insns 216 (Linux 5.16).
        let words: [u32; 56] = object_info(fd).map_err(|source| {
            failed(
                "cannot ask for a BPF program's description".to_owned(),
                source,
            )
        })?;
        let name: Vec<u8> = words[16..20].iter().flat_map(|w| w.to_ne_bytes()).collect();
        Ok(Self {
            id: words[1],
            tag: [words[2], words[3]],
            name: name_text(&name),
            jited_bytes: words[4],
            xlated_bytes: words[5],
            uid: words[12],
            verified_insns: words[54],
        })
    }
}

/// What a link is attached to.
pub(super) struct LinkTarget {
    /// `enum bpf_link_type`.
    pub(super) kind: u32,
    /// The interface, for links that have one; 0 when it is gone.
    pub(super) ifindex: u32,
}

/// The target behind a link's descriptor.
pub(super) fn link_target(fd: BorrowedFd<'_>) -> Result<LinkTarget, Error> {
    // struct bpf_link_info: type 0, id 4, prog_id 8, padding 12, then xdp.ifindex or tcx.ifindex 16.
    let words: [u32; 6] = object_info(fd)
        .map_err(|source| failed("cannot ask for a BPF link's target".to_owned(), source))?;
    Ok(LinkTarget {
        kind: words[0],
        ifindex: words[4],
    })
}

/// What a map was created with.
pub(super) struct MapShape {
    pub(super) kind: u32,
    pub(super) key_size: usize,
    pub(super) value_size: usize,
    pub(super) entries: u32,
    pub(super) name: String,
}

/// The shape of the map behind a descriptor.
pub(super) fn map_shape(fd: BorrowedFd<'_>) -> Result<MapShape, Error> {
    // struct bpf_map_info: type 0, id 4, key_size 8, value_size 12, max_entries 16, map_flags 20, name 24..40.
    let words: [u32; 10] = object_info(fd)
        .map_err(|source| failed("cannot ask for a BPF map's description".to_owned(), source))?;
    let name: Vec<u8> = words[6..10].iter().flat_map(|w| w.to_ne_bytes()).collect();
    Ok(MapShape {
        kind: words[0],
        key_size: words[2] as usize,
        value_size: words[3] as usize,
        entries: words[4],
        name: name_text(&name),
    })
}

/// The system-wide id of the map behind a descriptor.
pub(super) fn map_id(fd: BorrowedFd<'_>) -> Result<u32, Error> {
    let words: [u32; 2] = object_info(fd)
        .map_err(|source| failed("cannot ask for a BPF map's id".to_owned(), source))?;
    Ok(words[1])
}

/// The map of this number, if there is one.
pub(super) fn map_by_id(id: u32) -> Result<Option<OwnedFd>, Error> {
    by_id(Command::MapGetFdById, "map", id)
}

/// Whether a map is there still: some process has a descriptor of it or has it mapped, a program uses it, or it
/// has a name. Needs `CAP_BPF` and `CAP_SYS_ADMIN`.
pub fn map_exists(id: u32) -> Result<bool, Error> {
    map_by_id(id).map(|found| found.is_some())
}

/// Whether a program is there still: some process has a descriptor of it, it is attached, or it has a name. Needs `CAP_BPF`
/// and `CAP_SYS_ADMIN`.
pub fn prog_exists(id: u32) -> Result<bool, Error> {
    prog_by_id(id).map(|found| found.is_some())
}

/// The program of this number, if there is one.
pub(super) fn prog_by_id(id: u32) -> Result<Option<OwnedFd>, Error> {
    by_id(Command::ProgGetFdById, "program", id)
}

fn by_id(command: Command, what: &str, id: u32) -> Result<Option<OwnedFd>, Error> {
    let mut attr = IdAttr {
        id,
        next_id: 0,
        open_flags: 0,
    };
    match bpf_fd(command, &mut attr) {
        Ok(fd) => Ok(Some(fd)),
        Err(e) if e.raw_os_error() == Some(libc::ENOENT) => Ok(None),
        Err(e) => Err(failed(
            format!("cannot look for the BPF {what} with id {id}"),
            e,
        )),
    }
}

/// The XDP link that holds an interface of this network namespace, if any.
///
/// Programs attached without a link (`ip link set … xdp`) are not found here: netlink reports their id.
pub fn who_holds_xdp(ifindex: u32) -> Result<Option<XdpHolder>, Error> {
    // An index is that of an interface in every namespace, and links say no more: which program is on ours,
    // netlink knows.
    let interface = Netlink::new()?.link_by_index(ifindex)?;
    let Some(xdp) = interface.and_then(|interface| interface.xdp) else {
        return Ok(None);
    };
    link_to(ifindex, xdp.prog_id)
}

/// The BPF link that keeps the program `prog_id` on `ifindex`.
pub(super) fn link_to(ifindex: u32, prog_id: u32) -> Result<Option<XdpHolder>, Error> {
    let mut id = 0;
    for _ in 0..LINKS_MAX {
        let mut attr = IdAttr {
            id,
            next_id: 0,
            open_flags: 0,
        };
        match bpf(Command::LinkGetNextId, &mut attr) {
            Ok(_) => id = attr.next_id,
            Err(e) if e.raw_os_error() == Some(libc::ENOENT) => return Ok(None),
            Err(e) => return Err(failed("cannot list BPF links".to_owned(), e)),
        }
        if let Some(holder) = xdp_link(id, ifindex, prog_id)? {
            return Ok(Some(holder));
        }
    }
    Ok(None)
}

/// The link `id` if it is an XDP link on `ifindex` with the program `prog_id`. A link that went in the meantime is
/// None, and so is one that somebody is just making: the kernel lists it already, but opens it only when it is
/// attached (EAGAIN).
fn xdp_link(id: u32, ifindex: u32, prog_id: u32) -> Result<Option<XdpHolder>, Error> {
    let mut attr = IdAttr {
        id,
        next_id: 0,
        open_flags: 0,
    };
    let fd = match bpf_fd(Command::LinkGetFdById, &mut attr) {
        Ok(fd) => fd,
        Err(e) if matches!(e.raw_os_error(), Some(libc::ENOENT | libc::EAGAIN)) => return Ok(None),
        Err(e) => return Err(failed(format!("cannot open the BPF link with id {id}"), e)),
    };
    // struct bpf_link_info: type 0, id 4, prog_id 8, padding 12, xdp.ifindex 16.
    let words: [u32; 6] = object_info(std::os::fd::AsFd::as_fd(&fd))
        .map_err(|source| failed(format!("cannot ask for the BPF link with id {id}"), source))?;
    if words[0] != BPF_LINK_TYPE_XDP || words[4] != ifindex || words[2] != prog_id {
        return Ok(None);
    }
    Ok(Some(XdpHolder {
        link_id: id,
        program: ProgInfo::by_id(prog_id)?,
    }))
}

impl fmt::Display for XdpHolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self.program.name.as_str() {
            "" => "(no name)",
            name => name,
        };
        write!(
            f,
            "the XDP program {name} (program id {}, link id {}, loaded by user {})",
            self.program.id, self.link_id, self.program.uid
        )
    }
}
