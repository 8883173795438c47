//! A file that a program has open here: what is taken, and for which users it is kept.

use crate::protocol::Status;
use crate::public::is_public;
use crate::version::{Version, is_kept};
use exos_host::lease::{ReadLease, Refusal};
use rustix::fs::{FileType, Mode, OFlags, Stat, fcntl_getfl, fstat, fstatfs, open};
use rustix::io::Errno;
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};

/// For whom files are kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Audience {
    /// The programs of one user: any file that one of them has opened.
    User,
    /// Several users, each of which reads all that is kept: files that anybody may read.
    Host,
}

/// A file that a program has open here.
#[derive(Debug)]
pub(crate) struct OpenFile {
    pub descriptor: OwnedFd,
    pub device: u64,
    pub inode: u64,
    pub version: Version,
    /// Where the next read begins, if it goes on behind the last.
    pub next: u64,
}

impl OpenFile {
    /// A file that a program has opened: the kernel has let it read that.
    pub fn new(descriptor: OwnedFd, audience: Audience) -> Result<Self, Status> {
        let flags = fcntl_getfl(&descriptor).map_err(|_| Status::Unsuitable)?;
        let is_readable = flags & OFlags::RWMODE == OFlags::RDONLY && !flags.contains(OFlags::PATH);
        let found = fstat(&descriptor).map_err(|_| Status::Unsuitable)?;
        let is_file = FileType::from_raw_mode(found.st_mode) == FileType::RegularFile;
        let system = fstatfs(&descriptor).map_err(|_| Status::Unsuitable)?;
        if !is_readable || !is_file || found.st_size == 0 || !is_kept(system.f_type) {
            return Err(Status::Unsuitable);
        }
        let version = Version::of(&found);
        if !version.has_nanoseconds() {
            return Err(Status::Unsuitable);
        }
        if audience == Audience::Host && !is_public(descriptor.as_fd(), &found) {
            return Err(Status::Private);
        }
        let descriptor = reopen(&descriptor).map_err(|_| Status::Unsuitable)?;
        drop(lease(&descriptor, audience)?);
        if !version.is_settled() {
            return Err(Status::Unsettled);
        }
        let Stat {
            st_dev: device,
            st_ino: inode,
            ..
        } = found;
        Ok(Self {
            descriptor,
            device,
            inode,
            version,
            next: 0,
        })
    }
}

/// An open file of this process's own: leases, and the signals that tell of writers, are an open file's, and the program has the other.
fn reopen(file: &OwnedFd) -> Result<OwnedFd, Errno> {
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    open(path, flags, Mode::empty())
}

/// A lease; nothing where the file is another user's, whose times are all that is known. Of several users nothing is taken without one: while it is
/// held nobody can close a file to others and write it, and have what is written read into memory that others have.
pub(crate) fn lease(file: &OwnedFd, audience: Audience) -> Result<Option<ReadLease<'_>>, Status> {
    match (ReadLease::take(file.as_fd()), audience) {
        (Ok(lease), _) => Ok(Some(lease)),
        (Err(Refusal::NotOwner), Audience::User) => Ok(None),
        (Err(Refusal::NotOwner), Audience::Host) => Err(Status::Unsuitable),
        (Err(Refusal::Writing), _) => Err(Status::Writing),
        (Err(Refusal::Unsupported), _) => Err(Status::Unsuitable),
    }
}
