//! A file that a program has open here: what is taken, and from which users.

use crate::passed::Passed;
use crate::protocol::Status;
use crate::public::is_public;
use crate::version::{Version, is_kept};
use exos_host::lease::{ReadLease, Refusal};
use rustix::fs::{Mode, OFlags, Stat, fcntl_getfl, fstat, fstatfs, open};
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
    /// A file that a program has opened: the kernel has let it read that. Nobody is asked, or waited for, before it is known to be of a file system that
    /// the kernel has.
    pub fn new(passed: Passed, audience: Audience) -> Result<Self, Status> {
        let flags = fcntl_getfl(&passed).map_err(|_| Status::Unsuitable)?;
        let is_readable = flags & OFlags::RWMODE == OFlags::RDONLY && !flags.contains(OFlags::PATH);
        if !is_readable {
            return Err(Status::Unsuitable);
        }
        let closer = passed.closer();
        let mounts = &closer.mounts;
        // No descriptor or memory is left.
        mounts.look().map_err(|_| Status::TooMany)?;
        if !mounts.has_kept(&passed) {
            return Err(Status::Unsuitable);
        }
        let descriptor = passed.take();
        let found = fstat(&descriptor).map_err(|_| Status::Unsuitable)?;
        let system = fstatfs(&descriptor).map_err(|_| Status::Unsuitable)?;
        if found.st_size == 0 || !is_kept(system.f_type) {
            return Err(Status::Unsuitable);
        }
        let version = Version::of(&found);
        if !version.has_nanoseconds() {
            return Err(Status::Unsuitable);
        }
        if audience == Audience::Host && !is_public(descriptor.as_fd(), &found, mounts) {
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

/// A lease; nothing where the file is another user's, whose times are all that is known. Among several users that is not enough: what is written while
/// it is read may be for its owner alone by then.
pub(crate) fn lease(file: &OwnedFd, audience: Audience) -> Result<Option<ReadLease<'_>>, Status> {
    match ReadLease::take(file.as_fd()) {
        Ok(lease) => Ok(Some(lease)),
        Err(Refusal::NotOwner) if audience == Audience::User => Ok(None),
        Err(Refusal::Writing) => Err(Status::Writing),
        Err(Refusal::NotOwner | Refusal::Unsupported) => Err(Status::Unsuitable),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use exos_host::caps::{CapabilitySet, keep_only};

    /// In a thread of its own, which is root without the right to lease files of others.
    #[test]
    fn among_several_users_what_cannot_be_leased_is_not_read() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let folder = tempfile::tempdir_in("/var/tmp").expect("room");
        let path = folder.path().join("file");
        std::fs::write(&path, "text").expect("room");
        std::os::unix::fs::chown(&path, Some(54_321), None).expect("we are root");
        let file = OwnedFd::from(std::fs::File::open(&path).expect("it is there"));
        let by = |audience| lease(&file, audience).map(|lease| lease.is_some());
        assert_eq!(by(Audience::Host), Ok(true));
        std::thread::scope(|scope| {
            let without = scope.spawn(|| {
                keep_only(CapabilitySet::all() - CapabilitySet::LEASE).expect("we are root");
                assert_eq!(by(Audience::User), Ok(false));
                assert_eq!(by(Audience::Host), Err(Status::Unsuitable));
            });
            without.join().expect("it does not panic");
        });
    }
}
